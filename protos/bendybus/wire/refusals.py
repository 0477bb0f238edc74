"""Refused callers: counted by reason, logged at a bounded rate, never with their credentials."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

LOG_EVERY_S: Final = 10.0
_KEYS_MAX: Final = 1_000


class Refusals:
    """Counts and logs: a line per (who, reason) in `LOG_EVERY_S`, with how many are left out."""

    def __init__(
        self, logger: logging.Logger, what: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._logger = logger
        self._what = what
        self._clock = clock
        self._said: dict[tuple[str, str], float] = {}
        self._unsaid: Counter[tuple[str, str]] = Counter()

    def note(self, reason: str, who: str) -> None:
        """Count a refusal. `who` must be a name known here, never one that a caller chose."""
        self.counts[reason] += 1
        key, now = (who, reason), self._clock()
        last = self._said.get(key)
        if last is not None and now - last < LOG_EVERY_S:
            self._unsaid[key] += 1
            return
        if len(self._said) >= _KEYS_MAX:
            self._said.clear()
            self._unsaid.clear()
        self._said[key] = now
        self._logger.warning(
            "%s %s: refused: %s",
            self._what,
            who,
            reason,
            extra={
                "action": "refused",
                "who": who,
                "reason": reason,
                "unsaid": self._unsaid.pop(key, 0),
            },
        )
