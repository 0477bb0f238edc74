"""The clock of the bus, as far as a client knows it.

A front end gives its time as it admits a stream, and with everything that has a lock. What it wrote
at a time of its own was written here at the earliest at `at(time)`: later by less than the quickest
round trip of the stream. So a lock that has ended on the way is known to have, however long the
line was mute.
"""

import math


class BusClock:
    """The clock of the front end of one stream: milliseconds of its own, any zero. No I/O."""

    __slots__ = ("_offset_s",)

    def __init__(self) -> None:
        self._offset_s = -math.inf

    def restart(self) -> None:
        """Forget the clock: another front end may answer now."""
        self._offset_s = -math.inf

    def answered(self, asked_s: float, bus_ms: int) -> None:
        """Take the time of an answer to what was asked at `asked_s` of our monotonic clock."""
        self._offset_s = max(self._offset_s, asked_s - bus_ms / 1_000)

    def at(self, bus_ms: int, now_s: float) -> float:
        """Return a time of the bus on our monotonic clock; `now_s` if that is not known (0)."""
        if not bus_ms or self._offset_s == -math.inf:
            return now_s
        return min(now_s, bus_ms / 1_000 + self._offset_s)
