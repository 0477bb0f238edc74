"""The way to one partition: what is believed of it, and what its end does to calls."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bendybus.domain import limits
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.errors import PartitionUnavailable
from bendybus.internal.v1 import entity_pb2
from bendybus.operator.bus import answers
from bendybus.operator.bus.partition_link import PartitionLink
from tests.operator.cluster import Cluster, eventually
from tests.operator.manifests import BUS, bus_body, entry, queue
from tests.operator.talker import counted, entity, snapshot, talking

pytestmark = pytest.mark.integration


class Ear:
    """Notes what a link says. `believes`: what it answers to a catalogue."""

    def __init__(self, *, believes: bool = True) -> None:
        self.said: list[Any] = []
        self.names: set[str] = set()
        self._believes = believes

    def catalogue(
        self, partition: int, fingerprint: Fingerprint, entries: list[Entity], *, snapshot: bool
    ) -> bool:
        self.names |= {entry.name for entry in entries}
        self.said.append("snapshot" if snapshot else [entry.name for entry in entries])
        return self._believes

    def lost(self, partition: int) -> None:
        self.said.append("lost")

    def reached(self, partition: int, reachable: bool) -> None:
        self.said.append(reachable)


@contextlib.asynccontextmanager
async def linked(address: str, ear: Ear, *, timeout_s: float = 5.0) -> AsyncIterator[PartitionLink]:
    link = PartitionLink(0, address, None, ear, timeout_s=timeout_s)
    task = asyncio.create_task(link.run())
    yield link
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Listen and never say a word: a process that stands still, whose kernel takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def served(cluster: Cluster) -> str:
    cluster.operator()
    cluster.apply(bus_body())
    await cluster.says("BusNamespace", "orders", "Available")
    return cluster.address(BUS, 0)


async def test_a_partition_is_reachable_when_it_told_its_catalogue(cluster: Cluster) -> None:
    ear = Ear()

    async with linked(await served(cluster), ear) as link:
        await eventually(lambda: link.reachable)
        await cluster.commit(BUS, entity_pb2.ENTITY_ACTION_CREATE, "new")
        await eventually(lambda: ["new"] in ear.said)
        assert await link.counts() is not None

    assert ear.said == ["snapshot", True, ["new"], "lost", False]


@pytest.mark.requirement("R263")
async def test_a_catalogue_in_parts_is_taken_as_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, names = await served(cluster), {f"q{number}" for number in range(9)}
    for name in names:
        await cluster.commit(BUS, entity_pb2.ENTITY_ACTION_CREATE, name)
    monkeypatch.setattr(limits, "CATALOGUE_PART_BYTES", 300)
    ear = Ear()

    async with linked(address, ear) as link:
        await eventually(lambda: link.reachable)
        found = await link.catalogue()

    assert ear.said[:2] == ["snapshot", True]
    assert found is not None
    assert {entry.name for entry in found} == names == ear.names


@pytest.mark.requirement("R263")
async def test_a_catalogue_that_is_too_large_in_all_its_parts_is_that_partitions_fault(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await served(cluster)
    for number in range(9):
        await cluster.commit(BUS, entity_pb2.ENTITY_ACTION_CREATE, f"q{number}")
    monkeypatch.setattr(limits, "CATALOGUE_PART_BYTES", 300)
    monkeypatch.setattr(answers, "CATALOGUE_BYTES_MAX", 800)

    async with linked(address, Ear()) as link:
        await eventually(lambda: link.invalid_answer)
        assert "at most 800 bytes" in link.invalid_answer
        assert not link.reachable
        assert await link.catalogue() is None


async def test_an_answer_to_a_call_is_no_catalogue(cluster: Cluster) -> None:
    ear = Ear()
    link = PartitionLink(0, await served(cluster), None, ear, timeout_s=5)

    assert await link.counts() is not None

    assert not link.reachable
    await link.close()


async def test_a_partition_that_is_not_believed_is_never_reachable(cluster: Cluster) -> None:
    ear = Ear(believes=False)

    async with linked(await served(cluster), ear) as link:
        await eventually(lambda: ear.said)
        assert await link.counts() is not None
        assert not link.reachable

    assert ear.said == ["snapshot"]


async def test_a_partition_that_comes_back_tells_all_again(cluster: Cluster) -> None:
    ear = Ear()

    async with linked(await served(cluster), ear) as link:
        await eventually(lambda: link.reachable)
        await cluster.stop(BUS, 0)
        await eventually(lambda: not link.reachable)
        cluster.start(BUS, 0)
        await eventually(lambda: link.reachable)

    assert ear.said == ["snapshot", True, "lost", False, "snapshot", True, "lost", False]


async def test_a_partition_that_stands_still_does_not_answer() -> None:
    with black_hole() as address:
        async with linked(address, Ear(), timeout_s=0.05) as link:
            assert await link.counts() is None
            assert not link.reachable
            with pytest.raises(PartitionUnavailable, match="partition 0 does not answer"):
                await link.commit(entity_pb2.CommitEntityRequest())


async def test_a_call_ends_when_its_way_is_closed_and_its_caller_lives_on() -> None:
    """Else the task that counts would end with it, and nobody would notice."""
    with black_hole() as address:
        link = PartitionLink(0, address, None, Ear(), timeout_s=30)
        calls = [asyncio.create_task(link.counts()) for _ in range(3)]
        await eventually(lambda: link.asked == 3)

        await link.close()

        assert await asyncio.gather(*calls) == [None, None, None]
        assert await link.counts() is None


async def test_a_caller_that_is_cancelled_is_cancelled() -> None:
    with black_hole() as address:
        link = PartitionLink(0, address, None, Ear(), timeout_s=30)
        call = asyncio.create_task(link.counts())
        await eventually(lambda: link.asked == 1)

        call.cancel()

        with pytest.raises(asyncio.CancelledError):
            await call
        await link.close()


@pytest.mark.requirement("R471")
async def test_an_answer_to_a_copy_that_cannot_be_parsed_is_that_of_a_partition_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "LARGE_ANSWER_BYTES_MAX", 800)
    monkeypatch.setattr(answers, "ANSWER_BYTES_MAX", 800)
    said = bytes(1_000)
    async with talking(lambda _: said) as address, linked(address, Ear()) as link:
        with pytest.raises(PartitionUnavailable, match="cannot be parsed"):
            await link.copy([entry(queue())])


@pytest.mark.requirement("R472")
async def test_counts_that_can_be_parsed_again_end_the_condition_that_they_cannot() -> None:
    counts = b"\xff"

    def answer(method: str) -> bytes:
        return snapshot(entity()) if method == "WatchEntities" else counts

    async with talking(answer) as address, linked(address, Ear()) as link:
        await eventually(lambda: link.reachable)
        assert await link.counts() is None
        assert link.invalid_answer

        counts = counted(active=1)
        assert await link.counts()

        assert link.reachable
        assert link.invalid_answer == ""
