"""What the transactions of both surfaces share: from arguments to operations, and what follows."""

import weakref
from collections.abc import Callable, Sequence
from typing import Final

from bendybus.client import arguments
from bendybus.client.core import receiver as receivers
from bendybus.client.core import session_link
from bendybus.client.core.clients import EntityClient
from bendybus.client.core.connection import Connection, SharedConnection
from bendybus.client.core.io_thread import Waiter
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.receiver import BaseReceiver, Settled
from bendybus.client.core.settlements import NoWaiter, Outcome, Settlement
from bendybus.client.core.transaction_link import State, TransactionLink
from bendybus.client.messages import encode
from bendybus.client.messages.encode import Columns
from bendybus.client.messages.received_message import ServiceBusReceivedMessage
from bendybus.v1 import receiver_pb2, transaction_pb2

# How much longer than its own deadline an operation is waited for.
ROLLBACK_S: Final = 10.0


class BaseTransaction:
    """The base of the transactions of both surfaces, which differ in how they wait."""

    def __init__(self, shared: SharedConnection) -> None:
        """Created by `ServiceBusClient.transaction`, with its connection, `shared`."""
        self._shared = shared
        self._connection = connection = shared.get()
        self._link = TransactionLink(connection, connection.settings.retry)
        # By index of the operation: what it settles, to be noted at the commit.
        self._settled: dict[
            int, tuple[receiver_pb2.Disposition, Sequence[ServiceBusReceivedMessage]]
        ] = {}
        # What it settles of sessions: the stream of each receiver, how, and which tokens.
        self._in_sessions: list[tuple[ReceiveStream, receiver_pb2.Disposition, bytes]] = []
        # One that is garbage-collected is rolled back.
        weakref.finalize(self, _end, connection, self._link).atexit = False

    def _check_use(self, used: EntityClient | None = None) -> None:
        """Raise ValueError unless it can be used here, with this sender or receiver."""
        if used is not None and used._shared is not self._shared:
            raise arguments.invalid(
                "tx",
                f"is a transaction of another client than {used}. Begin it with the "
                "ServiceBusClient that made the sender or receiver",
            )
        if self._shared.made() is not self._connection:
            raise arguments.invalid(
                "tx", "its client was closed, or belongs to the parent of this process"
            )

    def _send_operation(
        self, sender: EntityClient, columns: Columns, *, split: bool
    ) -> transaction_pb2.TransactionOperation:
        if split:
            raise arguments.invalid(
                "split_by_partition_key", "not allowed in a transaction, which has one key"
            )
        operation = transaction_pb2.TransactionOperation()
        operation.send.entity_path = sender.entity_name
        # Given to the constructor it would be serialised and parsed.
        operation.send.batch.CopyFrom(encode.batch_proto([columns]))
        return operation

    def _settle_operation(
        self, receiver: BaseReceiver, make: Callable[[Waiter[Outcome]], Settlement]
    ) -> transaction_pb2.TransactionOperation:
        settlement = make(NoWaiter())
        return transaction_pb2.TransactionOperation(
            settle=transaction_pb2.TransactionSettle(
                entity_path=receiver.entity_path,
                disposition=settlement.disposition,
                lock_tokens=settlement.tokens,
                changed_properties=settlement.changed_properties,
                dead_letter_reason=settlement.reason or "",
                dead_letter_error_description=settlement.description or "",
                session_token=receiver._session_token(),
            )
        )

    async def _commit(self, timeout_s: float) -> None:
        """Commit, on the I/O thread: nothing overtakes what goes back to its session."""
        back = {
            id(stream): stream
            for stream, disposition, _ in self._in_sessions
            if session_link.returns(disposition)
        }
        for stream in back.values():
            stream.begin_return()
        try:
            await self._link.commit(timeout_s)
            for stream, _, tokens in self._in_sessions:
                assert stream.session is not None, "it settled in one"
                stream.session.settled(tokens)
            self._in_sessions.clear()
        finally:
            for stream in back.values():
                stream.end_return()

    def _collected(
        self,
        index: int,
        receiver: BaseReceiver,
        operation: transaction_pb2.TransactionOperation,
        messages: Settled,
    ) -> Outcome:
        """Note what is to be marked as settled at the commit."""
        disposition = operation.settle.disposition
        if receiver._by_session:
            stream = receiver._receive_stream()
            self._in_sessions.append((stream, disposition, operation.settle.lock_tokens))
        listed = [messages] if isinstance(messages, ServiceBusReceivedMessage) else list(messages)
        self._settled[index] = (disposition, listed)
        return receivers.COLLECTED

    def _committed(self) -> None:
        """Mark what was settled, and set what was renewed."""
        for index, (disposition, messages) in self._settled.items():
            result = self._link.results[index]
            for message in messages:
                if disposition != receivers.RENEW_LOCK:
                    message._settled = True
                elif result.locked_until_ms:
                    message._locked_until_ms = result.locked_until_ms
        self._settled.clear()

    @property
    def _is_open(self) -> bool:
        """Whether the end of its block has to commit it, or to say why it cannot be."""
        return self._link.state is State.OPEN or self._link.failure is not None


def _end(connection: Connection, link: TransactionLink) -> None:
    if not connection.closed and link.state is State.OPEN:
        connection.io.submit(link.abandon)
