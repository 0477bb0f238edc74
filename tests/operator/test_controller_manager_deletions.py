"""Deleted manifests: retained, deleted, orphaned and adopted data."""

import asyncio
from typing import Any

import pytest

from bendybus.crds.manifest import DeletionPolicy
from bendybus.internal.v1 import entity_pb2
from bendybus.operator.controllers.bus_reconciler import BusReconciler, ReconcileResult
from bendybus.operator.decisions.manifests import BusView
from bendybus.operator.decisions.plan import ManifestDeletion
from bendybus.operator.kubernetes import names
from bendybus.v1 import management_pb2
from tests.operator.cluster import Cluster, eventually
from tests.operator.manifests import (
    BUS,
    bus_body,
    changed,
    queue_body,
    subscription_body,
    topic_body,
)
from tests.operator.test_controller_manager import holds, standing

pytestmark = pytest.mark.integration


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


# Kopf orders the events of one UID only.


async def test_a_deletion_that_comes_after_the_new_queue_leaves_that_known(
    cluster: Cluster,
) -> None:
    operator = cluster.operator()
    cluster.apply(bus_body())
    old = cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")
    operator.deaf = True
    cluster.api.remove("Queue", "shop", "paid")
    new = cluster.apply(queue_body(uid="paid-2", annotations={names.RETAINED_ANNOTATION: "adopt"}))
    operator.deaf = False

    operator.manager.entity_event("ADDED", new)
    operator.manager.entity_event("DELETED", old)

    await holds(cluster, 0, manifest_uid="paid-2", orphaned=False)
    await cluster.says("Queue", "paid", "Available")


async def test_a_deletion_that_comes_after_the_new_bus_leaves_that_known(cluster: Cluster) -> None:
    operator = cluster.operator()
    old = cluster.apply(bus_body())
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")
    operator.deaf = True
    cluster.api.remove("BusNamespace", "shop", "orders")
    new = cluster.apply(bus_body(uid="bus-2", annotations={names.RETAINED_ANNOTATION: "adopt"}))
    operator.deaf = False

    operator.manager.bus_event("ADDED", new)
    operator.manager.bus_event("DELETED", old)

    await cluster.says("BusNamespace", "orders", "Available")
    await cluster.says("Queue", "paid", "Available")


# What nobody watches any more


@pytest.mark.requirement("R386")
async def test_a_namespace_that_may_not_use_the_bus_any_more_deletes_nothing(
    cluster: Cluster,
) -> None:
    cluster.operator()
    cluster.apply(bus_body(allowedNamespaces=["guest"]))
    reference = {"name": "orders", "namespace": "shop"}
    body = queue_body("paid", namespace="guest", namespaceRef=reference, deletionPolicy="Delete")
    cluster.apply(body)
    await cluster.says("Queue", "paid", "Available", "guest")

    cluster.apply(changed(cluster.api.one("BusNamespace", "orders"), allowedNamespaces=[]))
    await cluster.says("Queue", "paid", "NamespaceNotAllowed", "guest")
    cluster.api.remove("Queue", "guest", "paid")

    await holds(cluster, 0, orphaned=True, deleted=False)


@pytest.mark.requirement("R482")
async def test_entities_go_by_a_bus_that_changed_while_it_was_reconciled(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile = BusReconciler.reconcile
    changes: list[dict[str, Any]] = [{"allowedNamespaces": []}]

    async def changed_meanwhile(self: BusReconciler, view: BusView) -> ReconcileResult:
        result = await reconcile(self, view)
        if view.generation == 2 and changes:
            cluster.apply(changed(cluster.api.one("BusNamespace", "orders"), **changes.pop()))
            # Its event is heard now.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return result

    monkeypatch.setattr(BusReconciler, "reconcile", changed_meanwhile)
    cluster.operator()
    cluster.apply(bus_body(allowedNamespaces=["guest"]))
    reference = {"name": "orders", "namespace": "shop"}
    cluster.apply(queue_body("paid", namespace="guest", namespaceRef=reference))
    await cluster.says("Queue", "paid", "Available", "guest")

    bus = cluster.api.one("BusNamespace", "orders")
    cluster.apply(changed(bus, allowedNamespaces=["guest", "other"]))

    await cluster.says("Queue", "paid", "NamespaceNotAllowed", "guest")


@pytest.mark.requirement("R386")
async def test_the_loser_of_a_name_learns_that_its_owner_is_where_nobody_watches(
    cluster: Cluster,
) -> None:
    cluster.operator()
    cluster.apply(bus_body(allowedNamespaces=["guest"]))
    reference = {"name": "orders", "namespace": "shop"}
    cluster.apply(queue_body("paid", namespace="guest", namespaceRef=reference))
    await cluster.says("Queue", "paid", "Available", "guest")
    await cluster.operators[0].stop()

    cluster.operator(watch_namespaces=("shop",))
    cluster.apply(queue_body("second", entityName="paid"))

    status = await cluster.says("Queue", "second", "NameTaken")
    assert "does not watch" in status["conditions"][0]["message"]


@pytest.mark.requirement("R386")
@pytest.mark.parametrize("policy", [DeletionPolicy.DELETE, DeletionPolicy.RETAIN])
async def test_an_entity_that_comes_after_its_manifest_was_deleted_goes_as_its_manifest_said(
    cluster: Cluster, policy: DeletionPolicy
) -> None:
    """A commit that timed out may still be carried out."""
    await standing(cluster)
    manager = cluster.operators[0].manager
    controller = manager._controller(BUS)
    manager._manifest_deleted(BUS, ManifestDeletion("late-1", "late", "shop", policy))
    await eventually(lambda: not controller.pending_names())

    await cluster.commit(
        BUS,
        entity_pb2.ENTITY_ACTION_CREATE,
        "late",
        manifest_uid="late-1",
        origin=management_pb2.ENTITY_ORIGIN_MANIFEST,
    )

    deletes = policy is DeletionPolicy.DELETE
    await holds(cluster, 0, "late", orphaned=not deletes, deleted=deletes)


# What came after the webhook had looked


async def paused(cluster: Cluster) -> None:
    cluster.annotate("BusNamespace", "orders", paused="true")
    await cluster.says("BusNamespace", "orders", "Paused")


@pytest.mark.requirement("R394")
@pytest.mark.parametrize("allowed", [False, True])
async def test_what_was_sent_before_a_deletion_is_carried_out_keeps_the_queue(
    cluster: Cluster, allowed: bool
) -> None:
    annotations = {names.ALLOW_DELETION_ANNOTATION: "true"} if allowed else {}
    cluster.operator()
    cluster.apply(bus_body())
    cluster.apply(queue_body(deletionPolicy="Delete", annotations=annotations))
    await cluster.says("Queue", "paid", "Available")
    await paused(cluster)

    cluster.api.remove("Queue", "shop", "paid")
    await cluster.send(BUS, 1, "paid")
    cluster.annotate("BusNamespace", "orders", paused="false")

    for index in (0, 1):
        await holds(cluster, index, orphaned=not allowed, deleted=allowed)


@pytest.mark.requirement("R394")
async def test_a_topic_whose_subscription_holds_messages_by_then_stays(cluster: Cluster) -> None:
    cluster.operator()
    for body in (bus_body(), topic_body(deletionPolicy="Delete"), subscription_body()):
        cluster.apply(body)
    await cluster.says("Subscription", "audit", "Available")
    await cluster.send(BUS, 1, "sales")

    cluster.api.remove("Topic", "shop", "sales")

    await holds(cluster, 0, "sales", orphaned=True, deleted=False)


@pytest.mark.requirement("R394")
async def test_a_deletion_waits_for_a_partition_that_cannot_say(cluster: Cluster) -> None:
    await standing(cluster, deletionPolicy="Delete")
    await cluster.stop(BUS, 1)
    await cluster.says("BusNamespace", "orders", "PartitionUnavailable")

    cluster.api.remove("Queue", "shop", "paid")
    await eventually(lambda: cluster.operators[0].manager._controller(BUS).pending_names())
    await holds(cluster, 0, orphaned=False, deleted=False)
    cluster.start(BUS, 1)

    for index in (0, 1):
        await holds(cluster, index, deleted=True)


@pytest.mark.requirement("R474")
@pytest.mark.parametrize("recreated", [False, True])
async def test_a_namespace_that_was_recreated_meanwhile_says_that_messages_stay(
    cluster: Cluster, recreated: bool
) -> None:
    annotations = {names.ALLOW_DELETION_ANNOTATION: "true"}
    body = queue_body(deletionPolicy="Delete", annotations=annotations)
    body["metadata"]["creationTimestamp"] = "2026-11-21T12:00:00Z"
    cluster.operator()
    cluster.apply(bus_body())
    cluster.apply(body)
    await cluster.says("Queue", "paid", "Available")
    await cluster.send(BUS, 1, "paid")
    await paused(cluster)

    cluster.api.remove("Queue", "shop", "paid")
    namespace = cluster.api.one("Namespace", "shop", "")
    created_at = "2026-11-21T12:00:01Z" if recreated else "2026-11-21T12:00:00Z"
    namespace["metadata"]["creationTimestamp"] = created_at
    cluster.api.put(namespace)
    cluster.annotate("BusNamespace", "orders", paused="false")

    for index in (0, 1):
        await holds(cluster, index, orphaned=recreated, deleted=not recreated)
