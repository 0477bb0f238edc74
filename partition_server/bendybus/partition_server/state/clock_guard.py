"""Notices that time did something odd: the wall clock jumped, or the process was suspended.

Rules: if wall and monotonic clock part by more than 60 s, expiry and the purge of duplicate
history wait for some minutes, so that a wrong clock deletes nothing that a right one would keep;
the same when a file is opened under another clock than it was last used with. Locks run on the
monotonic clock. If the process was suspended for more than a second (SIGSTOP, a
laptop's lid), locks are extended by the gap, because no receiver could settle meanwhile.
"""

from typing import Final

from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.store.records import ClockMark

JUMP_MS: Final = 60_000
STANDSTILL_MS: Final = 1_000


class ClockGuard:
    """Compares the clocks at every turn of the partition's loop."""

    def __init__(
        self, now: Now, *, hold_ms: int, seen: ClockMark | None = None, machine: str = ""
    ) -> None:
        self._hold_ms = hold_ms
        self._offset_ms = now.wall_ms - now.mono_ms
        self._held_until_mono_ms = now.mono_ms + hold_ms if _moved(now, seen, machine) else 0
        # Raised when the wall clock went back: what seemed to be past its time may not be.
        self.corrections = 0
        self._expected_mono_ms: int | None = None

    def observe(self, now: Now) -> int:
        """Take notice of the time; return how long the process was suspended (0: it was not)."""
        offset_ms = now.wall_ms - now.mono_ms
        if abs(offset_ms - self._offset_ms) > JUMP_MS:
            self._held_until_mono_ms = now.mono_ms + self._hold_ms
            self.corrections += offset_ms < self._offset_ms
        # The offset follows, so that a clock set right again is a second jump, not a lasting one,
        # and slow corrections never count.
        self._offset_ms = offset_ms
        gap_ms = 0
        if self._expected_mono_ms is not None:
            gap_ms = now.mono_ms - self._expected_mono_ms
        self._expected_mono_ms = now.mono_ms
        return gap_ms if gap_ms > STANDSTILL_MS else 0

    def waiting(self, now_mono_ms: int, until_mono_ms: int) -> None:
        """Say that the loop is going to wait, so that this is not taken for standing still.

        What it was suspended since the last look, in the middle of its work, still counts.
        """
        lost_ms = now_mono_ms - (self._expected_mono_ms or now_mono_ms)
        self._expected_mono_ms = until_mono_ms - (lost_ms if lost_ms > STANDSTILL_MS else 0)

    def expiry_held(self, now: Now) -> bool:
        """Whether expiry waits because the wall clock jumped."""
        return now.mono_ms < self._held_until_mono_ms


def _moved(now: Now, seen: ClockMark | None, machine: str) -> bool:
    """Whether the wall clock is not where the one that a file was last used with must be by now."""
    if seen is None:
        return False
    passed_ms = now.wall_ms - seen.wall_ms
    if machine and machine == seen.machine:
        # The monotonic clock went on meanwhile and says how long that was.
        passed_ms -= now.mono_ms - seen.mono_ms
    return abs(passed_ms) > JUMP_MS
