"""What a partition keeps: rows, slots, and the changes of one transaction.

A *slot* is a (sub-)queue inside the partition's file: each entity has one for every sub-queue that
ever had a message here. Row ids carry the slot, so that the table of messages needs no other index
to be read in order:

    62            44 43                          0
    ┌───────────────┬─────────────────────────────┐
    │ slot          │ counter of the slot, 1 and up│
    └───────────────┴─────────────────────────────┘
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from bendybus.domain import message_format
from bendybus.domain.entity import Entity
from bendybus.domain.sub_queue import SubQueue

SLOT_SHIFT: Final = 44
COUNTER_MASK: Final = 2**SLOT_SHIFT - 1
SLOT_MAX: Final = 2**19 - 1
# Of a stored message whose payload is the id of a body that it shares with others; the rest of the
# number is its format. See sqlite_features.
SHARED_FORMAT: Final = 16
BODY_ID_BYTES: Final = 8
# What a message costs beside its head, payload and texts, roughly, in the file.
ROW_BYTES: Final = 64


class State(IntEnum):
    """State of a stored message; locked ones are ACTIVE or DEFERRED here."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


class Row(NamedTuple):
    """A message at rest. Times in ms since 1970; None is no end, "" no text."""

    id: int
    state: int
    enqueued_ms: int
    expires_ms: int | None
    scheduled_ms: int
    time_to_live_ms: int
    delivery_count: int
    message_id: str
    partition_key: str
    session_id: str | None
    payload: bytes
    # Whether the payload is the whole message; see domain.message_format.
    format: int = 0
    head: bytes = b""
    changed_properties: bytes | None = None
    dead_letter_reason: str | None = None
    dead_letter_error_description: str | None = None
    dead_letter_source: str | None = None
    # The number that the message had where it was first enqueued; 0: the one it has.
    enqueued_sequence_number: int = 0
    # What changed properties and the texts of a dead letter add to the size.
    extra_bytes: int = 0
    # How often it was forwarded.
    hops: int = 0

    @property
    def counter(self) -> int:
        """The number of the message within its slot."""
        return self.id & COUNTER_MASK

    @property
    def slot(self) -> int:
        """The slot that holds the message."""
        return self.id >> SLOT_SHIFT

    def size(self) -> int:
        """Return the bytes that count to the quota."""
        texts = len(self.message_id) + len(self.partition_key) + len(self.session_id or "")
        return self.content_bytes() + texts + ROW_BYTES + self.extra_bytes

    @property
    def is_shared(self) -> bool:
        """Whether other messages have the same body."""
        return self.format >= SHARED_FORMAT

    def content_bytes(self) -> int:
        """Return the bytes of head and payload, as they are stored."""
        if self.format >= SHARED_FORMAT and self.payload:
            return len(self.head) + BODY_ID_BYTES
        return len(self.head) + len(self.payload)

    def delivered_bytes(self) -> int:
        """Return the bytes that are kept and delivered: also of what receivers changed or noted."""
        return len(self.head) + len(self.payload) + self.extra_bytes


_ENQUEUED: Final = Row._fields.index("enqueued_ms")
_PAYLOAD: Final = Row._fields.index("payload")
_FORMAT: Final = Row._fields.index("format")
_NUMBER: Final = Row._fields.index("enqueued_sequence_number")
assert (_ENQUEUED, _FORMAT) == (2, _PAYLOAD + 1)
assert message_format.NEWEST < SHARED_FORMAT
# Several times as fast as `_make` and `_replace`.
_made: Final = tuple.__new__


# Columns of a row, as SQLite takes and returns them.
Values: TypeAlias = tuple[Any, ...]


class Copies:
    """A run of published messages, and the queues that each get a copy of all of them.

        messages ──┬─► place in queue a: its next id, and when they came there
                   └─► place in queue b: …

    The copies of a message differ in nothing else.
    """

    __slots__ = ("_read", "_stored", "expires_ms", "places", "size_bytes")

    def __init__(self) -> None:
        # Of each queue: the id of its first copy, and when they were enqueued.
        self.places: list[tuple[int, int]] = []
        # Columns after the enqueued time: with bodies, and as the file has them.
        self._read: list[Values] = []
        self._stored: list[Values] = []
        # What they count to each of the queues. A body that is shared counts to the topic.
        self.size_bytes = 0
        # When the first of them expires.
        self.expires_ms: int | None = None

    def __len__(self) -> int:
        return len(self._stored)

    def add(self, row: Row, number: int, reference: bytes | None) -> None:
        """Add a message. `number`: that at its topic. `reference`: to its body, if it is shared."""
        assert row.state == State.ACTIVE, row
        shared = reference is not None
        before, format_ = row[_ENQUEUED + 1 : _PAYLOAD], row.format + SHARED_FORMAT * shared
        after = (format_, *row[_FORMAT + 1 : _NUMBER], number, *row[_NUMBER + 1 :])
        self._read.append((*before, row.payload, *after))
        self._stored.append((*before, row.payload if reference is None else reference, *after))
        self.size_bytes += row.size() - (len(row.payload) - BODY_ID_BYTES if shared else 0)
        if row.expires_ms is not None:
            self.expires_ms = min(row.expires_ms, self.expires_ms or row.expires_ms)

    def rows(self, first_id: int, enqueued_ms: int) -> Iterator[Row]:
        """Yield the copies at a place, with their bodies."""
        return _placed(self._read, first_id, enqueued_ms)

    def stored(self, first_id: int, enqueued_ms: int) -> Iterator[Row]:
        """Yield the copies at a place as the file has them."""
        return _placed(self._stored, first_id, enqueued_ms)


def _placed(columns: list[Values], first_id: int, enqueued_ms: int) -> Iterator[Row]:
    for id_, rest in enumerate(columns, first_id):
        yield _made(Row, (id_, State.ACTIVE, enqueued_ms, *rest))


def shared_format_missing(row: Row) -> Row:
    """Return a message whose body is not in the file: of a format that no receiver reads."""
    return row._replace(payload=b"", format=2 * SHARED_FORMAT - 1)


class Body(NamedTuple):
    """A body that several messages have."""

    # The id that its message had at its topic.
    id: int
    references: int
    payload: bytes

    def reference(self) -> bytes:
        """Return what a message has instead of it."""
        return self.id.to_bytes(BODY_ID_BYTES, "big")

    def size(self) -> int:
        """Return the bytes that count to the topic's quota."""
        return body_size(len(self.payload))


def body_size(length: int) -> int:
    """Return what a body of this length counts to the topic's quota."""
    return length + ROW_BYTES


class Envelope(NamedTuple):
    """A message without head and payload, which stay in the file while the message is moved."""

    # Its head and payload are b"".
    row: Row
    content_bytes: int

    def size(self) -> int:
        """Return the bytes that count to the quota."""
        return self.row.size() + self.content_bytes


class Summary(NamedTuple):
    """What sweeps need to know of a message; its payload stays in the file."""

    id: int
    state: int
    enqueued_ms: int
    # Of what it was read for: when it expires, when it is due; 0 otherwise.
    at_ms: int
    size_bytes: int

    @property
    def counter(self) -> int:
        """The number of the message within its slot."""
        return self.id & COUNTER_MASK

    @property
    def slot(self) -> int:
        """The slot that holds the message."""
        return self.id >> SLOT_SHIFT


class ClockMark(NamedTuple):
    """When a file was last in use, by both clocks of a machine."""

    wall_ms: int
    mono_ms: int
    # Names the boot of the machine whose monotonic clock that is; "": not known.
    machine: str


def row_id(slot: int, counter: int) -> int:
    """Return the id of a message."""
    return slot << SLOT_SHIFT | counter


Figures = tuple[int, int, int, int, int, int, int]


@dataclass(slots=True)
class SlotState:
    """The durable figures of a slot; written in the transaction of what they count."""

    slot: int
    uid: str
    sub_queue: SubQueue = SubQueue.MAIN
    # The highest number given. Numbers are never given twice, also when all messages are gone.
    counter: int = 0
    active: int = 0
    deferred: int = 0
    scheduled: int = 0
    size_bytes: int = 0
    # The enqueued time never runs backwards, whatever the clock does.
    last_enqueued_ms: int = 0
    # Its entity is deleted: rows are removed a few at a time, then the slot itself.
    dropped: bool = False
    # Of a transfer queue: the UID of the entity that its messages are forwarded to.
    destination: str = ""
    # The highest number that expired, or was batch-deleted, without being received.
    lost: int = 0
    # Its messages are received by session; follows from its entity, not written.
    by_session: bool = field(default=False, compare=False)
    # Its messages may share bodies; the same.
    has_copies: bool = field(default=False, compare=False)

    def figures(self) -> Figures:
        """Return what changes with messages, to restore it when a commit fails."""
        return (
            self.counter,
            self.active,
            self.deferred,
            self.scheduled,
            self.size_bytes,
            self.last_enqueued_ms,
            self.lost,
        )

    def restore(self, figures: Figures) -> None:
        """Set what `figures` returned."""
        self.counter, self.active, self.deferred, self.scheduled = figures[:4]
        self.size_bytes, self.last_enqueued_ms, self.lost = figures[4:]


class RowUpdate(NamedTuple):
    """New values of a row that stays where it is."""

    id: int
    state: int
    delivery_count: int
    changed_properties: bytes | None
    # What the change of the properties adds to the message's size.
    added_bytes: int = 0


class Delay(NamedTuple):
    """A message that was abandoned with a delay: it is not received before its time."""

    id: int
    until_ms: int


class Move(NamedTuple):
    """A row that becomes another one, in whatever queue; head and payload go with it."""

    id: int
    # What it is from now on; its head and payload are b"" and not written.
    row: Row


class HistoryEntry(NamedTuple):
    """A key that duplicate detection remembers, and the number of the original."""

    slot: int
    key: str
    counter: int
    at_ms: int

    def size(self) -> int:
        """Return the bytes that count to the quota."""
        return len(self.key) + ROW_BYTES


class SessionState(NamedTuple):
    """What receivers keep for a session; None: nothing any more."""

    slot: int
    session_id: str
    state: bytes | None
    at_ms: int

    def size(self) -> int:
        """Return the bytes that count to the quota."""
        return 0 if self.state is None else len(self.session_id) + len(self.state) + ROW_BYTES


class ForwardSource(NamedTuple):
    """A (sub-)queue in the file of a partition, out of which messages are forwarded."""

    uid: str
    sub_queue: SubQueue
    partition: int
    # Of the file; a restored one has another.
    incarnation: bytes
    # Of a transfer queue: the UID of its destination; an entity has one for each.
    destination: str = ""

    def place(self) -> bytes:
        """Return what all incarnations of the file have in common."""
        place = f"{self.uid}/{int(self.sub_queue)}/{self.partition}/"
        return (f"{self.destination}/{place}" if self.destination else place).encode()

    def name(self) -> bytes:
        """Return what frames are remembered by."""
        return self.place() + self.incarnation


class ForwardedFrame(NamedTuple):
    """A frame that another partition forwarded, and what is known of its source from now on."""

    source: ForwardSource
    # It is the first of the source: what is known of other incarnations is forgotten.
    first: bool
    boot: int
    sequence: int
    # Numbers at the source: of what is stored now; of what the source has deleted since.
    stored: Sequence[int]
    settled: Sequence[int]
    # The source has none before this.
    settled_below: int


class ProducerEntry(NamedTuple):
    """A part of a producer's frame that was stored, and the numbers that it got."""

    producer_id: bytes
    sequence: int
    # Of the first message, in the frame of the first try.
    position: int
    # See producers.py.
    outcome: str
    at_ms: int
    # Rises with each; 0: the next one.
    id: int = 0


class Lease(NamedTuple):
    """The lease of a drain of a (sub-)queue, as it was last taken or ended."""

    uid: str
    sub_queue: SubQueue
    # Rises with every drain of the (sub-)queue.
    epoch: int
    owner: str
    # 0: it was ended.
    duration_ms: int


class Fence(NamedTuple):
    """How far a producer came in a slot."""

    slot: int
    producer_id: bytes
    epoch: int
    # Of the last message that was stored.
    ordinal: int
    # What the producer recognizes its work by.
    mark: bytes
    at_ms: int


@dataclass(slots=True)
class Changes:
    """Everything that one transaction writes. Applied whole or not at all, in this order."""

    entities: list[Entity] = field(default_factory=list)
    # Keys of entries that are forgotten; only beside `entities`.
    entities_forgotten: list[str] = field(default_factory=list)
    inserts: list[Row] = field(default_factory=list)
    copies: list[Copies] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    bodies_removed: list[int] = field(default_factory=list)
    updates: list[RowUpdate] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    deletes: list[int] = field(default_factory=list)
    delays: list[Delay] = field(default_factory=list)
    # Ids of messages whose delay is over; of those that are deleted or moved it ends with that.
    delays_ended: list[int] = field(default_factory=list)
    history: list[HistoryEntry] = field(default_factory=list)
    history_deletes: list[HistoryEntry] = field(default_factory=list)
    producers: list[ProducerEntry] = field(default_factory=list)
    # Forget these entries of producers, by id.
    producers_forgotten: list[int] = field(default_factory=list)
    # … and what was first tried before a time is no longer known: (UID of the entity, when); "": of
    # all entities. Only beside `producers_forgotten`.
    producers_unknown: list[tuple[str, int]] = field(default_factory=list)
    session_states: list[SessionState] = field(default_factory=list)
    forwarded: list[ForwardedFrame] = field(default_factory=list)
    # Partition that is chosen for a message, by its id; None: no longer.
    forward_choices: dict[int, int | None] = field(default_factory=dict)
    # UIDs of entities that are deleted: nothing of them comes again.
    forward_sources_removed: list[str] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    # UIDs of entities that are deleted, and with them their leases, and since when producers are
    # known.
    leases_removed: list[str] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)
    # Forget the oldest fences that were written before this time, a bounded number.
    fences_before_ms: int = 0
    slots: dict[int, SlotState] = field(default_factory=dict)
    slots_removed: list[int] = field(default_factory=list)
    # The clocks as they are at this commit.
    seen: ClockMark | None = None

    def __bool__(self) -> bool:
        """Whether there is anything to write: in any field."""
        return any(_FIELDS(self))

    def stored(self) -> int:
        """Return how many messages are stored."""
        return len(self.inserts) + sum(len(run) * len(run.places) for run in self.copies)


_FIELDS: Final = attrgetter(*(each.name for each in fields(Changes)))
