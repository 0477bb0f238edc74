"""The seam between the rules of a partition and its file.

Two implementations honour the same contract and pass the same tests: `sqlite_store`, and the model
in memory that tests have. Reads see what is committed. One thread uses a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from bendybus.domain.entity import Entity, Fingerprint
from bendybus.partition_server.store.records import (
    Changes,
    ClockMark,
    Delay,
    Envelope,
    Fence,
    HistoryEntry,
    Lease,
    ProducerEntry,
    Row,
    SlotState,
    Summary,
)

# Old fences that are forgotten with one that is new.
FORGOTTEN_A_COMMIT: Final = 100


@dataclass(frozen=True, slots=True)
class Opened:
    """What a file holds beside messages, read once when it is opened."""

    fingerprint: Fingerprint
    # Rises with every opening; part of lock tokens.
    boot: int
    entities: list[Entity]
    slots: list[SlotState]
    # Oldest first.
    producers: list[ProducerEntry]
    # None: never in use, or before this was noted.
    seen: ClockMark | None = None
    # By UID of an entity, wall clock: frames whose first try was before it may be forgotten; "": of
    # all entities.
    producers_unknown: Mapping[str, int] = field(default_factory=dict)
    # Messages that wait, because they were abandoned with a delay.
    delays: Sequence[Delay] = ()
    # Of drains, also those that were ended.
    leases: Sequence[Lease] = ()


class Store(Protocol):
    """Messages of one partition."""

    @property
    def sessions(self) -> SessionReads:
        """What is read by session."""

    @property
    def forwards(self) -> ForwardReads:
        """What is read of frames that were forwarded here."""

    @property
    def pipelines(self) -> FenceReads:
        """What is read of the fences of producers."""

    @property
    def bodies(self) -> BodyReads:
        """What is read of shared bodies."""

    def open(self) -> Opened:
        """Raise the boot number durably and return what is there.

        Raises errors.FileRefused when the file is not this partition's, errors.StoreFailed when
        it cannot be used.
        """

    def active(
        self, slot: int, after: int, through: int, limit: int, size_limit: int, expired_ms: int
    ) -> list[Row]:
        """Return ACTIVE rows with a counter above `after`, up to `through`, in order.

        Leaves out what expires at or before `expired_ms`. Stops at `limit` rows, or as soon as
        what is delivered of them makes up `size_limit` bytes.
        """

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """Return the rows that exist among `ids`, in order of id."""

    def envelope(self, id_: int) -> Envelope | None:
        """Return a row without head and payload, which are not read; None if it does not exist."""

    def browse(self, slot: int, start: int, limit: int, size_limit: int) -> list[Row]:
        """Return rows of every state from counter `start` up, in order; stops like `active`."""

    def summaries(self, slot: int, start: int, through: int, limit: int) -> list[Summary]:
        """Return the summaries of rows of every state from counter `start` up to `through`."""

    def expiring(self, until_ms: int, after: tuple[int, int], limit: int) -> list[Summary]:
        """Return rows that expire at or before `until_ms`, in order of (expires_ms, id) > after."""

    def activating(
        self, until_ms: int, after: tuple[int, int], limit: int, slot: int | None = None
    ) -> list[Summary]:
        """Return SCHEDULED rows due at or before `until_ms`, in order of (due, id) > after.

        Of one slot, or of all.
        """

    def next_expiry(self, after_ms: int) -> int | None:
        """Return when the first message expires after `after_ms`."""

    def next_activation(self, after_ms: int) -> int | None:
        """Return when the first scheduled message is due after `after_ms`."""

    def oldest_key(self, slot: int, from_ms: int) -> int | None:
        """Return when the oldest key was accepted that duplicate detection remembers since."""

    def known(self, slot: int, keys: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the keys that duplicate detection remembers: counter of the original, when."""

    def history(self, slot: int, before_ms: int, limit: int) -> list[HistoryEntry]:
        """Return what duplicate detection remembered before a time, oldest first."""

    def commit(self, changes: Changes, *, keep: bool = True) -> None:
        """Write all of `changes` durably, or nothing; without `keep`, only find out if it can.

        Raises errors.StoreFull when there is no room and errors.Unwritable for a value that cannot
        be written (the store goes on), errors.StoreFailed on any other failure (the store cannot
        be used until it is reopened).
        """


class MessageRun(NamedTuple):
    """Messages of one session in one state."""

    session_id: str
    state: int
    messages: int
    # The counter of the last of them that was counted.
    last: int


class CountPlace(NamedTuple):
    """A place among messages by session: (session, state, counter), and what is counted so far.

    The counts are of this session's messages up to here: those in all three states, in their order.
    """

    session_id: str
    state: int
    counter: int
    active: int = 0
    deferred: int = 0
    scheduled: int = 0


# Rows past their time that one look at a session passes over, at most.
SESSION_LOOKS: Final = 200


class Head(NamedTuple):
    """The first row of a session."""

    counter: int
    # False: all up to this one are past their time, and others follow.
    alive: bool


class SessionReads(Protocol):
    """What is read of sessions. Reads see what is committed."""

    def rows(
        self, slot: int, session_id: str, after: int, limit: int, size_limit: int, expired_ms: int
    ) -> tuple[list[Row], int | None]:
        """Return ACTIVE rows of a session with a counter above `after`, in order.

        Passes over `SESSION_LOOKS` rows that expire at or before `expired_ms`, at most. Stops at
        `limit` rows, or as soon as what is delivered of them makes up `size_limit` bytes. Also
        returns the counter after which to go on, None at the end.
        """

    def head(self, slot: int, session_id: str, after: int, expired_ms: int) -> Head | None:
        """Return the first row that `rows` would return after a counter, None if no row is left.

        Where it would return none and go on, the row after which it does.
        """

    def discover(
        self, slot: int, after: int, through: int, limit: int, expired_ms: int
    ) -> list[tuple[int, str]]:
        """Return (counter, session) of ACTIVE rows above `after`, up to `through`, in order."""

    def browse(
        self, slot: int, session_id: str, start: int, limit: int, size_limit: int
    ) -> list[Row]:
        """Return rows of a session in every state from counter `start` up; stops like `rows`."""

    def listed(self, slot: int, after: str | None, limit: int) -> tuple[list[str], str | None]:
        """Return sessions with ACTIVE messages or a state, by name, after a name (None: all).

        Looks at `limit` sessions at most; also returns where to go on, None at the end.
        """

    def updated(
        self, slot: int, after: str | None, limit: int, since_ms: int
    ) -> tuple[list[str], str | None]:
        """Return sessions whose state was set after `since_ms`; looks and goes on as `listed`."""

    def with_state(self, slot: int, limit: int) -> list[str]:
        """Return sessions that have a state."""

    def state(self, slot: int, session_id: str) -> bytes | None:
        """Return what is kept for a session."""

    def count(
        self, slot: int, after: tuple[str, int, int], rows: int, limit: int
    ) -> list[MessageRun]:
        """Count messages by session and state, in the order of (session, state, counter).

        Begins after such a place. Looks at `rows` messages, and returns `limit` runs, at most: the
        last one may be cut short.
        """

    def state_sizes(self, slot: int, start: str, limit: int) -> list[tuple[str, int]]:
        """Return sessions that have a state, by name, from `start` on; and its bytes."""


class ForwardReads(Protocol):
    """The last frame of each source, and its messages that may come again."""

    def last(self, source: bytes) -> tuple[int, int]:
        """Return boot and sequence of the last frame of a source; (0, 0) if there was none."""

    def choices(self) -> dict[int, int]:
        """Return the partition that was chosen for messages without a key, by id."""

    def known(self, source: bytes, counters: Sequence[int]) -> set[int]:
        """Return those of its messages that are stored here."""


class FenceReads(Protocol):
    """How far producers came."""

    def fence(self, slot: int, producer_id: bytes) -> Fence | None:
        """Return how far a producer came in a slot; None: nothing is known of it."""

    def fence_counts(self, since_ms: int = 0) -> dict[int, int]:
        """Return how many producers are remembered since a time, by slot; none is left out."""


class BodyReads(Protocol):
    """Bodies that several messages have; see docs/reference/data-file.md."""

    # Whether a commit may have left bodies that no message has. Cleared by the rules.
    has_garbage: bool

    def unreferenced(self, limit: int) -> list[tuple[int, int]]:
        """Return (id, length) of bodies that no message has any more."""

    def of_slot(self, slot: int, limit: int) -> list[int]:
        """Return ids of bodies that came to the topic in this slot."""
