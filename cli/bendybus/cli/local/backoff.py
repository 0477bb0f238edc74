"""How long to wait before a process that died is started again. Pure."""

from dataclasses import dataclass
from typing import Final

FIRST_S: Final = 0.2
MOST_S: Final = 5.0
HEALTHY_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures in a row, and from them the next delay: 0.2 s, doubled up to 5 s."""

    failures: int = 0

    @property
    def delay_s(self) -> float:
        """How long to wait now; 0 before the first failure."""
        if not self.failures:
            return 0.0
        return float(min(MOST_S, FIRST_S * 2 ** min(self.failures - 1, 16)))

    def after_run(self, *, lasted_s: float) -> "Backoff":
        """Return what holds after a run that ended by itself; a long one counts as healthy."""
        return Backoff(1) if lasted_s >= HEALTHY_S else Backoff(self.failures + 1)
