"""Circuit breaker of a partition: one miss opens it, a probe closes it.

    CLOSED ──sends silent, echo late, no echo stream──► OPEN ──echo answered and serving──► CLOSED

Users' sends never probe: the echo stream does, which the partition's event loop answers, so a
slow disk is not mistaken for a stopped process.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class BreakerState(StrEnum):
    """Position of a breaker."""

    CLOSED = "closed"
    OPEN = "open"


@dataclass(slots=True)
class Breaker:
    """The breaker of one partition."""

    state: BreakerState = BreakerState.OPEN
    reason: str = "it has not answered yet"
    conditions: tuple[str, ...] = ()
    opened: int = field(default=0)

    @property
    def closed(self) -> bool:
        """Whether the partition is tried."""
        return self.state is BreakerState.CLOSED

    def miss(self, reason: str) -> bool:
        """Open, saying why; return whether it was closed."""
        was_closed = self.closed
        self.state, self.reason = BreakerState.OPEN, reason
        self.opened += was_closed
        return was_closed

    def echoed(self, *, serving: bool, conditions: tuple[str, ...]) -> None:
        """Take a probe's answer: close, or stay open while the store is not."""
        self.conditions = conditions
        if serving:
            self.state, self.reason = BreakerState.CLOSED, ""
        else:
            self.miss("its store is not open")
