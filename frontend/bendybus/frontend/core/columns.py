"""Slices of column batches; the only place where the core touches messages one by one.

What carries messages and properties through the core, opaque to all other modules, is named here.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import Final, NamedTuple, TypeAlias

from bendybus.domain import bounds, errors, limits, lock_token, message_format
from bendybus.domain.errors import BusError
from bendybus.frontend.core.routing import Keys
from bendybus.v1 import message_pb2

# Messages on their way in and out, in columns; application properties.
MessageBatch: TypeAlias = message_pb2.MessageBatch
DeliveredBatch: TypeAlias = message_pb2.DeliveredBatch
Properties: TypeAlias = message_pb2.ValueMap

_SENT_COLUMNS: Final = tuple(message_pb2.MessageBatch.DESCRIPTOR.fields_by_name)
_DELIVERED_COLUMNS: Final = tuple(
    field.name
    for field in message_pb2.DeliveredBatch.DESCRIPTOR.fields
    if field.name not in ("partition", "lock_tokens", "locked_until_ms", "lock_remaining_ms")
)
# The value of a message in a column that is empty in its batch.
_NOTHING: Final[Mapping[str, object]] = {
    "message_ids": "",
    "partition_keys": "",
    "session_ids": "",
    "time_to_live_ms": 0,
    "scheduled_enqueue_time_ms": 0,
    "heads": b"",
    "formats": message_format.WHOLE,
}
_NESTED: Final = ("list_value", "map_value")


class SentRow(NamedTuple):
    """A message that a client sends, before it is in columns. Times in ms; 0 and None: not set."""

    body: bytes
    # Its properties; b"": it has none.
    head: bytes
    message_id: str | None
    partition_key: str
    session_id: str | None
    time_to_live_ms: int
    scheduled_enqueue_time_ms: int


def from_rows(rows: Sequence[SentRow], new_id: Callable[[], str]) -> MessageBatch:
    """Return messages in columns; one whose values are all defaults is left empty.

    `new_id`: returns an id for each message without one.
    """
    if not rows:
        return MessageBatch()
    bodies, heads, ids, keys, sessions, lives, due = zip(*rows, strict=True)
    batch = MessageBatch(messages=bodies)
    if any(heads):
        batch.heads.extend(heads)
        batch.formats.extend(
            [message_format.SPLIT if head else message_format.WHOLE for head in heads]
        )
    batch.message_ids.extend([new_id() if id_ is None else id_ for id_ in ids])
    if any(keys):
        batch.partition_keys.extend(keys)
    present = [session is not None for session in sessions]
    if any(present):
        batch.session_ids.extend([session or "" for session in sessions])
        if not all(present):
            batch.session_present.extend(present)
    if any(lives):
        batch.time_to_live_ms.extend(lives)
    if any(due):
        batch.scheduled_enqueue_time_ms.extend(due)
    return batch


def check_head(head: message_pb2.Message, size_bytes: int) -> None:
    """Raise MessageSizeExceeded for properties that are too large, each or together."""
    if size_bytes > limits.HEADER_BYTES_MAX:
        raise _too_large("all properties together", size_bytes, limits.HEADER_BYTES_MAX)
    for what, entries in (
        ("application-properties", head.application_properties),
        ("annotations", head.annotations),
    ):
        for name, value in entries.items():
            if value.ByteSize() > limits.PROPERTY_BYTES_MAX:
                raise _too_large(
                    f"{what}[{name!r:.80}]", value.ByteSize(), limits.PROPERTY_BYTES_MAX
                )


def _too_large(what: str, size: int, most: int) -> BusError:
    return errors.MessageSizeExceeded(
        f"{what}: must be at most {most} bytes (got {size}); put large values into the body."
    )


def check_properties(properties: message_pb2.ValueMap) -> None:
    """Raise InvalidArgument unless application properties are simple values of known types.

    A frame to a partition is nested deeper than the client's. Properties as deep as can be read
    here could not be read there, and would end the stream that all clients share; the same goes
    for fields of unknown types, which may be nested, too.
    """
    size_bytes = properties.ByteSize()
    properties.DiscardUnknownFields()
    if properties.ByteSize() != size_bytes:
        raise errors.InvalidArgument("changed_properties", "must have fields of known types only.")
    for name, value in properties.entries.items():
        if value.WhichOneof("kind") in _NESTED:
            raise errors.InvalidArgument(
                "changed_properties",
                f"{name[: limits.KEY_CHARS_MAX]!r} must be a simple value, not a list or a map.",
            )


def count(batch: message_pb2.MessageBatch) -> int:
    """Return how many messages there are."""
    return len(batch.messages)


def keys(batch: message_pb2.MessageBatch) -> Keys:
    """Return the columns that routing reads."""
    return Keys(
        len(batch.messages),
        batch.message_ids,
        batch.partition_keys,
        batch.session_ids,
        batch.session_present,
    )


def all_in_sessions(batch: message_pb2.MessageBatch) -> bool:
    """Whether each message has a session."""
    return bool(batch.session_ids) and all(batch.session_present)


def faults(batch: message_pb2.MessageBatch) -> dict[int, BusError]:
    """Return why messages, by index, cannot be sent: a text or a number out of its bounds."""
    expected = len(batch.messages)
    for field, column in batch.ListFields():
        if len(column) != expected:
            raise errors.InvalidArgument(
                field.name, f"has {len(column)} entries for {expected} messages."
            )
    if batch.formats or batch.heads:
        message_format.check(batch.heads, batch.formats)
    columns = (
        batch.message_ids,
        batch.partition_keys,
        batch.session_ids,
        batch.time_to_live_ms,
        batch.scheduled_enqueue_time_ms,
    )
    return {} if bounds.messages_fit(*columns) else dict(bounds.message_faults(*columns))


def sizes(batch: message_pb2.MessageBatch) -> list[int]:
    """Return the bytes of each message that count to the limit of a batch."""
    found = content_sizes(batch)
    for column in (batch.message_ids, batch.partition_keys, batch.session_ids):
        for i, text in enumerate(column):
            found[i] += len(text)
    return found


def content_sizes(batch: message_pb2.MessageBatch | message_pb2.DeliveredBatch) -> list[int]:
    """Return the bytes of each message: its head and its body."""
    bodies = map(len, batch.messages)
    return list(map(add, bodies, map(len, batch.heads)) if batch.heads else bodies)


def delivered_sizes(batch: message_pb2.DeliveredBatch) -> list[int]:
    """Return the bytes of each message, with what receivers changed and noted."""
    found = content_sizes(batch)
    for column in (
        batch.changed_properties,
        batch.dead_letter_reasons,
        batch.dead_letter_error_descriptions,
    ):
        if column:
            found = list(map(add, found, map(len, column)))
    return found


def pick(
    batch: message_pb2.MessageBatch, spans: Sequence[tuple[int, int]]
) -> message_pb2.MessageBatch:
    """Return the messages of `spans` [start, end), in their order."""
    picked = message_pb2.MessageBatch()
    for name in _SENT_COLUMNS:
        column = getattr(batch, name)
        if column:
            target = getattr(picked, name)
            for start, end in spans:
                target.extend(column[start:end])
    return picked


def joined(batches: Sequence[message_pb2.MessageBatch]) -> message_pb2.MessageBatch:
    """Return the messages of all batches, in their order."""
    made = message_pb2.MessageBatch()
    names = [tuple(field.name for field, _ in batch.ListFields()) for batch in batches]
    if len(set(names)) == 1:
        for batch in batches:
            made.MergeFrom(batch)
        return made
    used = {name for each in names for name in each}
    if "session_ids" in used:
        # A batch without it may have a session for each message, or for none.
        used.add("session_present")
    for name in filter(used.__contains__, _SENT_COLUMNS):
        target = getattr(made, name)
        for batch in batches:
            nothing = bool(batch.session_ids) if name == "session_present" else _NOTHING.get(name)
            target.extend(getattr(batch, name) or [nothing] * len(batch.messages))
    return made


def cut(batch: message_pb2.DeliveredBatch, start: int, end: int) -> message_pb2.DeliveredBatch:
    """Return messages [start, end) of a delivery."""
    if start == 0 and end == len(batch.messages):
        return batch
    part = message_pb2.DeliveredBatch(
        partition=batch.partition,
        lock_tokens=tokens(batch, start, end),
        locked_until_ms=batch.locked_until_ms,
    )
    for name in _DELIVERED_COLUMNS:
        column = getattr(batch, name)
        if column:
            getattr(part, name).extend(column[start:end])
    return part


def without(
    batch: message_pb2.DeliveredBatch, lost: Sequence[int]
) -> list[message_pb2.DeliveredBatch]:
    """Return the delivery without the messages at these indexes."""
    kept, start = [], 0
    for index in [*sorted(lost), len(batch.messages)]:
        if index > start:
            kept.append(cut(batch, start, index))
        start = index + 1
    return kept


def token_set(lock_tokens: bytes) -> frozenset[bytes]:
    """Return lock tokens, one after the other, as a set."""
    size = lock_token.TOKEN_BYTES
    return frozenset(lock_tokens[at : at + size] for at in range(0, len(lock_tokens), size))


def tokens(batch: message_pb2.DeliveredBatch, start: int, end: int) -> bytes:
    """Return the lock tokens of messages [start, end)."""
    size = lock_token.TOKEN_BYTES
    return batch.lock_tokens[start * size : end * size]
