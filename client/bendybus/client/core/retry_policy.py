"""When to retry, and after which pause: the retry options of azure-servicebus as one value."""

from dataclasses import dataclass
from typing import Final

from bendybus.domain.backoff import Backoff
from bendybus.domain.errors import BusError, RetryableError

MODES: Final = ("exponential", "fixed")


class Moved(RetryableError):
    """Raised when the bus closed a stream cleanly, to have it opened on another front end.

    `answered`: everything that the bus read from the stream was answered before.
    """

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__(message)
        self.answered = answered


def counted(error: BusError) -> int:
    """Return how many failures an error counts: none if the stream was moved."""
    return 0 if isinstance(error, Moved) else 1


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How many retries after the first try (`total`), and the pauses in seconds."""

    total: int = 3
    backoff_factor_s: float = 0.8
    backoff_max_s: float = 120.0
    mode: str = "exponential"

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid option."""
        if self.mode not in MODES:
            raise ValueError(f"retry_mode: must be exponential or fixed (got {self.mode!r})")
        if self.total < 0:
            raise ValueError(f"retry_total: must not be negative (got {self.total})")
        if self.backoff_factor_s < 0 or self.backoff_max_s < 0:
            raise ValueError("retry_backoff_factor, retry_backoff_max: must not be negative")

    def allows(self, error: BusError, failures: int) -> bool:
        """Whether to retry after `failures` failed tries, the last of them with `error`."""
        return error.retryable and failures <= self.total

    def pause_s(self, failures: int, error: BusError | None = None) -> float:
        """Return the pause after the given number of failed tries (1 and up)."""
        first_s = min(self.backoff_factor_s, self.backoff_max_s)
        backoff = Backoff(first_s, self.backoff_max_s)
        pause = backoff.delay_s(1 if self.mode == "fixed" else max(1, failures))
        advised = error.retry_after_ms / 1_000 if error is not None else 0.0
        return max(pause, advised)
