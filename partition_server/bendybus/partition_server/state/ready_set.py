"""What can be received of a queue: the messages that are ACTIVE and not locked, in their order.

A queue has one ready set, chosen when the queue is made. The rules know it by `ReadySet`; a plain
queue has a `ReadyWindow`:

    store ──page──► window ─┐
    commit ──hot──►         ├─► take() ──► locked by the caller ──settled──► gone
    give_back() ► returned ─┘

The window is a bounded run of rows; `loaded` is the highest counter that it has reached. What was
just committed goes straight into the window while that is at the end of the queue (a *hot head*),
else it waits in the store. Messages that come back are kept by number only and read again, so that
memory grows neither with the backlog nor with locks on large messages; and what all windows of a
partition take together has a bound, see below.

The memory of all windows of a partition: one budget, filled by demand.

A window (see `ready_set`) may be emptied at any time between two turns: what it had is read from
the store again. Those that nobody received from go first, then the one that was received from
longest ago; and each that was not used for a minute. A queue that is received from may always read
as much as it is asked for, so that a full budget makes it slower at worst.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from bendybus.partition_server.state.message_lock import Lock
from bendybus.partition_server.store.records import Row, SlotState, row_id
from bendybus.partition_server.store.store import Store

# All windows together; above it they are emptied down to `KEPT_BYTES`, so that what is sent in the
# next turn has room.
WINDOWS_BYTES_MAX: Final = 32 * 1024 * 1024
KEPT_BYTES: Final = WINDOWS_BYTES_MAX * 3 // 4
# What a row takes beside its content, about.
ROW_MEMORY_BYTES: Final = 600
# A window that nobody received from for so long is emptied.
IDLE_MS: Final = 60_000
# Between two looks for such windows.
IDLE_EVERY_MS: Final = 1_000


class Window(Protocol):
    """What has memory here."""

    def memory_bytes(self) -> int:
        """Return how much it takes."""

    def empty(self) -> None:
        """Free it."""


class WindowMemory:
    """What the windows of a partition take."""

    def __init__(self) -> None:
        self.used_bytes = 0
        self._mono_ms = 0
        # When idle windows are looked for next.
        self._idle_mono_ms = 0
        # A page was smaller than it could have been.
        self._short = False
        # Each with what it is counted as, and when it was received from last, or began; the first
        # of each came first. One that is received from stays here while it is empty: it has its
        # part of the memory.
        self._filled: OrderedDict[Window, tuple[int, int]] = OrderedDict()
        self._received: OrderedDict[Window, tuple[int, int]] = OrderedDict()

    def room(self) -> int:
        """Return what windows may take until some are emptied."""
        return WINDOWS_BYTES_MAX - self.used_bytes

    def page_bytes(self) -> int:
        """Return how much a window may read ahead: an equal part for all that are received from."""
        part, room = KEPT_BYTES // (len(self._received) or 1), self.room()
        if room < part:
            self._short = True
        return min(room, part)

    def filled(self, window: Window) -> None:
        """Count a window again that was filled, or lost something."""
        known = self._received if window in self._received else self._filled
        counted, since_ms = known.get(window, (0, self._mono_ms))
        count = window.memory_bytes()
        self.used_bytes += count - counted
        known[window] = count, since_ms

    def received(self, window: Window) -> None:
        """Count a window again that was received from."""
        known = self._filled if window in self._filled else self._received
        counted, _ = known.pop(window, (0, 0))
        count = window.memory_bytes()
        self.used_bytes += count - counted
        self._received[window] = count, self._mono_ms

    def trim(self, mono_ms: int) -> None:
        """Empty what is idle, and what is too much. Never while a stage is being decided: it knows
        whether windows were at their ends.
        """
        self._mono_ms = mono_ms
        if mono_ms >= self._idle_mono_ms:
            self._idle_mono_ms = mono_ms + IDLE_EVERY_MS
            self._empty_idle(mono_ms)
        if self._short or self.used_bytes > WINDOWS_BYTES_MAX:
            self._short = False
            self._make_room()

    def _empty_idle(self, mono_ms: int) -> None:
        for known in (self._filled, self._received):
            while known:
                window, (_, since_ms) = next(iter(known.items()))
                if mono_ms - since_ms < IDLE_MS:
                    break
                window.empty()
                del known[window]

    def _make_room(self) -> None:
        for known in (self._filled, self._received):
            for window, (count, _) in list(known.items()):
                if self.used_bytes <= KEPT_BYTES:
                    return
                if count:
                    window.empty()


# A page from the store, and what the window may hold.
PAGE_ROWS: Final = 1_000
WINDOW_ROWS_MAX: Final = 4_000
WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024

# One take reads this many pages, looks at this many counters for each, and passes over this many
# expired rows; what is left is looked at in the next turn.
TAKE_PAGES: Final = 2
# A row that is passed over costs up to 3 µs: one of some KB has a page of the file for itself.
PAGE_COUNTERS: Final = 3_000
TAKE_LOOKS: Final = 2_000


class ReadySet(Protocol):
    """What the rules do with the messages of a queue that can be received."""

    # Numbers that the last take, or the last look for a session, passed over in the store.
    passed: int

    def at_end(self) -> bool:
        """Whether it reaches the last counter given: what is new can be added to it."""

    def push_hot(self, rows: Iterable[Row], caught_up: bool) -> None:
        """Take committed rows, if it had reached the end before they came (`caught_up`)."""

    def give_back(self, counter: int, lock: Lock) -> None:
        """Let a message whose lock is over be received again, in its place by number."""

    def forget(self, counters: Sequence[int]) -> None:
        """Note that ACTIVE rows that were not locked are no longer there to be received."""

    def rewind(self) -> None:
        """Read the queue from its beginning again: what was passed over may be alive after all."""

    def has_ready(self) -> bool:
        """Whether a take could find something."""

    def take(self, count: int, size_bytes: int, *, now_ms: int, store: Store) -> list[Row]:
        """Return up to `count` rows of about `size_bytes` in all, oldest first; at least one.

        They leave the set; the caller locks them. Rows past their time are left to expiry. The
        work is bounded: fewer rows, or none, while `has_ready` means that there is more to look
        at.
        """


class ReadyWindow:
    """The ready set of a queue whose messages are received in the order of their numbers."""

    __slots__ = (
        "_asked",
        "_locks",
        "_memory",
        "_pages_left",
        "_rewound",
        "_state",
        "gone",
        "loaded",
        "passed",
        "returned",
        "window",
        "window_bytes",
    )

    def __init__(
        self, state: SlotState, locks: Mapping[int, Lock], memory: WindowMemory | None = None
    ) -> None:
        """`locks` are those of the queue, by counter; read here, never changed."""
        self._state = state
        self._memory = memory or WindowMemory()
        self._locks = locks
        self.window: deque[Row] = deque()
        self.window_bytes = 0
        self.loaded = 0
        self.passed = 0
        self.returned: list[int] = []
        # Rows in the window that were deleted or deferred behind its back.
        self.gone: set[int] = set()
        # Up to here the window was read before; its locked rows come back when their locks end.
        self._rewound = 0
        self._pages_left = 0
        # What the take that is under way wants: rows, and bytes.
        self._asked = (0, 0)

    def memory_bytes(self) -> int:
        """Return how much memory the window takes."""
        return self.window_bytes + ROW_MEMORY_BYTES * len(self.window)

    def empty(self) -> None:
        """Give the memory back: what the window has is read again when it is its turn."""
        if self.window:
            # What was taken from it is before its first row.
            self._rewound = max(self._rewound, self.loaded)
            self.loaded = self.window[0].counter - 1
            self.returned = [counter for counter in self.returned if counter <= self.loaded]
            heapq.heapify(self.returned)
            self.window.clear()
            self.gone.clear()
        self.window_bytes = 0
        self._memory.filled(self)

    def at_end(self) -> bool:
        """Whether the window reaches the last counter given: what is new can be added to it."""
        return self.loaded >= self._state.counter

    def push_hot(self, rows: Iterable[Row], caught_up: bool) -> None:
        """Take committed rows into the window, if it had reached the end before they came."""
        if not caught_up:
            return
        coming, room = iter(rows), WINDOW_ROWS_MAX - len(self.window)
        size_bytes_max = min(WINDOW_BYTES_MAX, self.window_bytes + self._memory.room())
        for row in islice(coming, room):
            if self.window_bytes > size_bytes_max:
                break
            if row.state == 0:
                self.window.append(row)
                self.window_bytes += row.delivered_bytes()
            self.loaded = row.counter
        else:
            if next(coming, None) is None:
                self.loaded = self._state.counter
        self._memory.filled(self)

    def give_back(self, counter: int, lock: Lock) -> None:
        """Let a message whose lock is over be received again, in its place by number."""
        # Above `loaded` (after a rewind) the next page has it.
        if counter <= self.loaded:
            heapq.heappush(self.returned, counter)

    def put_back(self, counters: Sequence[int]) -> None:
        """Let messages that were taken, and not locked, be taken again, in their places."""
        for counter in counters:
            if counter <= self.loaded:
                heapq.heappush(self.returned, counter)

    def forget(self, counters: Sequence[int]) -> None:
        """Note that ACTIVE rows which may lie in the window are no longer there to be received."""
        if not self.window:
            return
        first = self.window[0].counter
        self.gone.update(c for c in counters if first <= c <= self.loaded)
        if 2 * len(self.gone) > len(self.window):
            # Purged: so that what nobody receives from gives its memory back.
            self.window = deque(row for row in self.window if row.counter not in self.gone)
            self.window_bytes = sum(row.delivered_bytes() for row in self.window)
            self.gone.clear()
            self._memory.filled(self)

    def rewind(self) -> None:
        """Read the queue from its beginning again: what was passed over may be alive after all."""
        self.window.clear()
        self.window_bytes = 0
        self.returned.clear()
        self.gone.clear()
        self._rewound, self.loaded = max(self._rewound, self.loaded), 0
        self._memory.filled(self)

    def expect_locked(self, counter: int) -> None:
        """Leave a message out that is locked before the window is read the first time."""
        self._rewound = max(self._rewound, counter)

    def has_ready(self) -> bool:
        """Whether a take could find something."""
        return bool(self.window or self.returned) or self.loaded < self._state.counter

    def take(self, count: int, size_bytes: int, *, now_ms: int, store: Store) -> list[Row]:
        """Return rows in the order of their numbers; see ReadySet."""
        taken: list[Row] = []
        window, self.passed = self.window, 0
        self._pages_left, looks = TAKE_PAGES, TAKE_LOOKS
        self._asked = count, size_bytes
        while len(taken) < count and size_bytes > 0:
            if window and not self.returned and not self.gone:
                row: Row | None = window.popleft()
            else:
                row = self._next(store, now_ms)
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
        self._memory.received(self)
        return taken

    def _next(self, store: Store, now_ms: int) -> Row | None:
        """Return the next row; the caller takes its bytes from the window's."""
        while True:
            if not self.window:
                self.gone.clear()
                if self.loaded < self._state.counter and self._pages_left:
                    self._pages_left -= 1
                    self._load(store, now_ms)
            if self.returned and (not self.window or self.returned[0] < self.window[0].counter):
                counter = heapq.heappop(self.returned)
                while self.returned and self.returned[0] == counter:
                    # It came back in a stage that was taken back: still one message.
                    heapq.heappop(self.returned)
                found = store.rows([row_id(self._state.slot, counter)])
                if found and found[0].state == 0 and found[0].counter not in self._locks:
                    # It never counted to the window.
                    self.window_bytes += found[0].delivered_bytes()
                    return found[0]
                continue
            if not self.window:
                if self.loaded < self._state.counter and self._pages_left:
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

    def _load(self, store: Store, now_ms: int) -> None:
        through = min(self._state.counter, self.loaded + PAGE_COUNTERS)
        slot, after = self._state.slot, self.loaded
        # What is asked for, and as much more as there is memory for: half of it for content.
        half, (count, asked_bytes) = self._memory.page_bytes() // 2, self._asked
        most = min(PAGE_ROWS, max(count, half // ROW_MEMORY_BYTES))
        bytes_max = min(WINDOW_BYTES_MAX, max(asked_bytes, half))
        rows = store.active(slot, after, through, most, bytes_max, now_ms)
        size_bytes = sum(row.delivered_bytes() for row in rows)
        more = len(rows) == most or size_bytes >= bytes_max
        if self.loaded < self._rewound:
            locked = [row for row in rows if row.counter in self._locks]
            size_bytes -= sum(row.delivered_bytes() for row in locked)
            self.window.extend(row for row in rows if row.counter not in self._locks)
        else:
            self.window.extend(rows)
        self.loaded = rows[-1].counter if more else through
        self.passed += self.loaded - after - len(rows)
        if not rows:
            self.loaded = end_of_gap(self._state, through, store)
        self.window_bytes += size_bytes


def end_of_gap(state: SlotState, counter: int, store: Store) -> int:
    """Return the number before the next message of a slot: what was deleted is not looked for."""
    if counter >= state.counter:
        return counter
    found = store.summaries(state.slot, counter + 1, state.counter, 1)
    return found[0].counter - 1 if found else state.counter
