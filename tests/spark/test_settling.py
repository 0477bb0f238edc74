"""What a drain removes beside the next batch: bounded, and done before the lease is given up."""

import threading
from collections import Counter

import pytest

from bendybus.client.exceptions import PartitionUnavailableError
from bendybus.spark.errors import LeaseLostError
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


def _wait(gate: threading.Event) -> None:
    assert gate.wait(WAIT_S)


def _take_over(bus: MemoryBus) -> None:
    bus.lease(bus.leases[-1].owner, 60)


def _meet(meet: threading.Barrier) -> None:
    meet.wait(WAIT_S)
