"""A received message: an index into the columns of its delivery, decoded on demand."""

import copy
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from bendybus.client.exceptions import ServiceBusError
from bendybus.client.messages import amqp, values
from bendybus.client.messages.amqp import AmqpAnnotatedMessage, AmqpFields, AmqpMessageBodyType
from bendybus.client.messages.enums import ServiceBusMessageState, ServiceBusReceiveMode
from bendybus.client.messages.message import ServiceBusMessage
from bendybus.domain import lock_token, message_format
from bendybus.v1 import message_pb2
from bendybus.wire import delivered_properties

_Proto = TypeVar("_Proto", bound=Message)
_TOKEN_BYTES: Final = lock_token.TOKEN_BYTES
_REASON: Final = delivered_properties.REASON.encode()
_DESCRIPTION: Final = delivered_properties.DESCRIPTION.encode()


class Delivered:
    """The columns of one DeliveredBatch, each made a list when it is first read."""

    __slots__ = ("_lists", "lock_end_s", "lock_tokens", "locked_until_ms", "proto")

    def __init__(self, proto: message_pb2.DeliveredBatch, sent_s: float | None = None) -> None:
        """`sent_s`: since when the locks last so long, on the monotonic clock; None: now."""
        self.proto = proto
        self.lock_tokens = proto.lock_tokens
        self.locked_until_ms = proto.locked_until_ms
        # When the locks expire, on the monotonic clock: the clocks of client and bus may differ.
        since_s = time.monotonic() if sent_s is None else sent_s
        self.lock_end_s = since_s + proto.lock_remaining_ms / 1_000
        self._lists: dict[str, Sequence[Any]] = {}

    def __len__(self) -> int:
        return len(self.proto.messages)

    def column(self, name: str) -> Sequence[Any]:
        """Return a column: empty, or one entry per message."""
        found = self._lists.get(name)
        if found is None:
            found = self._lists[name] = list(getattr(self.proto, name))
        return found

    def token(self, index: int) -> bytes:
        """Return the lock token of a message; empty without locks."""
        start = index * _TOKEN_BYTES
        return self.lock_tokens[start : start + _TOKEN_BYTES]

    def alone(self, index: int) -> bytes:
        """Return a serialised delivery of one of the messages, with its current lock."""
        made = message_pb2.DeliveredBatch()
        for field, value in self.proto.ListFields():
            if field.is_repeated:
                getattr(made, field.name).append(value[index])
            else:
                setattr(made, field.name, value)
        made.lock_tokens = self.token(index)
        left_s = self.lock_end_s - time.monotonic()
        made.lock_remaining_ms = max(0, round(left_s * 1_000))
        return made.SerializeToString()


class ServiceBusReceivedMessage(ServiceBusMessage):
    """A message that was received, peeked at, or read from bytes.

    The slots of ServiceBusMessage stay empty until one of them is read; then `__getattr__`
    decodes the message into all of them.
    """

    __slots__ = (
        "_delivered",
        "_index",
        "_locked_until_ms",
        "_peeked",
        "_settled",
        "auto_renew_error",
    )

    def __init__(
        self,
        message: Any,
        receive_mode: ServiceBusReceiveMode | str = ServiceBusReceiveMode.PEEK_LOCK,
        frame: Any | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a message from a delivery; only receivers do that.

        `message`: the delivery. `receive_mode`: how it was received. `frame` has no effect.
        """
        if not isinstance(message, Delivered):
            raise TypeError("ServiceBusReceivedMessage: only receivers create received messages")
        self._delivered = message
        self._index: int = kwargs.get("index", 0)
        self._settled = receive_mode == ServiceBusReceiveMode.RECEIVE_AND_DELETE
        self._peeked: bool = kwargs.get("peeked", False)
        self._locked_until_ms = message.locked_until_ms
        self.auto_renew_error: ServiceBusError | None = None

    @classmethod
    def from_bytes(cls, message: bytes) -> "ServiceBusReceivedMessage":
        """Return a message read from bytes; it has no receiver.

        `message`: a serialised `bendybus.v1.Message`.
        """
        if not isinstance(message, bytes):
            raise TypeError(f"message: must be bytes (got {type(message).__name__})")
        if not message:
            raise ValueError("message: must not be empty")
        try:
            message_pb2.Message.FromString(message)
        except DecodeError as exc:
            raise ValueError("message: not a valid bendybus.v1.Message") from exc
        batch = message_pb2.DeliveredBatch(messages=[message])
        return cls(Delivered(batch), ServiceBusReceiveMode.RECEIVE_AND_DELETE)

    def __getattr__(self, name: str) -> Any:
        # Reached only for slots that are still empty.
        if name not in _LOADED:
            raise AttributeError(name)
        if name == "_amqp":
            # Few read it: not with the others.
            self._amqp = amqp.read(self._parsed(message_pb2.Message, self._whole()))
        else:
            self._load()
        return object.__getattribute__(self, name)

    def __reduce__(self) -> Any:
        # The message alone, without the rest of its delivery.
        return _restored, (self._delivered.alone(self._index), self._state())

    def __deepcopy__(self, memo: dict[int, Any]) -> "ServiceBusReceivedMessage":
        made: ServiceBusReceivedMessage = object.__new__(type(self))
        made._delivered, made._index = self._delivered, self._index
        for name, value in self._state().items():
            setattr(made, name, copy.deepcopy(value, memo))
        return made

    def __copy__(self) -> "ServiceBusReceivedMessage":
        made: ServiceBusReceivedMessage = object.__new__(type(self))
        made._delivered, made._index = self._delivered, self._index
        for name, value in self._state().items():
            setattr(made, name, value.copy() if isinstance(value, AmqpFields) else value)
        return made

    def _state(self) -> dict[str, Any]:
        """Return the attributes that are set and are not part of the delivery."""
        found = {name: getattr(self, name) for name in _OWN}
        try:
            object.__getattribute__(self, "_body_type")
        except AttributeError:
            return found  # nothing of it was read yet
        return found | {name: getattr(self, name) for name in _LOADED}

    def _load(self) -> None:
        proto = self._parsed(message_pb2.Message, self._whole())
        # Before anything is set, so that what cannot be read stays unread.
        properties = self._read_properties(proto)
        self._encoding = "UTF-8"
        if proto.HasField("value"):
            self._body = values.from_value(proto.value)
            self._body_type = AmqpMessageBodyType.VALUE
        elif proto.sequences:
            self._body = [
                [values.from_value(entry) for entry in sequence.values]
                for sequence in proto.sequences
            ]
            self._body_type = AmqpMessageBodyType.SEQUENCE
        else:
            self._body = proto.data[0] if len(proto.data) == 1 else list(proto.data)
            self._body_type = AmqpMessageBodyType.DATA
        self._content_type = proto.content_type or None
        self._correlation_id = proto.correlation_id or None
        self._subject = proto.subject or None
        self._to = proto.to or None
        self._reply_to = proto.reply_to or None
        self._reply_to_session_id = proto.reply_to_session_id or None
        self._message_id = self._cell("message_ids") or None
        self._partition_key = self._cell("partition_keys") or None
        self._session_id = self._read_session_id()
        ttl_ms = self._cell("time_to_live_ms")
        self._time_to_live = timedelta(milliseconds=ttl_ms) if ttl_ms else None
        self._scheduled_enqueue_time_utc = _moment(self._cell("scheduled_enqueue_time_ms"))
        self._application_properties = properties

    def _parsed(self, kind: type[_Proto], data: bytes) -> _Proto:
        try:
            return kind.FromString(data)
        except DecodeError as exc:
            raise ServiceBusError(
                f"Message {self.sequence_number}: its sender wrote content that is not a valid "
                f"{kind.DESCRIPTOR.full_name}. Dead-letter or complete the message."
            ) from exc

    def _whole(self) -> bytes:
        """Return the serialised Message: head and body."""
        format_ = self._cell("formats") or message_format.WHOLE
        if format_ > message_format.NEWEST:
            raise ServiceBusError(
                f"Message {self.sequence_number}: format {format_} is not supported by this "
                "client. Upgrade it."
            )
        head: bytes = self._cell("heads") or b""
        return head + self._delivered.proto.messages[self._index]

    def _cell(self, name: str) -> Any:
        column = self._delivered.column(name)
        return column[self._index] if column else None

    def _read_session_id(self) -> str | None:
        present = self._delivered.column("session_present")
        if present and not present[self._index]:
            return None
        session_id: str | None = self._cell("session_ids")
        return session_id

    def _read_properties(self, proto: message_pb2.Message) -> dict[str | bytes, Any] | None:
        changed = self._cell("changed_properties") or b""
        try:
            entries = delivered_properties.merged(
                proto.application_properties,
                changed,
                self._cell("dead_letter_reasons"),
                self._cell("dead_letter_error_descriptions"),
            )
        except DecodeError:
            # Raises what names the message.
            self._parsed(message_pb2.ValueMap, changed)
            raise
        return values.from_map(entries) or None

    @property
    def decoded_properties(self) -> dict[str, Any]:
        """The application properties as they were written: text is str, timestamps datetime."""
        made: dict[str, Any] = values.plain(self.application_properties or {})
        return {key.decode() if isinstance(key, bytes) else key: made[key] for key in made}

    def _annotations_of_the_bus(self) -> dict[bytes, Any]:
        return {
            b"x-opt-sequence-number": self.sequence_number,
            b"x-opt-enqueued-time": self._cell("enqueued_time_ms"),
            b"x-opt-locked-until": self._locked_until_ms or None,
            b"x-opt-message-state": int(self.state),
        }

    @property  # type: ignore[misc]  # without a setter, as in the original
    def message(self) -> AmqpAnnotatedMessage:
        """Deprecated, as in the original: use `raw_amqp_message`."""
        return super().message

    @property
    def partition(self) -> int:
        """Index of the partition that holds the message; an extra of Bendybus."""
        return self._delivered.proto.partition

    @property
    def sequence_number(self) -> int | None:
        """The sequence number in the queue or subscription, which a program passes on as it is."""
        number: int | None = self._cell("sequence_numbers")
        return number

    @property
    def enqueued_sequence_number(self) -> int | None:
        """The sequence number where the message was first enqueued."""
        return self._cell("enqueued_sequence_numbers") or self.sequence_number

    @property
    def enqueued_time_utc(self) -> datetime | None:
        """When the bus stored the message."""
        return _moment(self._cell("enqueued_time_ms"))

    @property
    def expires_at_utc(self) -> datetime | None:
        """When the message expires."""
        enqueued, ttl = self.enqueued_time_utc, self.time_to_live
        if self.state is ServiceBusMessageState.SCHEDULED:
            # It lives from when it becomes active.
            enqueued = self.scheduled_enqueue_time_utc or enqueued
        if enqueued is None or ttl is None:
            return None
        try:
            return enqueued + ttl
        except OverflowError:
            return None

    @property
    def delivery_count(self) -> int | None:
        """How often the message was delivered before."""
        return self._cell("delivery_counts") or 0

    @property
    def state(self) -> ServiceBusMessageState:
        """Whether the message is active, deferred or scheduled."""
        state = self._cell("states")
        return ServiceBusMessageState(max(state - 1, 0)) if state else _ACTIVE

    def _text_property(self, key: bytes) -> str | None:
        value = (self.application_properties or {}).get(key)
        return bytes(value).decode() if isinstance(value, values.Text) else None

    @property
    def dead_letter_reason(self) -> str | None:
        """Why the message was dead-lettered."""
        return self._cell("dead_letter_reasons") or self._text_property(_REASON)

    @property
    def dead_letter_error_description(self) -> str | None:
        """The description of why the message was dead-lettered."""
        described = self._cell("dead_letter_error_descriptions")
        return described or self._text_property(_DESCRIPTION)

    @property
    def dead_letter_source(self) -> str | None:
        """The entity in which the message was dead-lettered, if it was forwarded since."""
        return self._cell("dead_letter_sources") or None

    @property
    def lock_token(self) -> uuid.UUID | str | None:
        """The lock token; None if the message is settled or has no lock."""
        token = b"" if self._settled else self._delivered.token(self._index)
        return uuid.UUID(bytes=token) if token else None

    @property
    def locked_until_utc(self) -> datetime | None:
        """When the lock expires; None if the message is settled or has no lock."""
        return None if self._settled else _moment(self._locked_until_ms)

    @property
    def _lock_expired(self) -> bool:
        until = self.locked_until_utc
        return until is not None and until <= datetime.now(UTC)

    def __repr__(self) -> str:
        try:
            shown = super().__repr__()[:-1]
        except ServiceBusError:
            shown = "ServiceBusReceivedMessage(unreadable"
        return f"{shown}, sequence_number={self.sequence_number})"


def make_all(
    slices: Sequence[tuple[Delivered, int, int]],
    *,
    settled: bool = False,
    peeked: bool = False,
) -> list[ServiceBusReceivedMessage]:
    """Return the messages of slices (delivery, from, to) of deliveries."""
    made: list[ServiceBusReceivedMessage] = []
    new, kind, append = object.__new__, ServiceBusReceivedMessage, made.append
    for delivered, start, stop in slices:
        until = delivered.locked_until_ms
        for index in range(start, stop):
            # Not through __init__: this runs once per message.
            message = new(kind)
            message._delivered = delivered
            message._index = index
            message._settled = settled
            message._peeked = peeked
            message._locked_until_ms = until
            message.auto_renew_error = None
            append(message)
    return made


def _restored(delivered: bytes, state: dict[str, Any]) -> ServiceBusReceivedMessage:
    """Return a message that was pickled. It can be settled by a receiver of its queue."""
    made: ServiceBusReceivedMessage = object.__new__(ServiceBusReceivedMessage)
    made._delivered = Delivered(message_pb2.DeliveredBatch.FromString(delivered))
    made._index = 0
    for name, value in state.items():
        setattr(made, name, value)
    return made


def _moment(milliseconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC) if milliseconds else None


_ACTIVE: Final = ServiceBusMessageState.ACTIVE
_LOADED: Final = frozenset(ServiceBusMessage.__slots__)
_OWN: Final = ("_locked_until_ms", "_peeked", "_settled", "auto_renew_error")
