"""Partitions of other versions: which ones a front end uses, and what it says of the others."""

import logging
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.frontend.settings import Settings
from bendybus.frontend.upstreams.upstream import Upstream
from bendybus.internal.v1 import entity_pb2
from bendybus.wire import statuses
from bendybus.wire.contract_versions import FRONT_END
from tests.frontend.test_upstream import Listener, Partition, reached, served, until

pytestmark = pytest.mark.requirement("R602")


def of_version(partition: Partition, contract: int) -> None:
    """Let a partition answer watches as another version does."""
    [answer] = partition.catalogue
    answer.contract = contract


async def test_a_partition_of_the_version_before_is_used() -> None:
    partition = Partition()
    of_version(partition, FRONT_END.number - 1)

    async with reached(partition, Listener()) as upstream:
        assert upstream.conditions() == []


async def test_a_front_end_says_the_number_of_its_contract() -> None:
    partition = Partition()

    async with reached(partition, Listener()):
        pass

    for stream in ("SendFrames", "DeliverFrames"):
        assert FRONT_END.said in partition.metadata[stream]
    assert partition.watches[0].contract == FRONT_END.number
    assert partition.watches[0].watcher == entity_pb2.WATCHER_FRONT_END


@pytest.mark.parametrize(
    ("contract", "sentence"),
    [
        (0, "partition 0 runs a version of Bendybus before 0.13.0, and this front end runs 0.14.2"),
        (FRONT_END.number + 2, "partition 0 uses version 6 of the contract"),
    ],
    ids=["0.11", "later"],
)
async def test_a_partition_of_a_version_that_does_not_fit_is_unavailable_and_says_why(
    contract: int, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    partition, listener = Partition(), Listener()
    of_version(partition, contract)
    with caplog.at_level(logging.ERROR, "bendybus"):
        async with served(partition, listener) as upstream:
            await until(lambda: len(partition.watches) >= 3)

            assert not upstream.available
            assert sentence in "; ".join(upstream.conditions())
            assert listener.catalogues == []
            # It is watched again and again; that is logged once.
            said = [each.message for each in caplog.records if each.name.startswith("bendybus")]
            assert [sentence in message for message in said] == [True]

            # Upgraded: it is used.
            of_version(partition, FRONT_END.number)
            await until(lambda: upstream.available)
            assert upstream.conditions() == []
            assert listener.catalogues


async def test_a_partition_that_refuses_this_version_is_unavailable_and_says_why() -> None:
    class Later(Partition):
        async def WatchEntities(self, request: Any, context: Any) -> Any:
            async with statuses.errors_as_status(context):
                raise errors.InvalidOperation("this front end runs a version before 0.14.")
            yield entity_pb2.WatchEntitiesResponse()

    async with served(Later(), Listener()) as upstream:
        await until(lambda: "before 0.14" in "; ".join(upstream.conditions()))

        assert not upstream.available


async def test_a_partition_that_is_replaced_by_a_version_that_does_not_fit_is_left_alone() -> None:
    partition, listener = Partition(), Listener()
    async with reached(partition, listener) as upstream:
        of_version(partition, 0)
        partition.end_watches.set()
        await until(lambda: not upstream.available)

        assert "before 0.13.0" in listener.stalls[-1]


async def test_a_partition_that_was_never_heard_says_that_it_does_not_answer() -> None:
    upstream = Upstream(0, "127.0.0.1:1", Settings(partitions={}), Listener())

    assert upstream.conditions() == ["it has not answered yet"]
