# Generated from aio/sender.py by `make sync`: edit that file.
"""The sender of the synchronous surface."""

from datetime import datetime
from types import TracebackType
from typing import Any

from bendybus.client import arguments
from bendybus.client.core.connection import Connection
from bendybus.client.core.io_thread import ThreadWaiter
from bendybus.client.core.sender import LIMITS_S, BaseSender
from bendybus.client.exceptions import OperationTimeoutError, ServiceBusError
from bendybus.client.messages.encode import Columns, ServiceBusMessageBatch
from bendybus.client.sync import calls
from bendybus.client.sync.transaction import ServiceBusTransaction


class ServiceBusSender(BaseSender):
    """Sends messages to one queue. Created by a ServiceBusClient. Threads may share it."""

    def __enter__(self) -> "ServiceBusSender":
        self._check_live()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def send_messages(
        self,
        message: Any,
        *,
        timeout: float | None = None,
        tx: ServiceBusTransaction | None = None,
        **kwargs: Any,
    ) -> None:
        """Send a message, a list of messages, or a batch, as one atomic unit.

        `message`: a ServiceBusMessage, an AmqpAnnotatedMessage, a mapping with the arguments of a
        ServiceBusMessage, a list of these, or a ServiceBusMessageBatch.
        `split_by_partition_key=True` allows messages with different keys, which go to different
        partitions; the unit is then no longer atomic. Returns when everything is stored. `timeout`:
        seconds for the whole call, 60 if None; 15 or less may be too short for another partition to
        be tried. `tx`: the transaction at whose commit they are stored.
        """
        timeout_s = arguments.timeout(timeout)
        columns, split = self._columns_to_send(message, kwargs)
        if columns is None:
            return
        if tx is not None:
            self._check_tx(tx)
            with self._sending(columns):
                tx._send(self, columns, timeout_s, split=split)
            return
        if self._tracing is None:
            self._send(columns, timeout_s, split=split, given=timeout is not None)
            return
        with self._sending(columns):
            self._send(columns, timeout_s, split=split, given=timeout is not None)

    def schedule_messages(
        self,
        messages: Any,
        schedule_time_utc: datetime,
        *,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> list[int]:
        """Send messages that become active at a given time. Returns their sequence numbers.

        `messages`: as for `send_messages`, without batches. `schedule_time_utc`: when; without a
        time zone it is UTC. `timeout`: seconds for the whole call, 60 if None; 15 or less may be
        too short for another partition to be tried.
        """
        timeout_s = arguments.timeout(timeout)
        columns = self._columns_to_schedule(messages, schedule_time_utc, kwargs)
        if columns is None:
            return []
        given = timeout is not None
        with self._sending(columns, scheduled=True):
            return self._send(columns, timeout_s, numbers=True, given=given) or []

    def cancel_scheduled_messages(
        self, sequence_numbers: int | list[int], *, timeout: float | None = None, **kwargs: Any
    ) -> None:
        """Delete scheduled messages before they become active.

        `sequence_numbers`: one or several, as returned by `schedule_messages`. Raises
        MessageNotFoundError if a number is not that of a scheduled message. `timeout`: seconds for
        the whole call, 60 if None; more than 15 is advised.
        """
        timeout_s = arguments.timeout(timeout)
        request = self._cancel_request(sequence_numbers, kwargs)
        if request is not None:
            with self._cancelling(request):
                calls.call(
                    self._shared.get(),
                    lambda stubs: stubs.sender.CancelScheduledMessages,
                    request,
                    timeout_s,
                )

    def create_message_batch(self, max_size_in_bytes: int | None = None) -> ServiceBusMessageBatch:
        """Return an empty batch, to be filled and sent as one unit.

        `max_size_in_bytes`: its maximum size; None: what the bus takes, which the sender asks for
        once: 256 KB in Basic and Standard, 1 MB in Premium. ValueError beyond that. While the bus
        does not answer, 256 KB. Raises MessagingEntityNotFoundError, ServiceBusAuthorizationError.
        """
        if self._batch_bytes_max is None:
            self._check_live()
            try:
                self._learned(
                    calls.call(
                        self._shared.get(),
                        lambda stubs: stubs.sender.GetSendLimits,
                        self._limits_request(),
                        LIMITS_S,
                    )
                )
            except ServiceBusError as error:
                self._not_learned(error)
        return self._batch(max_size_in_bytes)

    def close(self) -> None:
        """Close the sender. Does not wait for sends in progress in other threads."""
        self._closed = True
        if self._owns_connection:
            calls.close(self._shared)

    def _send(
        self,
        columns: Columns,
        timeout_s: float,
        *,
        numbers: bool = False,
        split: bool = False,
        given: bool = False,
    ) -> list[int] | None:
        connection = self._shared.get()
        waiter: ThreadWaiter[list[int] | None] = connection.io.thread_waiter()
        unit = self._unit(columns, waiter, timeout_s, numbers=numbers, split=split, given=given)
        if not connection.send_limit.try_acquire(len(columns.messages), columns.size_bytes):
            _wait_for_room(connection, columns, timeout_s)
        connection.io.submit(connection.send_stream.send, unit)
        return waiter.wait(timeout_s)


def _wait_for_room(connection: Connection, columns: Columns, timeout_s: float) -> None:
    count, size = len(columns.messages), columns.size_bytes
    limit = connection.send_limit
    waiter: ThreadWaiter[None] = connection.io.thread_waiter(
        lost=lambda _: limit.release(count, size)
    )
    limit.wait(count, size, waiter)
    try:
        waiter.wait_at_most(timeout_s)
    except OperationTimeoutError:
        limit.cancel(waiter)
        raise OperationTimeoutError(
            message=f"The send queue was full for {timeout_s:g} s. Nothing was sent."
        ) from None
    except BaseException:
        limit.cancel(waiter)
        raise
