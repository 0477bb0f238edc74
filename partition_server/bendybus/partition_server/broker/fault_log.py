"""Logs and counts the faults of a partition (see `state.faults`): each counted, few logged whole.

A fault that is met again and again, by a client that repeats its command or a sweep that is due
again, must not fill the log: its traceback is logged once in a while, with how many there were.
"""

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from bendybus.partition_server.state.faults import Fault
from bendybus.partition_server.state.figures import Figures

logger = logging.getLogger(__name__)
# Between two tracebacks of the same fault.
AGAIN_MS: Final = 60_000
# Different faults that are told apart.
KINDS_MAX: Final = 1_000


class _Logged(NamedTuple):
    at_mono_ms: int
    since: int  # how many more there were


class FaultLog:
    """The faults of one partition."""

    def __init__(self, index: int, figures: Figures) -> None:
        self._index = index
        self._figures = figures
        self._logged: dict[tuple[str, str, str], _Logged] = {}

    def note(self, faults: Sequence[Fault], now_mono_ms: int) -> None:
        """Count faults, and log those that were not logged just now."""
        for fault in faults:
            self._figures.met_fault(fault.work, fault.entity)
            key = (fault.work, fault.entity, type(fault.error).__name__)
            last = self._logged.get(key)
            if last is not None and now_mono_ms - last.at_mono_ms < AGAIN_MS:
                self._logged[key] = last._replace(since=last.since + 1)
                continue
            if last is None and len(self._logged) >= KINDS_MAX:
                del self._logged[next(iter(self._logged))]
            self._logged[key] = _Logged(now_mono_ms, 0)
            self._log(fault, last.since if last else 0)

    def _log(self, fault: Fault, since: int) -> None:
        logger.error(
            "partition %d: internal error in %s of %r (%d more since it was logged)",
            self._index,
            fault.work,
            fault.entity,
            since,
            exc_info=fault.error,
            extra={
                "partition": self._index,
                "action": "internal-error",
                "work": fault.work,
                "entity": fault.entity,
            },
        )
