"""The part of a redrive that runs on executors: listed dead letters of one partition are moved.

    page ──► listed? ──► copy ──► frame for its partition ──► stored ──► removed by number

A page is removed only after all frames of it are stored. What an earlier attempt stored is only
removed; see `Stored`.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.message import DecodeError

from bendybus.client import ServiceBusClient
from bendybus.client.exceptions import InvalidOperationError, MessageSizeExceededError
from bendybus.spark import columns as names
from bendybus.spark.bus import browser_of
from bendybus.spark.errors import PipelineError, RowError
from bendybus.spark.options import Entity
from bendybus.spark.property_texts import text_of
from bendybus.spark.sink import messages
from bendybus.spark.sink.messages import Encoded
from bendybus.spark.source import decoding
from bendybus.spark.source.decoding import Columns, body_of
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Message

logger = logging.getLogger(__name__)
PAGE_MESSAGES: Final = 1_000
FRAME_BYTES: Final = 900_000
PRODUCER_BYTES: Final = 16
# Attempts of one plan do the same: they have one epoch.
EPOCH: Final = 1
ORIGINAL_ID: Final = "ResubmittedMessageId"
# What dead-lettering added to the properties.
ADDED: Final = ("DeadLetterReason", "DeadLetterErrorDescription")
# As many bits as a mark has room for.
PLACES: Final = 500
_MARK_BYTES: Final = (PLACES + 7) // 8
Fix = Callable[[dict[str, Any]], dict[str, Any] | None]
_TIMES: Final = ("enqueued_at", "scheduled_at", "expires_at")
_SCHEDULED: Final = "scheduled_enqueue_time"
_KNOWN: Final = {*names.ALL, *names.BY_WRITTEN}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Task:
    """Dead letters of one partition, by number, and their places in the plan: 1 and up."""

    plan: str
    source: Entity
    destination: str
    partition: int
    # Of the numbers; "": not known.
    incarnation: str
    numbers: Sequence[int]
    # Of the drain lease that the driver holds.
    owner: str
    epoch: int
    properties: Mapping[str, str]
    timeout_s: float

    @property
    def producer_id(self) -> bytes:
        """Who sends: the plan, for this partition."""
        name = f"redrive\0{self.plan}\0{self.partition}"
        return hashlib.blake2b(name.encode(), digest_size=PRODUCER_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Moved:
    """The outcome of a redrive, in dead letters; `repeated`: an earlier attempt had sent them.

    `refused`: those that stay, since their copies are too large, by number; each with why.
    """

    sent: int = 0
    repeated: int = 0
    duplicates: int = 0
    removed: int = 0
    refused: tuple[tuple[int, str], ...] = ()

    def __add__(self, other: "Moved") -> "Moved":
        return Moved(
            self.sent + other.sent,
            self.repeated + other.repeated,
            self.duplicates + other.duplicates,
            self.removed + other.removed,
            self.refused + other.refused,
        )


def move(client: ServiceBusClient, task: Task, fix: Fix | None = None) -> Moved:
    """Move the dead letters of a task; what is gone already is no error."""
    from bendybus.client import DrainLease

    browser = browser_of(client, task.source)
    lease = DrainLease(browser, task.owner, 60, epoch=task.epoch)
    sender = client.get_partition_sender(queue_name=task.destination)
    target = sender.describe_partitions(timeout=task.timeout_s)
    places = {number: place for place, number in enumerate(task.numbers, 1)}
    partitions = [each.partition for each in target.partitions]
    stored = Stored(
        partitions, lambda where: sender.fence(where, task.producer_id, timeout=task.timeout_s)
    )
    done = Moved()
    for page in _pages(browser, task):
        if task.incarnation not in ("", page.incarnation):
            raise PipelineError(
                f"{task.source.path}, partition {task.partition}: was made again, or restored, "
                "since this was planned; its numbers mean other messages now. Start again, "
                "without this checkpoint"
            )
        columns = decoding.Columns(page.batch, task.source.path)
        frames = _Frames(target, task.partition)
        listed = []
        for index, number in enumerate(page.batch.sequence_numbers):
            place = places.get(number)
            if place is None:
                continue
            if stored.has(place):
                done += Moved(repeated=1)
                listed.append(number)
                continue
            made = copied(columns, index, task, own_id=target.detects_duplicates, fix=fix)
            if made is None:
                continue
            where = frames.partition_of(made)
            if stored.passed(where, place):
                logger.warning(
                    "%s: dead letter %d is left: when this run began, --fix left it, or changed "
                    "its key, or its copy was too large; run the command once more",
                    task.source.path,
                    number,
                )
                continue
            listed.append(number)
            frames.add(where, place, made)
        for where, ordinals, frame in frames.taken():
            done += _sent(sender, task, stored, where, ordinals, frame)
        left = {number for number, _ in done.refused}
        listed = [number for number in listed if number not in left]
        if listed:
            # STRICTLY AFTER all of them are stored.
            removed = lease.settle(
                task.partition, listed, incarnation=page.incarnation, timeout=task.timeout_s
            )
            done += Moved(removed=removed)
    return done


def _pages(browser: Any, task: Task) -> Iterator[Any]:
    """Yield pages, none of which goes over a multiple of PLACES: a mark is of so many."""
    for first in range(0, len(task.numbers), PLACES):
        span = task.numbers[first : first + PLACES]
        after, complete = span[0] - 1, False
        while not complete:
            page = browser.browse(
                task.partition,
                after=after,
                upto=span[-1],
                max_messages=PAGE_MESSAGES,
                timeout=task.timeout_s,
            )
            yield page
            after, complete = page.next_after, page.complete


class _Frames:
    """The frames of one page, by partition of the destination, in order."""

    def __init__(self, target: Any, source_partition: int) -> None:
        self._target = target
        partitions = [each.partition for each in target.partitions]
        # Where any would do: always the same, or a repeat would be stored twice.
        self._keyless = partitions[source_partition % len(partitions)]
        self._by_partition: dict[int, list[tuple[int, Encoded]]] = {}

    def partition_of(self, message: Encoded) -> int:
        """Return where a message is sent."""
        key = message.key(self._target.detects_duplicates)
        return self._keyless if key is None else int(self._target.partition_of(key))

    def add(self, where: int, place: int, message: Encoded) -> None:
        """Put a message into the frame for its partition."""
        self._by_partition.setdefault(where, []).append((place, message))

    def taken(self) -> Iterator[tuple[int, list[int], list[Encoded]]]:
        """Yield (partition, ordinals, messages), each within the bounds of a call."""
        for where, pairs in sorted(self._by_partition.items()):
            ordinals: list[int] = []
            made: list[Encoded] = []
            size_bytes = 0
            for place, message in pairs:
                if made and size_bytes + message.size_bytes > FRAME_BYTES:
                    yield where, ordinals, made
                    ordinals, made, size_bytes = [], [], 0
                ordinals.append(place)
                made.append(message)
                size_bytes += message.size_bytes
            yield where, ordinals, made


class Stored:
    """What is stored in each partition. `fence_of`: asks a partition."""

    def __init__(self, partitions: Sequence[int], fence_of: Callable[[int], Any]) -> None:
        self._fence_of = fence_of
        self._upto: dict[int, int] = {}
        self._places: dict[int, set[int]] = {}
        for partition in partitions:
            self.look(partition)

    def look(self, partition: int) -> None:
        """Ask a partition."""
        fence = self._fence_of(partition)
        first, bits = _first(fence.ordinal), int.from_bytes(fence.mark, "little")
        self._upto[partition] = fence.ordinal
        self._places[partition] = {first + bit for bit in range(PLACES) if bits >> bit & 1}

    def has(self, place: int) -> bool:
        """Whether a place is stored, in whatever partition."""
        return any(place in places for places in self._places.values())

    def passed(self, partition: int, place: int) -> bool:
        """Whether the partition would pass over a place, as if it were stored."""
        return place <= self._upto[partition]

    def mark(self, partition: int, ordinals: Sequence[int]) -> bytes:
        """Return the mark of a frame, whose ordinals are all of one span."""
        first = _first(ordinals[-1])
        bits = sum(1 << place - first for place in self._with(partition, ordinals))
        return bits.to_bytes(_MARK_BYTES, "little")

    def took(self, partition: int, ordinals: Sequence[int]) -> None:
        """Note what a partition stored."""
        self._upto[partition] = max(self._upto[partition], ordinals[-1])
        self._places[partition] = self._with(partition, ordinals)

    def _with(self, partition: int, ordinals: Sequence[int]) -> set[int]:
        """Return what is stored of the span of a frame, with that frame."""
        first = _first(ordinals[-1])
        return {place for place in self._places[partition] if place >= first}.union(ordinals)


def _sent(
    sender: Any, task: Task, stored: Stored, where: int, ordinals: list[int], frame: list[Encoded]
) -> Moved:
    """Send a frame, in smaller ones if a topic would make too many copies of it at once.

    Or if a message of it is too large: others are sent without it.
    """
    try:
        sent = sender.send(
            where,
            messages.batch_of(frame),
            producer_id=task.producer_id,
            epoch=EPOCH,
            ordinals=ordinals,
            mark=stored.mark(where, ordinals),
            timeout=task.timeout_s,
        )
    except (InvalidOperationError, MessageSizeExceededError) as error:
        # Nothing of it is stored.
        if len(frame) == 1:
            if isinstance(error, MessageSizeExceededError):
                return Moved(refused=((task.numbers[ordinals[0] - 1], str(error)),))
            raise
        half = len(frame) // 2
        first = _sent(sender, task, stored, where, ordinals[:half], frame[:half])
        return first + _sent(sender, task, stored, where, ordinals[half:], frame[half:])
    if sent.repeated:
        stored.look(where)
        if not all(map(stored.has, ordinals)):
            raise PipelineError(
                f"{task.source.path}, partition {task.partition}: another attempt of this redrive "
                "sends as well; wait until it has ended, then start the command again"
            )
    stored.took(where, ordinals)
    return Moved(sent.stored, sent.repeated, sent.duplicates)


def copied(
    columns: decoding.Columns, index: int, task: Task, *, own_id: bool, fix: Fix | None
) -> Encoded | None:
    """Return a dead letter as it is sent again, without the properties of dead-lettering.

    None: the function leaves it.

    `own_id`: where duplicates are detected, the copy gets an id of its own, always the same, and
    the original one is kept in a property.
    """
    changes = b""
    if fix is not None:
        fixed = _fixed_message(columns, index, fix)
        if fixed is None:
            return None
        message, head, body = fixed, fixed.head, fixed.body
    else:
        changes = columns.changes(index)
        head, body = columns.head_and_body(index)
        message = messages.message(
            head,
            body,
            columns.text("message_ids", index),
            columns.text("partition_keys", index),
            columns.sessions()[index],
        )
    message_id = message.message_id
    properties = dict(task.properties)
    number = columns.column("sequence_number")[index]
    if own_id:
        if message_id:
            properties.setdefault(ORIGINAL_ID, message_id)
        message_id = own_id_of(task.source.path, message_id, number)
    try:
        head, body = with_properties(head, body, changes, properties)
    except DecodeError:
        raise PipelineError(
            f"{task.source.path}: dead letter {number}: its sender wrote content that is not a "
            f"valid message; complete it, or leave it out: --where 'sequence_number <> {number}'"
        ) from None
    times = (message.time_to_live_ms, message.scheduled_ms)
    return messages.message(
        head, body, message_id, message.partition_key, message.session_id, *times
    )


def own_id_of(source: str, message_id: str, number: int) -> str:
    """Return the same id for the same dead letter, and another one for every other."""
    name = f"{source}\n{message_id}\n{number}"
    return f"redrive-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def with_properties(
    head: bytes, body: bytes, changes: bytes, properties: Mapping[str, str]
) -> tuple[bytes, bytes]:
    """Return head and body with application properties changed and set.

    An empty head: the body is the whole message.
    """
    whole = not head
    message = Message.FromString(body if whole else head)
    entries = message.application_properties
    before = message.SerializeToString(deterministic=True)
    if changes:
        for name, value in message_pb2.ValueMap.FromString(changes).entries.items():
            entries[name].CopyFrom(value)
    for name in ADDED:
        if name in entries:
            del entries[name]
    for name, text in properties.items():
        if name not in entries or text_of(entries[name]) != text:
            entries[name].string_value = text
    made = message.SerializeToString(deterministic=True)
    if made == before:
        # Byte for byte as it was sent.
        return head, body
    return (head, made) if whole else (made, body)


def _first(ordinal: int) -> int:
    """Return the first place of the span of an ordinal."""
    return max(0, ordinal - 1) // PLACES * PLACES + 1


def call_fix(fix: Fix, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a function makes of a row; None: it is left. Raises PipelineError."""
    where = f"--fix: at dead letter {row['sequence_number']}"
    try:
        fixed = fix({**row, "properties": dict(row["properties"] or ())})
    except Exception as error:  # a boundary: the function is the user's
        raise PipelineError(f"{where} the function failed with {error!r}; correct it") from error
    if fixed is None:
        return None
    if not isinstance(fixed, dict):
        raise PipelineError(
            f"{where} the function returned {fixed!r:.80}; return the dictionary, or None to leave "
            "the message"
        )
    unknown = sorted(map(str, fixed.keys() - _KNOWN))
    if unknown:
        raise PipelineError(
            f"{where} the function returned {', '.join(unknown)}, which a message does not have; "
            f"it has {', '.join(sorted(_KNOWN))}"
        )
    return fixed


def _fixed_message(page: Columns, index: int, fix: Fix) -> Encoded | None:
    """Return a dead letter as a function corrects it; None: it is left. Raises PipelineError.

    A value that is None is none in the message, and a property that is not returned is gone. What
    is not changed keeps its type, the body too.
    """
    row = page.row(index)
    for name in _TIMES:
        if row[name] is not None:
            row[name] = _EPOCH + timedelta(microseconds=row[name])
    fixed = call_fix(fix, row)
    if fixed is None:
        return None
    try:
        made = _encoded(page, index, row, fixed)
        # What cannot be in a message is named here, not where a frame is sent.
        made.key(detects_duplicates=False)
        messages.batch_of([made])
    except (RowError, ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise PipelineError(f"--fix: at dead letter {row['sequence_number']}: {error}") from error
    same = fixed.get("body") == row["body"]
    return made._replace(body=body_of(page.head_and_body(index)[1])) if same else made


def _encoded(
    page: Columns, index: int, row: Mapping[str, Any], fixed: Mapping[str, Any]
) -> Encoded:
    properties = dict(fixed.get("properties") or ())
    head = Message.FromString(row["head"])
    changes = message_pb2.ValueMap.FromString(page.changes(index))
    for name, value in changes.entries.items():
        head.application_properties[name].CopyFrom(value)
    for name in set(head.application_properties) - properties.keys():
        del head.application_properties[name]
    for name in messages.TEXTS:
        if fixed.get(name) is None:
            head.ClearField(name)
    stored = head.SerializeToString(deterministic=True)
    scheduled = fixed.get(_SCHEDULED)
    if isinstance(scheduled, datetime):
        scheduled = int(scheduled.timestamp() * 1_000)
    values = {**fixed, "head": stored, "properties": properties.items(), _SCHEDULED: scheduled}
    return messages.encode(values, row["message_id"] or "")
