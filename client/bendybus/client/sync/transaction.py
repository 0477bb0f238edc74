# Generated from aio/transaction.py by `make sync`: edit that file.
"""The transaction of the synchronous surface."""

import contextlib
from collections.abc import Callable, Coroutine
from types import TracebackType

from bendybus.client import arguments
from bendybus.client.core.clients import EntityClient
from bendybus.client.core.io_thread import Result, Waiter
from bendybus.client.core.receiver import SETTLE_TIMEOUT_S, BaseReceiver, Settled
from bendybus.client.core.settlements import Outcome, Settlement
from bendybus.client.core.transaction import ROLLBACK_S, BaseTransaction
from bendybus.client.exceptions import ServiceBusError
from bendybus.client.messages.encode import Columns
from bendybus.client.sync import calls


class ServiceBusTransaction(BaseTransaction):
    """Sends and settlements that are done together, or not at all. Created by a ServiceBusClient.

    Up to 100 messages, within two minutes of the first operation. Those that it settles are of one
    queue or subscription, that of the first operation, and of one partition; what it sends to other
    queues and topics is forwarded to them after its commit. Nothing of it is seen before that. As a
    context manager it is committed where the block ends, and rolled back if an exception leaves the
    block. Threads may share it: its operations are done one after the other.
    """

    def __enter__(self) -> "ServiceBusTransaction":
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is not None:
            # It may have ended, or roll back by itself; the exception of the block says more.
            with contextlib.suppress(ServiceBusError, ValueError):
                self.rollback()
        elif self._is_open:
            self.commit()

    def commit(self, *, timeout: float | None = None) -> None:
        """Commit: all of its operations are done when this returns.

        Raises an error, such as MessageLockLostError, if nothing of it is done. Raises
        OutcomeUnknownError if it may be done or not: call it again, the bus does it once.
        `timeout`: seconds for the whole call, 60 if None.
        """
        timeout_s = arguments.timeout(timeout)
        self._check_use()
        self._run(lambda: self._commit(timeout_s), timeout_s)
        self._committed()

    def rollback(self) -> None:
        """Roll back: nothing of it is done, and what it was to settle stays locked as before."""
        self._check_use()
        self._run(self._link.rollback, ROLLBACK_S)

    def _send(
        self, sender: EntityClient, columns: Columns, timeout_s: float, *, split: bool
    ) -> None:
        operation = self._send_operation(sender, columns, split=split)
        self._run(lambda: self._link.add(operation, timeout_s), timeout_s)

    def _settle(
        self,
        receiver: BaseReceiver,
        messages: Settled,
        make: Callable[[Waiter[Outcome]], Settlement],
    ) -> Outcome:
        operation = self._settle_operation(receiver, make)
        index = self._run(lambda: self._link.add(operation, SETTLE_TIMEOUT_S), SETTLE_TIMEOUT_S)
        return self._collected(index, receiver, operation, messages)

    def _run(
        self, work: Callable[[], Coroutine[object, object, Result]], timeout_s: float
    ) -> Result:
        connection = self._connection
        try:
            return calls.run(connection, work, timeout_s)
        except Exception:
            raise
        except BaseException:
            # Interrupted: whether it was done is not known.
            connection.io.submit(self._link.abandon)
            raise
