"""Properties of a stored message: what filters see of it, and what an action makes of it.

    stored columns ──► View ──► filters ──► Changes ──► changed(…) ──► columns of the copy
                       (decodes the head when a filter first asks for what is in it)

An action changes the head and the key columns; the body stays as it is, byte for byte.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from google.protobuf.message import DecodeError

from bendybus.domain import limits, message_format
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import values
from bendybus.domain.filters.values import Composite, Duration, FilterError, Timestamp
from bendybus.domain.filters.values import Value as FilterValue
from bendybus.domain.filters.view import Changes
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Value
from bendybus.wire import delivered_properties


class Parts(NamedTuple):
    """A message in columns. Times in ms since 1970; 0, None and "": not set."""

    payload: bytes
    # See domain.message_format.
    format: int = message_format.WHOLE
    head: bytes = b""
    message_id: str = ""
    partition_key: str = ""
    session_id: str | None = None
    time_to_live_ms: int = 0
    scheduled_ms: int = 0
    enqueued_ms: int = 0
    expires_ms: int | None = None
    sequence_number: int = 0
    enqueued_sequence_number: int = 0
    delivery_count: int = 0
    dead_letter_reason: str | None = None
    dead_letter_error_description: str | None = None
    dead_letter_source: str | None = None
    # A serialised ValueMap: properties that win over those of the head.
    changed_properties: bytes | None = None


class View:
    """What filters see of a message. Raises InvalidArgument if its head cannot be decoded."""

    __slots__ = ("_head", "_new_id", "_parts", "_user")

    def __init__(self, parts: Parts, new_id: Callable[[], UUID]) -> None:
        self._parts = parts
        self._new_id = new_id
        self._head: message_pb2.Message | None = None
        self._user: dict[str, FilterValue] | None = None

    def check(self) -> None:
        """Raise InvalidArgument if the message cannot be decoded, also where no filter reads it."""
        self._decoded()
        if self._parts.changed_properties:
            _merged(message_pb2.Message(), self._parts)

    @property
    def user(self) -> Mapping[str, FilterValue]:
        """Application properties by folded name."""
        found = self._user
        if found is None:
            entries = _merged(self._decoded(), self._parts).items()
            given = {name: from_value(entry) for name, entry in entries}
            found = self._user = values.folded(given)
        return found

    def system(self, name: str) -> FilterValue:
        """Return a system property; None: not set."""
        field = _IN_HEAD.get(name)
        if field is not None:
            return getattr(self._decoded(), field) or None
        return _IN_COLUMNS[name](self._parts)

    def new_id(self) -> UUID:
        """Return a random UUID."""
        return self._new_id()

    def _decoded(self) -> message_pb2.Message:
        if self._head is None:
            self._head = _decoded_head(self._parts)
        return self._head


def changed(parts: Parts, changes: Changes) -> Parts:
    """Return the copy of a message that an action makes. Raises FilterError if it is too large."""
    head, payload = message_pb2.Message(), parts.payload
    head.CopyFrom(_decoded_head(parts))
    if parts.format == message_format.WHOLE:
        payload = _without_body(head)
    for name, value in _merged(head, parts).items():
        head.application_properties[name].CopyFrom(value)
    for folded, change in changes.user.items():
        _change(head.application_properties, folded, change)
    for name, text in changes.system.items():
        if name in _IN_HEAD:
            setattr(head, _IN_HEAD[name], text or "")
    texts = _dead_letter_texts(head, parts)
    encoded = head.SerializeToString()
    if len(encoded) > limits.HEADER_BYTES_MAX:
        raise FilterError(
            f"the properties of the copy have {len(encoded)} bytes; at most "
            f"{limits.HEADER_BYTES_MAX} are allowed."
        )
    columns: dict[str, Any] = {
        column: unset if changes.system[name] is None else changes.system[name]
        for name, (column, unset) in _SETTABLE_COLUMNS.items()
        if name in changes.system
    }
    return parts._replace(
        payload=payload,
        format=message_format.SPLIT,
        head=encoded,
        changed_properties=None,
        **texts,
        **columns,
    )


def from_value(value: Value) -> FilterValue:
    """Return a value of the contract as filters compare it."""
    kind = value.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    found = getattr(value, kind)
    convert = _CONVERT.get(kind)
    return found if convert is None else convert(found)  # type: ignore[no-any-return]


def from_rule_value(value: Value) -> FilterValue:
    """Return a value of a rule, which keeps the width of a number and how a moment was written."""
    found = from_value(value)
    # Written as another moment, or as none, it would mislead who reads the rule, or stop them.
    if type(found) is Timestamp and values.is_written(value.written, found.ms):
        return Timestamp(found.ms, value.written)
    return values.Int(value.int_value) if value.WhichOneof("kind") == "int_value" else found


def to_value(value: FilterValue) -> Value:
    """Return a value of a rule in the contract: a number with its width, or the widest."""
    if type(value) is values.Int:
        return Value(int_value=value)
    if type(value) is int:
        return Value(ulong_value=value) if value > values.INTEGER_MAX else Value(long_value=value)
    if type(value) is UUID:
        return Value(uuid_value=value.bytes)
    if type(value) is Timestamp:
        return Value(timestamp_ms_value=value.ms, written=value.written)
    if type(value) is Duration:
        return Value(encoded_value=_encoded_duration(value.ticks))
    if value is None:
        return Value(null_value=True)
    field = _FIELDS.get(type(value))
    if field is None:
        raise TypeError(f"a property cannot be {values.kind_of(value).value}")
    return _made(field, value)


def _decoded_head(parts: Parts) -> message_pb2.Message:
    whole = parts.format == message_format.WHOLE
    try:
        return message_pb2.Message.FromString(parts.payload if whole else parts.head)
    except DecodeError:
        raise InvalidArgument(
            "messages" if whole else "heads", "a message cannot be decoded. Update the client."
        ) from None


def merged_changes(before: bytes, changes: bytes) -> bytes:
    """Return two changes of properties as one: what the later one replaces takes no room."""
    # Serialised maps are merged by concatenation.
    both = before + changes
    try:
        return message_pb2.ValueMap.FromString(both).SerializeToString(deterministic=True)
    except DecodeError:
        return both


def _merged(head: message_pb2.Message, parts: Parts) -> Mapping[str, Value]:
    """Return the application properties as a receiver gets them."""
    try:
        return delivered_properties.merged(
            head.application_properties,
            parts.changed_properties,
            parts.dead_letter_reason,
            parts.dead_letter_error_description,
        )
    except DecodeError:
        raise InvalidArgument("changed_properties", "cannot be decoded.") from None


def _dead_letter_texts(head: message_pb2.Message, parts: Parts) -> dict[str, Any]:
    """Take what had columns of its own out of the properties of a copy, if it is still a text."""
    found: dict[str, Any] = {}
    for column, name in _TEXT_COLUMNS.items():
        if not getattr(parts, column):
            continue
        value = head.application_properties.get(name)
        found[column] = value.string_value if value is not None else None
        if found[column]:
            del head.application_properties[name]
    return found


def _without_body(whole: message_pb2.Message) -> bytes:
    """Take the body out of a whole message, and return it."""
    body = message_pb2.Message(data=whole.data, sequences=whole.sequences, footer=whole.footer)
    if whole.HasField("value"):
        body.value.CopyFrom(whole.value)
    for field in ("data", "value", "sequences", "footer"):
        whole.ClearField(field)
    return body.SerializeToString()


def _change(entries: Any, folded: str, change: Any) -> None:
    """Change an application property, whatever the case of its name in the message."""
    names = sorted(name for name in entries if values.fold(name) == folded)
    replaced = Value()
    if names:
        replaced.CopyFrom(entries[names[0]])
    for name in names:
        del entries[name]
    if not change.removed:
        name = names[0] if names else change.name
        entries[name].CopyFrom(_like(replaced, change.value))


def _like(replaced: Value, value: FilterValue) -> Value:
    """Return a value with the type of the one that it replaces, where nothing is lost."""
    field = replaced.WhichOneof("kind") or ""
    if type(value) is int:
        lowest, highest = _RANGES.get(field, (1, 0))
        if lowest <= value <= highest:
            return _made(field, value)
        if field in ("float_value", "double_value"):
            return _made(field, float(value))
    if type(value) is float and field == "float_value" and _is_single(value):
        return Value(float_value=value)
    if type(value) is str and field == "symbol_value" and value.isascii():
        return Value(symbol_value=value)
    if type(value) is str and field == "char_value" and len(value) == 1:
        return Value(char_value=ord(value))
    return to_value(value)


def _is_single(value: float) -> bool:
    """Whether a float of 32 bits has the same value, or one as close as it was written."""
    try:
        return bool(_SINGLE.unpack(_SINGLE.pack(value))[0] == value)
    except OverflowError:
        return False


def _made(field: str, value: object) -> Value:
    made = Value()
    setattr(made, field, value)
    return made


def _moment(ms: int | None) -> Timestamp | None:
    return Timestamp(ms) if ms else None


def _char(code: int) -> FilterValue:
    # No client of ours sends one that is none. Half of a surrogate pair cannot be written as text.
    is_character = code < 0xD800 or 0xDFFF < code < 0x110000
    return chr(code) if is_character else Composite()


def _encoded(raw: bytes) -> FilterValue:
    """Return a duration, as AMQP encodes it; of other values nothing is known here."""
    if raw.startswith(_DURATION):
        form, ticks = raw[len(_DURATION) : len(_DURATION) + 1], raw[len(_DURATION) + 1 :]
        if (form, len(ticks)) in _LONGS:
            return Duration(int.from_bytes(ticks, "big", signed=True))
    return Composite()


def _encoded_duration(ticks: int) -> bytes:
    small = -(2**7) <= ticks < 2**7
    form, size = next(each for each in _LONGS if (each[1] == 1) is small)
    return _DURATION + form + ticks.to_bytes(size, "big", signed=True)


# A described value with this symbol, and the forms of its long: constructor, and bytes.
_DURATION: Final = b"\x00\xa3\x16com.microsoft:timespan"
_LONGS: Final = ((b"\x55", 1), (b"\x81", 8))
_IN_HEAD: Final[Mapping[str, str]] = {
    "CorrelationId": "correlation_id",
    "Label": "subject",
    "To": "to",
    "ReplyTo": "reply_to",
    "ReplyToSessionId": "reply_to_session_id",
    "ContentType": "content_type",
}
_IN_COLUMNS: Final[Mapping[str, Callable[[Parts], FilterValue]]] = {
    "MessageId": lambda parts: parts.message_id or None,
    "SessionId": lambda parts: parts.session_id,
    "PartitionKey": lambda parts: parts.partition_key or None,
    "TimeToLive": lambda parts: parts.time_to_live_ms or None,
    "ScheduledEnqueueTimeUtc": lambda parts: _moment(parts.scheduled_ms),
    "EnqueuedTimeUtc": lambda parts: _moment(parts.enqueued_ms),
    "ExpiresAtUtc": lambda parts: _moment(parts.expires_ms),
    "SequenceNumber": lambda parts: parts.sequence_number or None,
    "EnqueuedSequenceNumber": lambda parts: (
        parts.enqueued_sequence_number or parts.sequence_number or None
    ),
    "DeliveryCount": lambda parts: parts.delivery_count,
    "Size": lambda parts: len(parts.head) + len(parts.payload),
    "DeadLetterSource": lambda parts: parts.dead_letter_source or None,
}
# Of what an action sets: the column, and what it has when it is not set.
_SETTABLE_COLUMNS: Final[Mapping[str, tuple[str, Any]]] = {
    "MessageId": ("message_id", ""),
    "SessionId": ("session_id", None),
    "PartitionKey": ("partition_key", ""),
    "TimeToLive": ("time_to_live_ms", 0),
}
# Columns that a receiver gets as application properties.
_TEXT_COLUMNS: Final[Mapping[str, str]] = {
    "dead_letter_reason": delivered_properties.REASON,
    "dead_letter_error_description": delivered_properties.DESCRIPTION,
}
_SINGLE: Final = struct.Struct("f")
_CONVERT: Final[Mapping[str, Callable[[Any], Any]]] = {
    "char_value": _char,
    "timestamp_ms_value": Timestamp,
    "uuid_value": lambda raw: UUID(bytes=raw) if len(raw) == 16 else raw,
    "list_value": lambda _: Composite(),
    "map_value": lambda _: Composite(),
    "encoded_value": _encoded,
}
_FIELDS: Final[Mapping[type, str]] = {
    bool: "bool_value",
    float: "double_value",
    str: "string_value",
    bytes: "binary_value",
}
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "ubyte_value": (0, 2**8 - 1),
    "ushort_value": (0, 2**16 - 1),
    "uint_value": (0, 2**32 - 1),
    "ulong_value": (0, 2**64 - 1),
    "byte_value": (-(2**7), 2**7 - 1),
    "short_value": (-(2**15), 2**15 - 1),
    "int_value": (-(2**31), 2**31 - 1),
    "long_value": (-(2**63), 2**63 - 1),
}
