"""What happens by time alone: locks end, messages expire, scheduled ones become active.

Each sweep is a cursor that goes on where the last one stopped, within the budget of a turn, so
that a million activations are many transactions with other work between them, and nothing is
looked at twice. Cursors and due times move only when a sweep is committed (`Stage.on_commit`): one
that fails is due again. Due times come from heaps and indexes, never from a scan.
"""

import heapq
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import Final

from bendybus.domain import bounds
from bendybus.partition_server.rules.settle import Place, Places, Settler
from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.store.records import (
    COUNTER_MASK,
    SLOT_SHIFT,
    Changes,
    ClockMark,
    Head,
    Row,
    SlotState,
    State,
    row_id,
)

# Keys of a queue are purged this often at most, or sixteen times in its window, many at a time.
HISTORY_EVERY_MS: Final = 1_000
# How old the clock that is noted in the file may be, while something in it waits for the clock.
MARK_EVERY_MS: Final = 30_000

# Before everything: (time, row id).
BEGINNING: Final = (-1, 0)
_LAST_ID: Final = 2**63 - 1


class Kind(IntEnum):
    """What a sweep looks after. One kind a stage: two would each see the rows that the other
    has decided on but not yet written."""

    LOCK_ENDS = 1
    ACTIVATION = 2
    EXPIRY = 3
    HISTORY = 4
    DELETION = 5
    MARK = 6
    UNFINISHED = 7


class Looks:
    """When to look at each slot: one time a slot, however often it is asked for."""

    def __init__(self) -> None:
        self.times: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, time_ms: int, slot: int) -> None:
        """Look at `slot` at that time, or earlier if it was asked for."""
        known = self.times.get(slot)
        if known is None or time_ms < known:
            self.times[slot] = time_ms
            heapq.heappush(self._heap, (time_ms, slot))

    def first(self) -> tuple[int, int] | None:
        """Return the time and the slot of the first look."""
        while self._heap and self.times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def looked(self, slot: int, following_ms: int | None) -> None:
        """Replace the time of a slot; None: no need for another look."""
        self.times.pop(slot, None)
        if following_ms is not None:
            self.at(following_ms, slot)

    def shift(self, gap_ms: int) -> None:
        """Move all times."""
        self.times = {slot: at + gap_ms for slot, at in self.times.items()}
        self._heap = sorted((at, slot) for slot, at in self.times.items())


class Sweeper:
    """Knows when something is due by time, and does it."""

    def __init__(self, machine: str = "") -> None:
        # Monotonic times of the earliest ends of locks, wall times of the oldest keys' ends.
        self.lock_looks = Looks()
        self.key_looks = Looks()
        self.next_expiry_ms: int | None = None
        self.next_activation_ms: int | None = None
        # Everything up to here is gone, locked, or of a deleted queue.
        self.expired_to = BEGINNING
        self.activated_to = BEGINNING
        self.deletions = 0
        self.unfinished = 0
        self._machine = machine
        self._marked: ClockMark | None = None
        self._last_kind = Kind.MARK

    def expires_at(self, wall_ms: int) -> None:
        """Look for expired messages at that time (again)."""
        if self.next_expiry_ms is None or wall_ms < self.next_expiry_ms:
            self.next_expiry_ms = wall_ms
        if wall_ms <= self.expired_to[0]:
            self.expired_to = (wall_ms - 1, _LAST_ID)

    def saw(self, row: Row) -> None:
        """Take a new row's times into account."""
        if row.expires_ms is not None:
            self.expires_at(row.expires_ms)
        if row.scheduled_ms and row.state == 2:
            due_ms = row.scheduled_ms
            if self.next_activation_ms is None or due_ms < self.next_activation_ms:
                self.next_activation_ms = due_ms
            if due_ms <= self.activated_to[0]:
                self.activated_to = (due_ms - 1, _LAST_ID)

    def begin(self, places: Places) -> None:
        """Look at everything that the store has with a time."""
        self.expired_to = self.activated_to = BEGINNING
        self.next_expiry_ms = places.store.next_expiry(-1)
        self.next_activation_ms = places.store.next_activation(-1)

    def due(self, now: Now, *, expiry_held: bool) -> list[Kind]:
        """Return what a sweep would find something to do for."""
        return [kind for kind, wait in self._waits(now, expiry_held) if wait <= 0]

    def wait_ms(self, now: Now, *, expiry_held: bool) -> int | None:
        """Return how long until the next sweep; None: no need for one."""
        return min((wait for _, wait in self._waits(now, expiry_held)), default=None)

    def next_kind(self, due: list[Kind]) -> Kind:
        """Return which of several due kinds is next: in turn, so that none waits for ever."""
        after = [kind for kind in due if kind > self._last_kind]
        self._last_kind = after[0] if after else due[0]
        return self._last_kind

    def _waits(self, now: Now, expiry_held: bool) -> list[tuple[Kind, int]]:
        waits: list[tuple[Kind, int]] = []
        first = self.lock_looks.first()
        if first is not None:
            waits.append((Kind.LOCK_ENDS, first[0] - now.mono_ms))
        if self.next_activation_ms is not None:
            waits.append((Kind.ACTIVATION, self.next_activation_ms - now.wall_ms))
        if self.deletions:
            waits.append((Kind.DELETION, 0))
        if self.unfinished:
            waits.append((Kind.UNFINISHED, 0))
        if expiry_held:
            # Nor is the clock noted: if the process ends now, the next one shall see the jump.
            return waits
        key = self.key_looks.first()
        if self.next_expiry_ms is not None:
            waits.append((Kind.EXPIRY, self.next_expiry_ms - now.wall_ms))
        if key is not None:
            waits.append((Kind.HISTORY, key[0] - now.wall_ms))
        if key is not None or self.next_expiry_ms is not None:
            marked_ms = 0 if self._marked is None else self._marked.wall_ms
            # One that was noted under a clock that was ahead is no good any more.
            wait_ms = marked_ms + MARK_EVERY_MS - now.wall_ms
            waits.append((Kind.MARK, wait_ms if marked_ms <= now.wall_ms else 0))
        return waits

    def mark(self, stage: Stage, now: Now) -> None:
        """Note the clocks in the file, for the next opening to compare its own with."""
        if stage.changes.seen is not None:
            return
        seen = ClockMark(now.wall_ms, now.mono_ms, self._machine)
        stage.changes.seen = seen
        stage.on_commit.append(partial(setattr, self, "_marked", seen))

    def end_locks(self, places: Places, settler: Settler, now: Now, budget: Budget) -> None:
        """End locks whose time is over."""
        while (look := self.lock_looks.first()) and look[0] <= now.mono_ms and not budget.spent():
            slot = look[1]
            place = places.place(slot)
            if place is None:
                self.lock_looks.looked(slot, None)
                continue
            ended = place.queue.lock_ended(now.mono_ms, budget.rows_left)
            for index, (counter, lock) in enumerate(ended):
                if index and budget.spent():
                    # Noted again: due at once.
                    rest = [(number, left.generation) for number, left in ended[index:]]
                    place.queue.watch_lock(lock.until_mono_ms, rest)
                    break
                settler.lock_over(place, counter, lock)
                budget.spend()
            budget.spend()
            self.lock_looks.looked(slot, place.queue.next_lock_end())

    def expire(
        self, places: Places, settler: Settler, stage: Stage, now: Now, budget: Budget
    ) -> None:
        """Drop or dead-letter messages past their time; a locked one waits for its lock's end."""

        def expire(head: Head) -> int:
            place = places.place(head.slot)
            if place is not None and head.counter not in place.queue.locks:
                settler.expire(place, head.id, head.state, head.size_bytes)
                if not head.state:
                    stage.vanished.append((place.queue, head.counter))
            return 0

        rows = budget.rows_left
        heads = places.store.expiring(now.wall_ms, self.expired_to, rows)
        done, cursor = _gone_through(heads, self.expired_to, budget, expire)
        following: int | None = now.wall_ms
        if done and len(heads) < rows:
            cursor, following = (now.wall_ms, _LAST_ID), places.store.next_expiry(now.wall_ms)
        stage.on_commit.append(partial(self._expired, cursor, following))

    def _expired(self, cursor: tuple[int, int], following_ms: int | None) -> None:
        self.expired_to, self.next_expiry_ms = cursor, following_ms

    def activate(self, places: Places, stage: Stage, now: Now, budget: Budget) -> None:
        """Enqueue scheduled messages that are due, each with a new number at the end."""

        def activate(head: Head) -> int:
            place = places.place(head.slot)
            if place is None:
                return 0
            _activate(places, place, head, stage, now)
            return head.size_bytes

        rows = budget.rows_left
        heads = places.store.activating(now.wall_ms, self.activated_to, rows)
        done, cursor = _gone_through(heads, self.activated_to, budget, activate)
        following: int | None = now.wall_ms
        if done and len(heads) < rows:
            cursor, following = (now.wall_ms, _LAST_ID), places.store.next_activation(now.wall_ms)
        stage.on_commit.append(partial(self._activated, cursor, following))

    def finish(
        self, places: Places, settler: Settler, stage: Stage, now: Now, budget: Budget
    ) -> None:
        """End expired messages that came back, then go on with settlements."""
        unfinished, least = places.unfinished, 1
        for id_ in unfinished.expired(budget.rows_left):
            if budget.spent() and not least:
                return
            _expire_late(places, settler, stage, id_, now)
            unfinished.looked(stage, id_)
            budget.spend()
            least = 0
        for unsettled in unfinished.settlements():
            if budget.spent() and not least:
                return
            settled = settler.go_on(unsettled, least=least)
            if settled is not None:
                stage.answer(unsettled.command.stream, settled)
            least = 0

    def _activated(self, cursor: tuple[int, int], following_ms: int | None) -> None:
        self.activated_to, self.next_activation_ms = cursor, following_ms

    def forget_keys(self, places: Places, stage: Stage, now: Now, budget: Budget) -> None:
        """Forget what duplicate detection need not remember any more, queue by queue."""
        looked: set[int] = set()
        while (look := self.key_looks.first()) and look[0] <= now.wall_ms and not budget.spent():
            slot = look[1]
            if slot in looked:
                # Its rows are still there until this is committed.
                break
            looked.add(slot)
            following = _forget_some(places, slot, stage, now, budget)
            # Moved at once, so that the next slot comes up; back again if the commit fails.
            self.key_looks.looked(slot, following)
            stage.on_failure.append(partial(self.key_looks.at, look[0], slot))


def _forget_some(places: Places, slot: int, stage: Stage, now: Now, budget: Budget) -> int | None:
    """Forget keys of one queue; return when to look at it again, None if nothing is left."""
    budget.spend()
    place = places.place(slot)
    if place is None:
        return None
    window_ms = place.entity.queue.duplicate_detection_history_time_window_ms
    most = max(1, budget.rows_left)
    old = places.store.history(slot, now.wall_ms - window_ms, most)
    if old:
        stage.touch(place.queue)
        place.queue.state.size_bytes -= sum(entry.size() for entry in old)
        stage.changes.history_deletes += old
        budget.spend(sum(entry.size() for entry in old), rows=len(old))
    if len(old) == most:
        return now.wall_ms
    oldest_ms = places.store.oldest_key(slot, now.wall_ms - window_ms)
    if oldest_ms is None:
        return None
    # Lookups judge by age: keys may stay a little longer, so that each look purges many.
    pause_ms = max(HISTORY_EVERY_MS, window_ms // 16)
    return max(oldest_ms + window_ms + 1, now.wall_ms + pause_ms)


def _expire_late(places: Places, settler: Settler, stage: Stage, id_: int, now: Now) -> None:
    """Expire a message that came back, if it is still there, still free and still expired."""
    place, found = places.place(id_ >> SLOT_SHIFT), places.store.envelope(id_)
    if place is None or found is None or found.row.counter in place.queue.locks:
        return
    row = found.row
    if row.expires_ms is None or row.expires_ms > now.wall_ms or settler.expiry_held:
        # A clock was corrected, and queues are read again since then.
        if row.expires_ms is not None:
            places.expires_at(row.expires_ms)
        return
    settler.expire(place, id_, row.state, found.size())
    if row.state == State.ACTIVE:
        stage.vanished.append((place.queue, row.counter))


def _gone_through(
    heads: Sequence[Head], cursor: tuple[int, int], budget: Budget, take: Callable[[Head], int]
) -> tuple[bool, tuple[int, int]]:
    """Take heads until the budget is spent, one at least; return whether all, and how far.

    `take` returns the bytes that it read.
    """
    for index, head in enumerate(heads):
        if index and budget.spent():
            return False, cursor
        budget.spend(take(head))
        cursor = (head.at_ms, head.id)
    return True, cursor


def _activate(places: Places, place: Place, head: Head, stage: Stage, now: Now) -> None:
    found = places.store.rows([head.id])
    if not found:
        return
    row, state = found[0], place.queue.state
    stage.remove(place.queue, row.id, row.state, row.size())
    state.last_enqueued_ms = max(state.last_enqueued_ms, now.wall_ms)
    fresh = row._replace(
        id=row_id(state.slot, state.counter + 1),
        state=0,
        enqueued_ms=state.last_enqueued_ms,
        expires_ms=bounds.end_of_life(now.wall_ms, row.time_to_live_ms),
    )
    stage.append_row(place.queue, fresh)


def remove_dropped(places: Places, slot: SlotState, changes: Changes, budget: Budget) -> None:
    """Remove some rows of a deleted entity's slot; when none is left, the slot."""
    for head in places.store.heads(slot.slot, 0, COUNTER_MASK, budget.rows_left):
        changes.deletes.append(head.id)
        budget.spend(head.size_bytes)
        if budget.spent():
            return
    keys = places.store.history(slot.slot, _LAST_ID, budget.rows_left)
    changes.history_deletes += keys
    if len(keys) < budget.rows_left and not changes.deletes:
        changes.slots_removed.append(slot.slot)
