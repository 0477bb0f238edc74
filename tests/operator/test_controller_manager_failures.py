"""Several operators, an API server that fails, and controllers that fail."""

import asyncio
from typing import Any

import pytest

from bendybus.domain.entity import Entity
from bendybus.domain.errors import PartitionUnavailable
from bendybus.internal.v1 import entity_pb2
from bendybus.operator.bus.partition_link import PartitionLink
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError
from tests.operator.cluster import WITHIN_S, Cluster, eventually
from tests.operator.manifests import BUS, bus_body, changed, queue_body
from tests.operator.test_controller_manager import holds, standing

pytestmark = pytest.mark.integration


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
    assert catalogue["q0"].description.max_delivery_count == 3
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
    """The list is older than the events; a queue that is missing from it is not an orphan."""
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
    assert manager.cache.by_uid("paid-1") is None
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


@pytest.mark.requirement("R380")
async def test_a_bus_that_could_not_be_reconciled_claims_no_generation(cluster: Cluster) -> None:
    cluster.operator()
    cluster.api.refusals["apply", "StatefulSet"] = ApiError(0, "away")
    cluster.apply(bus_body())
    await eventually(lambda: cluster.api.one("BusNamespace", "orders").get("status"))
    claimed = cluster.api.one("BusNamespace", "orders")["status"]["observedGeneration"]

    cluster.api.refusals.clear()
    await cluster.says("BusNamespace", "orders", "Available")

    assert claimed == 0
    assert cluster.api.one("BusNamespace", "orders")["status"]["observedGeneration"] == 1


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


@pytest.mark.requirement("R388")
async def test_a_bus_says_why_its_pods_do_not_run_and_that_nobody_waits_for_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bendybus.operator.controllers.bus_controller.PODS_EVERY_S", 0.0)
    cluster.held_back = {1}
    ended = {"terminated": {"exitCode": 1, "message": "the file has format 13"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    container = {"ready": False, "state": waiting, "lastState": ended}
    labels = names.role_labels(BUS, "partition")
    for name, own in (("orders-partition-1", labels), ("other", {})):
        metadata = {"name": name, "namespace": "shop", "labels": own}
        status = {"containerStatuses": [container]}
        cluster.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
    cluster.operator()
    cluster.apply(bus_body())

    def shown() -> dict[str, str]:
        status = cluster.api.one("BusNamespace", "orders").get("status") or {}
        return {each["type"]: each["message"] for each in status.get("conditions") or []}

    await eventually(lambda: "Stalled" in shown())
    assert shown()["Ready"].endswith(
        "pod orders-partition-1: CrashLoopBackOff, last error: the file has format 13"
    )
    assert "other" not in shown()["Ready"]

    cluster.start(BUS, 1)

    await cluster.says("BusNamespace", "orders", "Available")
    await eventually(lambda: not {"Stalled", "Reconciling"} & shown().keys())


@pytest.mark.requirement("R482")
async def test_a_commit_that_failed_is_repeated_while_another_partition_is_away(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await standing(cluster)
    await cluster.stop(BUS, 1)
    await cluster.says("Queue", "paid", "PartitionUnavailable")
    commit, failed = PartitionLink.commit, list[str]()

    async def once(self: PartitionLink, request: entity_pb2.CommitEntityRequest) -> Entity:
        if request.name == "late" and not failed:
            failed.append(request.name)
            raise PartitionUnavailable("partition 0 does not answer: Deadline Exceeded")
        return await commit(self, request)

    monkeypatch.setattr(PartitionLink, "commit", once)

    cluster.apply(queue_body("late"))

    await eventually(lambda: failed)
    # The retry takes some seconds, the next list minutes.
    await eventually(
        lambda: "stored there wait" in cluster.ready("Queue", "late").get("message", "")
    )
    assert "late" in await cluster.catalogue(BUS, 0)
