"""Exponential back-off: how long to wait after failures in a row. Used by every room that retries.

No clock and no randomness here: the caller measures how long an attempt lasted, and passes a random
number for the jitter.
"""

from dataclasses import dataclass
from typing import Final

# More doublings than any limit allows, and few enough not to overflow a float.
_DOUBLINGS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from `first_s` to `max_s`.

    `reset_after_s`: an attempt that lasted at least this long ends the row of failures before it.
    `jitter`: the part of the delay that is random, 0 to 1, so that many clients of one server that
    failed do not all return at once; with 0.5 a delay of 2 s becomes 1 to 2 s. A delay is never
    longer than `max_s`.
    """

    first_s: float
    max_s: float
    reset_after_s: float = float("inf")
    jitter: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for delays that do not grow from `first_s` to `max_s`."""
        if not 0 <= self.first_s <= self.max_s:
            raise ValueError(f"first_s: must be 0 to max_s, {self.max_s:g} (got {self.first_s:g})")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter: must be 0 to 1 (got {self.jitter:g})")

    def delay_s(self, failures: int, random: float = 1.0) -> float:
        """Return the delay after so many failures in a row; 0 after none.

        `random`: 0 to 1, from `random.random()`; 1 is the longest delay.
        """
        if failures <= 0:
            return 0.0
        delay = min(self.max_s, self.first_s * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))
        return delay * (1.0 - self.jitter * (1.0 - random))

    def failures_after(self, failures: int, lasted_s: float) -> int:
        """Return how many failures in a row there are once another attempt failed."""
        return 1 if lasted_s >= self.reset_after_s else failures + 1
