"""A change costs what it costs, however many queues there are."""

import asyncio
import math

import pytest

from bendybus.operator.controllers.bus_controller import RECONCILE_ALL_S
from tests.operator.cluster import Cluster, eventually
from tests.operator.manifests import BUS, bus_body, changed, queue_body

pytestmark = pytest.mark.integration
MANY = 1_000


async def cost_of_a_change(cluster: Cluster, name: str, deliveries: int) -> tuple[int, int]:
    """Return (calls to the API server, calls to partitions) of one change of one queue.

    What the operator does by the clock (leases, its own status of the bus) is not part of it.
    """
    manager = cluster.operators[0].manager
    ((controller, _),) = manager._controllers.values()
    assert controller._link is not None
    links = controller._link._links
    calls, asked = len(cluster.api.calls), sum(link.asked for link in links)
    generation = cluster.api.one("Queue", name)["metadata"]["generation"] + 1

    cluster.apply(changed(cluster.api.one("Queue", name), maxDeliveryCount=deliveries))
    await eventually(
        lambda: cluster.api.one("Queue", name)["status"]["observedGeneration"] == generation
    )
    await eventually(lambda: not manager._writer.waiting())
    # The copy for the other partition may come after the status.
    await eventually(lambda: sum(link.asked for link in links) - asked >= 2)

    return len([kind for _, kind, _ in cluster.api.calls[calls:] if kind == "Queue"]), sum(
        link.asked for link in links
    ) - asked


async def settled(cluster: Cluster, queues: int) -> None:
    """Wait until the status of the bus counts its queues and nothing waits to be written."""
    manager = cluster.operators[0].manager
    await eventually(
        lambda: cluster.api.one("BusNamespace", "orders")["status"]["queues"] == queues
    )
    await eventually(lambda: not manager._writer.waiting())


@pytest.mark.slow
async def test_a_change_costs_the_same_with_many_queues(cluster: Cluster) -> None:
    # Counts are asked for so seldom that they do not count.
    cluster.operator(counts_every_s=3600.0, status_patches_per_s=5_000.0)
    cluster.apply(bus_body())
    for number in range(10):
        cluster.apply(queue_body(f"q{number}"))
    for number in range(10):
        await cluster.says("Queue", f"q{number}", "Available")
    await cluster.says("BusNamespace", "orders", "Available")
    await settled(cluster, 10)
    few = await cost_of_a_change(cluster, "q7", 3)

    for number in range(10, MANY):
        cluster.apply(queue_body(f"q{number}"))
    for number in range(MANY):
        await cluster.says("Queue", f"q{number}", "Available")
    await settled(cluster, MANY)
    many = await cost_of_a_change(cluster, "q7", 4)

    assert many == few
    # One status; one commit, and one copy for the other partition.
    assert few == (1, 2)


async def test_many_manifests_at_once_make_no_flood_of_status(cluster: Cluster) -> None:
    """Whatever changes, no more than so many patches a second are written."""
    rate = 50.0
    cluster.operator(status_patches_per_s=rate, urgent_patches_per_s=rate)
    calls = cluster.api.calls
    cluster.apply(bus_body())
    for number in range(100):
        cluster.apply(queue_body(f"q{number}"))
    await eventually(lambda: sum(verb == "apply-status" for verb, _, _ in calls) > 5)
    manager = cluster.operators[0].manager

    began, before = asyncio.get_running_loop().time(), manager._writer.written
    await eventually(lambda: manager._writer.written >= before + 20)

    assert asyncio.get_running_loop().time() - began >= 20 / rate * 0.9
    assert manager._writer.waiting() <= 101


@pytest.mark.parametrize("away", [{0, 1}, {1}])
async def test_many_entities_of_a_bus_that_is_not_ready_cost_nothing_while_they_wait(
    cluster: Cluster, away: set[int]
) -> None:
    """What they wait for is told. Looks are counted, not time: that is the machine's."""
    cluster.held_back = away
    cluster.operator()
    cluster.apply(bus_body())
    for number in range(100):
        cluster.apply(queue_body(f"q{number}"))
    await cluster.says("Queue", "q99", "PartitionUnavailable")
    manager = cluster.operators[0].manager
    ((controller, _),) = manager._controllers.values()
    await eventually(lambda: controller._entities.next_due() == math.inf)

    assert controller._entities.next_due() == math.inf, (
        "no queue is to be looked at before something happens"
    )

    for index in away:
        cluster.start(BUS, index)
    for number in (0, 99):
        await cluster.says("Queue", f"q{number}", "Available")


async def test_a_partition_that_comes_and_goes_costs_no_more_than_one_that_comes(
    cluster: Cluster,
) -> None:
    cluster.operator()
    cluster.apply(bus_body())
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")
    ((controller, _),) = cluster.operators[0].manager._controllers.values()
    before = controller._all_due_s

    for _ in range(10):
        controller._reachability_changed()

    assert controller._all_due_s >= before + 9 * RECONCILE_ALL_S
