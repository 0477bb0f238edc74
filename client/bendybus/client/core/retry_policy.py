"""When to retry, after which pause, and what is logged of it.

The retry options of azure-servicebus as one value. All streams of a connection share a channel, so
they break together, and again with each attempt to reconnect: of an outage there is one warning,
and one line when it is over. The other lines are of level DEBUG.
"""

import logging
from dataclasses import dataclass
from typing import Final

from bendybus.domain.backoff import Backoff
from bendybus.domain.errors import BusError, RetryableError

_log = logging.getLogger("bendybus.client")
MODES: Final = ("exponential", "fixed")
# While an outage lasts, it is logged again after this time. An outage that no stream has met for as
# long is not continued: how long it lasted is not known.
REPEAT_S: Final = 60.0


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


class Outage:
    """The streams of a connection that are disconnected, and since when. On the I/O thread only."""

    def __init__(self, target: str = "the bus") -> None:
        self._target = target
        self._disconnected: set[int] = set()
        self._began_s: float | None = None
        self._last_s = 0.0
        self._logged_s = 0.0
        self._tries = 0

    def broke(self, stream: object, name: str, pause_s: float, why: str, now_s: float) -> None:
        """Note that a stream broke, or could not be opened, and is opened again."""
        if self._is_stale(now_s):
            self._began_s = None
        self._disconnected.add(id(stream))
        self._tries += 1
        self._last_s = now_s
        if self._began_s is None:
            self._began_s, self._tries, self._logged_s = now_s, 1, now_s
            _log.warning("client: %s broke, reconnecting in %.1f s: %s", name, pause_s, why)
        elif now_s >= self._logged_s + REPEAT_S:
            self._logged_s = now_s
            _log.warning(
                "client: %s has been unavailable for %.0f s, %d tries: %s",
                *(self._target, now_s - self._began_s, self._tries, why),
            )
        else:
            _log.debug("client: %s broke, reconnecting in %.1f s: %s", name, pause_s, why)

    def back(self, stream: object, now_s: float) -> None:
        """Note that the bus answers on a stream: the outage is over if no other one is waiting."""
        stale = self._is_stale(now_s)
        self._disconnected.discard(id(stream))
        if self._began_s is None or self._disconnected:
            return
        # As loud as the line that it belongs to.
        if stale:
            ago_s = now_s - self._last_s
            text = "client: %s answers again; the last attempt was %.0f s ago"
            _log.warning(text, self._target, ago_s)
        else:
            # Not the stream, which may be a new one: the bus was away.
            away_s = now_s - self._began_s
            _log.warning("client: %s answers again after %.1f s", self._target, away_s)
        self._began_s = None

    def ended(self, stream: object) -> None:
        """Note that a stream is not opened for now; the outage lasts until one is answered."""
        self._disconnected.discard(id(stream))

    def _is_stale(self, now_s: float) -> bool:
        """Whether no stream has tried to connect for a while."""
        return not self._disconnected and now_s - self._last_s > REPEAT_S
