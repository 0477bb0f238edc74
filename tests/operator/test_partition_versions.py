"""Partitions of other versions: which ones the operator uses, and what a status says of others."""

import logging
from typing import Any

import pytest

from bendybus.domain.errors import InvalidOperation
from bendybus.internal.v1 import entity_pb2
from bendybus.operator.decisions.conditions import VERSION_REFUSED
from bendybus.wire import statuses
from bendybus.wire.contract_versions import OPERATOR
from tests.operator.cluster import Cluster, eventually
from tests.operator.manifests import BUS, bus_body
from tests.operator.talker import counted, snapshot, talking
from tests.operator.test_partition_link import Ear, linked

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R602")]


class Versions:
    """A partition that answers watches as some version does."""

    def __init__(self, contract: int) -> None:
        self.contract = contract

    def answer(self, method: str) -> bytes:
        """Answer a method."""
        if method != "WatchEntities":
            return counted()
        made = entity_pb2.WatchEntitiesResponse.FromString(snapshot())
        made.contract = self.contract
        return made.SerializeToString()


async def test_a_partition_of_this_version_is_used() -> None:
    async with talking(Versions(OPERATOR.number).answer) as address, linked(address, Ear()) as link:
        await eventually(lambda: link.reachable)

        assert link.refusal == ""


@pytest.mark.parametrize(
    ("contract", "sentence"),
    [
        (0, "partition 0 runs a version of Bendybus before 0.13.0, and this operator runs 0.14.2"),
        (OPERATOR.number + 2, "partition 0 uses version 4 of the contract"),
    ],
    ids=["0.11", "later"],
)
async def test_a_partition_of_a_version_that_does_not_fit_is_unreachable_until_it_is_replaced(
    contract: int, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    versions, ear = Versions(contract), Ear()
    with caplog.at_level(logging.ERROR, "bendybus"):
        async with talking(versions.answer) as address, linked(address, ear) as link:
            await eventually(lambda: sentence in link.refusal)
            assert not link.reachable
            assert ear.said == []

            versions.contract = OPERATOR.number
            await eventually(lambda: link.reachable)
            assert link.refusal == ""

    assert [sentence in each.message for each in caplog.records] == [True]


async def test_a_partition_that_refuses_the_operator_is_unreachable() -> None:
    refusal = statuses.to_status(InvalidOperation("this operator uses version 2."))
    trailer: Any = refusal.SerializeToString()

    async with (
        talking(lambda _: b"", trailer=trailer) as address,
        linked(address, Ear()) as link,
    ):
        await eventually(lambda: link.refusal == "this operator uses version 2.")

        assert not link.reachable


async def test_the_status_of_a_bus_names_the_partition(cluster: Cluster) -> None:
    cluster.held_back = {0, 1}
    async with talking(Versions(0).answer, cluster.address(BUS, 0), ends=True):
        cluster.operator()
        cluster.apply(bus_body())

        def said() -> dict[str, str]:
            status = cluster.api.one("BusNamespace", "orders").get("status") or {}
            return {each["type"]: each["message"] for each in status.get("conditions") or []}

        await eventually(lambda: VERSION_REFUSED in said())

        message = said()[VERSION_REFUSED]
        assert message.startswith("partition 0: its version and the operator's")
