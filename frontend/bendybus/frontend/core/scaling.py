"""Figures by which consumers of an entity are scaled, and the memory of the last known ones.

    active messages    sessions with messages    age of the oldest active message

A partition that does not answer leaves its last known figure for a while, and then an error: never
a smaller sum, by which consumers would be stopped because their messages cannot be seen.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend.core import fan_out
from bendybus.frontend.upstreams import unary_calls
from bendybus.frontend.upstreams.unary_calls import Counts

if TYPE_CHECKING:
    from bendybus.frontend.core.front_end import FrontEnd

# How long the last known figure stands in for one that is missing.
KEPT_S: Final = 300.0
# A figure this young is not asked for again: a scaler asks twice in a row.
FRESH_S: Final = 1.0
# Sessions that are counted; more do not change how many consumers there are.
SESSIONS_MAX: Final = 5_000
_PAGE: Final = 500
# A count of many sessions is fresh for this many times what it took, and so long at most.
_FRESH_TIMES: Final = 5
_FRESH_S_MAX: Final = 15.0
# How long partitions are asked in a row for a message that they still look for.
_LOOK_S: Final = 1.0
# How long a partition may take to count, which it does from memory: KEDA waits for 3 s.
_COUNT_S: Final = 1.5
# Entities whose figures are remembered; beyond that the one asked for longest ago is forgotten.
ENTITIES_MAX: Final = 1_000


class Figure(StrEnum):
    """A measure of the work that waits in an entity."""

    MESSAGES = "messages"
    SESSIONS = "sessions"
    AGE = "age"


@dataclass(slots=True)
class _Known:
    """The last answers about an entity."""

    # By partition: the answer, and when it came.
    counts: dict[int, tuple[Counts, float]] = field(default_factory=dict)
    counted_s: float = float("-inf")
    sessions: int = 0
    # When they were counted, and when that was tried.
    sessions_s: float = float("-inf")
    tried_s: float = float("-inf")
    # How long a count of them is not repeated.
    fresh_s: float = FRESH_S
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Scaling:
    """The figures of a front end."""

    def __init__(self, front_end: "FrontEnd", clock: Callable[[], float] = time.monotonic) -> None:
        self._front_end = front_end
        self._clock = clock
        # By UID; what was asked for last is the last.
        self._known: dict[str, _Known] = {}

    async def figure(self, entity: Entity, figure: Figure) -> float:
        """Return a figure of an entity; an age in seconds. Raises PartitionUnavailable."""
        known = self._known.pop(entity.uid, None) or _Known()
        self._known[entity.uid] = known
        while len(self._known) > ENTITIES_MAX:
            del self._known[next(iter(self._known))]
        async with known.lock:
            if figure is Figure.SESSIONS:
                return await self._sessions(entity, known)
            until_s = self._clock() + _LOOK_S
            while True:
                await self._count(entity, known)
                answers = [each for each, at_s in known.counts.values() if at_s == known.counted_s]
                looks_on = figure is Figure.AGE and any(map(_looks_on, answers))
                if not looks_on or self._clock() >= until_s:
                    break
                known.counted_s = float("-inf")
            return self._sum(entity, known, figure)

    async def _count(self, entity: Entity, known: _Known) -> None:
        """Ask all partitions, unless that was just done."""
        if self._clock() - known.counted_s < FRESH_S:
            return
        uids = [entity.uid]
        timeout_s = min(_COUNT_S, self._front_end.settings.unary_timeout_s)
        upstreams = {n: self._front_end.upstreams[n] for n in entity.partitions()}
        answers: Mapping[int, Mapping[str, Counts] | BusError] = await fan_out.each(
            upstreams,
            lambda upstream: unary_calls.counts(upstream, uids, timeout_s, oldest=True),
        )
        known.counted_s = now_s = self._clock()
        for partition, answer in answers.items():
            if isinstance(answer, BusError) or entity.uid not in answer:
                self._stale(entity)
            else:
                known.counts[partition] = answer[entity.uid], now_s

    def _sum(self, entity: Entity, known: _Known, figure: Figure) -> float:
        total, now_s = Counts(), self._clock()
        for partition in entity.partitions():
            counts, at_s = known.counts.get(partition, (None, 0.0))
            if counts is None or now_s - at_s > KEPT_S:
                raise _missing(entity, partition)
            total += counts
            if figure is Figure.AGE and _looks_on(counts):
                raise _unseen(entity, partition)
            if figure is Figure.AGE and counts.oldest_active_ms is not None:
                # It went on growing while its partition did not answer.
                age_ms = counts.oldest_active_ms + round((now_s - at_s) * 1_000)
                total = total + Counts(oldest_active_ms=age_ms)
        return total.active if figure is Figure.MESSAGES else (total.oldest_active_ms or 0) / 1_000

    async def _sessions(self, entity: Entity, known: _Known) -> float:
        began_s = self._clock()
        if began_s - known.tried_s >= known.fresh_s:
            try:
                known.sessions = await self._counted(
                    lambda token: self._front_end.sessions.counts(entity.name, _PAGE, token)
                )
            except errors.RetryableError:
                self._stale(entity)
                if self._clock() - known.sessions_s > KEPT_S:
                    raise
            else:
                known.sessions_s = self._clock()
            known.tried_s = self._clock()
            # A small one took that long by chance: a partition stood still, say.
            took_s = known.tried_s - began_s if known.sessions >= _PAGE else 0.0
            known.fresh_s = min(max(FRESH_S, _FRESH_TIMES * took_s), _FRESH_S_MAX)
        if self._clock() - known.sessions_s > KEPT_S:
            raise _missing(entity, None)
        return known.sessions

    @staticmethod
    async def _counted(
        page: Callable[[bytes], Awaitable[tuple[object, bytes]]],
    ) -> int:
        """Return how many sessions have active messages."""
        count, token = 0, b""
        while count < SESSIONS_MAX:
            found, token = await page(token)
            count += sum(bool(each.active_message_count) for each in found)  # type: ignore[attr-defined]
            if not token:
                break
        return min(count, SESSIONS_MAX)

    def _stale(self, entity: Entity) -> None:
        self._front_end.metrics.stale_figures.counts[entity.name] += 1


def _looks_on(counts: Counts) -> bool:
    """Whether a partition has not found its oldest active message yet: others lie before it."""
    return bool(counts.active) and counts.oldest_active_ms is None


def _unseen(entity: Entity, partition: int) -> BusError:
    return errors.PartitionUnavailable(
        f"{entity.title}: partition {partition} still looks for its oldest active message behind "
        "many that are deferred or scheduled. The number of consumers should stay as it is.",
        metadata={"entity": entity.name},
    )


def _missing(entity: Entity, partition: int | None) -> BusError:
    where = "a partition" if partition is None else f"partition {partition}"
    return errors.PartitionUnavailable(
        f"{entity.title}: {where} does not answer, nor did it in the last {KEPT_S:.0f} s, so it is "
        "not known how much there is to do. The number of consumers should stay as it is until it "
        "is back.",
        metadata={"entity": entity.name},
    )
