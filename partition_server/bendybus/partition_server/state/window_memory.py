"""The memory of all windows of a partition: one budget, filled by demand.

A window (see `ready_set`) may be emptied at any time between two turns: what it had is read from
the store again. Those that nobody received from go first, then the one that was received from
longest ago; and each that was not used for a minute. A queue that is received from may always read
as much as it is asked for, so that a full budget makes it slower at worst.
"""

from collections import OrderedDict
from typing import Final, Protocol

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
