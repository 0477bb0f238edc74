"""The receiver of the asynchronous surface."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final

from bendybus.client import arguments
from bendybus.client.aio import calls
from bendybus.client.aio.sessions import ServiceBusSession
from bendybus.client.aio.transaction import ServiceBusTransaction
from bendybus.client.core import io_thread, receiver, session_link, settlements
from bendybus.client.core import receiver as core
from bendybus.client.core.io_thread import LoopWaiter, Waiter
from bendybus.client.core.pending_receive import BatchSlice, PendingReceive
from bendybus.client.core.receiver import BaseReceiver, Settled
from bendybus.client.core.settlements import BackgroundSettlements, Failures, Outcome, Settlement
from bendybus.client.messages.enums import ServiceBusMessageState
from bendybus.client.messages.received_message import ServiceBusReceivedMessage
from bendybus.domain import limits


class SettlingReceiver(BaseReceiver):
    """The base of the receiver: what becomes of a settlement that it made."""

    def settle_in_background(self) -> None:
        """Let settlements return at once from now on, before the bus confirms them.

        Faster, and weaker: until `flush` or `close` returns, a message that was completed may come
        again, should this process or the bus fail. Both wait for the bus, and raise an error whose
        `failures` lists the messages that were not settled; nothing else reports these. At most
        5,000 messages are unconfirmed; further settlements wait. Renewing a lock still waits for
        its new end.
        """
        self._check_live()
        if self._background is None:
            self._background = BackgroundSettlements(io_thread.current())

    async def flush(self) -> None:
        """Wait until the bus has confirmed all settlements in the background.

        Raises the error of the first message that was not settled since the last flush; its
        `failures` lists them.
        """
        settlements.raise_failures(*await self._confirm())

    async def _settle(
        self,
        messages: Settled,
        make: Callable[[Waiter[Outcome]], Settlement],
        tx: ServiceBusTransaction | None = None,
    ) -> Outcome:
        background = self._in_background()
        if background is None or tx is not None:
            return await self._settle_now(messages, make, tx)
        return await self._begin_to_settle(background, messages, make)

    async def _begin_to_settle(
        self,
        background: BackgroundSettlements,
        messages: Settled,
        make: Callable[[Waiter[Outcome]], Settlement],
    ) -> Outcome:
        listed = [messages] if isinstance(messages, ServiceBusReceivedMessage) else list(messages)
        settlement = make(settlements.Pending(background, listed))
        settlement.in_background = True
        if background.full:
            await self._settled_up_to(background, settlements.PENDING_MAX // 2)
        stream = self._receive_stream()
        background.add(listed)
        self._shared.get().io.submit(stream.settle, settlement)
        return settlements.BEGUN

    async def _settle_now(
        self,
        messages: Settled,
        make: Callable[[Waiter[Outcome]], Settlement],
        tx: ServiceBusTransaction | None = None,
    ) -> Outcome:
        if tx is not None:
            self._check_tx(tx)
            return await tx._settle(self, messages, make)
        waiter: LoopWaiter[Outcome] = self._shared.get().io.loop_waiter()
        settlement = make(waiter)
        if self._tracing is None:
            return await self._settled(settlement, waiter)
        with self._tracing.settling(self.entity_path, settlement.disposition, messages) as found:
            return found.outcome(await self._settled(settlement, waiter))

    async def _settled(self, settlement: Settlement, waiter: LoopWaiter[Outcome]) -> Outcome:
        stream = self._receive_stream()
        self._shared.get().io.submit(stream.settle, settlement)
        return await waiter.wait(settlement.timeout_s)

    async def _confirm(self) -> Failures:
        """Wait for the settlements in the background; return what was not settled."""
        background = self._in_background()
        if background is None:
            return [], 0
        await self._settled_up_to(background, 0)
        return background.take_failures()

    async def _confirm_last(self) -> Failures:
        """The same, and take no calls from now on. The stream is still to be closed."""
        ended = self._closed or self._connection is None or self._connection.closed
        self._closed = True
        return ([], 0) if ended else await self._confirm()

    async def _settled_up_to(self, background: BackgroundSettlements, pending_max: int) -> None:
        waiter: LoopWaiter[None] = self._shared.get().io.loop_waiter()
        background.wait(pending_max, waiter)
        await waiter.wait(core.FLUSH_S)


_PURGE_AT_ONCE: Final = limits.DELETE_MESSAGES_MAX


class ServiceBusReceiver(SettlingReceiver, AsyncIterator[ServiceBusReceivedMessage]):
    """Receives from one queue or dead-letter queue. Created by a ServiceBusClient.

    An iterator over messages: it ends when none arrives within `max_wait_time`; without it, never.
    """

    _of_loop = True  # async only
    _session: ServiceBusSession | None = None
    # Whether the lock of the session is renewed in the background.
    _renewing = False

    async def __aenter__(self) -> "ServiceBusReceiver":
        self._check_live()
        await self._open_session()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[ServiceBusReceivedMessage]:
        return self

    async def __anext__(self) -> ServiceBusReceivedMessage:
        while True:
            messages = await self.receive_messages()
            if messages:
                return messages[0]
            if self._max_wait_time is not None:
                raise StopAsyncIteration

    # sync only: next = __next__

    @property
    def session(self) -> ServiceBusSession:
        """The session of a receiver that has one; None of another, whatever the type says.

        The type is that of azure-servicebus: what passes a type checker there does so here.
        """
        if self._session is None and self._by_session:
            self._session = ServiceBusSession(self._session_id, self)
        return self._session  # type: ignore[return-value]  # see above

    async def receive_messages(
        self, max_message_count: int | None = 1, max_wait_time: float | None = None
    ) -> list[ServiceBusReceivedMessage]:
        """Wait for a message; return it with others that are available, or an empty list.

        `max_message_count`: the maximum to return; None: `prefetch_count`, or 1. `max_wait_time`:
        seconds to wait for the first one; None: that of the receiver, or 60. Raises
        ServiceBusError, such as ServiceBusConnectionError, if the bus could not be asked.
        """
        if self._tracing is None:
            return await self._receive(max_message_count, max_wait_time)
        with self._tracing.receiving(self.entity_path) as operation:
            return operation.of(await self._receive(max_message_count, max_wait_time))

    async def complete_message(
        self, message: ServiceBusReceivedMessage, *, tx: ServiceBusTransaction | None = None
    ) -> None:
        """Complete a message: it is deleted from the queue.

        `message`: received in PEEK_LOCK mode and not settled. Raises MessageLockLostError if its
        lock is lost; the message is then delivered again. Raises OutcomeUnknownError if it may be
        completed or not. `tx`: the transaction at whose commit it is completed.
        """
        outcome = await self._settle(
            message, lambda waiter: self._settlement(message, core.COMPLETE, waiter), tx
        )
        core.note_settled(message, outcome)

    async def complete_messages(
        self, messages: list[ServiceBusReceivedMessage], *, tx: ServiceBusTransaction | None = None
    ) -> None:
        """Complete many messages in one frame.

        `messages`, `tx`: as for `complete_message`. Raises MessageLockLostError whose `failures`
        lists the messages that were not completed.
        """
        if messages:
            outcome = await self._settle(
                messages, lambda waiter: self._settlement_of_all(messages, waiter), tx
            )
            core.note_all_settled(messages, outcome)

    async def release_messages(self, messages: list[ServiceBusReceivedMessage]) -> None:
        """Release messages to the queue in one frame, without counting a delivery.

        For `messages` that were received and not processed; `abandon_message` is for a failed
        attempt. Raises MessageLockLostError whose `failures` lists those that were not released.
        """
        if messages:
            outcome = await self._settle(
                messages,
                lambda waiter: self._settlement_of_all(messages, waiter, core.RELEASE),
            )
            core.note_all_settled(messages, outcome)

    async def abandon_message(
        self,
        message: ServiceBusReceivedMessage,
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        delay: timedelta | float | None = None,
        tx: ServiceBusTransaction | None = None,
    ) -> None:
        """Release a message to the queue; the delivery counts.

        `message`, `tx`: as for `complete_message`. `properties_to_modify`: application properties
        to set; the others stay. `delay`: the time, or seconds, before it is received again, up to
        7 days; not for messages of a session or deferred ones, nor in a transaction.
        """
        delay_ms = arguments.delay_ms(delay, tx)
        outcome = await self._settle(
            message,
            lambda waiter: self._settlement(
                message, core.ABANDON, waiter, changes=properties_to_modify, delay_ms=delay_ms
            ),
            tx,
        )
        core.note_settled(message, outcome)

    async def defer_message(
        self,
        message: ServiceBusReceivedMessage,
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        tx: ServiceBusTransaction | None = None,
    ) -> None:
        """Defer a message: it can then only be received by its sequence number.

        `message`, `tx`: as for `complete_message`. `properties_to_modify`: application properties
        to set; the others stay.
        """
        outcome = await self._settle(
            message,
            lambda waiter: self._settlement(
                message, core.DEFER, waiter, changes=properties_to_modify
            ),
            tx,
        )
        core.note_settled(message, outcome)

    async def dead_letter_message(
        self,
        message: ServiceBusReceivedMessage,
        reason: str | None = None,
        error_description: str | None = None,
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        tx: ServiceBusTransaction | None = None,
    ) -> None:
        """Move a message to the dead-letter queue.

        `message`, `tx`: as for `complete_message`. `reason` and `error_description`: why, up to
        4,096 characters each. `properties_to_modify`: application properties to set.
        """
        outcome = await self._settle(
            message,
            lambda waiter: self._settlement(
                message,
                core.DEAD_LETTER,
                waiter,
                reason=reason,
                description=error_description,
                changes=properties_to_modify,
            ),
            tx,
        )
        core.note_settled(message, outcome)

    async def renew_message_lock(
        self,
        message: ServiceBusReceivedMessage,
        *,
        timeout: float | None = None,
        tx: ServiceBusTransaction | None = None,
        **kwargs: Any,
    ) -> datetime:
        """Renew the lock for a whole lock duration from now. Returns its new expiry.

        `message`: as for `complete_message`. `timeout`: seconds for the whole call, 60 if None;
        more than 15 is advised. `tx`: the transaction at whose commit it is renewed; the expiry is
        the one that it has until then.
        """
        arguments.warn_of_unknown(kwargs)
        timeout_s = arguments.timeout(timeout)
        outcome = await self._settle_now(
            message,
            lambda waiter: self._settlement(message, core.RENEW_LOCK, waiter, timeout_s=timeout_s),
            tx,
        )
        return core.note_renewed(message, outcome)

    async def receive_deferred_messages(
        self, sequence_numbers: int | list[int], *, timeout: float | None = None, **kwargs: Any
    ) -> list[ServiceBusReceivedMessage]:
        """Receive deferred messages by their sequence numbers.

        `sequence_numbers`: one or several, all of one partition. Raises MessageNotFoundError if a
        number is not that of a deferred message. `timeout`: seconds for the whole call, 60 if None;
        more than 15 is advised.
        """
        timeout_s = arguments.timeout(timeout)
        await self._open_session()
        request = self._deferred_request(sequence_numbers, kwargs)
        if request is None:
            return []
        with self._reading("receive_deferred") as found:
            answer = await calls.call(
                self._shared.get(), lambda stubs: stubs.receiver.ReceiveDeferred, request, timeout_s
            )
            return found.of(self._deferred(answer))

    async def peek_messages(
        self,
        max_message_count: int = 1,
        *,
        sequence_number: int | None = 0,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> list[ServiceBusReceivedMessage]:
        """Browse messages without locking them; each call continues where the last one ended.

        `max_message_count`: the maximum to return; at most 256 KB are returned.
        `sequence_number`: where to start instead; 0 or None continues. `timeout`: seconds for the
        whole call, 60 if None; more than 15 is advised.
        """
        timeout_s = arguments.timeout(timeout)
        await self._open_session()
        request = self._peek_request(max_message_count, sequence_number, kwargs)
        with self._reading("peek") as found:
            answer = await calls.call(
                self._shared.get(), lambda stubs: stubs.receiver.Peek, request, timeout_s
            )
            return found.of(self._peeked(answer))

    async def delete_messages(
        self, max_message_count: int, *, before_enqueued_time_utc: datetime | None = None
    ) -> int:
        """Delete the oldest active messages without receiving them. Returns how many.

        `max_message_count`: the maximum to delete. `before_enqueued_time_utc`: only messages
        enqueued before then.
        """
        active = [ServiceBusMessageState.ACTIVE]
        return await self._delete(max_message_count, before_enqueued_time_utc, active)

    async def purge_messages(
        self,
        *,
        before_enqueued_time_utc: datetime | None = None,
        states: Iterable[ServiceBusMessageState] | None = None,
    ) -> int:
        """Delete all unlocked messages, including deferred and scheduled ones. Returns how many.

        `before_enqueued_time_utc`: only messages enqueued, or scheduled, before then; None: before
        now, so that messages sent meanwhile stay. `states`: only messages in these states.
        """
        before, wanted = (
            before_enqueued_time_utc or datetime.now(UTC),
            receiver.states_to_purge(states),
        )
        total = 0
        while deleted := await self._delete(_PURGE_AT_ONCE, before, wanted, purge=True):
            total += deleted
        return total

    async def close(self) -> None:
        """Close the receiver; messages that were not handed over return to the queue.

        Settlements in the background are flushed first.
        """
        if self._closed:
            return
        try:
            settlements.raise_failures(*await self._confirm_last())
        finally:
            await self._close()

    async def _close(self) -> None:
        connection, stream = self._connection, self._current
        if connection is not None and stream is not None and not connection.closed:
            await calls.run(connection, stream.close, calls.CLOSE_S)
        if self._owns_connection:
            await calls.close(self._shared)

    async def _receive(
        self, max_message_count: int | None, max_wait_time: float | None
    ) -> list[ServiceBusReceivedMessage]:
        count, wait_s = self._wanted(max_message_count, max_wait_time)
        if self._by_session:
            await self._open_session()
        if ready := self._begin_step(count, wait_s):
            return ready
        stream = self._receive_stream()
        io = self._shared.get().io
        waiter: LoopWaiter[list[BatchSlice]] = io.loop_waiter(
            lost=lambda slices: io.submit(stream.put_back, slices)
        )
        pending = PendingReceive(count, wait_s, waiter)
        io.submit(stream.receive, pending)
        try:
            slices = await waiter.wait(pending.wait_s)
        except BaseException:
            # Messages that arrive for it go to the next receive, or back to the queue.
            io.submit(stream.forget, pending)
            raise
        return self._end_step(slices, count, wait_s)

    async def _open_session(self) -> None:
        """Wait until the session is locked, if there is one. Raises what refuses it."""
        if not self._by_session:
            return
        stream = self._receive_stream()
        if stream.session is not None and stream.session.ready:
            return
        io = self._shared.get().io
        waiter: LoopWaiter[None] = io.loop_waiter()
        io.submit(stream.open_session, waiter)
        try:
            await waiter.wait(session_link.opens_within_s(self))
        except BaseException:
            # A session that is locked for no caller would stay locked.
            io.submit(stream.forget_session, waiter)
            raise
        if self._auto_lock_renewer is not None and not self._renewing:
            self._renewing = True
            self._auto_lock_renewer.register(self, self.session)

    async def _delete(
        self,
        max_message_count: int,
        before: datetime | None,
        states: Iterable[ServiceBusMessageState],
        *,
        purge: bool = False,
    ) -> int:
        self._check_live()
        request = receiver.delete_request(self.entity_path, max_message_count, before, states)
        with self._calling("purge" if purge else "delete"):
            response = await calls.call(
                self._shared.get(), lambda stubs: stubs.receiver.DeleteMessages, request
            )
            deleted: int = response.deleted
            return deleted
