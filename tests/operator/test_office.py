"""The operator at work: manifests in, pods and entities out, against real partition servers."""

import pytest

from tests.operator.cluster import Cluster
from tests.operator.manifests import bus_body, changed, queue_body

pytestmark = pytest.mark.integration


async def test_a_bus_and_its_queue_become_ready(cluster: Cluster) -> None:
    cluster.operator()
    cluster.apply(bus_body())
    cluster.apply(queue_body())

    of_queue = await cluster.says("Queue", "paid", "Available")
    of_bus = await cluster.says("BusNamespace", "orders", "Available")

    assert of_queue["partitions"] == 2
    assert of_queue["entityUid"] == "paid-1"
    assert of_bus["readyPartitions"] == 2
    assert of_bus["queues"] == 1
    assert of_bus["availabilityStatus"] == "Available"


async def test_a_changed_field_reaches_every_partition(cluster: Cluster) -> None:
    cluster.operator()
    cluster.apply(bus_body())
    body = cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")

    cluster.apply(changed(body, maxDeliveryCount=3))
