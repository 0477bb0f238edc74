"""Outgoing messages: encoded once, on the application's thread, as columns of the contract.

ServiceBusMessage ─┐                       ┌─ messages[i]   body
mapping           ─┼─► Columns.add(…) ────►│  heads[i]       properties; empty: the body is all
AmqpAnnotated…    ─┘                       │  message_ids[i]
                                           └─ extras[i]     keys, session, times; or None
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from bendybus.client.exceptions import MessageSizeExceededError
from bendybus.client.messages import message as message_module
from bendybus.client.messages import values
from bendybus.client.messages.amqp import AmqpAnnotatedMessage, AmqpFields, AmqpMessageBodyType
from bendybus.client.messages.message import ServiceBusMessage
from bendybus.domain import limits, message_format
from bendybus.v1 import message_pb2

if TYPE_CHECKING:
    from opentelemetry.trace import Link

# What surrounds a message in a frame: tags, lengths, numbers.
MESSAGE_OVERHEAD_BYTES: Final = 16
_DATA: Final = AmqpMessageBodyType.DATA
_MILLISECOND: Final = timedelta(milliseconds=1)
_TEXTS: Final = ("content_type", "correlation_id", "subject", "to", "reply_to")


class Extras(NamedTuple):
    """Properties that most messages do not have."""

    partition_key: str = ""
    session_id: str | None = None
    time_to_live_ms: int = 0
    scheduled_enqueue_time_ms: int = 0


class MessageSpans(Protocol):
    """Makes a span for each message that is added, whose context travels with the message."""

    # To the spans of the messages that were added, of OpenTelemetry.
    links: "list[Link]"

    def add(self, message: ServiceBusMessage, message_id: str) -> bytes:
        """Return what to append to the encoded message."""

    def drop_last(self) -> None:
        """Drop the message that was added last: it is not sent."""


class Columns:
    """Messages in columns. `heads` and `extras` are None while no message has any.

    `spans` is None without tracing.
    """

    __slots__ = ("extras", "heads", "message_ids", "messages", "size_bytes", "spans")

    def __init__(self, spans: "MessageSpans | None" = None) -> None:
        self.messages: list[bytes] = []
        self.message_ids: list[str] = []
        self.heads: list[bytes] | None = None
        self.extras: list[Extras] | None = None
        self.size_bytes = 0
        self.spans = spans

    def add(self, message: ServiceBusMessage, bytes_max: int | None = None) -> None:
        """Encode a message. Raises MessageSizeExceededError if it would exceed `bytes_max`."""
        head, body = encode(message)
        message_id = message._message_id or _next_id()
        if self.spans is not None:
            head += self.spans.add(message, message_id)
        size = len(head) + len(body) + len(message_id) + MESSAGE_OVERHEAD_BYTES
        if bytes_max is not None and self.size_bytes + size > bytes_max:
            if self.spans is not None:
                self.spans.drop_last()
            raise MessageSizeExceededError(
                message=f"message: does not fit into the batch, whose limit is {bytes_max} bytes"
            )
        extras = _extras_of(message)
        if extras is not None or self.extras is not None:
            if self.extras is None:
                self.extras = [_NO_EXTRAS] * len(self.messages)
            self.extras.append(extras or _NO_EXTRAS)
        if head or self.heads is not None:
            if self.heads is None:
                self.heads = [b""] * len(self.messages)
            self.heads.append(head)
        self.messages.append(body)
        self.message_ids.append(message_id)
        self.size_bytes += size

    def copy(self) -> "Columns":
        """Return a copy."""
        made = Columns(self.spans)
        made.messages = list(self.messages)
        made.message_ids = list(self.message_ids)
        made.heads = None if self.heads is None else list(self.heads)
        made.extras = None if self.extras is None else list(self.extras)
        made.size_bytes = self.size_bytes
        return made


class ServiceBusMessageBatch:
    """Messages that are sent together, as one atomic unit, up to a maximum size."""

    def __init__(self, max_size_in_bytes: int | None = None, **kwargs: Any) -> None:
        """Make an empty batch of at most `max_size_in_bytes`; None: 256 KB."""
        self._max_size_in_bytes = max_size_in_bytes or limits.STANDARD_BATCH_BYTES_MAX
        self._columns = Columns()

    @property
    def max_size_in_bytes(self) -> int:
        """The maximum size of the batch, in bytes."""
        return self._max_size_in_bytes

    @property
    def size_in_bytes(self) -> int:
        """The size of the batch, in bytes."""
        return self._columns.size_bytes

    @property
    def message(self) -> "ServiceBusMessageBatch":
        """Deprecated, as in the original: the batch itself."""
        return self

    @message.setter
    def message(self, value: object) -> None:
        raise AttributeError("message: the batch cannot be replaced; create another batch")

    def add_message(
        self, message: ServiceBusMessage | AmqpAnnotatedMessage | Mapping[str, Any]
    ) -> None:
        """Add `message` as it is now. Raises MessageSizeExceededError when it does not fit."""
        self._columns.add(as_message(message), self._max_size_in_bytes)

    def __len__(self) -> int:
        return len(self._columns.messages)

    def __repr__(self) -> str:
        return f"ServiceBusMessageBatch({len(self)} messages, {self.size_in_bytes} bytes)"


def encode(message: ServiceBusMessage) -> tuple[bytes, bytes]:
    """Return head and body, each a serialised Message; the head is empty without properties."""
    body = message._body
    if (
        type(body) is bytes
        and message._body_type is _DATA
        and message._application_properties is None
        and message._content_type is None
        and message._correlation_id is None
        and message._subject is None
        and message._to is None
        and message._reply_to is None
        and message._reply_to_session_id is None
        and message._amqp is None
    ):
        # By far the most frequent shape, written by hand: field 1, its length, the bytes.
        return b"", _prefix(len(body)) + body
    return _encode_slowly(message)


def columns_of(given: object, spans: "MessageSpans | None" = None) -> Columns | None:
    """Return the columns of an argument of `send_messages`; None if it is empty."""
    if type(given) is ServiceBusMessage:
        columns = Columns(spans)
        columns.add(given)
        return columns
    if isinstance(given, ServiceBusMessageBatch):
        return given._columns.copy() if len(given) else None
    columns = Columns(spans)
    add = columns.add
    for message in messages_of(given):
        add(message)
    return columns if columns.messages else None


def messages_of(given: object) -> Iterator[ServiceBusMessage]:
    """Yield the messages in a message, a mapping, or an iterable of them."""
    if isinstance(given, (ServiceBusMessage, AmqpAnnotatedMessage, Mapping)):
        yield as_message(given)
    elif isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        for entry in given:
            yield entry if type(entry) is ServiceBusMessage else as_message(entry)
    else:
        raise TypeError(
            f"message: must be a message, a batch or a list (got {type(given).__name__})"
        )


def as_message(given: object) -> ServiceBusMessage:
    """Return a message from a message, a mapping of arguments, or an AmqpAnnotatedMessage."""
    if isinstance(given, ServiceBusMessage):
        return given
    if isinstance(given, AmqpAnnotatedMessage):
        return message_module.from_amqp(given)
    if isinstance(given, Mapping):
        try:
            return ServiceBusMessage(**given)
        except TypeError as exc:
            raise TypeError(
                f"message: the mapping is not valid as arguments of ServiceBusMessage: {exc}"
            ) from None
    raise TypeError(f"message: must be a ServiceBusMessage (got {type(given).__name__})")


def batch_proto(units: Iterable[Columns]) -> message_pb2.MessageBatch:
    """Return the columns of several units as one batch."""
    found = list(units)
    messages = list(itertools.chain.from_iterable(unit.messages for unit in found))
    ids = itertools.chain.from_iterable(unit.message_ids for unit in found)
    if all(unit.extras is None and unit.heads is None for unit in found):
        return message_pb2.MessageBatch(messages=messages, message_ids=ids)
    batch = message_pb2.MessageBatch(messages=messages, message_ids=ids)
    if any(unit.heads for unit in found):
        for unit in found:
            batch.heads.extend(unit.heads or itertools.repeat(b"", len(unit.messages)))
        batch.formats.extend(
            message_format.SPLIT if head else message_format.WHOLE for head in batch.heads
        )
    _add_extras(batch, found)
    return batch


def _add_extras(batch: message_pb2.MessageBatch, found: Sequence[Columns]) -> None:
    if all(unit.extras is None for unit in found):
        return
    extras = [
        entry
        for unit in found
        for entry in (unit.extras or itertools.repeat(_NO_EXTRAS, len(unit.messages)))
    ]
    if any(entry.partition_key for entry in extras):
        batch.partition_keys.extend(entry.partition_key for entry in extras)
    present = [entry.session_id is not None for entry in extras]
    if any(present):
        batch.session_ids.extend(entry.session_id or "" for entry in extras)
        if not all(present):
            batch.session_present.extend(present)
    if any(entry.time_to_live_ms for entry in extras):
        batch.time_to_live_ms.extend(entry.time_to_live_ms for entry in extras)
    if any(entry.scheduled_enqueue_time_ms for entry in extras):
        batch.scheduled_enqueue_time_ms.extend(entry.scheduled_enqueue_time_ms for entry in extras)


def _extras_of(message: ServiceBusMessage) -> Extras | None:
    if (
        message._partition_key is None
        and message._session_id is None
        and message._time_to_live is None
        and message._scheduled_enqueue_time_utc is None
    ):
        return None
    ttl, scheduled = message._time_to_live, message._scheduled_enqueue_time_utc
    return Extras(
        message._partition_key or "",
        message._session_id,
        # 0 means none in the contract: a time to live of 0 is sent as the shortest one.
        0 if ttl is None else min(max(1, ttl // _MILLISECOND), limits.TIME_TO_LIVE_MS_MAX),
        0 if scheduled is None else values.to_milliseconds(scheduled),
    )


def _encode_slowly(message: ServiceBusMessage) -> tuple[bytes, bytes]:
    head = message_pb2.Message()
    for name in _TEXTS:
        text = getattr(message, name)
        if text is not None:
            setattr(head, name, text)
    if message._reply_to_session_id is not None:
        head.reply_to_session_id = message._reply_to_session_id
    if message._application_properties:
        values.fill_map(head.application_properties, message._application_properties)
        _check_sizes(values.APPLICATION_PROPERTIES, head.application_properties)
    footer = None
    if message._amqp is not None:
        _add_amqp_fields(head, message._amqp)
        footer = message._amqp.footer
    head_bytes, footer_bytes = head.SerializeToString(), b""
    if footer:
        made = message_pb2.Message()
        _fill_section(made.footer, footer, "footer")
        footer_bytes = made.SerializeToString()
    size = len(head_bytes) + len(footer_bytes)
    if size > limits.HEADER_BYTES_MAX:
        raise _header_too_large("all properties together", size, limits.HEADER_BYTES_MAX)
    return head_bytes, _encode_body(message) + footer_bytes


def _encode_body(message: ServiceBusMessage) -> bytes:
    if message._body_type is _DATA and type(message._body) is bytes:
        return _prefix(len(message._body)) + message._body
    body = message_pb2.Message()
    if message._body_type is _DATA:
        body.data.extend(message._sections())
    elif message._body_type is AmqpMessageBodyType.VALUE:
        body.value.CopyFrom(values.to_value(message._body))
    else:
        body.sequences.extend(values.to_sequences(message._body))
    return body.SerializeToString()


def _add_amqp_fields(head: message_pb2.Message, given: AmqpFields) -> None:
    if given.content_encoding is not None:
        head.content_encoding = given.content_encoding
    if given.user_id is not None:
        head.user_id = given.user_id
    if given.priority is not None:
        head.priority = given.priority
    if given.group_sequence is not None:
        head.group_sequence = given.group_sequence
    if given.creation_time is not None:
        head.creation_time_ms = given.creation_time
    if given.absolute_expiry_time is not None:
        head.absolute_expiry_time_ms = given.absolute_expiry_time
    if given.amqp_escapes is not None:
        head.amqp_escapes = given.amqp_escapes
    if given.annotations:
        _fill_section(head.annotations, given.annotations, "annotations")
        _check_sizes("annotations", head.annotations)


def _fill_section(
    entries: Mapping[str, message_pb2.Value], given: Mapping[Any, Any], what: str
) -> None:
    if not isinstance(given, Mapping):
        raise TypeError(f"{what}: must be a dict (got {type(given).__name__})")
    try:
        values.fill_map(entries, given, what, nested=1)
    except TypeError as exc:
        # Always of this very type, as for other values.
        raise TypeError(str(exc)) from None


def _check_sizes(what: str, entries: Mapping[str, message_pb2.Value]) -> None:
    for name, value in entries.items():
        if value.ByteSize() > limits.PROPERTY_BYTES_MAX:
            raise _header_too_large(
                f"{what}[{name!r}]", value.ByteSize(), limits.PROPERTY_BYTES_MAX
            )


def _header_too_large(what: str, size: int, most: int) -> MessageSizeExceededError:
    return MessageSizeExceededError(
        message=f"{what}: must be at most {most} bytes (got {size}); put large values into the body"
    )


def _prefix(length: int) -> bytes:
    found = _PREFIXES.get(length)
    if found is None:
        found = b"\n" + _varint(length)
        if len(_PREFIXES) < _PREFIXES_MAX:
            _PREFIXES[length] = found
    return found


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _id_source() -> Callable[[], str]:
    # uuid4 costs more than all the rest of a small message.
    prefix, count = f"{os.urandom(8).hex()}-", itertools.count(1)
    return lambda: prefix + str(next(count))


def _renew_ids() -> None:
    global _next_id
    _next_id = _id_source()


_NO_EXTRAS: Final = Extras()
_PREFIXES: dict[int, bytes] = {}
_PREFIXES_MAX: Final = 4_096
_next_id = _id_source()
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_renew_ids)
