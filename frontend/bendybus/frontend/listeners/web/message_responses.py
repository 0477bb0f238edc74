"""A delivered message as a response: the reverse of `sent_messages`.

    body                       the data; of a value that is a text or bytes, these, of others JSON
    Content-Type               the sender's
    BrokerProperties           what the bus and the sender say of the message, as JSON
    NAME: value                an application property; see `property_values`

A property whose name or value does not fit into a header is in BrokerProperties, under
UserProperties, and so is such a content type. A property that is too large is left out, and its
name is under OmittedProperties. Everything is ASCII, escaped as JSON, so that no value can add a
header.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from uuid import UUID

from aiohttp import web
from google.protobuf.message import DecodeError

from bendybus.domain import errors, limits, message_format
from bendybus.domain.message_state import MessageState
from bendybus.frontend.core import columns
from bendybus.frontend.listeners.amqp import amqp_values, lock_names
from bendybus.frontend.listeners.web import property_values
from bendybus.frontend.listeners.web.sent_messages import BROKER_PROPERTIES, USER_PROPERTIES
from bendybus.v1 import message_pb2
from bendybus.wire import delivered_properties, expansion

# The length of a header: many clients read no longer line than 8,190 bytes.
HEADER_CHARS_MAX: Final = 7_500
# The length of all headers with properties together.
HEADERS_CHARS_MAX: Final = 48 * limits.KB
# The time to live of a message that has none: clients read a number in any case.
FOREVER_S: Final = 922337203685.47754
# The largest number that a message had first, as clients read it.
_INT_MAX: Final = 2**31 - 1
# Their number, with those of HTTP: clients read 100 headers of a response at most.
_HEADERS_MAX: Final = 64
# Properties, and values that become JSON, of which a response is made at once.
_QUICK_BYTES: Final = 8 * limits.KB
# The part of a message that is decoded: a value takes a hundred times its bytes until it is JSON.
DECODED_BYTES_MAX: Final = 256 * limits.KB
# Sections of data that are joined without decoding them, and fields beside them.
_PIECES_MAX: Final = 5_000
# Fields of `Message` and `Value` in the contract.
_DATA: Final = message_pb2.Message.DATA_FIELD_NUMBER
_VALUE: Final = message_pb2.Message.VALUE_FIELD_NUMBER
_AS_IT_IS: Final = (
    message_pb2.Value.STRING_VALUE_FIELD_NUMBER,
    message_pb2.Value.SYMBOL_VALUE_FIELD_NUMBER,
    message_pb2.Value.BINARY_VALUE_FIELD_NUMBER,
)
# The length of the names under OmittedProperties.
_OMITTED_CHARS_MAX: Final = 1_000
_OMITTED: Final = "OmittedProperties"
# Texts that JSON has as they are.
_PLAIN: Final = re.compile(r"[ !#-\[\]-~]*")
_CONTENT_TYPE: Final = "ContentType"


class _Header:
    """The header BrokerProperties while it is built: as much as fits, and the names of the rest."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._omitted: list[str] = []
        self._left = HEADER_CHARS_MAX - _OMITTED_CHARS_MAX
        self._omitted_left = _OMITTED_CHARS_MAX

    def add(self, name: str, value: Any, target: dict[str, Any] | None = None) -> None:
        """Add a value, to `target` if it is given; or the name alone, if there is no room."""
        # Escaped it may be longer, but not shorter.
        size = len(value) if isinstance(value, str) else 0
        if size < self._left and (size := _size(name, value)) < self._left:
            (self.found if target is None else target)[name] = value
            self._left -= size
        else:
            self.omit(name)

    def omit(self, name: str) -> None:
        """Name what is left out."""
        if len(name) < self._omitted_left:
            self._omitted.append(name)
            self._omitted_left -= len(json.dumps(name))

    def text(self) -> str:
        """Return the header."""
        whole = {**self.found, **({_OMITTED: self._omitted} if self._omitted else {})}
        return json.dumps(whole, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Parts:
    """A message in two: a body that needs no decoding, None if it does; and all that does.

    `decoded_bytes`: the size of the second, with the properties that receivers changed.
    """

    body: bytes | None
    encoded: bytes
    decoded_bytes: int = 0

    @property
    def is_small(self) -> bool:
        """Whether the response is made in no time."""
        return self.decoded_bytes <= _QUICK_BYTES


def parts(batch: columns.DeliveredBatch) -> Parts:
    """Return the parts of the first message of a delivery.

    Raises InvalidOperation for one of which too much would have to be decoded.
    """
    head, raw = (batch.heads[0] if batch.heads else b""), batch.messages[0]
    if batch.formats and batch.formats[0] > message_format.NEWEST:
        return Parts(head + raw, b"")
    body, rest = _plain(raw)
    changed = len(batch.changed_properties[0]) if batch.changed_properties else 0
    size_bytes = len(head) + len(rest) + changed
    if size_bytes > DECODED_BYTES_MAX:
        raise errors.InvalidOperation(
            f"message {batch.sequence_numbers[0]} cannot be received over HTTP: beside data it has "
            f"{size_bytes} bytes that would become JSON, more than {DECODED_BYTES_MAX}. Receive it "
            "over AMQP, or with a client library."
        )
    return Parts(body, head + rest, size_bytes)


def _plain(raw: bytes) -> tuple[bytes | None, bytes]:
    """Return a body of data, of a text or of bytes, and the rest; (None, all of it): another one.

    All pieces are views, so a body of many megabytes is copied once.
    """
    data: list[memoryview] = []
    values: list[memoryview] = []
    rest: list[memoryview] = []
    try:
        for field, content in expansion.pieces(raw, (_DATA, _VALUE)):
            if max(len(data), len(rest)) == _PIECES_MAX:
                return None, raw
            (data if field == _DATA else values if field == _VALUE else rest).append(content)
        if values:
            inner = list(islice(expansion.pieces(values[0], _AS_IT_IS), 2))
            if data or len(values) > 1 or len(inner) != 1 or not inner[0][0]:
                return None, raw
            data = [inner[0][1]]
        elif not data and rest:
            return None, raw
    except expansion.TooLarge:
        return None, raw
    return b"".join(data), b"".join(rest)


def _size(name: str, value: Any) -> int:
    """Return the length of a member in JSON; that of a plain text needs no encoding."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and _PLAIN.fullmatch(name):
        return len(name) + len(value) + 8
    return len(json.dumps({name: value}))


def response(
    batch: columns.DeliveredBatch, made_of: Parts, locked_at: str, *, status: int, origin: str
) -> web.Response:
    """Return the response with the first message of a delivery.

    `locked_at`: the URL under which locks of it are found; `origin`: of `Location`.
    """
    message, header = _decoded(made_of), _Header()
    lock = ""
    if batch.lock_tokens:
        lock = str(UUID(bytes=lock_names.name_of(columns.tokens(batch, 0, 1))))
    _add_broker_properties(batch, message, header, lock)
    headers: dict[str, str] = {}
    content_type = message.content_type
    if _fits_header(content_type):
        headers["Content-Type"] = content_type
    elif content_type:
        header.add(_CONTENT_TYPE, content_type)
    _add_properties(batch, message, headers, header)
    headers[BROKER_PROPERTIES] = header.text()
    if lock:
        headers["Location"] = f"{origin}/{locked_at}/{batch.sequence_numbers[0]}/{lock}"
    body = _body(message) if made_of.body is None else made_of.body
    return web.Response(status=status, body=body, headers=headers)


def _decoded(made_of: Parts) -> message_pb2.Message:
    """Return the decoded part of a message; if that fails, its bytes are the body."""
    try:
        return message_pb2.Message.FromString(made_of.encoded)
    except DecodeError:
        return message_pb2.Message(data=[made_of.encoded])


def _add_broker_properties(
    batch: columns.DeliveredBatch, message: message_pb2.Message, header: _Header, lock: str
) -> None:
    first = _First(batch)
    state = first.of("states", 0) or message_pb2.MESSAGE_STATE_ACTIVE
    ttl_ms, due_ms = first.of("time_to_live_ms", 0), first.of("scheduled_enqueue_time_ms", 0)
    enqueued = first.of("enqueued_sequence_numbers", 0)
    found = {
        "SequenceNumber": first.of("sequence_numbers", 0),
        "EnqueuedSequenceNumber": enqueued if enqueued <= _INT_MAX else 0,
        "EnqueuedTimeUtc": property_values.date(first.of("enqueued_time_ms", 0)),
        # That of the service counts the delivery under way.
        "DeliveryCount": first.of("delivery_counts", 0) + 1,
        "State": MessageState(state).name.capitalize(),
        "LockToken": lock,
        "LockedUntilUtc": property_values.date(batch.locked_until_ms) if lock else "",
        "TimeToLive": ttl_ms / 1_000 if ttl_ms else FOREVER_S,
        "ScheduledEnqueueTimeUtc": property_values.date(due_ms) if due_ms else "",
        "MessageId": first.of("message_ids", ""),
        "PartitionKey": first.of("partition_keys", ""),
    }
    _add_set(header, found)
    if batch.session_ids and first.of("session_present", True):
        # One with an empty name is a session, too.
        header.found["SessionId"] = batch.session_ids[0]
    texts = {
        "CorrelationId": message.correlation_id,
        "Label": message.subject,
        "To": message.to,
        "ReplyTo": message.reply_to,
        "ReplyToSessionId": message.reply_to_session_id,
        "DeadLetterSource": first.of("dead_letter_sources", ""),
    }
    _add_set(header, texts)


def _add_set(header: _Header, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if value:
            header.add(name, value)


class _First:
    """The columns of the first message."""

    def __init__(self, batch: columns.DeliveredBatch) -> None:
        self._batch = batch

    def of(self, column: str, default: Any) -> Any:
        """Return its value in a column, which may be empty."""
        found = getattr(self._batch, column)
        return found[0] if found else default


def _add_properties(
    batch: columns.DeliveredBatch,
    message: message_pb2.Message,
    headers: dict[str, str],
    header: _Header,
) -> None:
    """Put application properties into headers, and those that fit into none beside them."""
    aside: dict[str, Any] = {}
    taken = {"content-type", "location", BROKER_PROPERTIES.lower()}
    left = HEADERS_CHARS_MAX
    for name, value in _properties(batch, message).items():
        text = None
        fits = len(headers) < _HEADERS_MAX and name.lower() not in taken
        if fits and property_values.is_property(name):
            text = property_values.header_of(value)
        if text is None:
            if value.ByteSize() > HEADER_CHARS_MAX:
                header.omit(name)
            else:
                found = property_values.to_json(amqp_values.from_value(value))
                header.add(name, found, aside)
        elif len(text) > min(left, HEADER_CHARS_MAX):
            header.omit(name)
        else:
            headers[name] = text
            taken.add(name.lower())
            left -= len(name) + len(text)
    if aside:
        header.found[USER_PROPERTIES] = aside


def _properties(
    batch: columns.DeliveredBatch, message: message_pb2.Message
) -> Mapping[str, message_pb2.Value]:
    first = _First(batch)
    own, changed = message.application_properties, first.of("changed_properties", b"")
    texts = (
        first.of("dead_letter_reasons", ""),
        first.of("dead_letter_error_descriptions", ""),
    )
    try:
        return delivered_properties.merged(own, changed, *texts)
    except DecodeError:
        return delivered_properties.merged(own, b"", *texts)


def _fits_header(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and len(text) <= HEADER_CHARS_MAX


def _body(message: message_pb2.Message) -> bytes:
    if message.HasField("value"):
        found = amqp_values.from_value(message.value)
        if isinstance(found, bytes):
            return found
        text = str(found) if isinstance(found, str) else _json(found)
        return text.encode("utf-8", "replace")
    if message.sequences:
        rows = [[amqp_values.from_value(each) for each in row.values] for row in message.sequences]
        return _json([value for row in rows for value in row]).encode()
    return message.data[0] if len(message.data) == 1 else b"".join(message.data)


def _json(value: Any) -> str:
    return json.dumps(property_values.to_json(value))
