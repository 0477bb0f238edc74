"""A run that reads what is available now reads all of it, or says what it left behind."""

import pytest

from bendybus.spark.errors import PipelineError
from bendybus.spark.source.ranges import Extent
from tests.spark.memory_bus import MemoryBus
from tests.spark.stream_query import Query

pytestmark = pytest.mark.requirement("R592")


class Recovering(MemoryBus):
    """A bus whose partition 1 is away, or has locked messages, until the planner has looked."""

    def __init__(self, *counts: int, away: bool, looks: int) -> None:
        super().__init__(*counts)
        self.partitions[1].away, self.partitions[1].locked = away, 0 if away else 1
        self._until = looks

    def extents(self) -> list[Extent]:
        if self.looks >= self._until:
            self.partitions[1].away, self.partitions[1].locked = False, 0
        return super().extents()


@pytest.mark.parametrize("away", [False, True], ids=["locked", "away"])
def test_what_cannot_be_read_at_first_is_waited_for(away: bool) -> None:
    bus = Recovering(2, 3, away=away, looks=12)
    query = Query(bus, settle="trailing", now=True)

    query.run()

    assert sorted(query.read) == ["0-1", "0-2", "1-1", "1-2", "1-3"]
    assert bus.left() == 0
    assert bus.leases[-1].released
    assert query.clock.now < 60


@pytest.mark.parametrize("settle", ["trailing", "none"])
def test_a_run_without_a_partition_that_stays_away_fails_and_names_it(settle: str) -> None:
    bus = MemoryBus(2, 3)
    bus.partitions[1].away = True
    query = Query(bus, settle=settle, startingOffsets="earliest", timeout="30s", now=True)

    with pytest.raises(PipelineError, match=r"left behind: partition 1 is away \([^.]+\)\. What"):
        query.run()

    assert query.read == ["0-1", "0-2"]
    assert 30 <= query.clock.now < 35


def test_a_run_that_leaves_locked_messages_says_how_many_and_lets_receivers_in() -> None:
    bus = MemoryBus(2, 3)
    bus.partitions[1].locked = 1
    query = Query(bus, settle="trailing", timeout="30s", now=True)

    with pytest.raises(PipelineError, match=r"partition 1 has 3 \(1 message is locked"):
        query.run()

    assert query.read == ["0-1", "0-2"]
    assert bus.left() == 3
    assert bus.leases[-1].released


def test_the_next_run_reads_what_was_left_behind() -> None:
    bus = MemoryBus(2, 3)
    bus.partitions[1].away = True
    query = Query(bus, settle="trailing", now=True)
    with pytest.raises(PipelineError):
        query.run()

    bus.partitions[1].away = False
    query.restart()
    query.run()

    assert sorted(query.read) == ["0-1", "0-2", "1-1", "1-2", "1-3"]
    assert bus.left() == 0


def test_a_partition_that_goes_away_in_the_middle_is_waited_for_too() -> None:
    bus = MemoryBus(2, 3)
    query = Query(bus, settle="trailing", timeout="30s", now=True)
    query.trigger()
    bus.partitions[1].away = True

    with pytest.raises(PipelineError, match="left behind: partition 1 is away"):
        query.run()

    assert query.read == ["0-1", "0-2"]


def test_a_run_of_one_session_does_not_wait_for_partitions_without_it() -> None:
    bus = MemoryBus(2, 3)
    bus.partitions[1].away = True
    query = Query(
        bus, settle="none", startingOffsets="earliest", sessionId="ab", timeout="30s", now=True
    )

    query.run()

    assert query.read == ["0-1", "0-2"]
    assert query.clock.now < 30
