"""When to try again, and after how long: the options of azure-servicebus as one value."""

from dataclasses import dataclass
from typing import Final

from bendybus.domain.backoff import Backoff
from bendybus.domain.errors import BusError, RetryableError

MODES: Final = ("exponential", "fixed")


class Moved(RetryableError):
    """Raised when the bus ended a stream in good order, to have it opened elsewhere.

    `answered`: everything that the bus took from the stream was answered before.
    """

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__(message)
        self.answered = answered


def counted(error: BusError) -> int:
    """Return how many failures an error is: being moved is none."""
    return 0 if isinstance(error, Moved) else 1


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often (`total`, after the first try) and with which pauses, in seconds."""

    total: int = 3
    backoff_factor_s: float = 0.8
    backoff_max_s: float = 120.0
    mode: str = "exponential"

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be a policy."""
        if self.mode not in MODES:
            raise ValueError(f"retry_mode: {self.mode!r} is neither exponential nor fixed.")
        if self.total < 0:
            raise ValueError(f"retry_total: {self.total} is negative.")
        if self.backoff_factor_s < 0 or self.backoff_max_s < 0:
            raise ValueError("retry_backoff_factor and retry_backoff_max must not be negative.")

    def allows(self, error: BusError, failures: int) -> bool:
        """Whether to try again after `failures` failed tries, `error` being the last one's."""
        return error.retryable and failures <= self.total

    def pause_s(self, failures: int, error: BusError | None = None) -> float:
        """Return how long to wait after the given number of failed tries (1 and up)."""
        first_s = min(self.backoff_factor_s, self.backoff_max_s)
        backoff = Backoff(first_s, self.backoff_max_s)
        pause = backoff.delay_s(1 if self.mode == "fixed" else max(1, failures))
        advised = error.retry_after_ms / 1_000 if error is not None else 0.0
        return max(pause, advised)
