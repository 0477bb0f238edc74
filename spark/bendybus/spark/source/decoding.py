"""Pages become columns: lists of values, which source/readers.py makes Arrow of. No Arrow here.

A message is a head (properties) and a body, each a serialised Message, or one that is whole.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from bendybus.domain import message_format
from bendybus.spark.property_texts import text_of
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Message
from bendybus.wire import delivered_properties

_EMPTY: Final = Message()
_STATES: Final = {
    message_pb2.MESSAGE_STATE_ACTIVE: "active",
    message_pb2.MESSAGE_STATE_DEFERRED: "deferred",
    message_pb2.MESSAGE_STATE_SCHEDULED: "scheduled",
}
# 9999-12-30 in UTC, which is before the last datetime in every zone.
_DATETIME_US_MAX: Final = 253_402_128_000 * 1_000_000
_BODY_FIELDS: Final = ("data", "value", "sequences", "footer")


class Columns:
    """The messages of one page, column by column; each is decoded when it is first needed."""

    def __init__(self, batch: Any, path: str, range_: str = "") -> None:
        self._batch = batch
        self._range = range_
        self._path = path
        self._heads: Sequence[Message] | None = None
        self._payloads: Sequence[Message] | None = None
        self._rows: dict[str, list[Any]] | None = None
        self.count = len(batch.sequence_numbers)

    def column(self, name: str) -> list[Any]:
        """Return the values of a column; times in microseconds since 1970."""
        return _COLUMNS[name](self)

    def constant(self, name: str) -> Any:
        """Return the value that all messages have; None if they may differ."""
        if name == "partition":
            return self._batch.partition
        if name == "entity":
            return self._path
        if name == "range":
            return self._range
        return "active" if name == "state" and not self._batch.states else None

    def is_null(self, name: str) -> bool:
        """Whether no message has a value, without decoding any."""
        source = _SOURCES.get(name)
        if source is not None:
            return not getattr(self._batch, source)
        return (
            name in _IN_HEAD
            and not self._batch.heads
            and message_format.WHOLE not in (self._batch.formats or (message_format.WHOLE,))
        )

    def sessions(self) -> list[str | None]:
        """Return the session of each message."""
        return self._sessions()

    def row(self, index: int) -> dict[str, Any]:
        """Return all columns of one message; properties as a dictionary."""
        if self._rows is None:
            self._rows = {name: read(self) for name, read in _COLUMNS.items()}
        values = {name: column[index] for name, column in self._rows.items()}
        values["properties"] = dict(values["properties"] or ())
        return values

    def head_and_body(self, index: int) -> tuple[bytes, bytes]:
        """Return a message as it is stored; without a head the body is the whole message."""
        head = self._batch.heads[index] if self._batch.heads else b""
        return head, self._batch.messages[index]

    def text(self, source: str, index: int) -> str:
        """Return a text of one message, "" if it has none; `source` is a column of the page."""
        values = getattr(self._batch, source)
        return str(values[index]) if values else ""

    def changes(self, index: int) -> bytes:
        """Return the properties that receivers changed, serialised; b"": none."""
        changed = self._batch.changed_properties
        return bytes(changed[index]) if changed else b""

    def head_bytes(self) -> list[bytes]:
        """Return the head of each message, serialised."""
        if self._batch.heads:
            pairs = zip(self._batch.heads, self._batch.messages, self._formats(), strict=True)
            return [
                head if kind == message_format.SPLIT else _head_of(body)
                for head, body, kind in pairs
            ]
        return [
            b"" if kind == message_format.SPLIT else _head_of(body)
            for body, kind in zip(self._batch.messages, self._formats(), strict=True)
        ]

    def _formats(self) -> Sequence[int]:
        return self._batch.formats or [message_format.WHOLE] * self.count

    def _parsed(self) -> Sequence[Message]:
        """Return what is beside the heads, parsed: bodies, or whole messages."""
        if self._payloads is None:
            self._payloads = _messages(self._batch.messages, _raw)
        return self._payloads

    def _parsed_heads(self) -> Sequence[Message]:
        if self._heads is None:
            formats = self._batch.formats
            if not formats or message_format.SPLIT not in formats:
                self._heads = self._parsed()
            else:
                heads = self._batch.heads or [b""] * self.count
                pairs = zip(heads, self._batch.messages, formats, strict=True)
                self._heads = _messages(
                    [
                        head if kind == message_format.SPLIT else payload
                        for head, payload, kind in pairs
                    ],
                    lambda _: _EMPTY,
                )
        return self._heads

    def _bodies(self) -> list[bytes | None]:
        return [
            message.data[0] if len(message.data) == 1 else _other_body(message)
            for message in self._parsed()
        ]

    def _properties(self) -> list[list[tuple[str, str | None]] | None]:
        heads: Sequence[Message] = self._parsed_heads()
        batch, none = self._batch, [""] * self.count
        added = zip(
            batch.changed_properties or [b""] * self.count,
            batch.dead_letter_reasons or none,
            batch.dead_letter_error_descriptions or none,
            strict=True,
        )
        found: list[list[tuple[str, str | None]] | None] = []
        for head, (changed, reason, description) in zip(heads, added, strict=True):
            own = head.application_properties
            entries = delivered_properties.merged(own, changed, reason, description)
            found.append([(name, text_of(value)) for name, value in entries.items()] or None)
        return found

    def _texts(self, field: str) -> list[str | None]:
        return [getattr(head, field) or None for head in self._parsed_heads()]

    def _sessions(self) -> list[str | None]:
        ids, present = self._batch.session_ids, self._batch.session_present
        if not ids:
            return [None] * self.count
        if not present:
            return list(ids)
        return [name if has else None for name, has in zip(ids, present, strict=True)]

    def _given(self, source: str) -> list[Any]:
        """Return a column of the page; an empty text or a 0 is none."""
        return [value or None for value in getattr(self._batch, source)] or [None] * self.count

    def _times(self, source: str) -> list[int | None]:
        # The bus takes times up to the end of the year 9999 in UTC: too late for zones east of it.
        given = self._given(source)
        return [min(value * 1_000, _DATETIME_US_MAX) if value else None for value in given]

    def _expiries(self) -> list[int | None]:
        lives = self._batch.time_to_live_ms
        if not lives:
            return [None] * self.count
        pairs = zip(self._batch.enqueued_time_ms, lives, strict=True)
        ends = ((then + ms) * 1_000 if ms else None for then, ms in pairs)
        # What ends later than any datetime does not end: neither Python nor JSON could show it.
        return [None if end is None or end > _DATETIME_US_MAX else end for end in ends]

    def _states(self) -> list[str]:
        if not self._batch.states:
            return ["active"] * self.count
        return [_STATES.get(state, "active") for state in self._batch.states]


def _messages(serialised: Sequence[bytes], otherwise: Callable[[bytes], Message]) -> list[Message]:
    """Return messages, parsed. What a sender of another make wrote may be none."""
    try:
        return list(map(Message.FromString, serialised))
    except DecodeError:
        return [_message(each, otherwise) for each in serialised]


def _message(serialised: bytes, otherwise: Callable[[bytes], Message]) -> Message:
    try:
        return Message.FromString(serialised)
    except DecodeError:
        return otherwise(serialised)


def _raw(serialised: bytes) -> Message:
    """Return a message that has the bytes as its body: nothing of it is lost."""
    return Message(data=[serialised])


def json_of(value: message_pb2.Value) -> Any:
    """Return a value of a body as JSON has it."""
    kind = value.WhichOneof("kind")
    if kind == "list_value":
        return [json_of(each) for each in value.list_value.values]
    if kind == "map_value":
        return {name: json_of(each) for name, each in value.map_value.entries.items()}
    if kind in ("bool_value", "float_value", "double_value") or (kind or "").startswith(_INTEGERS):
        found = getattr(value, kind or "")
        # JSON has no NaN and no infinite number.
        return found if math.isfinite(found) else text_of(value)
    return text_of(value)


def _other_body(message: Message) -> bytes | None:
    if message.data:
        return b"".join(message.data)
    if message.sequences:
        rows = [[json_of(value) for value in part.values] for part in message.sequences]
        return _json(rows[0] if len(rows) == 1 else rows)
    kind = message.value.WhichOneof("kind")
    if kind == "string_value":
        return message.value.string_value.encode()
    if kind == "binary_value":
        return message.value.binary_value
    return None if kind in (None, "null_value") else _json(json_of(message.value))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def body_of(payload: bytes) -> bytes:
    """Return what is the body of a message, without its properties if it is whole."""
    message = Message.FromString(payload)
    for field, _ in message.ListFields():
        if field.name not in _BODY_FIELDS:
            message.ClearField(field.name)
    return message.SerializeToString(deterministic=True)


def _head_of(whole: bytes) -> bytes:
    message = _message(whole, lambda _: Message())
    for field in _BODY_FIELDS:
        message.ClearField(field)
    return message.SerializeToString(deterministic=True)


_INTEGERS: Final = ("ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long")
# What is in the head only.
_IN_HEAD: Final = {
    "correlation_id": "correlation_id",
    "subject": "subject",
    "content_type": "content_type",
    "to": "to",
    "reply_to": "reply_to",
}
# What is a column of the page.
_SOURCES: Final = {
    "message_id": "message_ids",
    "session_id": "session_ids",
    "partition_key": "partition_keys",
    "enqueued_sequence_number": "enqueued_sequence_numbers",
    "dead_letter_reason": "dead_letter_reasons",
    "dead_letter_description": "dead_letter_error_descriptions",
    "dead_letter_source": "dead_letter_sources",
    "scheduled_at": "scheduled_enqueue_time_ms",
    "expires_at": "time_to_live_ms",
}
_COLUMNS: Final[dict[str, Callable[[Columns], list[Any]]]] = {
    "partition": lambda page: [page._batch.partition] * page.count,
    "sequence_number": lambda page: list(page._batch.sequence_numbers),
    "message_id": lambda page: page._given("message_ids"),
    "session_id": Columns._sessions,
    "partition_key": lambda page: page._given("partition_keys"),
    **{
        name: lambda page, field=field: page._texts(field)  # type: ignore[misc]
        for name, field in _IN_HEAD.items()
    },
    "body": Columns._bodies,
    "properties": Columns._properties,
    "enqueued_at": lambda page: [ms * 1_000 for ms in page._batch.enqueued_time_ms],
    "scheduled_at": lambda page: page._times("scheduled_enqueue_time_ms"),
    "expires_at": Columns._expiries,
    "delivery_count": lambda page: list(page._batch.delivery_counts) or [0] * page.count,
    "state": Columns._states,
    "enqueued_sequence_number": lambda page: page._given("enqueued_sequence_numbers"),
    "dead_letter_reason": lambda page: page._given("dead_letter_reasons"),
    "dead_letter_description": lambda page: page._given("dead_letter_error_descriptions"),
    "dead_letter_source": lambda page: page._given("dead_letter_sources"),
    "entity": lambda page: [page._path] * page.count,
    "head": Columns.head_bytes,
    "range": lambda page: [page._range] * page.count,
}
