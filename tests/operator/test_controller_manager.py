"""The operator at work: manifests in, pods and entities out, against real partition servers."""

import asyncio
from typing import Any

import pytest

from bendybus.internal.v1 import entity_pb2
from tests.operator.cluster import WITHIN_S, Cluster, eventually
from tests.operator.manifests import BUS, bus_body, changed, queue_body

pytestmark = pytest.mark.integration


async def standing(cluster: Cluster, *, queue: bool = True, **spec: Any) -> None:
    """Have an operator, a bus and a queue that are Ready."""
    cluster.operator()
    cluster.apply(bus_body())
    if queue:
        cluster.apply(queue_body(**spec))
        await cluster.says("Queue", "paid", "Available")
    await cluster.says("BusNamespace", "orders", "Available")


async def holds(cluster: Cluster, index: int, name: str = "paid", **facts: Any) -> None:
    """Wait until a partition's entry is so."""
    deadline = asyncio.get_running_loop().time() + WITHIN_S
    while True:
        entry = (await cluster.catalogue(BUS, index)).get(name)
        found = {fact: getattr(entry, fact, None) for fact in facts}
        if found == facts:
            return
        assert asyncio.get_running_loop().time() < deadline, f"{index}: {found} is not {facts}"


# Making and changing


async def test_a_bus_and_its_queue_become_ready(cluster: Cluster) -> None:
    cluster.operator()
    cluster.apply(bus_body())
    cluster.apply(queue_body())

    of_queue = await cluster.says("Queue", "paid", "Available")
    of_bus = await cluster.says("BusNamespace", "orders", "Available")

    assert of_queue["partitions"] == 2
    assert of_queue["entityUid"] == "paid-1"
    assert of_queue["countDetails"]["activeMessageCount"] == 0
    assert of_bus["readyPartitions"] == 2
    await eventually(lambda: cluster.api.one("BusNamespace", "orders")["status"]["queues"] == 1)


async def test_a_changed_field_reaches_every_partition(cluster: Cluster) -> None:
    await standing(cluster)

    cluster.apply(changed(cluster.api.one("Queue", "paid"), maxDeliveryCount=3))
    await eventually(lambda: cluster.api.one("Queue", "paid")["status"]["observedGeneration"] == 2)

    for index in (0, 1):
        entry = (await cluster.catalogue(BUS, index))["paid"]
        assert entry.description.max_delivery_count == 3


async def test_a_queue_waits_for_its_bus_and_is_made_when_it_appears(cluster: Cluster) -> None:
    cluster.operator()
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "NamespaceNotFound")

    cluster.apply(bus_body())

    await cluster.says("Queue", "paid", "Available")


async def test_a_queue_from_a_namespace_that_is_let_in_later(cluster: Cluster) -> None:
    await standing(cluster, queue=False)
    reference = {"name": "orders", "namespace": "shop"}
    cluster.apply(queue_body("guests", namespace="guest", namespaceRef=reference))
    await cluster.says("Queue", "guests", "NamespaceNotAllowed", "guest")

    cluster.apply(changed(cluster.api.one("BusNamespace", "orders"), allowedNamespaces=["guest"]))

    await cluster.says("Queue", "guests", "Available", "guest")


async def test_a_manifest_that_webhooks_did_not_see_is_refused_in_its_status(
    cluster: Cluster,
) -> None:
    await standing(cluster, queue=False)

    cluster.apply(queue_body("wrong", lockDuration="PT1S"))
    cluster.apply(queue_body("odd", nonsense=1))
    cluster.apply(bus_body("x" * 41))

    assert "lockDuration" in (await cluster.says("Queue", "wrong", "InvalidSpec"))[
        "conditions"
    ][0]["message"]  # fmt: skip
    await cluster.says("Queue", "odd", "InvalidSpec")
    await cluster.says("BusNamespace", "x" * 41, "InvalidSpec")


async def test_a_partitioning_that_changed_past_all_guards_changes_nothing(
    cluster: Cluster,
) -> None:
    await standing(cluster)

    cluster.apply(changed(cluster.api.one("BusNamespace", "orders"), premiumMessagingPartitions=4))

    status = await cluster.says("BusNamespace", "orders", "PartitioningImmutable")
    assert status["partitions"] == 2
    assert cluster.api.one("StatefulSet", "orders-partition")["spec"]["replicas"] == 2


async def test_the_second_manifest_of_a_name_waits_until_the_first_is_gone(
    cluster: Cluster,
) -> None:
    await standing(cluster, deletionPolicy="Delete")
    cluster.apply(queue_body("second", entityName="PAID"))
    await cluster.says("Queue", "second", "NameTaken")

    cluster.api.remove("Queue", "shop", "paid")

    await cluster.says("Queue", "second", "Available")


async def test_a_queue_of_a_client_is_left_alone(cluster: Cluster) -> None:
    await standing(cluster, queue=False)
    await cluster.commit(BUS, entity_pb2.ENTITY_ACTION_CREATE, "clients")

    cluster.apply(queue_body("clients"))

    await cluster.says("Queue", "clients", "NameTaken")


# Partitions that are away


async def test_a_partition_that_is_away_is_shown_and_catches_up(cluster: Cluster) -> None:
    await standing(cluster)

    await cluster.stop(BUS, 1)
    of_queue = await cluster.says("Queue", "paid", "PartitionUnavailable")
    of_bus = await cluster.says("BusNamespace", "orders", "PartitionUnavailable")
    cluster.apply(queue_body("late"))
    await cluster.says("Queue", "late", "PartitionUnavailable")
    cluster.start(BUS, 1)

    assert of_queue["availabilityStatus"] == of_bus["availabilityStatus"] == "Limited"
    assert of_bus["readyPartitions"] == 1
    for kind, name in (("Queue", "paid"), ("Queue", "late"), ("BusNamespace", "orders")):
        status = await cluster.says(kind, name, "Available")
        assert status["availabilityStatus"] == "Available"
    await holds(cluster, 1, "late", deleted=False)


async def test_changes_wait_for_the_registrar(cluster: Cluster) -> None:
    await standing(cluster)
    await cluster.stop(BUS, 0)
    await cluster.says("Queue", "paid", "PartitionUnavailable")

    cluster.apply(changed(cluster.api.one("Queue", "paid"), maxDeliveryCount=3))
    cluster.apply(queue_body("new"))
    waiting = await cluster.says("Queue", "new", "PartitionUnavailable")
    cluster.start(BUS, 0)

    assert "partition 0" in waiting["conditions"][0]["message"]
    await cluster.says("Queue", "new", "Available")
    await cluster.says("Queue", "paid", "Available")
    assert (await cluster.catalogue(BUS, 1))["paid"].description.max_delivery_count == 3


async def test_a_bus_whose_pods_start_is_progressing(cluster: Cluster) -> None:
    cluster.held_back = {1}
    cluster.operator()
    cluster.apply(bus_body())

    status = await cluster.says("BusNamespace", "orders", "Progressing")
    await eventually(
        lambda: cluster.ready("BusNamespace", "orders")["message"].startswith("partition 1 ")
    )
    cluster.start(BUS, 1)

    assert "yet; pods may be starting" in status["conditions"][0]["message"]
    await cluster.says("BusNamespace", "orders", "Available")


async def test_an_operator_that_starts_during_an_outage_calls_it_one(cluster: Cluster) -> None:
    await standing(cluster)
    await cluster.stop(BUS, 1)
    await cluster.says("BusNamespace", "orders", "PartitionUnavailable")
    reasons = cluster.history("BusNamespace", "orders")

    await cluster.operators[0].stop()
    cluster.operator()
    await eventually(lambda: cluster.operators[1].manager.leading)
    cluster.start(BUS, 1)
    await cluster.says("BusNamespace", "orders", "Available")

    assert "Progressing" not in reasons


async def test_a_new_operator_disturbs_no_status(cluster: Cluster) -> None:
    await standing(cluster)
    reasons = [cluster.history("Queue", "paid"), cluster.history("BusNamespace", "orders")]
    await cluster.operators[0].stop()

    cluster.operator()
    cluster.apply(queue_body("next"))
    await cluster.says("Queue", "next", "Available")

    assert [set(each) <= {"Available"} for each in reasons] == [True, True]


async def test_a_partition_with_another_buss_file_does_not_count(cluster: Cluster) -> None:
    cluster.held_back = {1}
    cluster.operator()
    cluster.apply(bus_body())
    await cluster.says("BusNamespace", "orders", "Progressing")

    uid, tier, count = cluster.identities[BUS]
    cluster.identities[BUS] = ("bus-0", tier, count)
    cluster.start(BUS, 1)
    cluster.identities[BUS] = (uid, tier, count)
    cluster.apply(queue_body())

    await eventually(
        lambda: cluster.ready("Queue", "paid").get("message", "").startswith("partition 1 ")
    )
    assert cluster.ready("BusNamespace", "orders")["status"] != "True"
    assert await cluster.catalogue(BUS, 1) == {}


async def test_a_bus_that_is_paused_is_left_alone(cluster: Cluster) -> None:
    await standing(cluster, deletionPolicy="Delete")
    cluster.annotate("BusNamespace", "orders", paused="true")
    await cluster.says("BusNamespace", "orders", "Paused")
    await cluster.operators[0].stop()
    cluster.operator()
    cluster.apply(queue_body("new"))
    await cluster.says("Queue", "new", "Paused")
    cluster.api.remove("Queue", "shop", "paid")
    cluster.apply(queue_body("newer"))
    await cluster.says("Queue", "newer", "Paused")
    before = await cluster.catalogue(BUS, 0)

    cluster.annotate("BusNamespace", "orders", paused="false")

    assert set(before) == {"paid"}
    assert before["paid"].deleted is False
    await cluster.says("Queue", "new", "Available")


@pytest.mark.requirement("R384")
async def test_a_change_of_what_belongs_to_a_paused_bus_says_paused(cluster: Cluster) -> None:
    await standing(cluster)
    cluster.apply(queue_body("still"))
    await cluster.says("Queue", "still", "Available")
    cluster.annotate("BusNamespace", "orders", paused="true")
    await cluster.says("BusNamespace", "orders", "Paused")

    cluster.apply(changed(cluster.api.one("Queue", "paid"), lockDuration="PT2M"))

    status = await cluster.says("Queue", "paid", "Paused")
    assert (
        status["observedGeneration"] == cluster.api.one("Queue", "paid")["metadata"]["generation"]
    )
    assert cluster.ready("Queue", "still")["reason"] == "Available"
    await cluster.operators[0].stop()
    cluster.operator()
    cluster.apply(changed(cluster.api.one("Queue", "still"), lockDuration="PT2M"))
    await cluster.says("Queue", "still", "Paused")

    cluster.annotate("BusNamespace", "orders", paused="false")

    await cluster.says("Queue", "paid", "Available")
    await cluster.says("Queue", "still", "Available")


async def test_entities_of_a_namespace_that_is_served_no_more_are_not_orphaned(
    cluster: Cluster,
) -> None:
    """Their manifests are there, only nobody may look: their sends must not be refused."""
    cluster.operator()
    cluster.apply(bus_body(allowedNamespaces=["guest"]))
    reference = {"name": "orders", "namespace": "shop"}
    cluster.apply(queue_body("guests", namespace="guest", namespaceRef=reference))
    cluster.apply(queue_body("gone"))
    await cluster.says("Queue", "guests", "Available", "guest")
    await cluster.says("Queue", "gone", "Available")
    await cluster.operators[0].stop()

    cluster.operator(watch_namespaces=("shop",))
    cluster.apply(queue_body("late"))
    await cluster.says("Queue", "late", "Available")
    cluster.api.remove("Queue", "shop", "gone")
    await holds(cluster, 0, "gone", orphaned=True)

    await holds(cluster, 0, "guests", orphaned=False, deleted=False)


async def test_queues_that_left_unseen_where_nobody_looks_are_said_until_somebody_decides(
    cluster: Cluster,
) -> None:
    """They cannot be told from queues whose manifests are in a namespace that is not served."""
    cluster.operator()
    cluster.apply(bus_body(allowedNamespaces=["guest"]))
    cluster.apply(queue_body("left"))
    await cluster.says("Queue", "left", "Available")
    await cluster.operators[0].stop()
    cluster.api.remove("Queue", "shop", "left")

    def said() -> list[str]:
        status = cluster.api.one("BusNamespace", "orders")["status"]
        return [each["message"] for each in status["conditions"] if "NotSeen" in each["type"]]

    cluster.operator(watch_namespaces=("shop",))
    (message,) = await eventually(said)
    cluster.apply(changed(cluster.api.one("BusNamespace", "orders"), allowedNamespaces=[]))

    assert "no manifest found for left. It may be in guest" in message
    await holds(cluster, 0, "left", orphaned=True)
    await eventually(lambda: not said())
