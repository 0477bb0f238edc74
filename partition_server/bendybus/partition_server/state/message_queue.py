"""One (sub-)queue of one partition in memory: what can be received next, who has it locked.

    store ──page──► window ─┐
    commit ──hot──►         ├─► take() ──► locks ──settled──► gone
    lock end ─────► returned┘                └──ended/abandoned──► returned

The window is a bounded run of rows that are ACTIVE and not locked; `loaded` is the highest
counter that it has reached. What was just committed goes straight into the window while that is
at the end of the queue (a *hot head*), else it waits in the store. Messages that come back are
kept by number only and read again, so that memory grows neither with the backlog nor with locks
on large messages.
"""

import heapq
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.domain.entity import Entity
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.store.records import Row, SlotState, row_id

# A page from the store, and what the window may hold.
PAGE_ROWS: Final = 1_000
WINDOW_ROWS_MAX: Final = 4_000
WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024

# One take reads this many pages, looks at this many counters for each, and passes over this many
# expired rows; what is left is looked at in the next turn.
TAKE_PAGES: Final = 2
PAGE_COUNTERS: Final = 50_000
TAKE_LOOKS: Final = 2_000
# Notes of lock ends beyond two a lock, before they are made again without those of settled ones.
NOTES_SPARE: Final = 1_000

# (slot, after, through, rows at most, bytes at which to stop, expired at) → rows
ReadPage = Callable[[int, int, int, int, int, int], list[Row]]
ReadRows = Callable[[Sequence[int]], list[Row]]


@dataclass(slots=True)
class Lock:
    """A locked message. Locks are not durable: a restart frees them."""

    generation: int
    until_mono_ms: int
    # The front end's stream that it is reserved for; a lock of a deferred message has none.
    stream: Any
    # Deleted when it is handed to the client (receive-and-delete).
    delete: bool
    # The client has it: from now on a lost lock counts as a delivery.
    delivered: bool
    deferred: bool
    delivery_count: int
    size_bytes: int
    expires_ms: int | None
    # Of the properties that receivers changed, which stay in the store.
    changed_bytes: int


@dataclass(slots=True)
class OpenAsk:
    """What a receiver still wants."""

    stream: Any
    ask_id: int
    delete: bool
    messages: int
    size_bytes: int


@dataclass(slots=True)
class MessageQueue:
    """The volatile side of a slot; see the module's docstring."""

    state: SlotState
    # As it is now: replaced when its description changes.
    entity: Entity
    window: deque[Row] = field(default_factory=deque)
    window_bytes: int = 0
    loaded: int = 0
    returned: list[int] = field(default_factory=list)
    locks: dict[int, Lock] = field(default_factory=dict)
    # By (stream, ask id), in the order in which they are served.
    asks: OrderedDict[tuple[Any, int], OpenAsk] = field(default_factory=OrderedDict)
    # (when the locks end, their counters and generations), earliest first. A note outlives its
    # lock; see `watch_lock`.
    lock_ends: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    noted: int = 0
    # Rows in the window that were deleted or deferred behind its back.
    gone: set[int] = field(default_factory=set)
    # Up to here the window was read before; its locked rows come back when their locks end.
    rewound: int = 0
    pages_left: int = 0
    last_used_mono_ms: int = 0
    accessed_at_ms: int = 0
    # The number of the queue in the partition's file.
    slot: int = field(init=False)

    def __post_init__(self) -> None:
        self.slot = self.state.slot

    @property
    def is_dead_letter(self) -> bool:
        """Whether this is a dead-letter sub-queue."""
        return self.state.sub_queue is SubQueue.DEAD_LETTER

    # What can be received

    def at_end(self) -> bool:
        """Whether the window reaches the last counter given: what is new can be added to it."""
        return self.loaded >= self.state.counter

    def push_hot(self, rows: Sequence[Row], caught_up: bool) -> None:
        """Take committed rows into the window, if it had reached the end before they came."""
        if not caught_up or not rows:
            return
        room = WINDOW_ROWS_MAX - len(self.window)
        for row in rows[:room]:
            if self.window_bytes > WINDOW_BYTES_MAX:
                break
            if row.state == 0:
                self.window.append(row)
                self.window_bytes += row.delivered_bytes()
            self.loaded = row.counter
        else:
            if room >= len(rows):
                self.loaded = self.state.counter

    def give_back(self, counter: int) -> None:
        """Let a message that is no longer locked be received again, in its place by number."""
        # Above `loaded` (after a rewind) the next page has it.
        if counter <= self.loaded:
            heapq.heappush(self.returned, counter)

    def rewind(self) -> None:
        """Read the queue from its beginning again: what was passed over may be alive after all."""
        self.window.clear()
        self.window_bytes = 0
        self.returned.clear()
        self.gone.clear()
        self.rewound, self.loaded = max(self.rewound, self.loaded), 0

    def has_ready(self) -> bool:
        """Whether a take could find something."""
        return bool(self.window or self.returned) or self.loaded < self.state.counter

    def take(
        self, count: int, size_bytes: int, *, now_ms: int, page: ReadPage, rows: ReadRows
    ) -> list[Row]:
        """Return up to `count` rows of about `size_bytes` in all, oldest first; at least one.

        They leave the window; the caller locks them. Rows past their time are left to expiry.
        The work is bounded: fewer rows, or none, while `has_ready` means that there is more to
        look at.
        """
        taken: list[Row] = []
        window = self.window
        self.pages_left, looks = TAKE_PAGES, TAKE_LOOKS
        while len(taken) < count and size_bytes > 0:
            if window and not self.returned and not self.gone:
                row: Row | None = window.popleft()
            else:
                row = self._next(page, rows, now_ms)
            if row is None:
                break
            size = row.delivered_bytes()
            self.window_bytes -= size
            if taken and size > size_bytes:
                self._put_back(row)
                break
            if row.expires_ms is not None and row.expires_ms <= now_ms:
                looks -= 1
                if not looks:
                    break
                continue
            size_bytes -= size
            taken.append(row)
        return taken

    def _next(self, page: ReadPage, rows: ReadRows, now_ms: int) -> Row | None:
        """Return the next row; the caller takes its bytes from the window's."""
        while True:
            if not self.window:
                self.gone.clear()
                if self.loaded < self.state.counter and self.pages_left:
                    self.pages_left -= 1
                    self._load(page, now_ms)
            if self.returned and (not self.window or self.returned[0] < self.window[0].counter):
                found = rows([row_id(self.state.slot, heapq.heappop(self.returned))])
                if found and found[0].state == 0 and found[0].counter not in self.locks:
                    # It never counted to the window.
                    self.window_bytes += found[0].delivered_bytes()
                    return found[0]
                continue
            if not self.window:
                if self.loaded < self.state.counter and self.pages_left:
                    continue
                return None
            row = self.window.popleft()
            if self.gone and row.counter in self.gone:
                self.gone.discard(row.counter)
                self.window_bytes -= row.delivered_bytes()
                continue
            return row

    def _put_back(self, row: Row) -> None:
        self.window.appendleft(row)
        self.window_bytes += row.delivered_bytes()

    def _load(self, page: ReadPage, now_ms: int) -> None:
        through = min(self.state.counter, self.loaded + PAGE_COUNTERS)
        rows = page(self.state.slot, self.loaded, through, PAGE_ROWS, WINDOW_BYTES_MAX, now_ms)
        size_bytes = sum(row.delivered_bytes() for row in rows)
        more = len(rows) == PAGE_ROWS or size_bytes >= WINDOW_BYTES_MAX
        if self.loaded < self.rewound:
            locked = [row for row in rows if row.counter in self.locks]
            size_bytes -= sum(row.delivered_bytes() for row in locked)
            self.window.extend(row for row in rows if row.counter not in self.locks)
        else:
            self.window.extend(rows)
        self.loaded = rows[-1].counter if more else through
        self.window_bytes += size_bytes

    def forget(self, counters: Sequence[int]) -> None:
        """Note that ACTIVE rows which may lie in the window are no longer there to be received."""
        if not self.window:
            return
        first = self.window[0].counter
        self.gone.update(c for c in counters if first <= c <= self.loaded)

    # Locks

    def lock_ended(self, now_mono_ms: int, limit: int) -> list[tuple[int, Lock]]:
        """Return up to about `limit` locks that are over; the caller removes them."""
        # By counter: a lock that was renewed is noted more than once.
        ended: dict[int, Lock] = {}
        renewed: dict[int, Lock] = {}
        while self.lock_ends and len(ended) < limit and self.lock_ends[0][0] <= now_mono_ms:
            _, entries = heapq.heappop(self.lock_ends)
            self.noted -= len(entries)
            for counter, generation in entries:
                lock = self.locks.get(counter)
                if lock is None or lock.generation != generation:
                    continue
                over = lock.until_mono_ms <= now_mono_ms
                (ended if over else renewed)[counter] = lock
        for counter, lock in renewed.items():
            self.watch_lock(lock.until_mono_ms, [(counter, lock.generation)])
        return list(ended.items())

    def watch_lock(self, until_mono_ms: int, entries: list[tuple[int, int]]) -> None:
        """Look at these locks, which are in `locks`, again when their time is over.

        Settling leaves notes behind, as taking one out of a heap is dear; when they outnumber the
        locks, all are made again, so that what was settled costs nothing for long.
        """
        heapq.heappush(self.lock_ends, (until_mono_ms, entries))
        self.noted += len(entries)
        if self.noted > 2 * len(self.locks) + NOTES_SPARE:
            notes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
            for counter, lock in self.locks.items():
                notes[lock.until_mono_ms].append((counter, lock.generation))
            self.lock_ends = sorted(notes.items())
            self.noted = len(self.locks)

    def next_lock_end(self) -> int | None:
        """Return when to look at locks again."""
        return self.lock_ends[0][0] if self.lock_ends else None

    def extend_locks(self, gap_ms: int) -> None:
        """Extend every lock by the time that the process was suspended."""
        for lock in self.locks.values():
            lock.until_mono_ms += gap_ms
        self.lock_ends = [(until + gap_ms, entries) for until, entries in self.lock_ends]

    def size_bytes(self) -> int:
        """Return what counts to the quota."""
        return self.state.size_bytes

    def used(self, wall_ms: int, mono_ms: int) -> None:
        """Note that a client did something here."""
        self.last_used_mono_ms = mono_ms
        self.accessed_at_ms = wall_ms
