"""Tasks that end only when their owner cancels them."""

import asyncio

import pytest

from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.bus.partition_link import PartitionLink
from bendybus.operator.controllers.bus_reconciler import BusReconciler
from bendybus.operator.controllers.entity_controller import EntityReconciler
from bendybus.operator.controllers.manifest_deletions import ManifestDeletions
from bendybus.operator.endless import endless
from tests.operator.cluster import Cluster
from tests.operator.manifests import BUS, bus_body, queue_body


async def cancelled_from_inside() -> None:
    raise asyncio.CancelledError


async def test_a_task_cancelled_by_its_owner_is_cancelled() -> None:
    task = asyncio.create_task(endless(asyncio.sleep(60), "sleep"))
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()


async def test_a_task_cancelled_from_inside_fails() -> None:
    with pytest.raises(RuntimeError, match="reconcile: cancelled from inside"):
        await endless(cancelled_from_inside(), "reconcile")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("place", "name"),
    [
        (BusReconciler, "reconcile"),
        (EntityReconciler, "reconcile"),
        (ManifestDeletions, "carry_out"),
        (BusLink, "refresh_counts"),
        (BusLink, "catch_up"),
        (PartitionLink, "_watch"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
async def test_a_bus_is_reconciled_again_after_a_call_that_was_cancelled_from_inside(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, place: type, name: str
) -> None:
    """As gRPC cancels a call whose channel was closed."""
    works, calls = getattr(place, name), []

    async def fails_once(*arguments: object, **named: object) -> object:
        calls.append(name)
        if len(calls) == 2:
            raise asyncio.CancelledError
        return await works(*arguments, **named)

    monkeypatch.setattr(place, name, fails_once)
    operator = cluster.operator()
    cluster.apply(bus_body())
    for number in range(3):
        cluster.apply(queue_body(f"q{number}"))
    await cluster.says("Queue", "q0", "Available")
    # A partition of a bus that was never seen whole is "not available yet".
    await cluster.says("BusNamespace", "orders", "Available")
    await cluster.stop(BUS, 1)
    await cluster.says("BusNamespace", "orders", "PartitionUnavailable")
    cluster.start(BUS, 1)

    cluster.api.remove("Queue", "shop", "q2")
    await cluster.says("BusNamespace", "orders", "Available")
    cluster.apply(queue_body("next"))
    await cluster.says("Queue", "next", "Available")

    assert len(calls) > 2
    assert not operator.task.done()
