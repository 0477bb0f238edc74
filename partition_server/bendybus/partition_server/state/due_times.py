"""When time alone makes something due: ends of locks, schedules, expiry, the purge of keys.

Updated by the rules as messages come and go; `PartitionState` asks it what is due now and how long
nothing is. Due times come from heaps and indexes, never from a scan.
"""

import heapq
from enum import IntEnum
from typing import Final

from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.store.records import Changes, ClockMark, Row
from bendybus.partition_server.store.store import Store

# How old the clock that is noted in the file may be, while something in it waits for the clock.
MARK_EVERY_MS: Final = 30_000
# Before everything: (time, row id).
BEGINNING: Final = (-1, 0)
LAST_ID: Final = 2**63 - 1
# Entries of a heap that are void, before it is made again.
HEAP_SPARE: Final = 1_000


class Sweep(IntEnum):
    """What a sweep does. One kind a stage: two would each see the rows that the other has
    decided on but not yet written."""

    LOCK_ENDS = 1
    ACTIVATION = 2
    EXPIRY = 3
    HISTORY = 4
    DELETION = 5
    MARK = 6
    UNFINISHED = 7
    BODIES = 8
    FORWARD = 9
    PUBLISH = 10
    DRAIN = 11
    AWAITING_ROOM = 12


class SlotTimes:
    """The next due time of each slot: one a slot, however often it is set."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._times: dict[int, int] = {}
        # In the order of time, with entries that are void.
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, time_ms: int, slot: int) -> None:
        """Make `slot` due at that time, unless it is due earlier."""
        known = self._times.get(slot)
        if known is None or time_ms < known:
            self._journal.note(self._put, slot, known)
            self._put(slot, time_ms)

    def first(self) -> tuple[int, int] | None:
        """Return the earliest time and its slot."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def replace(self, slot: int, following_ms: int | None) -> None:
        """Replace the time of a slot; None: it is no longer due."""
        self._journal.note(self._put, slot, self._times.get(slot))
        self._put(slot, following_ms)

    def shift(self, gap_ms: int) -> None:
        """Move all times."""
        self._times = {slot: at + gap_ms for slot, at in self._times.items()}
        self._sort()

    def _put(self, slot: int, time_ms: int | None) -> None:
        if time_ms is None:
            self._times.pop(slot, None)
            return
        self._times[slot] = time_ms
        heapq.heappush(self._heap, (time_ms, slot))
        if len(self._heap) > 2 * len(self._times) + HEAP_SPARE:
            self._sort()

    def _sort(self) -> None:
        self._heap = sorted((at, slot) for slot, at in self._times.items())


class DueTimes:
    """Everything of one partition that becomes due by time."""

    def __init__(self, journal: Journal, machine: str = "") -> None:
        self._journal = journal
        # Monotonic times of the earliest ends of locks, wall times of the oldest keys' ends.
        self.lock_ends = SlotTimes(journal)
        self.key_ends = SlotTimes(journal)
        self.next_expiry_ms: int | None = None
        self.next_activation_ms: int | None = None
        # Everything up to here is gone, locked, or of a deleted queue.
        self.expired_to = BEGINNING
        self.activated_to = BEGINNING
        self._machine = machine
        self._marked: ClockMark | None = None
        self._last = Sweep.MARK

    def begin(self, store: Store) -> None:
        """Start over with everything that the store has with a time."""
        self.expired_to = self.activated_to = BEGINNING
        self.next_expiry_ms = store.next_expiry(-1)
        self.next_activation_ms = store.next_activation(-1)

    def expires_at(self, wall_ms: int) -> None:
        """Look for expired messages at that time (again)."""
        self._note()
        if self.next_expiry_ms is None or wall_ms < self.next_expiry_ms:
            self.next_expiry_ms = wall_ms
        if wall_ms <= self.expired_to[0]:
            self.expired_to = (wall_ms - 1, LAST_ID)

    def activates_at(self, due_ms: int) -> None:
        """Look for scheduled messages at that time (again)."""
        self._note()
        if self.next_activation_ms is None or due_ms < self.next_activation_ms:
            self.next_activation_ms = due_ms
        if due_ms <= self.activated_to[0]:
            self.activated_to = (due_ms - 1, LAST_ID)

    def appended(self, row: Row) -> None:
        """Take the times of a new row into account."""
        if row.expires_ms is not None:
            self.expires_at(row.expires_ms)
        if row.scheduled_ms and row.state == 2:
            self.activates_at(row.scheduled_ms)

    def expired(self, cursor: tuple[int, int], following_ms: int | None) -> None:
        """Note how far expiry came, and when it is due again."""
        self._note()
        self.expired_to, self.next_expiry_ms = cursor, following_ms

    def activated(self, cursor: tuple[int, int], following_ms: int | None) -> None:
        """Note how far activation came, and when it is due again."""
        self._note()
        self.activated_to, self.next_activation_ms = cursor, following_ms

    def _note(self) -> None:
        """Note the cursors, which are about to change."""
        self._journal.note(
            self._restore,
            self.expired_to,
            self.next_expiry_ms,
            self.activated_to,
            self.next_activation_ms,
        )

    def _restore(
        self,
        expired_to: tuple[int, int],
        next_expiry_ms: int | None,
        activated_to: tuple[int, int],
        next_activation_ms: int | None,
    ) -> None:
        self.expired_to, self.next_expiry_ms = expired_to, next_expiry_ms
        self.activated_to, self.next_activation_ms = activated_to, next_activation_ms

    def mark(self, changes: Changes, now: Now) -> None:
        """Note the clocks in the file, for the next opening to compare its own with."""
        if changes.seen is None:
            changes.seen = ClockMark(now.wall_ms, now.mono_ms, self._machine)
            self._journal.later(setattr, self, "_marked", changes.seen)

    def waits(self, now: Now, *, expiry_held: bool) -> list[tuple[Sweep, int]]:
        """Return in how many ms each sweep has something to do; those without are left out."""
        waits: list[tuple[Sweep, int]] = []
        lock = self.lock_ends.first()
        if lock is not None:
            waits.append((Sweep.LOCK_ENDS, lock[0] - now.mono_ms))
        if self.next_activation_ms is not None:
            waits.append((Sweep.ACTIVATION, self.next_activation_ms - now.wall_ms))
        if expiry_held:
            # Nor is the clock noted: if the process ends now, the next one shall see the jump.
            return waits
        key = self.key_ends.first()
        if self.next_expiry_ms is not None:
            waits.append((Sweep.EXPIRY, self.next_expiry_ms - now.wall_ms))
        if key is not None:
            waits.append((Sweep.HISTORY, key[0] - now.wall_ms))
        if key is not None or self.next_expiry_ms is not None:
            marked_ms = 0 if self._marked is None else self._marked.wall_ms
            # One that was noted under a clock that was ahead is no good any more.
            wait_ms = marked_ms + MARK_EVERY_MS - now.wall_ms
            waits.append((Sweep.MARK, wait_ms if marked_ms <= now.wall_ms else 0))
        return waits

    def next_of(self, due: list[Sweep]) -> Sweep:
        """Return which of several due sweeps is next: in turn, so that none waits for ever."""
        self._last = min([sweep for sweep in due if sweep > self._last] or due)
        return self._last
