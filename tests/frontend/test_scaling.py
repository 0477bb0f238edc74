"""Figures for scalers, when partitions do not answer; time is passed in."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.scaling import FRESH_S, KEPT_S, SESSIONS_MAX, Figure, Scaling
from bendybus.internal.v1 import partition_pb2
from tests.frontend.entities import queue
from tests.frontend.test_management_service import front_end_of

pytestmark = pytest.mark.requirement("R654")


class Partition:
    """A partition with a number of active messages; it may be away."""

    def __init__(self, partition: int, active: int, age_ms: int | None = None) -> None:
        self.partition, self.available = partition, True
        self.active, self.age_ms = active, age_ms
        self.asked = self.found_after = 0
        # Called when it is asked.
        self.looks: Callable[[], None] = lambda: None

    @property
    def calls(self) -> "Partition":
        """The stub for calls."""
        return self

    def conditions(self) -> list[str]:
        """Return why it cannot be asked."""
        return ["it ended"]

    async def GetCounts(self, request: Any, timeout: float) -> Any:
        """Count."""
        assert request.oldest
        self.asked += 1
        self.looks()
        counts = partition_pb2.EntityCounts(
            uid=request.uids[0],
            active=self.active,
            oldest_active_ms=self.age_ms if self.asked >= self.found_after else None,
        )
        return partition_pb2.GetCountsResponse(entities=[counts])


class Bus:
    """A front end with partitions in memory, and a clock."""

    def __init__(self, *partitions: Partition) -> None:
        self.now_s = 1_000.0
        self.partitions = partitions
        self.front_end: FrontEnd = front_end_of(len(partitions))
        for each in partitions:
            self.front_end.upstreams[each.partition] = each  # type: ignore[assignment]
        self.entity = queue("orders", partitions=len(partitions))
        self.scaling = Scaling(self.front_end, lambda: self.now_s)

    async def figure(self, figure: Figure = Figure.MESSAGES) -> float:
        """Return a figure, a moment later."""
        self.now_s += FRESH_S
        return await self.scaling.figure(self.entity, figure)

    @property
    def stale(self) -> int:
        """How often a partition did not answer."""
        return sum(self.front_end.metrics.stale_figures.counts.values())


async def test_figures_are_those_of_all_partitions() -> None:
    bus = Bus(Partition(0, 3, 5_000), Partition(1, 4, 9_000), Partition(2, 0))

    assert await bus.figure() == 7
    assert await bus.figure(Figure.AGE) == 9
    assert bus.stale == 0


async def test_a_partition_that_is_away_leaves_its_last_figure_and_then_an_error() -> None:
    away = Partition(1, 4, 9_000)
    bus = Bus(Partition(0, 3, 5_000), away)
    assert await bus.figure() == 7
    away.available = False
    bus.partitions[0].active = 1

    assert await bus.figure() == 5
    assert await bus.figure(Figure.AGE) == 11
    assert bus.stale == 2
    bus.now_s += KEPT_S - 3 * FRESH_S
    assert await bus.figure() == 5
    with pytest.raises(errors.PartitionUnavailable, match="partition 1"):
        await bus.figure()
    away.available = True
    assert await bus.figure() == 5


async def test_what_was_never_known_is_an_error_and_no_smaller_sum() -> None:
    away = Partition(1, 4)
    away.available = False
    bus = Bus(Partition(0, 3), away)

    with pytest.raises(errors.PartitionUnavailable):
        await bus.figure()


async def test_a_scaler_that_asks_twice_costs_one_look() -> None:
    bus = Bus(Partition(0, 3, 0), Partition(1, 0))
    await bus.figure()

    assert await bus.scaling.figure(bus.entity, Figure.MESSAGES) == 3
    assert await bus.scaling.figure(bus.entity, Figure.AGE) == 0
    assert bus.partitions[0].asked == 1


async def test_an_age_that_is_still_looked_for_is_looked_for_again_and_never_zero() -> None:
    looks = Partition(1, 4)
    bus = Bus(Partition(0, 3, 5_000), looks)

    def takes_some_time() -> None:
        bus.now_s += 0.1

    looks.looks = takes_some_time
    with pytest.raises(errors.PartitionUnavailable, match="partition 1 still looks"):
        await bus.figure(Figure.AGE)
    assert 10 <= looks.asked <= 12
    assert await bus.figure() == 7
    looks.found_after = looks.asked + 3
    looks.age_ms = 60_000
    assert await bus.figure(Figure.AGE) == 60
    assert looks.asked == looks.found_after


@pytest.mark.parametrize(
    ("took_s", "count", "fresh_s"),
    [(2.0, 2 * SESSIONS_MAX, 10.0), (9.0, 2 * SESSIONS_MAX, 15.0), (4.0, 0, 1.0), (4.0, 499, 1.0)],
    ids=["long", "very long", "stalled", "few"],
)
async def test_a_count_of_many_sessions_that_takes_long_is_fresh_for_longer(
    monkeypatch: pytest.MonkeyPatch, took_s: float, count: int, fresh_s: float
) -> None:
    bus, asked = Bus(Partition(0, 3)), []

    async def counts(name: str, size: int, token: bytes) -> Any:
        bus.now_s += took_s
        asked.append(token)
        return [SimpleNamespace(active_message_count=1)] * count, b""

    monkeypatch.setattr(bus.front_end.sessions, "counts", counts)
    assert await bus.figure(Figure.SESSIONS) == min(count, SESSIONS_MAX)
    # A figure is asked for a second later.
    bus.now_s += fresh_s - FRESH_S - 0.01
    if fresh_s > FRESH_S:
        await bus.figure(Figure.SESSIONS)
        assert len(asked) == 1
    bus.now_s += 0.02
    await bus.figure(Figure.SESSIONS)
    assert len(asked) == 2


async def test_sessions_are_remembered_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = Bus(Partition(0, 3), Partition(1, 0))
    pages = {b"": ([2, 0, 1], b"next"), b"next": ([4], b"")}

    async def counts(name: str, size: int, token: bytes) -> Any:
        found, following = pages[token]
        return [SimpleNamespace(active_message_count=each) for each in found], following

    async def fail(*_: Any) -> Any:
        raise errors.PartitionUnavailable("partition 0 is unavailable.")

    monkeypatch.setattr(bus.front_end.sessions, "counts", counts)
    assert await bus.figure(Figure.SESSIONS) == 3
    monkeypatch.setattr(bus.front_end.sessions, "counts", fail)
    assert await bus.figure(Figure.SESSIONS) == 3
    assert bus.stale == 1
    bus.now_s += KEPT_S
    with pytest.raises(errors.PartitionUnavailable):
        await bus.figure(Figure.SESSIONS)
