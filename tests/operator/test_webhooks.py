"""The guard against deletion: asks the partitions, and counts whatever state a message is in."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import kopf
import pytest

from bendybus.operator.bus import answers
from bendybus.operator.controllers.webhooks import Webhooks
from bendybus.operator.metrics import Metrics
from tests.operator.cluster import Cluster, Loopback
from tests.operator.manifests import BUS, bus_body, queue_body
from tests.operator.talker import counted, talking

pytestmark = pytest.mark.integration
Body = dict[str, Any]


@contextlib.asynccontextmanager
async def asked(
    cluster: Cluster, answer: Callable[[str], bytes], bus: Body
) -> AsyncIterator[Webhooks]:
    """Have the webhooks of a bus whose two partitions answer so."""
    cluster.held_back = {0, 1}
    cluster.api.objects["BusNamespace", "shop", "orders"] = bus
    addresses = [cluster.address(BUS, index) for index in (0, 1)]
    async with talking(answer, addresses[0]), talking(lambda _: b"", addresses[1]):
        yield Webhooks(cluster.api, Metrics(), Loopback(cluster))


DELETE: Body = {"deletionPolicy": "Delete"}


@pytest.mark.parametrize("state", answers.STATES)
async def test_a_message_in_any_state_keeps_its_queue_and_its_bus(
    cluster: Cluster, state: str
) -> None:
    bus = bus_body(**DELETE)

    async with asked(cluster, lambda _: counted(**{state: 1}), bus) as webhooks:
        with pytest.raises(kopf.AdmissionError, match=r"holds 1 message"):
            await webhooks.queue("DELETE", queue_body(**DELETE), None)
        with pytest.raises(kopf.AdmissionError, match=r"holds 1 message"):
            await webhooks.bus("DELETE", bus, None)


async def test_what_is_empty_may_go_and_so_may_a_queue_beside_a_full_one(cluster: Cluster) -> None:
    async with asked(cluster, lambda _: counted(), bus_body(**DELETE)) as webhooks:
        await webhooks.queue("DELETE", queue_body(**DELETE), None)
        await webhooks.bus("DELETE", bus_body(**DELETE), None)

    async with asked(cluster, lambda _: counted(active=1), bus_body(**DELETE)) as webhooks:
        await webhooks.queue("DELETE", queue_body("other", **DELETE), None)


async def test_an_adopted_queue_is_known_by_the_uid_of_its_data_and_by_its_own(
    cluster: Cluster,
) -> None:
    """Its status may not say yet what was adopted, or say what was there before."""
    adopted = queue_body(uid="paid-2", **DELETE) | {"status": {"entityUid": "paid-1"}}
    stale = queue_body(uid="paid-1", **DELETE) | {"status": {"entityUid": "paid-0"}}

    async with asked(cluster, lambda _: counted(deferred=1), bus_body()) as webhooks:
        for body in (adopted, stale):
            with pytest.raises(kopf.AdmissionError, match=r"holds 1 message"):
                await webhooks.queue("DELETE", body, None)


async def test_a_bus_whose_manifest_cannot_be_read_is_asked_all_the_same(
    cluster: Cluster,
) -> None:
    """Its partitions run on, and the operator would delete the queue from them."""
    unreadable = bus_body(nonsense=1) | {"status": {"partitions": 2}}

    async with asked(cluster, lambda _: counted(active=1), unreadable) as webhooks:
        with pytest.raises(kopf.AdmissionError, match=r"holds 1 message"):
            await webhooks.queue("DELETE", queue_body(**DELETE), None)


async def test_a_partition_that_cannot_be_understood_cannot_say(cluster: Cluster) -> None:
    async with asked(cluster, lambda _: b"\xff\xff", bus_body()) as webhooks:
        with pytest.raises(kopf.AdmissionError, match=r"partition\(s\) 0 cannot say"):
            await webhooks.queue("DELETE", queue_body(**DELETE), None)
