"""What the receivers of both surfaces share: checks, requests, and messages from responses."""

import uuid
import weakref
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from bendybus.client import arguments
from bendybus.client.core import io_thread, pending_receive, session_link, tracing
from bendybus.client.core.clients import EntityClient
from bendybus.client.core.connection import Connection
from bendybus.client.core.io_thread import Waiter
from bendybus.client.core.pending_receive import BatchSlice, ReceiveSteps
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.session_link import SessionLink
from bendybus.client.core.settlements import BackgroundSettlements, NoWaiter, Outcome, Settlement
from bendybus.client.core.tracing import NoOperation, Operation
from bendybus.client.exceptions import MessageAlreadySettled, MessageLockLostError
from bendybus.client.messages import enums, received_message, values
from bendybus.client.messages.enums import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
)
from bendybus.client.messages.received_message import Delivered, ServiceBusReceivedMessage
from bendybus.domain import limits
from bendybus.domain.message_state import MessageState
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import batch_deletes

if TYPE_CHECKING:
    from bendybus.client.core.lock_renewer import BaseLockRenewer

DEFAULT_WAIT_S: Final = 60.0
SETTLE_TIMEOUT_S: Final = 60.0
# Longer: settlements that time out are confirmed as failed.
FLUSH_S: Final = SETTLE_TIMEOUT_S + 5.0
COMPLETE: Final = receiver_pb2.DISPOSITION_COMPLETE
ABANDON: Final = receiver_pb2.DISPOSITION_ABANDON
DEFER: Final = receiver_pb2.DISPOSITION_DEFER
DEAD_LETTER: Final = receiver_pb2.DISPOSITION_DEAD_LETTER
RENEW_LOCK: Final = receiver_pb2.DISPOSITION_RENEW_LOCK
RELEASE: Final = receiver_pb2.DISPOSITION_RELEASE
_ACTIONS: Final = {
    COMPLETE: "complete",
    ABANDON: "abandon",
    DEFER: "defer",
    DEAD_LETTER: "dead-letter",
    RENEW_LOCK: "renew the lock of",
    RELEASE: "release",
}
# Of a settlement that is part of a transaction: it is done at the commit.
COLLECTED: Final = Outcome((), 0)
Settled = ServiceBusReceivedMessage | Sequence[ServiceBusReceivedMessage]


class BaseReceiver(EntityClient):
    """The base of the receivers of both surfaces, which differ in how they wait."""

    def __init__(
        self,
        fully_qualified_namespace: str,
        credential: Any,
        *,
        queue_name: str | None = None,
        topic_name: str | None = None,
        subscription_name: str | None = None,
        receive_mode: ServiceBusReceiveMode | str = ServiceBusReceiveMode.PEEK_LOCK,
        max_wait_time: float | None = None,
        auto_lock_renewer: "BaseLockRenewer | None" = None,
        prefetch_count: int = 0,
        **kwargs: Any,
    ) -> None:
        """Create a receiver with its own connection; those of a ServiceBusClient share one.

        `fully_qualified_namespace` and `credential`: as for ServiceBusClient. `queue_name`, or
        `topic_name` and `subscription_name`, `receive_mode`, `max_wait_time`, `auto_lock_renewer`
        and `prefetch_count`: as for `get_queue_receiver` and `get_subscription_receiver`.
        """
        super().__init__(
            fully_qualified_namespace,
            credential,
            queue_name=queue_name,
            topic_name=topic_name,
            subscription_name=subscription_name,
            kind="SBReceiver",
            options=kwargs,
        )
        if topic_name and not subscription_name:
            raise ValueError("subscription_name: is required with topic_name")
        session_id = kwargs.get("session_id")
        # Whether it has a session; and its name, None: the next available one.
        self._by_session = session_id is not None
        self._session_id: str | None = None
        if self._by_session and session_id is not NEXT_AVAILABLE_SESSION:
            self._session_id = arguments.text("session_id", session_id, limits.KEY_CHARS_MAX)
        if self._by_session and kwargs.get("sub_queue") is not None:
            raise ValueError(
                "session_id and sub_queue cannot be specified simultaneously. To connect to the "
                "sub queue of a sessionful queue, please set sub_queue only as sub_queue does not "
                "support session."
            )
        self.entity_path = enums.sub_queue_path(self.entity_name, kwargs.get("sub_queue"))
        self._mode = ServiceBusReceiveMode(receive_mode)
        self._max_wait_time = (
            None if max_wait_time is None else arguments.seconds("max_wait_time", max_wait_time)
        )
        self._prefetch_count = arguments.count(
            "prefetch_count", prefetch_count, least=0, most=limits.PREFETCH_MESSAGES_MAX
        )
        if auto_lock_renewer is not None and not self._locks:
            raise ValueError(
                "auto_lock_renewer: not allowed with RECEIVE_AND_DELETE, which takes no locks"
            )
        self._auto_lock_renewer = auto_lock_renewer
        self._connection: Connection | None = None
        self._current: ReceiveStream | None = None
        self._cursor = b""
        self._steps = ReceiveSteps()
        # Set when settlements do not wait for the bus.
        self._background: BackgroundSettlements | None = None

    @property
    def _locks(self) -> bool:
        return self._mode is ServiceBusReceiveMode.PEEK_LOCK

    def _receive_stream(self) -> ReceiveStream:
        """Return the stream of this process, created when it is first needed."""
        self._check_live()
        connection = self._shared.get()
        current = self._current
        if current is None or self._connection is not connection:
            with io_thread.making():
                current = self._current
                if current is None or self._connection is not connection:
                    current = self._current = _new_receive_stream(self, connection)
                    self._connection = connection
        return current

    def _wanted(
        self, max_message_count: int | None, max_wait_time: float | None
    ) -> tuple[int, float]:
        """Return how many messages a receive asks for, and how long it waits."""
        if max_wait_time is not None:
            max_wait_time = arguments.seconds("max_wait_time", max_wait_time)
        if max_message_count is not None:
            max_message_count = arguments.count("max_message_count", max_message_count)
        wait_s = max_wait_time or self._max_wait_time or DEFAULT_WAIT_S
        return max_message_count or self._prefetch_count or 1, wait_s

    def _made(self, slices: Sequence[BatchSlice]) -> list[ServiceBusReceivedMessage]:
        messages = received_message.make_all(slices, settled=not self._locks)
        if self._auto_lock_renewer is not None and not self._by_session:
            try:
                for message in messages:
                    self._auto_lock_renewer.register(self, message)
            except BaseException:
                self._give_back(slices, messages)
                raise
        return messages

    def _give_back(
        self, slices: Sequence[BatchSlice], messages: Sequence[ServiceBusReceivedMessage]
    ) -> None:
        """Release messages that no caller gets: they count as never delivered."""
        for message in messages:
            # Ends the renewal of those that are registered.
            message._settled = True
        connection, stream = self._connection, self._current
        assert connection is not None, "it has received"
        assert stream is not None, "the same"
        release, tokens = receiver_pb2.DISPOSITION_RELEASE, pending_receive.tokens(slices)
        settlement = Settlement(release, tokens, NoWaiter(), SETTLE_TIMEOUT_S)
        connection.io.submit(stream.settle, settlement)

    def _begin_step(self, count: int, wait_s: float) -> list[ServiceBusReceivedMessage]:
        """Begin a receive; return what was asked for ahead, if there is something."""
        settled = not self._closed and self._steps.settled()
        # Of this process: what was asked for before a fork belongs to the parent.
        stream = self._receive_stream() if settled else None
        self._steps.begin(settled=settled, outcome_s=stream.outcome_s if stream else 0.0)
        # Spans of receives are made where they wait.
        slices = stream.take_ahead(count) if stream and self._tracing is None else []
        return self._end_step(slices, count, wait_s) if slices else []

    def _end_step(
        self, slices: Sequence[BatchSlice], count: int, wait_s: float
    ) -> list[ServiceBusReceivedMessage]:
        """End a receive; return its messages."""
        messages = self._made(slices)
        self._steps.gave(tuple(messages), count, wait_s)
        return messages

    def _in_background(self) -> BackgroundSettlements | None:
        """Return the settlements in the background of this process, if they do not wait."""
        found = self._background
        if found is not None and found.io is not (io := io_thread.current()):
            # Forked: what began before belongs to the parent.
            found = self._background = BackgroundSettlements(io)
        return found

    def _check_settling(self, message: object, disposition: receiver_pb2.Disposition) -> None:
        action = _ACTIONS[disposition]
        self._check_live()
        if not isinstance(message, ServiceBusReceivedMessage):
            raise TypeError(
                f"message: must be a ServiceBusReceivedMessage (got {type(message).__name__})"
            )
        if self._by_session and disposition == RENEW_LOCK:
            raise TypeError(
                "Renewing message lock is an invalid operation when working with sessions. "
                "Please renew the session lock instead."
            )
        if message._peeked:
            raise ValueError(f"message: cannot {action} a peeked message; receive it")
        if not self._locks:
            raise ValueError(f"message: cannot {action} a message of a RECEIVE_AND_DELETE receiver")
        if message._settled:
            raise MessageAlreadySettled(action=action)
        if not message._delivered.lock_tokens:
            raise ValueError(f"message: cannot {action} a message without a lock")

    def _settlement(
        self,
        message: ServiceBusReceivedMessage,
        disposition: receiver_pb2.Disposition,
        waiter: Waiter[Outcome],
        *,
        reason: str | None = None,
        description: str | None = None,
        changes: Mapping[str, Any] | None = None,
        delay_ms: int = 0,
        timeout_s: float = SETTLE_TIMEOUT_S,
    ) -> Settlement:
        self._check_settling(message, disposition)
        for name, text in (("reason", reason), ("error_description", description)):
            arguments.optional_text(name, text, limits.DEAD_LETTER_TEXT_CHARS_MAX)
        settlement = Settlement(
            disposition,
            message._delivered.token(message._index),
            waiter,
            timeout_s,
            changed_properties=values.to_map(changes, "properties_to_modify") if changes else None,
            reason=reason,
            description=description,
            delay_ms=delay_ms,
        )
        if disposition != RENEW_LOCK and not self._back_in_session(disposition):
            self._steps.ask_with(settlement, (message,))
        return settlement

    def _back_in_session(self, disposition: receiver_pb2.Disposition) -> bool:
        """Whether nothing is asked for before a settlement is done, since it comes again first."""
        return self._by_session and session_link.returns(disposition)

    def _settlement_of_all(
        self,
        messages: Sequence[ServiceBusReceivedMessage],
        waiter: Waiter[Outcome],
        disposition: receiver_pb2.Disposition = COMPLETE,
    ) -> Settlement:
        for message in messages:
            self._check_settling(message, disposition)
        tokens = b"".join(message._delivered.token(message._index) for message in messages)
        settlement = Settlement(disposition, tokens, waiter, SETTLE_TIMEOUT_S)
        if self._back_in_session(disposition):
            return settlement
        self._steps.ask_with(settlement, messages)
        return settlement

    def _deferred_request(
        self, sequence_numbers: int | list[int], options: dict[str, Any]
    ) -> receiver_pb2.ReceiveDeferredRequest | None:
        arguments.warn_of_unknown(options)
        self._check_live()
        numbers = arguments.numbers("sequence_numbers", sequence_numbers)
        return (
            receiver_pb2.ReceiveDeferredRequest(
                entity_path=self.entity_path,
                receive_mode=enums.WIRE_MODES[self._mode],
                sequence_numbers=numbers,
                operation_id=uuid.uuid4().bytes,
                session_token=self._session_token(),
            )
            if numbers
            else None
        )

    def _peek_request(
        self, max_message_count: int, sequence_number: int | None, options: dict[str, Any]
    ) -> receiver_pb2.PeekRequest:
        arguments.warn_of_unknown(options)
        self._check_live()
        count = arguments.count("max_message_count", max_message_count)
        number = arguments.count(
            "sequence_number", sequence_number or 0, least=0, most=arguments.INT64_MAX
        )
        return receiver_pb2.PeekRequest(
            entity_path=self.entity_path,
            max_messages=count,
            from_sequence_number=number,
            # An explicit start makes a new cursor.
            cursor=b"" if number else self._cursor,
            session_id=self._link.session_id if self._link is not None else None,
        )

    def _peeked(self, response: receiver_pb2.PeekResponse) -> list[ServiceBusReceivedMessage]:
        self._cursor = response.cursor
        return received_message.make_all(_slices(response.batches), peeked=True)

    def _deferred(
        self, response: receiver_pb2.ReceiveDeferredResponse
    ) -> list[ServiceBusReceivedMessage]:
        self._receive_stream()
        if self._link is not None:
            for batch in response.batches:
                self._link.hold(batch.lock_tokens)
        return self._made(_slices(response.batches))

    @property
    def _link(self) -> SessionLink | None:
        """The session, once a stream is made for it."""
        return None if self._current is None else self._current.session

    def _session_token(self) -> bytes:
        return self._link.token if self._link is not None else b""

    def _reading(self, name: str) -> Operation | NoOperation:
        """Return the context manager that creates the span of a call that returns messages."""
        if self._tracing is None:
            return tracing.NO_OPERATION
        return self._tracing.receiving(self.entity_path, name)

    def _calling(self, name: str) -> Operation | NoOperation:
        if self._tracing is None:
            return tracing.NO_OPERATION
        return self._tracing.calling(self.entity_path, name)


def note_settled(message: ServiceBusReceivedMessage, outcome: Outcome) -> None:
    """Mark a message as settled, or raise the error."""
    if outcome.errors:
        raise outcome.errors[0][1]
    message._settled = outcome is not COLLECTED


def note_all_settled(messages: Sequence[ServiceBusReceivedMessage], outcome: Outcome) -> None:
    """Mark messages as settled; raise an error whose `failures` lists those that are not.

    Its type is that of the first failure that is not just a lost lock, if there is one.
    """
    failed = dict(outcome.errors)
    for index, message in enumerate(messages):
        if index not in failed:
            message._settled = outcome is not COLLECTED
    if failed:
        errors = [error for _, error in outcome.errors]
        worst = next((e for e in errors if not isinstance(e, MessageLockLostError)), errors[0])
        raise type(worst)(
            message=f"{len(failed)} of {len(messages)} messages were not settled; the first: "
            f"{worst}",
            reason=worst.reason,
            metadata=worst.metadata,
            failures=[(messages[index], error) for index, error in outcome.errors],
        )


def note_renewed(message: ServiceBusReceivedMessage, outcome: Outcome) -> datetime:
    """Set the new expiry of a lock and return it, or raise the error."""
    if outcome.errors:
        raise outcome.errors[0][1]
    if outcome is not COLLECTED:
        message._locked_until_ms = outcome.locked_until_ms
    until = message.locked_until_utc
    assert until is not None, "a renewed lock expires"
    return until


def _new_receive_stream(handle: BaseReceiver, connection: Connection) -> ReceiveStream:
    opening = receiver_pb2.OpenReceiver(
        entity_path=handle.entity_path,
        receive_mode=enums.WIRE_MODES[handle._mode],
        client_id=handle.client_identifier,
        settler_id=uuid.uuid4().bytes,
    )
    made = ReceiveStream(
        connection.open_receive_stream,
        connection.io.loop,
        connection.settings.retry,
        opening,
        handle._prefetch_count,
        connection.explained,
        session_link.of(handle, connection.settings.retry),
    )
    made.stream.name = f"receiver of {handle.entity_path}"
    connection.io.submit(connection.keep_receive_stream, made)
    # A receiver that is garbage-collected ends as if it had been closed.
    weakref.finalize(handle, _end, connection, made).atexit = False
    return made


def _end(connection: Connection, stream: ReceiveStream) -> None:
    if not connection.closed and connection.io is io_thread.current():
        connection.io.submit(connection.start, NoWaiter(), stream.close)


def _slices(batches: Sequence[message_pb2.DeliveredBatch]) -> list[BatchSlice]:
    return [(Delivered(batch), 0, len(batch.messages)) for batch in batches]


def delete_request(
    entity_path: str,
    max_message_count: int,
    before: datetime | None,
    states: Iterable[ServiceBusMessageState],
) -> receiver_pb2.DeleteMessagesRequest:
    """Return a request to delete the oldest messages of these states, enqueued before then."""
    count = arguments.count("max_message_count", max_message_count)
    if before is not None:
        before = arguments.moment("before_enqueued_time_utc", before)
    made = receiver_pb2.DeleteMessagesRequest(
        entity_path=entity_path, max_messages=count, operation_id=uuid.uuid4().bytes
    )
    wanted = [MessageState(state + 1) for state in states]
    before_ms = 0 if before is None else values.to_milliseconds(before)
    batch_deletes.write(made, wanted, before_ms)
    return made


def states_to_purge(states: Any) -> list[ServiceBusMessageState]:
    """Return the states of messages that a purge deletes; None: all of them."""
    if states is None:
        return list(ServiceBusMessageState)
    try:
        found = sorted({ServiceBusMessageState(each) for each in states})
    except (TypeError, ValueError):
        raise arguments.invalid("states", "each must be a ServiceBusMessageState") from None
    if not found:
        raise arguments.invalid("states", "must be at least one state, or None for all of them")
    return found
