"""What a drain removes beside the next batch: bounded, and done before the lease is given up."""

import threading
from collections import Counter

import pytest

from bendybus.client.exceptions import PartitionUnavailableError
from bendybus.spark.errors import LeaseLostError, PipelineError
from tests.spark.memory_bus import MemoryBus
from tests.spark.stream_query import Query

pytestmark = pytest.mark.requirement("R400")
# A test that waits for so long has failed.
WAIT_S = 20.0
OVERTAKEN_S = 0.1


def drained(bus: MemoryBus, *, now: bool = False) -> Query:
    return Query(bus, settle="trailing", maxMessagesPerTrigger="4", now=now)


def test_the_next_batch_is_planned_while_the_last_one_is_removed() -> None:
    query, gate = drained(MemoryBus(6, 6)), threading.Event()
    query.trigger()
    query.trigger()
    query.bus.settling = lambda partition: _wait(gate)

    planned = query.trigger()
    left = query.bus.left()
    gate.set()
    query.run()

    assert planned
    assert left == 12
    assert query.bus.left() == 0


def test_partitions_are_settled_at_once() -> None:
    query, meet = drained(MemoryBus(2, 2, 2)), threading.Barrier(3)
    query.trigger()
    query.trigger()
    query.bus.settling = lambda partition: _meet(meet)

    query.trigger()
    query.bus.settling = lambda partition: None
    query.run()

    assert not meet.broken
    assert query.bus.left() == 0


def test_no_batch_is_planned_before_the_one_before_the_last_is_removed() -> None:
    query, begun, together = drained(MemoryBus(20)), list[int](), list[int]()
    another = threading.Event()

    def settling(partition: int) -> None:
        begun.append(partition)
        if len(begun) > 1:
            another.set()
        # As long as the next batches need to overtake it, if nothing holds them back.
        another.wait(OVERTAKEN_S)
        together.append(len(begun))
        begun.clear()
        another.clear()

    query.trigger()
    query.trigger()
    query.bus.settling = settling
    query.run()

    assert together == [1, 1, 1, 1, 1]
    assert query.bus.left() == 0


def test_a_lease_that_is_lost_while_a_batch_runs_ends_the_query() -> None:
    query = drained(MemoryBus(12))
    query.trigger()
    query.trigger()
    query.bus.settling = lambda partition: _take_over(query.bus)

    with pytest.raises(LeaseLostError):
        query.run()

    assert query.bus.left() == 12


def test_the_lease_is_given_up_after_everything_was_removed() -> None:
    query, held = drained(MemoryBus(2, 2), now=True), list[bool]()
    released, asked = threading.Event(), Counter[int]()

    def settling(partition: int) -> None:
        asked[partition] += 1
        if asked[partition] == 1:
            raise PartitionUnavailableError(message="it does not answer.")
        released.wait(OVERTAKEN_S)
        held.append(not query.bus.leases[-1].released)

    query.bus.settling = settling
    query.bus.releasing = released.set

    query.run()

    assert held
    assert all(held)
    assert query.bus.left() == 0
    assert query.bus.leases[-1].released


def _away_at_the_end(*, back_after: int) -> Query:
    """Return a run that ends, whose partition 1 goes once it was read, for so many looks."""
    query = drained(MemoryBus(2, 2), now=True)
    while len(query.read) < 4:
        query.trigger()
    away, look = query.bus.partitions[1], query.clock.sleep
    away.away, looks = True, Counter[str]()

    def sleep(seconds: float) -> None:
        looks["looks"] += 1
        away.away = looks["looks"] < back_after
        look(seconds)

    query.planner._sleep = sleep
    return query


@pytest.mark.requirement("R445")
def test_a_run_that_ends_waits_for_a_partition_that_has_what_it_committed() -> None:
    query = _away_at_the_end(back_after=3)

    query.run()

    assert query.bus.left() == 0
    assert query.bus.leases[-1].released


@pytest.mark.requirement("R445")
def test_a_run_that_cannot_remove_what_it_committed_fails_and_keeps_its_lease() -> None:
    query = _away_at_the_end(back_after=1_000_000)

    with pytest.raises(PipelineError, match="orders, partition 1: what was read and committed"):
        query.run()
    released = query.bus.leases[-1].released
    query.bus.partitions[1].away = False
    query.restart(owner=query.bus.leases[-1].owner)
    query.run()

    assert not released
    assert query.bus.left() == 0
    assert sorted(query.read) == ["0-1", "0-2", "1-1", "1-2"]


@pytest.mark.requirement("R445")
def test_a_run_gives_its_lease_up_for_a_partition_that_it_never_drained_and_is_away() -> None:
    query = drained(MemoryBus(2, 2), now=True)
    query.run()
    query.bus.send(0, 1)
    query.bus.partitions[1].away = True

    query.restart()
    # It may have messages: see R592.
    with pytest.raises(PipelineError, match="left behind: partition 1 is away"):
        query.run()

    assert query.bus.leases[-1].released
    assert len(query.read) == 5


def _wait(gate: threading.Event) -> None:
    assert gate.wait(WAIT_S)


def _take_over(bus: MemoryBus) -> None:
    bus.lease(bus.leases[-1].owner, 60)


def _meet(meet: threading.Barrier) -> None:
    meet.wait(WAIT_S)
