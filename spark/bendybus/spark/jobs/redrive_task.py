"""The part of a redrive that runs on executors: listed dead letters of one partition are moved.

    page ──► listed? ──► copy ──► frame for its partition ──► stored ──► removed by number

A page is removed only after all frames of it are stored. What an earlier attempt stored is only
removed; see `redrive_marks`.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError

from bendybus.client import ServiceBusClient
from bendybus.client.exceptions import InvalidOperationError
from bendybus.spark.errors import PipelineError
from bendybus.spark.jobs import redrive_fix
from bendybus.spark.jobs.redrive_fix import Fix
from bendybus.spark.jobs.redrive_marks import PLACES, Stored
from bendybus.spark.options import Entity
from bendybus.spark.property_texts import text_of
from bendybus.spark.sink import messages
from bendybus.spark.sink.messages import Encoded
from bendybus.spark.source import decoding
from bendybus.spark.source.bus import browser_of
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
    """What became of dead letters; `repeated`: an earlier attempt had sent them."""

    sent: int = 0
    repeated: int = 0
    duplicates: int = 0
    removed: int = 0

    def __add__(self, other: "Moved") -> "Moved":
        return Moved(
            self.sent + other.sent,
            self.repeated + other.repeated,
            self.duplicates + other.duplicates,
            self.removed + other.removed,
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
                    "%s: dead letter %d is left: --fix left it, or changed its key, when this run "
                    "began; run the command once more",
                    task.source.path,
                    number,
                )
                continue
            listed.append(number)
            frames.add(where, place, made)
        for where, ordinals, frame in frames.taken():
            done += _sent(sender, task, stored, where, ordinals, frame)
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


def _sent(
    sender: Any, task: Task, stored: Stored, where: int, ordinals: list[int], frame: list[Encoded]
) -> Moved:
    """Send a frame, in smaller ones if a topic would make too many copies of it at once."""
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
    except InvalidOperationError:
        # Nothing of it is stored.
        if len(frame) == 1:
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
        fixed = redrive_fix.message(columns, index, fix)
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
