"""Leases of drains over restarts, and their epochs, which rise and come from the registrar."""

import pytest

from bendybus.domain import errors
from bendybus.partition_server.state.commands import Ask
from bendybus.partition_server.state.pipeline_commands import RangeSettled
from tests.partition_server.draining import LEASE_MS, drained, grant, hold, release, settle
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore


@pytest.fixture
def orders(queue: Driver) -> Driver:
    """Return a partition with a queue of four messages."""
    queue.send(b"a", b"b", b"c", b"d")
    return queue


@pytest.mark.requirement("R275")
def test_a_lease_outlives_a_restart_for_its_whole_duration(orders: Driver) -> None:
    epoch = drained(orders)
    orders.advance(LEASE_MS - 1)

    orders.restart()

    [refused] = orders.run(Ask("s", 1, orders.ref(), False, 1, 1))
    assert isinstance(refused.error, errors.EntityDrained)
    assert settle(orders, epoch, 1) == RangeSettled(1)
    orders.advance(LEASE_MS)
    assert len(orders.receive(5)) == 3


@pytest.mark.requirement("R275")
def test_a_lease_that_is_over_does_not_come_back_with_a_restart(orders: Driver) -> None:
    epoch = drained(orders)
    orders.advance(LEASE_MS)

    for _ in range(2):
        orders.restart()
        orders.advance(1)
        assert len(orders.receive(1)) == 1

    with pytest.raises(errors.DrainLeaseLost, match="its time is over"):
        settle(orders, epoch, 4)
    orders.restart()
    # It may still be renewed, as long as no other one follows it.
    assert hold(orders, epoch) == 0
    assert settle(orders, epoch, 4) == RangeSettled(4)


@pytest.mark.requirement("R275")
def test_the_registrar_renews_only_what_it_granted(orders: Driver) -> None:
    with pytest.raises(errors.DrainLeaseLost, match="start this one again"):
        hold(orders, 1)
    epoch = drained(orders)
    with pytest.raises(errors.DrainLeaseLost):
        hold(orders, epoch + 1, "other")

    assert settle(orders, epoch, 4) == RangeSettled(4)


@pytest.mark.requirement("R275")
@pytest.mark.parametrize("epoch", [2**63 - 1, 2**40])
def test_an_epoch_that_none_could_follow_is_neither_granted_nor_held(
    orders: Driver, epoch: int
) -> None:
    other = Driver(MemoryStore(fingerprint(2)))
    other.put(orders.partition.state.catalogue.resolve(orders.ref()).description)

    with pytest.raises(errors.InvalidArgument, match=r"was never granted\. Renew a lease with"):
        hold(other, epoch)
    with pytest.raises(errors.InvalidArgument, match="was never granted"):
        grant(orders, above=epoch)

    assert drained(orders) == 1
    assert hold(other, 1) == 0


@pytest.mark.requirement("R275")
def test_an_epoch_is_never_given_twice_also_after_a_release_and_a_restart(orders: Driver) -> None:
    release(orders, drained(orders))
    orders.restart()

    assert grant(orders) == 2


@pytest.mark.requirement("R275")
def test_only_the_registrar_grants_and_others_obey_the_epoch_they_are_told() -> None:
    driver = Driver(MemoryStore(fingerprint(2)))
    driver.put(Driver(MemoryStore(fingerprint())).create().description)
    driver.send(b"a")

    with pytest.raises(errors.InvalidOperation, match="registrar"):
        grant(driver)
    assert hold(driver, 5) == 0
    with pytest.raises(errors.DrainLeaseLost):
        hold(driver, 4)
    assert settle(driver, 5, 1) == RangeSettled(1)


@pytest.mark.requirement("R286")
def test_a_registrar_that_forgot_epochs_grants_one_above_those_that_others_know(
    orders: Driver,
) -> None:
    assert grant(orders) == 1
    assert grant(orders, above=40) == 41
    assert grant(orders, above=7) == 42
    assert grant(orders, above=42) == 43

    with pytest.raises(errors.DrainLeaseLost) as lost:
        hold(orders, 5)
    assert lost.value.metadata["epoch"] == "43"
