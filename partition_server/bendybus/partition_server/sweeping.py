"""What happens by time alone: locks end, messages expire, scheduled ones become active.

Each sweep is bounded; what is left over is due again at once, so that a million activations are
many transactions with other work between them. Due times come from heaps and indexes, never from
a scan.
"""

import heapq
from enum import IntEnum
from typing import Final

from bendybus.domain import limits
from bendybus.partition_server.commands import Now
from bendybus.partition_server.settling import Place, Places, Settler
from bendybus.partition_server.stage import Stage
from bendybus.partition_server.stored import Changes, Row, SlotState, row_id

SWEEP_ROWS: Final = 1_000
SWEEP_BYTES: Final = 8 * limits.MB
HISTORY_PURGE_EVERY_MS: Final = 1_000


class Kind(IntEnum):
    """What a sweep looks after. One kind a stage: two would each see the rows that the other
    has decided on but not yet written."""

    LOCK_ENDS = 1
    ACTIVATION = 2
    EXPIRY = 3
    HISTORY = 4


class Sweeper:
    """Knows when something is due by time, and does it."""

    def __init__(self) -> None:
        self._lock_ends: list[tuple[int, int]] = []
        self.next_expiry_ms: int | None = None
        self.next_activation_ms: int | None = None
        self.oldest_key_ms: int | None = None
        self._keys_due_mono_ms = 0
        self._last_kind = Kind.HISTORY

    def lock_ends_at(self, mono_ms: int, slot: int) -> None:
        """Look at the locks of `slot` at that time."""
        heapq.heappush(self._lock_ends, (mono_ms, slot))

    def extend_locks(self, gap_ms: int) -> None:
        """Move all lock ends by the time that the process stood still."""
        self._lock_ends = [(at + gap_ms, slot) for at, slot in self._lock_ends]

    def expires_at(self, wall_ms: int) -> None:
        """Look for expired messages at that time."""
        self.next_expiry_ms = min(self.next_expiry_ms or wall_ms, wall_ms)

    def saw(self, row: Row) -> None:
        """Take a new row's times into account."""
        if row.expires_ms is not None:
            self.expires_at(row.expires_ms)
        if row.scheduled_ms and row.state == 2:
            due_ms = self.next_activation_ms or row.scheduled_ms
            self.next_activation_ms = min(due_ms, row.scheduled_ms)

    def load(self, times: tuple[int | None, int | None, int | None]) -> None:
        """Take the times from the store."""
        self.next_expiry_ms, self.next_activation_ms, self.oldest_key_ms = times

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
        if self._lock_ends:
            waits.append((Kind.LOCK_ENDS, self._lock_ends[0][0] - now.mono_ms))
        if self.next_activation_ms is not None:
            waits.append((Kind.ACTIVATION, self.next_activation_ms - now.wall_ms))
        if self.next_expiry_ms is not None and not expiry_held:
            waits.append((Kind.EXPIRY, self.next_expiry_ms - now.wall_ms))
        if self.oldest_key_ms is not None and not expiry_held:
            waits.append((Kind.HISTORY, self._keys_due_mono_ms - now.mono_ms))
        return waits

    def end_locks(self, places: Places, settler: Settler, now: Now) -> None:
        """End locks whose time is over."""
        room = SWEEP_ROWS
        while self._lock_ends and self._lock_ends[0][0] <= now.mono_ms and room > 0:
            at, slot = heapq.heappop(self._lock_ends)
            place = places.place(slot)
            if place is None:
                continue
            ended = place.queue.lock_ended(now.mono_ms, room)
            for counter, lock in ended:
                settler.lock_over(place, counter, lock)
            room -= len(ended)
            following = place.queue.next_lock_end()
            if following is not None:
                self.lock_ends_at(max(following, at), slot)

    def expire(self, places: Places, settler: Settler, stage: Stage, now: Now) -> None:
        """Drop or dead-letter messages past their time; a locked one waits for its lock's end."""
        after, room = (0, 0), SWEEP_ROWS
        while room > 0:
            rows = places.store.expiring(now.wall_ms, after, SWEEP_ROWS)
            for row in rows:
                place = places.place(row.slot)
                if place is None or row.counter in place.queue.locks:
                    continue
                settler.expire(place, row)
                stage.vanished.append((place.queue, row.counter))
                room -= 1
            if len(rows) < SWEEP_ROWS:
                # What is still locked expires when its lock ends; nothing else is due now.
                self.next_expiry_ms = places.store.next_times(now.wall_ms)[0]
                return
            after = (rows[-1].expires_ms or 0, rows[-1].id)

    def activate(self, places: Places, stage: Stage, now: Now) -> None:
        """Enqueue scheduled messages that are due, each with a new number at the end."""
        rows = places.store.activating(now.wall_ms, SWEEP_ROWS)
        for row in rows:
            place = places.place(row.slot)
            if place is not None:
                _activate(place, row, stage, now)
        if len(rows) < SWEEP_ROWS:
            self.next_activation_ms = None
            # Others may be waiting; the store knows, once this is committed.
            stage.reload_times = True

    def forget_keys(self, places: Places, slots: list[Place], stage: Stage, now: Now) -> None:
        """Forget what duplicate detection need not remember any more."""
        self._keys_due_mono_ms = now.mono_ms + HISTORY_PURGE_EVERY_MS
        for place in slots:
            window_ms = place.entity.queue.duplicate_detection_history_time_window_ms
            slot = place.queue.state.slot
            old = places.store.history(slot, now.wall_ms - window_ms, SWEEP_ROWS)
            if old:
                stage.touch(place.queue)
                place.queue.state.size_bytes -= sum(entry.size() for entry in old)
                stage.changes.history_deletes += old
        stage.reload_times = True


def _activate(place: Place, row: Row, stage: Stage, now: Now) -> None:
    state = place.queue.state
    stage.remove(place.queue, row.id, row.state, row.size())
    state.last_enqueued_ms = max(state.last_enqueued_ms, now.wall_ms)
    ends_ms = state.last_enqueued_ms + row.time_to_live_ms if row.time_to_live_ms else None
    fresh = row._replace(
        id=row_id(state.slot, state.counter + 1),
        state=0,
        enqueued_ms=state.last_enqueued_ms,
        expires_ms=ends_ms,
    )
    stage.append_row(place.queue, fresh)


def remove_dropped(places: Places, slot: SlotState, changes: Changes) -> None:
    """Remove some rows of a deleted entity's slot; when none is left, the slot."""
    rows = places.store.browse(slot.slot, 0, SWEEP_ROWS, SWEEP_BYTES)
    if rows:
        changes.deletes += [row.id for row in rows]
        return
    keys = places.store.history(slot.slot, 1 << 62, SWEEP_ROWS)
    if keys:
        changes.history_deletes += keys
        return
    changes.slots_removed.append(slot.slot)
