"""Delivered messages of the contract, as AMQP messages: the reverse of `incoming_messages`.

Written section by section, with few intermediate values, because this runs once per message. Empty
sections are left out. Besides what the sender wrote, a message gets

    header                  delivery-count, and the time to live that the bus gave it
    delivery annotations    the name of the lock, if it is locked, beside the sender's
    message annotations     those of `annotations.SET_BY_THE_BUS`, except partition 0 and the state
                            of an active message; an enqueued sequence number where one is stored
    properties              absolute-expiry-time, if it has a time to live: from when it was
                            enqueued, or will be active, whatever the sender wrote, as Service Bus
                            does; and creation-time, if the sender set none, or both. Their
                            difference is the only place for a time to live of more than 49 days,
                            which the header's 32 bits cannot hold

A stored message that cannot be decoded is delivered with its bytes as the body, so that its
receiver can settle it.
"""

import functools
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final
from uuid import UUID

from google.protobuf.message import DecodeError

from bendybus.amqp import encoding, sections, values
from bendybus.amqp.values import Symbol, Timestamp, Ubyte, Uint
from bendybus.domain import bounds, lock_token, message_format
from bendybus.frontend.core import columns
from bendybus.frontend.listeners.amqp import amqp_values, annotations, escapes, lock_names
from bendybus.frontend.listeners.amqp.escapes import Section
from bendybus.v1 import message_pb2
from bendybus.wire import delivered_properties

_UINT_MAX: Final = 2**32 - 1
# As the contract counts states.
_ACTIVE: Final = 1
_DEFERRED: Final = 2
_SCHEDULED: Final = 3


class Delivery:
    """The messages of one delivery of the core; without locks if deleted or only peeked at.

    `by_link`: they answer the credit of a receiver's link, not a request to $management.
    """

    __slots__ = (
        "_bodies",
        "_by_link",
        "_changed",
        "_counts",
        "_descriptions",
        "_due",
        "_first_numbers",
        "_formats",
        "_heads",
        "_ids",
        "_keys",
        "_lives",
        "_locked_until_ms",
        "_numbers",
        "_partition",
        "_present",
        "_reasons",
        "_sessions",
        "_sources",
        "_states",
        "_times",
        "_tokens",
    )

    def __init__(self, batch: columns.DeliveredBatch, *, by_link: bool = False) -> None:
        self._by_link = by_link
        # Not copied into lists: often it is a single message.
        self._bodies = batch.messages
        self._heads = batch.heads
        self._formats = batch.formats
        self._numbers = batch.sequence_numbers
        self._first_numbers = batch.enqueued_sequence_numbers
        self._times = batch.enqueued_time_ms
        self._ids = batch.message_ids
        self._keys = batch.partition_keys
        self._sessions = batch.session_ids
        self._present = batch.session_present
        self._lives = batch.time_to_live_ms
        self._due = batch.scheduled_enqueue_time_ms
        self._counts = batch.delivery_counts
        self._states = batch.states
        self._changed = batch.changed_properties
        self._reasons = batch.dead_letter_reasons
        self._descriptions = batch.dead_letter_error_descriptions
        self._sources = batch.dead_letter_sources
        self._tokens = batch.lock_tokens
        self._locked_until_ms = batch.locked_until_ms
        self._partition = batch.partition

    def __len__(self) -> int:
        return len(self._bodies)

    def lock_token(self, index: int) -> bytes:
        """Return the 16 bytes of a message's lock token; none without a lock."""
        start = index * lock_token.TOKEN_BYTES
        return self._tokens[start : start + lock_token.TOKEN_BYTES]

    def lock_name(self, index: int) -> bytes:
        """Return the name of a message's lock; none without a lock."""
        token = self.lock_token(index)
        return lock_names.name_of(token) if token else b""

    def encode(self, index: int, name: bytes | None = None) -> bytes:
        """Return the AMQP message at `index`. `name`: of its lock, where that is known already."""
        name = self.lock_name(index) if name is None else name
        head, data = self._decoded(index)
        escaped = escapes.decode(head.amqp_escapes)
        ttl_ms = self._lives[index] if self._lives else 0
        out = bytearray(
            _header(
                escaped.get(escapes.DURABLE),
                head.priority if head.HasField("priority") else None,
                min(ttl_ms, _UINT_MAX) or None,
                escaped.get(escapes.FIRST_ACQUIRER),
                self._counts[index] if self._counts else 0,
            )
        )
        passed_on = escaped.get(escapes.DELIVERY_ANNOTATIONS)
        if passed_on:
            _write_delivery_annotations(passed_on, name, out)
        elif name:
            out += _LOCK_TOKEN
            out += name
        else:
            out += _NO_DELIVERY_ANNOTATIONS
        self._write_annotations(index, head, escaped, out)
        self._write_properties(index, head, escaped, ttl_ms, out)
        self._write_application_properties(index, head, escaped, out)
        _write_body(head, data, out)
        if head.footer or escaped:
            _write_entries(_FOOTER, head.footer.items(), escaped, escapes.FOOTER, out)
        return bytes(out)

    def _decoded(self, index: int) -> tuple[message_pb2.Message, bytes | None]:
        """Return a message, and separately its data if that is the whole body."""
        body = self._bodies[index]
        head = self._heads[index] if self._heads else b""
        if self._formats and self._formats[index] > message_format.NEWEST:
            return message_pb2.Message(), head + body
        start = _data_start(body)
        try:
            if start:
                return message_pb2.Message.FromString(head), body[start:]
            return message_pb2.Message.FromString(head + body), None
        except DecodeError:
            return message_pb2.Message(), head + body

    def _write_annotations(
        self,
        index: int,
        head: message_pb2.Message,
        escaped: dict[Any, Any],
        out: bytearray,
    ) -> None:
        number = self._numbers[index] if self._numbers else 0
        first = self._first_numbers[index] if self._first_numbers else 0
        state = self._states[index] if self._states else 0
        facts = (
            *(_SEQUENCE_NUMBER, values.LONG, number),
            *(_ENQUEUED_TIME, values.TIMESTAMP, self._times[index] if self._times else 0),
        )
        if self._tokens:
            until = (_LOCKED_UNTIL, values.TIMESTAMP, self._locked_until_ms)
            body, count = bytearray(_PACK_LOCKED(*facts, *until)), 3
        elif state == _DEFERRED:
            # The service adds it even to a deferred message that is peeked at.
            until = (_LOCKED_UNTIL, values.TIMESTAMP, 0)
            body, count = bytearray(_PACK_LOCKED(*facts, *until)), 3
        else:
            body, count = bytearray(_PACK_UNLOCKED(*facts)), 2
        # As Service Bus does: values that most messages have are left out.
        if first:
            count += 1
            body += _PACK_FIRST_NUMBER(_ENQUEUED_SEQUENCE_NUMBER, values.LONG, first)
        if self._partition:
            count += 1
            body += _PACK_PARTITION(_PARTITION_ID, values.SHORT, self._partition)
        due_ms = self._due[index] if self._due else 0
        if due_ms and self._by_link and state <= _ACTIVE:
            # The service goes on calling a message scheduled where it is received after its time.
            state = _SCHEDULED
        if state > _ACTIVE:
            count += 1
            # The contract counts states from one.
            body += _PACK_STATE(_STATE, values.SMALL_INT, state - 1)
        key = self._keys[index] if self._keys else ""
        if key or escapes.PARTITION_KEY in escaped:
            count += 1
            body += _PARTITION_KEY
            encoding.write(key, body)
        if due_ms:
            count += 1
            body += _SCHEDULED_ENQUEUE_TIME
            encoding.write(Timestamp(due_ms), body)
        if self._sources and self._sources[index]:
            count += 1
            body += _DEAD_LETTER_SOURCE
            encoding.write(self._sources[index], body)
        own = head.annotations
        if own or escaped:
            entries = ((name, own[name]) for name in own if name not in _NOT_OWN)
            count += _write_pairs(entries, escaped, escapes.ANNOTATIONS, body)
        _write_map(_MESSAGE_ANNOTATIONS, body, count, out)

    def _write_properties(
        self,
        index: int,
        head: message_pb2.Message,
        escaped: dict[Any, Any],
        ttl_ms: int,
        out: bytearray,
    ) -> None:
        created = head.creation_time_ms if head.HasField("creation_time_ms") else None
        expires = None
        if ttl_ms:
            since = self._alive_since(index)
            expires = bounds.end_of_life(since, ttl_ms)
            if created is None or head.HasField("absolute_expiry_time_ms") or ttl_ms > _UINT_MAX:
                # SDKs write both, and read their difference as the time to live.
                created = since
        fields: list[Any] = [
            self._ids[index] or None if self._ids else None,
            head.user_id or None,
            head.to or None,
            head.subject or None,
            head.reply_to or None,
            head.correlation_id or None,
            _symbol(head.content_type),
            _symbol(head.content_encoding),
            None if expires is None else Timestamp(expires),
            None if created is None else Timestamp(created),
            self._session_id(index) if self._sessions else None,
            Uint(head.group_sequence) if head.HasField("group_sequence") else None,
            head.reply_to_session_id or None,
        ]
        if escaped:
            for at, name in _ESCAPED_PROPERTIES:
                value = escapes.original(escaped, name, escapes.text_of(fields[at]))
                kinds = sections.PROPERTY_FIELDS[at]
                # Receivers refuse other types, which only a foreign program could have stored.
                if value is not None and (not kinds or type(value) in kinds):
                    fields[at] = value
        while fields and fields[-1] is None:
            fields.pop()
        if fields:
            out += _PROPERTIES
            encoding.write_list(fields, out)

    def _alive_since(self, index: int) -> int:
        """Return when a message was enqueued; of a scheduled one, when it will be active."""
        state = self._states[index] if self._states else 0
        if state == message_pb2.MESSAGE_STATE_SCHEDULED and self._due:
            return self._due[index]
        return self._times[index] if self._times else 0

    def _session_id(self, index: int) -> str | None:
        return self._sessions[index] if not self._present or self._present[index] else None

    def _write_application_properties(
        self,
        index: int,
        head: message_pb2.Message,
        escaped: dict[Any, Any],
        out: bytearray,
    ) -> None:
        own = head.application_properties
        reason = self._reasons[index] if self._reasons else ""
        description = self._descriptions[index] if self._descriptions else ""
        changed = self._changed[index] if self._changed else b""
        try:
            entries = delivered_properties.merged(own, changed, reason, description)
        except DecodeError:
            entries = delivered_properties.merged(own, b"", reason, description)
        if entries or escaped:
            items, escape = entries.items(), escapes.PROPERTIES
            _write_entries(_APPLICATION_PROPERTIES, items, escaped, escape, out)


def _write_delivery_annotations(passed_on: Any, name: bytes, out: bytearray) -> None:
    body, count = bytearray(), 0
    if name:
        count = 1
        encoding.write(Symbol(annotations.LOCK_TOKEN), body)
        encoding.write(UUID(bytes=name), body)
    if isinstance(passed_on, dict | values.Pairs):
        for key, value in escapes.pairs(passed_on):
            count += 1
            encoding.write(key, body)
            encoding.write(value, body)
    _write_map(_DELIVERY_ANNOTATIONS, body, count, out)


def _write_body(head: message_pb2.Message, data: bytes | None, out: bytearray) -> None:
    if head.HasField("value"):
        out += _VALUE
        encoding.write(amqp_values.from_value(head.value), out)
    elif head.sequences:
        for sequence in head.sequences:
            out += _SEQUENCE
            encoding.write_list(map(amqp_values.from_value, sequence.values), out)
    elif data is not None:
        for piece in head.data:
            sections.write_data(piece, out)
        sections.write_data(data, out)
    else:
        # An AMQP message must have a body.
        for piece in head.data or (b"",):
            sections.write_data(piece, out)


def _data_start(body: bytes) -> int:
    """Return where the data begins in a body that is a single data field; 0: it is not one.

    Parsed by hand: this is by far the most frequent body, and the data may be large.
    """
    if body[:1] != b"\n":
        return 0
    at, size = 1, 0
    for at in range(1, min(len(body), 6)):
        size |= (body[at] & 0x7F) << 7 * (at - 1)
        if body[at] < 0x80:
            return at + 1 if at + 1 + size == len(body) else 0
    return 0


def _write_entries(
    section: bytes,
    entries: Iterable[tuple[str, message_pb2.Value]],
    escaped: dict[Any, Any],
    escape: Section,
    out: bytearray,
) -> None:
    body = bytearray()
    count = _write_pairs(entries, escaped, escape, body)
    if count:
        _write_map(section, body, count, out)


def _write_pairs(
    entries: Iterable[tuple[str, message_pb2.Value]],
    escaped: dict[Any, Any],
    escape: Section,
    body: bytearray,
) -> int:
    """Append keys and values of a section that is a map; return how many pairs there are."""
    write, count = encoding.write, 0
    symbols, others = escape.kind is Symbol, escapes.names(escaped, escape) if escaped else ()
    for name, value in entries:
        if symbols is (name not in others):
            write(amqp_values.symbol_or_text(name), body)
        else:
            write(name, body)
        write(amqp_values.from_value(value), body)
        count += 1
    if escaped:
        for key, value in escapes.entries(escaped, escape):
            write(key, body)
            write(value, body)
            count += 1
    return count


def _write_map(section: bytes, body: bytearray, count: int, out: bytearray) -> None:
    out += section
    if len(body) < 255 and count < 128:
        out += bytes((values.MAP8, len(body) + 1, 2 * count))
    else:
        out += _PACK_MAP32(values.MAP32, len(body) + 4, 2 * count)
    out += body


# Cached: messages of an entity nearly always have the same few headers.
@functools.lru_cache(maxsize=1_024)
def _header(
    durable: Any, priority: int | None, ttl: int | None, first_acquirer: Any, delivery_count: int
) -> bytes:
    """Return a header section."""
    out = bytearray(_HEADER)
    fields = [
        durable if isinstance(durable, bool) else None,
        None if priority is None else Ubyte(min(priority, 255)),
        None if ttl is None else Uint(ttl),
        first_acquirer if isinstance(first_acquirer, bool) else None,
        Uint(delivery_count),
    ]
    encoding.write_list(fields, out)
    return bytes(out)


def _symbol(text: str) -> str | None:
    return amqp_values.symbol_or_text(text) if text else None


def _section(code: int) -> bytes:
    return bytes((values.DESCRIBED, values.SMALL_ULONG, code))


def _key(name: str) -> bytes:
    return encoding.encode(Symbol(name))


def _packer(*facts: tuple[bytes, str]) -> Callable[..., bytes]:
    return struct.Struct(">" + "".join(f"{len(key)}sB{form}" for key, form in facts)).pack


_HEADER: Final = _section(sections.HEADER)
_DELIVERY_ANNOTATIONS: Final = _section(sections.DELIVERY_ANNOTATIONS)
_MESSAGE_ANNOTATIONS: Final = _section(sections.MESSAGE_ANNOTATIONS)
_PROPERTIES: Final = _section(sections.PROPERTIES)
_APPLICATION_PROPERTIES: Final = _section(sections.APPLICATION_PROPERTIES)
_VALUE: Final = _section(sections.VALUE)
_SEQUENCE: Final = _section(sections.SEQUENCE)
_FOOTER: Final = _section(sections.FOOTER)
_PACK_MAP32: Final = struct.Struct(">BII").pack

_SEQUENCE_NUMBER: Final = _key(annotations.SEQUENCE_NUMBER)
_ENQUEUED_SEQUENCE_NUMBER: Final = _key(annotations.ENQUEUED_SEQUENCE_NUMBER)
_ENQUEUED_TIME: Final = _key(annotations.ENQUEUED_TIME)
_PARTITION_ID: Final = _key(annotations.PARTITION_ID)
_STATE: Final = _key(annotations.MESSAGE_STATE)
_LOCKED_UNTIL: Final = _key(annotations.LOCKED_UNTIL)
_PARTITION_KEY: Final = _key(annotations.PARTITION_KEY)
_SCHEDULED_ENQUEUE_TIME: Final = _key(annotations.SCHEDULED_ENQUEUE_TIME)
_DEAD_LETTER_SOURCE: Final = _key(annotations.DEAD_LETTER_SOURCE)
_NOT_OWN: Final = annotations.SET_BY_THE_BUS | annotations.IN_COLUMNS
_FACTS: Final = ((_SEQUENCE_NUMBER, "q"), (_ENQUEUED_TIME, "q"))
_PACK_UNLOCKED: Final = _packer(*_FACTS)
_PACK_LOCKED: Final = _packer(*_FACTS, (_LOCKED_UNTIL, "q"))
_PACK_FIRST_NUMBER: Final = _packer((_ENQUEUED_SEQUENCE_NUMBER, "q"))
_PACK_PARTITION: Final = _packer((_PARTITION_ID, "h"))
_PACK_STATE: Final = _packer((_STATE, "b"))
# With an empty section azure-servicebus shows a map, without it None.
_NO_DELIVERY_ANNOTATIONS: Final = _DELIVERY_ANNOTATIONS + bytes((values.MAP8, 1, 0))
# The section up to the bytes of the token.
_LOCK_TOKEN: Final = encoding.encode(
    values.Described(
        values.Ulong(sections.DELIVERY_ANNOTATIONS),
        {Symbol(annotations.LOCK_TOKEN): UUID(int=0)},
    )
)[: -lock_token.TOKEN_BYTES]
# Positions and names of the properties that may be escaped.
_ESCAPED_PROPERTIES: Final = (
    (0, "message-id"),
    (1, "user-id"),
    (2, "to"),
    (3, "subject"),
    (4, "reply-to"),
    (5, "correlation-id"),
    (6, "content-type"),
    (7, "content-encoding"),
    (12, "reply-to-group-id"),
)
