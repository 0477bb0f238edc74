"""Messages, section by section: read from the bytes of a delivery, and written as such.

    [header] [delivery-annotations] [message-annotations]
    [properties] [application-properties] body [footer]      the bare message

A body is data (binary, in one section or several), sequences (lists) or one value. Two deviations
of azure-servicebus are accepted: no body, and delivery annotations as the last section.

Source: AMQP 1.0, part 3.2, "Message Format".
"""

import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bendybus.amqp import decoding, encoding, values
from bendybus.amqp.errors import DecodeError, FieldError, TooManyError
from bendybus.amqp.values import Pairs, Symbol, Timestamp, Ubyte, Uint, Ulong

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78
# Sections by symbolic descriptor, for peers that do not use the numeric one.
_BY_SYMBOL: Final = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}
# A section's descriptor in its usual encoding.
_HEADS: Final = {
    section: bytes((values.DESCRIBED, values.SMALL_ULONG, section))
    for section in _BY_SYMBOL.values()
}
_BY_HEAD: Final = {head: section for section, head in _HEADS.items()}
# A batch, as in Service Bus and Event Hubs: each data section is a whole message.
BATCH_FORMAT: Final = 0x80013700
# The most sections of a message, and messages of a batch where its reader sets no other bound.
SECTIONS_MAX: Final = 10_000
# In the order of sections, after all of them.
_LAST: Final = FOOTER + 1
# A body that follows its footer, and a footer that follows its body.
_BEHIND_FOOTER: Final = 0x10
_BEHIND_BODY: Final = FOOTER + 0x80
_U32: Final = struct.Struct(">I").unpack_from
_DATA8: Final = _HEADS[DATA] + bytes((values.BINARY8,))
_DATA32: Final = _HEADS[DATA] + bytes((values.BINARY32,))

# A decoded map, with keys of any type.
Map = dict[Any, Any] | Pairs


@dataclass(slots=True)
class Header:
    """How a message is delivered. `ttl` is in ms; None: not set."""

    durable: bool | None = None
    priority: int | None = None
    ttl: int | None = None
    first_acquirer: bool | None = None
    delivery_count: int | None = None


@dataclass(slots=True)
class Properties:
    """The standard properties of a message. Times are in ms since 1970; None: not set."""

    message_id: Any = None
    user_id: bytes | None = None
    to: Any = None
    subject: str | None = None
    reply_to: Any = None
    correlation_id: Any = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


_MESSAGE_ID: Final = (str, Ulong, uuid.UUID, bytes)
# The types that each field may have.
_Types = tuple[tuple[type, ...], ...]
# A symbol may come as a string, as some peers write it.
_SYMBOL: Final = (Symbol, str)
_HEADER_FIELDS: Final[_Types] = ((bool,), (Ubyte,), (Uint,), (bool,), (Uint,))
# By field, the types that it may have; none: any.
PROPERTY_FIELDS: Final[_Types] = (
    _MESSAGE_ID, (bytes,), (), (str,), (), _MESSAGE_ID, _SYMBOL, _SYMBOL, (Timestamp,),
    (Timestamp,), (str,), (Uint,), (str,),
)  # fmt: skip
_TYPE_NAMES: Final = {
    bool: "a boolean",
    Ubyte: "a ubyte",
    Uint: "a uint",
    Ulong: "a ulong",
    Timestamp: "a timestamp",
    str: "a string",
    uuid.UUID: "a UUID",
    bytes: "binary",
}
_PROPERTY_NAMES: Final = Properties.__slots__
_HEADER_NAMES: Final = Header.__slots__


@dataclass(slots=True)
class Message:
    """A message. At most one of `data`, `sequences` and `has_value` says what its body is."""

    header: Header | None = None
    delivery_annotations: Map | None = None
    message_annotations: Map | None = None
    properties: Properties | None = None
    application_properties: Map | None = None
    data: Sequence[bytes] = ()
    sequences: Sequence[list[Any]] = ()
    value: Any = None
    has_value: bool = False
    footer: Map | None = None


def decode(payload: bytes) -> Message:
    """Return the message that `payload` is. Raises DecodeError."""
    message, left = Message(), decoding.limits()
    at, end, last, count = 0, len(payload), 0, 0
    data: list[bytes] = []
    sequences: list[list[Any]] = []
    while at < end:
        section = _BY_HEAD.get(payload[at : at + 3])
        if section is None:
            section, at = _named_section(payload, at)
        else:
            at += 3
        last = section if last < section < FOOTER else _after(last, section)
        count += 1
        if count > SECTIONS_MAX:
            raise DecodeError(f"a message has at most {SECTIONS_MAX} sections")
        if section == DATA:
            piece, at = _binary(payload, at)
            data.append(piece)
            continue
        value, at = decoding.decode(payload, at, left)
        if section == SEQUENCE:
            if type(value) is not list:
                raise DecodeError("an amqp-sequence section must be a list")
            sequences.append(value)
        else:
            _SETTERS[section](message, value)
    # azure-servicebus writes a null without a body, and possibly without any section.
    if bool(data) + bool(sequences) + message.has_value > 1:
        raise DecodeError("a message must have one body: data, amqp-sequence or amqp-value")
    message.data, message.sequences = tuple(data), tuple(sequences)
    return message


def _after(last: int, section: int) -> int:
    """Return the place in the order that a section takes after `last`. Raises DecodeError."""
    if section == FOOTER and last < FOOTER:
        return FOOTER if last < DATA else _BEHIND_BODY
    if section > last or (section == last and section in (DATA, SEQUENCE)):
        return section
    if section == DELIVERY_ANNOTATIONS and last not in (section, _LAST):
        return _LAST
    # rhea, which the SDK for JavaScript uses, writes the footer before the body.
    behind = section + _BEHIND_FOOTER
    if section in (DATA, SEQUENCE, VALUE) and (
        last == FOOTER or (last == behind and section != VALUE)
    ):
        return behind
    raise DecodeError(f"section 0x{section:02x} may not follow 0x{last & 0x7F:02x}")


def batched(payload: bytes, most: int = SECTIONS_MAX) -> list[bytes]:
    """Return the messages, not decoded, of a delivery of BATCH_FORMAT.

    Raises DecodeError, and TooManyError for more than `most`.
    """
    found: list[bytes] = []
    at, end, last = 0, len(payload), 0
    while at < end:
        section = _BY_HEAD.get(payload[at : at + 3])
        if section is None:
            section, at = _named_section(payload, at)
        else:
            at += 3
        last = _after(last, section)
        if section == DATA:
            message, at = _binary(payload, at)
            found.append(message)
            if len(found) > most:
                raise TooManyError(f"a batch has at most {most} messages")
        elif section in (SEQUENCE, VALUE):
            raise DecodeError("the messages of a batch must be data sections")
        else:
            at = decoding.skip(payload, at)
    if not found:
        raise DecodeError("a batch must have at least one message")
    return found


def encode(message: Message) -> bytes:
    """Return the bytes of a message. Raises TypeError and ValueError."""
    if bool(message.data) + bool(message.sequences) + message.has_value > 1:
        raise ValueError("a message must have one body: data, sequences or a value")
    out = bytearray()
    if message.header is not None:
        write_header(message.header, out)
    write_map(DELIVERY_ANNOTATIONS, message.delivery_annotations, out)
    write_map(MESSAGE_ANNOTATIONS, message.message_annotations, out)
    if message.properties is not None:
        write_properties(message.properties, out)
    write_map(APPLICATION_PROPERTIES, message.application_properties, out)
    for piece in message.data:
        write_data(piece, out)
    for sequence in message.sequences:
        out += _HEADS[SEQUENCE]
        encoding.write(sequence, out)
    if message.has_value:
        out += _HEADS[VALUE]
        encoding.write(message.value, out)
    write_map(FOOTER, message.footer, out)
    return bytes(out)


def write_header(header: Header, out: bytearray) -> None:
    """Append a header section."""
    _write_fields(HEADER, header, _HEADER_NAMES, _HEADER_FIELDS, out)


def write_properties(properties: Properties, out: bytearray) -> None:
    """Append a properties section."""
    _write_fields(PROPERTIES, properties, _PROPERTY_NAMES, PROPERTY_FIELDS, out)


def write_map(section: int, entries: Map | None, out: bytearray) -> None:
    """Append a section that is a map; None: nothing."""
    if entries is not None:
        out += _HEADS[section]
        encoding.write(entries, out)


def write_data(piece: bytes, out: bytearray) -> None:
    """Append a data section."""
    if len(piece) < 256:
        out += _DATA8
        out.append(len(piece))
    else:
        out += _DATA32
        out += len(piece).to_bytes(4, "big")
    out += piece


def _named_section(payload: bytes, at: int) -> tuple[int, int]:
    """Return the section with an unusual descriptor at `at`, and where its value begins."""
    if payload[at] != values.DESCRIBED:
        raise DecodeError(f"byte {at}: a section of a message must have a descriptor")
    descriptor, at = decoding.decode(payload, at + 1)
    found: Any = None
    if isinstance(descriptor, Symbol):
        found = _BY_SYMBOL.get(descriptor)
    elif type(descriptor) is Ulong and HEADER <= descriptor <= FOOTER:
        found = int(descriptor)
    if found is None:
        raise DecodeError(f"{descriptor!r:.80} is not a section of a message")
    return found, at


def _binary(payload: bytes, at: int) -> tuple[bytes, int]:
    code = payload[at] if at < len(payload) else 0
    if code == values.BINARY8 and at + 1 < len(payload):
        start = at + 2
        end = start + payload[at + 1]
    elif code == values.BINARY32 and at + 4 < len(payload):
        start = at + 5
        end = start + _U32(payload, at + 1)[0]
    else:
        raise DecodeError("a data section must be binary")
    if end > len(payload):
        raise DecodeError(f"byte {at}: the section is longer than its message")
    return payload[start:end], end


def _set_header(message: Message, value: Any) -> None:
    message.header = Header(*_fields("header", value, _HEADER_NAMES, _HEADER_FIELDS))


def _set_properties(message: Message, value: Any) -> None:
    message.properties = Properties(*_fields("properties", value, _PROPERTY_NAMES, PROPERTY_FIELDS))


def _set_value(message: Message, value: Any) -> None:
    message.value, message.has_value = value, True


def _set_map(name: str) -> Callable[[Message, Any], None]:
    def set_map(message: Message, value: Any) -> None:
        if type(value) is not dict and type(value) is not Pairs:
            raise DecodeError(f"{name} must be a map")
        if getattr(message, name) is not None:
            raise DecodeError(f"a message must have one section of {name}")
        setattr(message, name, value)

    return set_map


_SETTERS: Final[dict[int, Callable[[Message, Any], None]]] = {
    HEADER: _set_header,
    DELIVERY_ANNOTATIONS: _set_map("delivery_annotations"),
    MESSAGE_ANNOTATIONS: _set_map("message_annotations"),
    PROPERTIES: _set_properties,
    APPLICATION_PROPERTIES: _set_map("application_properties"),
    VALUE: _set_value,
    FOOTER: _set_map("footer"),
}


def _fields(what: str, value: Any, names: Sequence[str], fields: _Types) -> list[Any]:
    if type(value) is not list:
        raise DecodeError(f"{what} must be a list")
    if len(value) > len(names):
        raise DecodeError(f"{what} has at most {len(names)} fields")
    for index, item in enumerate(value):
        if item is None:
            continue
        kinds = fields[index]
        if kinds and (type(item) not in kinds or (kinds is _SYMBOL and not item.isascii())):
            raise FieldError(what, names[index].replace("_", "-"), _must_be(kinds))
    return value


def _must_be(kinds: tuple[type, ...]) -> str:
    if kinds is _SYMBOL:
        return "must be a symbol, or a string of ASCII characters"
    *names, last = (_TYPE_NAMES[kind] for kind in kinds)
    return f"must be {', '.join(names)} or {last}" if names else f"must be {last}"


def _write_fields(
    section: int, given: Header | Properties, names: Sequence[str], fields: _Types, out: bytearray
) -> None:
    items: list[Any] = []
    last = 0
    for name, kinds in zip(names, fields, strict=True):
        item = getattr(given, name)
        if item is not None:
            last = len(items) + 1
            if kinds and type(item) is not kinds[0]:
                item = _converted(item, kinds[0])
                if type(item) not in kinds:
                    raise TypeError(f"{name}: {_must_be(kinds)}")
        items.append(item)
    out += _HEADS[section]
    encoding.write(items[:last], out)


def _converted(item: Any, kind: type) -> Any:
    """Return a plain int or str as the type that its field has."""
    if type(item) is str and kind is Symbol:
        return Symbol(item)
    return kind(item) if type(item) is int and kind in (Ubyte, Uint, Timestamp) else item
