"""Duplicate detection: a message id that was accepted within the window is not accepted again.

On a partitioned entity a message is known by its id and its effective key, else by its id.
"""

from functools import partial
from typing import Final

from bendybus.domain import partitioning
from bendybus.domain.entity import Entity
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.clock_guard import JUMP_MS
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import ROW_BYTES, HistoryEntry

# Keys of a queue are purged this often at most, or sixteen times in its window, many at a time.
PURGE_EVERY_MS: Final = 1_000


class KeyHistory:
    """The keys that one queue has accepted, as one stage sees them."""

    def __init__(self, turn: Turn, queue: MessageQueue) -> None:
        self._stage = turn.stage
        self._partition = turn.partition
        self._queue = queue
        self._now = now = turn.now
        self._clock_held = clock_held = turn.expiry_held
        # Whether the ends of its keys are looked at after this stage.
        self._watched = False
        # Keys older than this do not count; all count while the clock is in doubt.
        window_ms = queue.entity.description.duplicate_detection_history_time_window_ms
        self._known_since_ms = -1 if clock_held else now.wall_ms - window_ms

    def known(self, keys: list[str]) -> dict[str, tuple[int, int]]:
        """Return which of these the file remembers: counter of the original, when."""
        return self._partition.store.known(self._queue.slot, {key for key in keys if key})

    def original(self, key: str, remembered: tuple[int, int] | None) -> int | None:
        """Return the counter of the message that had this key within the window."""
        fresh = self._stage.keys.get((self._queue.slot, key))
        if fresh is not None or remembered is None:
            return fresh
        counter, at_ms = remembered
        if at_ms < self._known_since_ms:
            return None
        if at_ms > self._now.wall_ms + JUMP_MS and not self._clock_held:
            # Accepted under a clock that was ahead and is corrected: its window begins now.
            entry = HistoryEntry(self._queue.slot, key, counter, self._now.wall_ms)
            self._remember(entry)
        return counter

    def remember(self, key: str, counter: int, *, is_new: bool) -> None:
        """Note the key of a message that was appended."""
        state = self._queue.state
        entry = HistoryEntry(state.slot, key, counter, self._now.wall_ms)
        self._remember(entry)
        if is_new:
            self._stage.touch(self._queue)
            state.size_bytes += entry.size()

    def _remember(self, entry: HistoryEntry) -> None:
        if not self._watched:
            self._watched = True
            watch = self._partition.watch_keys
            self._stage.journal.later(watch, self._queue, self._now.wall_ms)
        self._stage.remember_key(entry)


def key_of(entity: Entity, batch: Batch, i: int) -> str:
    """Return what a message is known by, "" if by nothing."""
    message_id = batch.message_ids[i] if batch.message_ids else ""
    if not message_id or not entity.partitioned:
        return message_id
    key = partitioning.effective_key(
        session_id=session_of(batch, i),
        partition_key=batch.partition_keys[i] if batch.partition_keys else "",
        message_id=message_id,
        detects_duplicates=True,
    )
    return f"{message_id}\0{key}"


def session_of(batch: Batch, i: int) -> str | None:
    """Return a message's session, None if it has none."""
    if not batch.session_ids or (batch.session_present and not batch.session_present[i]):
        return None
    return batch.session_ids[i]


def history_bytes(entity: Entity, batch: Batch, start: int, end: int) -> int:
    """Return what will be remembered of these messages at most."""
    if not entity.description.requires_duplicate_detection:
        return 0
    keys = [key_of(entity, batch, i) for i in range(start, end)]
    return sum(len(key) + ROW_BYTES for key in keys if key)


def sweep(turn: Turn) -> None:
    """Forget keys that are older than the window, queue by queue."""
    looked: set[int] = set()
    ends, now_ms = turn.partition.due.key_ends, turn.now.wall_ms
    while (first := ends.first()) and first[0] <= now_ms and not turn.budget.spent():
        slot = first[1]
        if slot in looked:
            # Its rows are still there until this is committed.
            break
        looked.add(slot)
        following: list[int | None] = []
        queue = turn.partition.queues.at(slot)
        forget = partial(_forget_some, turn, slot, following)
        if turn.attempt(Sweep.HISTORY.name, queue.entity.name if queue else "", forget):
            pause_ms = turn.partition.faults.pause_ms((Sweep.HISTORY, slot), turn.now.mono_ms)
            following = [now_ms + pause_ms]
        # Moved at once, so that the next slot comes up.
        ends.replace(slot, following[0])


def _forget_some(turn: Turn, slot: int, following: list[int | None]) -> None:
    """Forget keys of one queue; add when to look at it again, None if nothing is left."""
    following.append(_forgotten(turn, slot))


def _forgotten(turn: Turn, slot: int) -> int | None:
    budget, stage, now_ms = turn.budget, turn.stage, turn.now.wall_ms
    budget.spend()
    queue = turn.partition.queues.at(slot)
    if queue is None:
        return None
    window_ms = queue.entity.description.duplicate_detection_history_time_window_ms
    most = max(1, budget.rows_left)
    old = turn.partition.store.history(slot, now_ms - window_ms, most)
    if old:
        stage.touch(queue)
        size_bytes = sum(entry.size() for entry in old)
        queue.state.size_bytes -= size_bytes
        stage.changes.history_deletes += old
        budget.spend(size_bytes, rows=len(old))
    if len(old) == most:
        return now_ms
    oldest_ms = turn.partition.store.oldest_key(slot, now_ms - window_ms)
    if oldest_ms is None:
        return None
    # Lookups judge by age: keys may stay a little longer, so that each look purges many.
    pause_ms = max(PURGE_EVERY_MS, window_ms // 16)
    return max(oldest_ms + window_ms + 1, now_ms + pause_ms)
