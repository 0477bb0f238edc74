"""Events that come late, calls that fail once: nothing is lost by them."""

from typing import Any

import pytest

from bendybus.domain.backoff import Backoff
from bendybus.operator.controllers import manifest_deletions
from bendybus.operator.decisions import manifests
from bendybus.operator.kubernetes.api import ApiError
from tests.operator.cluster import Cluster, eventually
from tests.operator.manifests import BUS, bus_body, changed, queue_body
from tests.operator.test_controller_manager import holds, standing

pytestmark = pytest.mark.integration
DELETE: dict[str, Any] = {"deletionPolicy": "Delete"}


@pytest.mark.requirement("R136")
async def test_a_late_event_of_a_deleted_manifest_does_not_undo_the_one_that_followed(
    cluster: Cluster,
) -> None:
    await standing(cluster)
    late = changed(cluster.api.one("Queue", "paid"), maxDeliveryCount=3)
    cluster.api.remove("Queue", "shop", "paid")
    await holds(cluster, 0, orphaned=True)
    cluster.apply(queue_body(uid="paid-2", annotations={"bendybus.io/retained-data": "adopt"}))
    await cluster.says("Queue", "paid", "Available")
    manager = cluster.operators[0].manager

    manager.entity_event("MODIFIED", late)

    known = manager.cache.by_uid("paid-2")
    assert known is not None
    assert manager.cache.by_uid("paid-1") is None
    assert manager._controllers[BUS][0].pending_names() == []


@pytest.mark.requirement("R136")
async def test_a_late_event_of_a_deleted_bus_does_not_undo_the_one_that_followed(
    cluster: Cluster,
) -> None:
    await standing(cluster, queue=False)
    late = cluster.api.one("BusNamespace", "orders")
    cluster.api.remove("BusNamespace", "shop", "orders")
    manager = cluster.operators[0].manager
    await eventually(lambda: BUS not in manager.cache.buses)
    cluster.apply(bus_body(uid="bus-2", annotations={"bendybus.io/retained-data": "adopt"}))
    await cluster.says("BusNamespace", "orders", "Available")

    manager.bus_event("MODIFIED", late)
    manager.bus_event("DELETED", late)

    assert manager.cache.buses[BUS].uid == "bus-2"


def test_without_comparable_versions_the_later_event_counts() -> None:
    old, new = manifests.entity_view(queue_body(uid="1")), manifests.entity_view(queue_body())

    assert not manifests.succeeded_by(old, new)
    assert not manifests.succeeded_by(new, old)


@pytest.mark.requirement("R138")
async def test_the_volumes_of_a_deleted_bus_are_deleted_although_the_first_attempt_fails(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = Backoff(first_s=0.05, max_s=0.05)
    monkeypatch.setattr(manifest_deletions, "RETRY", soon)
    cluster.operator()
    cluster.apply(bus_body(**DELETE))
    await cluster.says("BusNamespace", "orders", "Available")
    cluster.api.refusals["delete", "PersistentVolumeClaim"] = ApiError(500, "etcd is away")
    cluster.api.remove("BusNamespace", "shop", "orders")
    await eventually(
        lambda: ("delete", "PersistentVolumeClaim") in {c[:2] for c in cluster.api.calls}
    )

    del cluster.api.refusals["delete", "PersistentVolumeClaim"]

    await eventually(lambda: not cluster.api.of_kind("PersistentVolumeClaim"))


@pytest.mark.requirement("R138")
async def test_volumes_that_another_bus_adopted_meanwhile_stay(cluster: Cluster) -> None:
    operator = cluster.operator()
    cluster.apply(bus_body(**DELETE))
    await cluster.says("BusNamespace", "orders", "Available")
    gone = manifests.bus_view(cluster.api.one("BusNamespace", "orders"))
    adopted = {"metadata": {"annotations": {"bendybus.io/adopted-by": "bus-2"}}}
    for name in cluster.api.of_kind("PersistentVolumeClaim"):
        await cluster.api.merge("PersistentVolumeClaim", "shop", name, adopted)

    await operator.manager._shared.buses.forget(gone)

    assert len(cluster.api.of_kind("PersistentVolumeClaim")) == 2
