"""Rows become messages in the columns of the contract, each for one partition. No Arrow, no Spark.

Which partition a row goes to is the same in every attempt at a task.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from bendybus.domain import limits, message_format, partitioning
from bendybus.domain.errors import InvalidOperation
from bendybus.spark.errors import RowError
from bendybus.spark.property_texts import text_of
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Message

# What surrounds a message in a frame: tags, lengths, numbers.
OVERHEAD_BYTES: Final = 32
# Of a character of a key, at most.
CHAR_BYTES: Final = 4
TEXTS: Final = ("content_type", "correlation_id", "subject", "to", "reply_to")
_KEYS: Final = ("message_id", "session_id", "partition_key")
_NULL_BODY: Final = Message(value=message_pb2.Value(null_value=True)).SerializeToString()
# Rows in a row that go to one partition, where any would do.
RUN: Final = 500


class Encoded(NamedTuple):
    """A message as it is sent."""

    head: bytes
    body: bytes
    message_id: str
    partition_key: str
    session_id: str | None
    time_to_live_ms: int
    scheduled_ms: int
    # What it takes in a frame.
    size_bytes: int
    # It has a body only, and an id that follows from its place.
    plain: bool = False

    def feed(self, digest: Any) -> None:
        """Add the message to a digest. A body begins with its length, and never with a bracket."""
        if not self.plain:
            facts = repr((len(self.head), self[2:7])).encode("utf-8", "surrogatepass")
            digest.update(facts + self.head)
        digest.update(self.body)

    def key(self, detects_duplicates: bool) -> str | None:
        """Return what decides its partition; None: any. Raises RowError."""
        if self.session_id is None and not self.partition_key and not detects_duplicates:
            return None
        try:
            return partitioning.effective_key(
                session_id=self.session_id,
                partition_key=self.partition_key,
                message_id=self.message_id,
                detects_duplicates=detects_duplicates,
            )
        except InvalidOperation as error:
            raise RowError(error.message) from None


def encode(row: Mapping[str, Any], default_id: str) -> Encoded:
    """Return the message of a row: values by column. Raises RowError without the row's place."""
    body = _body(row.get("body"))
    if len(row) == 1:
        # Only a body: by far the cheapest, and frequent.
        size_bytes = len(body) + CHAR_BYTES * len(default_id) + OVERHEAD_BYTES
        return Encoded(b"", body, default_id, "", None, 0, 0, size_bytes, True)
    for name in _KEYS:
        text = row.get(name)
        if text is not None and len(text) > limits.KEY_CHARS_MAX:
            raise RowError(
                f"{name}: must be at most {limits.KEY_CHARS_MAX} characters (got {len(text)})"
            )
    life = row.get("time_to_live_ms")
    if life is not None and life < 1:
        raise RowError(f"time_to_live_ms: must be positive, or null for none (got {life})")
    return message(
        _head(row),
        body,
        row.get("message_id") or default_id,
        row.get("partition_key") or "",
        row.get("session_id"),
        min(life or 0, limits.TIME_TO_LIVE_MS_MAX),
        row.get("scheduled_enqueue_time") or 0,
    )


def message(
    head: bytes,
    body: bytes,
    message_id: str,
    partition_key: str = "",
    session_id: str | None = None,
    time_to_live_ms: int = 0,
    scheduled_ms: int = 0,
) -> Encoded:
    """Return a message of its parts."""
    characters = len(message_id) + len(partition_key) + len(session_id or "")
    size_bytes = len(head) + len(body) + CHAR_BYTES * characters + OVERHEAD_BYTES
    times = (time_to_live_ms, scheduled_ms)
    return Encoded(head, body, message_id, partition_key, session_id, *times, size_bytes)


def batch_of(messages: Sequence[Encoded]) -> message_pb2.MessageBatch:
    """Return messages as a batch of the contract."""
    batch = message_pb2.MessageBatch(
        messages=[each.body for each in messages],
        message_ids=[each.message_id for each in messages],
    )
    if any(each.head for each in messages):
        batch.heads.extend(each.head for each in messages)
        batch.formats.extend(
            message_format.SPLIT if each.head else message_format.WHOLE for each in messages
        )
    if any(each.partition_key for each in messages):
        batch.partition_keys.extend(each.partition_key for each in messages)
    present = [each.session_id is not None for each in messages]
    if any(present):
        batch.session_ids.extend(each.session_id or "" for each in messages)
        if not all(present):
            batch.session_present.extend(present)
    if any(each.time_to_live_ms for each in messages):
        batch.time_to_live_ms.extend(each.time_to_live_ms for each in messages)
    if any(each.scheduled_ms for each in messages):
        batch.scheduled_enqueue_time_ms.extend(each.scheduled_ms for each in messages)
    return batch


def _head(row: Mapping[str, Any]) -> bytes:
    stored = row.get("head")
    texts = [name for name in TEXTS if name in row]
    if not stored and row.get("properties") is None and all(row[name] is None for name in texts):
        return b""
    try:
        head = Message.FromString(stored) if stored else Message()
    except DecodeError:
        raise RowError("head: must be what a read returned in this column, or null") from None
    if not texts and "properties" not in row:
        return stored or b""
    # Columns win over the head that was stored, even a null: values that are not changed are equal.
    for name in texts:
        if row[name] is None:
            head.ClearField(name)
        else:
            setattr(head, name, row[name])
    if "properties" in row:
        _set_properties(head.application_properties, dict(row["properties"] or ()))
    # The same bytes in every attempt: digests are of them.
    made = head.SerializeToString(deterministic=True)
    if len(made) > limits.HEADER_BYTES_MAX:
        raise RowError(
            f"properties: must be at most {limits.HEADER_BYTES_MAX} bytes together "
            f"(got {len(made)}); put large values into the body"
        )
    return made


def _set_properties(entries: Any, texts: Mapping[str, str | None]) -> None:
    """Set properties to texts, except those that are that already, as another type."""
    for name in [each for each in entries if each not in texts]:
        del entries[name]
    for name, text in texts.items():
        if name in entries and text_of(entries[name]) == text:
            continue
        if text is None:
            entries[name].null_value = True
        else:
            entries[name].string_value = text


def _body(value: bytes | str | None) -> bytes:
    if value is None:
        return _NULL_BODY
    data = value.encode() if isinstance(value, str) else value
    return _prefix(len(data)) + data


@functools.lru_cache(maxsize=4_096)
def _prefix(length: int) -> bytes:
    """Return what stands before a body of a length: field 1 of a Message, the length."""
    return b"\n" + _varint(length)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


@dataclass(frozen=True, slots=True)
class Target:
    """What a task has to know of the entity that it writes to."""

    path: str
    partitions: tuple[int, ...]
    partition_of: Callable[[str], int]
    detects_duplicates: bool
    requires_session: bool
    message_bytes_max: int


def partition_of(target: Target, message: Encoded, task: int, row: int) -> int:
    """Return the partition of a row. Raises RowError."""
    if target.requires_session and message.session_id is None:
        raise RowError(f"session_id: is required; {target.path} has sessions")
    size_bytes = len(message.head) + len(message.body)
    if size_bytes > target.message_bytes_max:
        raise RowError(
            f"body: the message has {size_bytes} bytes; {target.path} takes at most "
            f"{target.message_bytes_max}"
        )
    key = message.key(target.detects_duplicates)
    if key is not None:
        return target.partition_of(key)
    return target.partitions[(task + row // RUN) % len(target.partitions)]
