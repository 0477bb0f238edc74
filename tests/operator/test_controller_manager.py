"""The operator at work: manifests in, pods and entities out, against real partition servers."""

import asyncio
from typing import Any

import pytest

from bendybus.internal.v1 import entity_pb2
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError
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
        assert entry.queue.max_delivery_count == 3


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


# Leaving


async def test_a_deleted_manifest_leaves_its_data_unless_it_says_otherwise(
    cluster: Cluster,
) -> None:
    await standing(cluster)

    cluster.api.remove("Queue", "shop", "paid")

    await eventually(
        lambda: cluster.api.one("BusNamespace", "orders")["status"].get("orphaned") == ["paid"]
    )
    for index in (0, 1):
        await holds(cluster, index, orphaned=True, deleted=False)


async def test_a_deletion_with_the_policy_delete_deletes(cluster: Cluster) -> None:
    await standing(cluster, deletionPolicy="Delete")

    cluster.api.remove("Queue", "shop", "paid")

    for index in (0, 1):
        await holds(cluster, index, deleted=True)


async def test_delete_becomes_retain_in_a_namespace_that_ends(cluster: Cluster) -> None:
    await standing(cluster, deletionPolicy="Delete")
    ending = cluster.api.one("Namespace", "shop", "")
    ending["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    cluster.api.put(ending)

    cluster.api.remove("Queue", "shop", "paid")

    await holds(cluster, 0, orphaned=True, deleted=False)


async def test_a_deletion_that_nobody_saw_leaves_an_orphan_whatever_the_policy(
    cluster: Cluster,
) -> None:
    await standing(cluster, deletionPolicy="Delete")
    await cluster.operators[0].stop()

    cluster.api.remove("Queue", "shop", "paid")
    cluster.operator()

    await holds(cluster, 0, orphaned=True, deleted=False)


async def test_a_manifest_made_anew_unseen_does_not_get_the_old_ones_data(
    cluster: Cluster,
) -> None:
    await standing(cluster, deletionPolicy="Delete")
    operator = cluster.operators[0]

    operator.deaf = True
    cluster.api.remove("Queue", "shop", "paid")
    operator.deaf = False
    cluster.apply(queue_body(uid="paid-2"))

    await cluster.says("Queue", "paid", "RetainedData")
    await holds(cluster, 0, orphaned=True, uid="paid-1")


@pytest.mark.parametrize(("choice", "uid"), [("adopt", "paid-1"), ("purge", "paid-2")])
async def test_retained_data_is_adopted_or_purged_by_annotation(
    cluster: Cluster, choice: str, uid: str
) -> None:
    await standing(cluster)
    cluster.api.remove("Queue", "shop", "paid")
    cluster.apply(queue_body(uid="paid-2"))
    await cluster.says("Queue", "paid", "RetainedData")

    cluster.annotate("Queue", "paid", retained_data=choice)

    status = await cluster.says("Queue", "paid", "Available")
    assert status["entityUid"] == uid
    for index in (0, 1):
        await holds(cluster, index, uid=uid, manifest_uid="paid-2", orphaned=False)


async def test_what_autodelete_took_is_not_made_again(cluster: Cluster) -> None:
    await standing(cluster, autoDeleteOnIdle="PT5M")
    entry = (await cluster.catalogue(BUS, 0))["paid"]

    await cluster.commit(
        BUS,
        entity_pb2.ENTITY_ACTION_DELETE_IDLE,
        "paid",
        uid=entry.uid,
        if_generation=entry.generation,
    )

    await cluster.says("Queue", "paid", "AutoDeleted")
    await holds(cluster, 0, deleted=True, auto_deleted=True)


async def test_many_departures_at_once_are_all_done(cluster: Cluster) -> None:
    await standing(cluster, queue=False)
    for number in range(20):
        cluster.apply(queue_body(f"q{number}", deletionPolicy=("Retain", "Delete")[number % 2]))
    for number in range(20):
        await cluster.says("Queue", f"q{number}", "Available")

    for number in range(20):
        cluster.api.remove("Queue", "shop", f"q{number}")

    await holds(cluster, 1, "q19", deleted=True)
    await eventually(
        lambda: cluster.api.one("BusNamespace", "orders")["status"]["orphanedCount"] == 10
    )


async def test_a_deletion_that_the_bus_did_not_live_to_see_leaves_an_orphan(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await standing(cluster, deletionPolicy="Delete")

    cluster.api.remove("BusNamespace", "shop", "orders")
    await cluster.says("Queue", "paid", "NamespaceNotFound")
    cluster.api.remove("Queue", "shop", "paid")
    await eventually(lambda: not cluster.operators[0].manager._controllers)
    cluster.apply(bus_body(uid="bus-2", annotations={names.RETAINED_ANNOTATION: "adopt"}))
    await cluster.says("BusNamespace", "orders", "Available")

    await holds(cluster, 0, orphaned=True, deleted=False)
    assert "these are orphans: paid" in caplog.text


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
    assert (await cluster.catalogue(BUS, 1))["paid"].queue.max_delivery_count == 3


async def test_a_bus_whose_pods_start_is_progressing(cluster: Cluster) -> None:
    cluster.held_back = {1}
    cluster.operator()
    cluster.apply(bus_body())

    status = await cluster.says("BusNamespace", "orders", "Progressing")
    await eventually(
        lambda: cluster.ready("BusNamespace", "orders")["message"].startswith("partition 1 ")
    )
    cluster.start(BUS, 1)

    assert "yet; pods are starting" in status["conditions"][0]["message"]
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


async def test_queues_of_a_namespace_that_is_served_no_more_are_not_orphaned(
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


# Several operators


async def test_two_operators_at_the_same_time_do_no_harm(cluster: Cluster) -> None:
    first, second = cluster.operator(1), cluster.operator(2)
    cluster.apply(bus_body())
    for number in range(10):
        cluster.apply(queue_body(f"q{number}"))
    for number in range(10):
        await cluster.says("Queue", f"q{number}", "Available")

    cluster.apply(changed(cluster.api.one("Queue", "q0"), maxDeliveryCount=3))
    await eventually(lambda: cluster.api.one("Queue", "q0")["status"]["observedGeneration"] == 2)
    await holds(cluster, 1, "q0", deleted=False)

    catalogue = await cluster.catalogue(BUS, 0)
    assert not first.task.done()
    assert not second.task.done()
    assert catalogue["q0"].queue.max_delivery_count == 3
    # Ten were made and one changed, each once.
    assert max(entry.generation for entry in catalogue.values()) == 11


def peering(cluster: Cluster, **priorities: int) -> None:
    """Write what Kopf writes: who lives, with which priority."""
    status = {
        name: {"priority": priority, "lifetime": 60, "lastseen": "2999-01-01T00:00:00"}
        for name, priority in priorities.items()
    }
    kind = "ClusterKopfPeering"
    cluster.api.put({"kind": kind, "metadata": {"name": "peers"}, "peers": status})
    cluster.api.objects[kind, "", "peers"]["status"] = status


async def test_the_standby_takes_over_and_steps_back(cluster: Cluster) -> None:
    peering(cluster, first=2, second=1)
    first = cluster.operator(2, peering="peers", identity="first")
    second = cluster.operator(1, peering="peers", identity="second")
    cluster.apply(bus_body())
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")
    assert (first.manager.leading, second.manager.leading) == (True, False)

    peering(cluster, second=1)
    await first.stop()
    await eventually(lambda: second.manager.leading)
    cluster.apply(queue_body("next"))
    await cluster.says("Queue", "next", "Available")
    peering(cluster, third=3, second=1)
    await eventually(lambda: not second.manager.leading)
    peering(cluster, second=1)
    await eventually(lambda: second.manager.leading)
    cluster.api.remove("Queue", "shop", "next")

    await holds(cluster, 0, "next", orphaned=True)


async def test_operators_that_took_each_other_for_dead_do_not_both_stand_by(
    cluster: Cluster,
) -> None:
    """After an outage of the API server each peer sweeps the other out of the peering object."""
    peering(cluster, first=2, second=1)
    first = cluster.operator(2, peering="peers", identity="first")
    second = cluster.operator(1, peering="peers", identity="second")
    cluster.apply(bus_body())
    await cluster.says("BusNamespace", "orders", "Available")

    peering(cluster)
    await eventually(lambda: second.manager.leading)
    assert first.manager.leading
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")
    peering(cluster, first=2, second=1)
    await eventually(lambda: not second.manager.leading)

    assert first.manager.leading


async def test_an_operator_that_was_taken_for_dead_reads_what_it_missed(cluster: Cluster) -> None:
    peering(cluster, first=1)
    operator = cluster.operator(1, peering="peers", identity="first")
    cluster.apply(bus_body())
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")

    operator.deaf = True
    cluster.api.remove("Queue", "shop", "paid")
    peering(cluster)

    await holds(cluster, 0, "paid", orphaned=True)


# An API server that fails


async def test_the_operator_outlives_an_api_server_that_is_away(cluster: Cluster) -> None:
    await standing(cluster)
    operator = cluster.operators[0]
    cluster.api.refusals["", ""] = ApiError(0, "connection refused")
    operator.deaf = True
    cluster.api.remove("Queue", "shop", "paid")
    cluster.apply(queue_body("meanwhile"))
    operator.manager._listed_at = None
    await eventually(lambda: ("list", "BusNamespace", "") in cluster.api.calls[-20:])

    cluster.api.refusals.clear()
    operator.deaf = False

    await cluster.says("Queue", "meanwhile", "Available")
    await holds(cluster, 0, orphaned=True)
    assert not operator.task.done()


async def test_what_happens_while_lists_are_read_is_not_forgotten(cluster: Cluster) -> None:
    """The list is older than the events; a queue that is missing in it is no orphan."""
    await standing(cluster)
    manager = cluster.operators[0].manager
    real_list = cluster.api.list
    during: list[str] = []

    async def slow_list(kind: str, namespace: str = "", *, labels: str = "") -> Any:
        found = await real_list(kind, namespace, labels=labels)
        if kind == "Queue" and not during:
            during.append(kind)
            cluster.api.remove("Queue", "shop", "paid")
            cluster.apply(queue_body("born"))
            await eventually(lambda: len(manager._deferred or []) >= 2)
        return found

    cluster.api.list = slow_list  # type: ignore[method-assign]
    manager._listed_at = None

    await cluster.says("Queue", "born", "Available")
    await holds(cluster, 0, orphaned=True)
    assert manager.cache.queue_by_uid("paid-1") is None
    assert (await cluster.catalogue(BUS, 0))["born"].orphaned is False


async def test_a_failed_first_list_makes_no_orphans(cluster: Cluster) -> None:
    await standing(cluster)
    await cluster.operators[0].stop()
    cluster.api.refusals["list", "Queue"] = ApiError(0, "away")
    operator = cluster.operator()
    reasons = cluster.history("Queue", "paid")
    # Kopf's first listing brings the bus before its queues.
    cluster.annotate("BusNamespace", "orders", touched="1")
    await eventually(lambda: cluster.api.calls[-6:].count(("list", "Queue", "")) > 1)

    cluster.api.refusals.clear()
    await eventually(lambda: operator.manager.leading)
    cluster.apply(queue_body("next"))
    await cluster.says("Queue", "next", "Available")

    assert (await cluster.catalogue(BUS, 0))["paid"].generation == 1
    assert set(reasons) <= {"Available"}


async def test_metrics_show_what_is_not_ready(cluster: Cluster) -> None:
    await standing(cluster)
    cluster.apply(queue_body("wrong", lockDuration="PT1S"))
    await cluster.says("Queue", "wrong", "InvalidSpec")
    registry = cluster.operators[0].manager._metrics.registry
    labels = {"kind": "Queue", "reason": Reason.INVALID_SPEC}

    await eventually(lambda: registry.get_sample_value("bendybus_operator_not_ready", labels) == 1)
    cluster.api.remove("Queue", "shop", "wrong")

    await eventually(
        lambda: registry.get_sample_value("bendybus_operator_not_ready", labels) is None
    )
    assert registry.get_sample_value("bendybus_operator_leading") == 1


async def test_a_controller_that_is_stopped_while_it_closes_its_link_stops(
    cluster: Cluster,
) -> None:
    await standing(cluster, queue=False)
    manager = cluster.operators[0].manager
    ((controller, task),) = manager._controllers.values()

    cluster.api.remove("BusNamespace", "shop", "orders")
    await eventually(lambda: controller._link is None)
    controller.enqueue_bus()
    task.cancel()

    assert await asyncio.wait({task}, timeout=WITHIN_S) == ({task}, set())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Secret", "orders-partition-tls"),
        ("Service", "orders-frontend"),
        ("Deployment", "orders-frontend"),
    ],
)
async def test_a_child_that_somebody_deletes_is_made_again_at_once(
    cluster: Cluster, kind: str, name: str
) -> None:
    await standing(cluster)
    before = cluster.api.one(kind, name)["metadata"]["uid"]

    await cluster.api.delete(kind, "shop", name)

    def again() -> bool:
        found = cluster.api.objects.get((kind, "shop", name))
        return found is not None and found["metadata"]["uid"] != before

    await eventually(again)
