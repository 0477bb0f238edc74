"""Settlements on their way to partitions: what must keep its order, and what waits for room."""

import asyncio
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.settle import SettleDispatcher, SettleRequest
from bendybus.frontend.upstreams import deliver_frames
from bendybus.frontend.upstreams.stream import FRAMES_MAX, Lane, PartitionStream
from bendybus.frontend.upstreams.upstream import Upstream
from bendybus.internal.v1 import partition_pb2
from tests.frontend.test_stream import FakeCall, settle_down


class Partition(Upstream):
    """The way to a partition that takes frames while `call.taking` is set; no connection."""

    def __init__(self, call: FakeCall) -> None:
        self.partition = 0
        self.call = call
        self._delivers = PartitionStream(lambda: None)

    async def run(self) -> None:
        """Write frames until the call ends."""
        await self._delivers.run(self.call, lambda response: None)

    def kinds(self) -> list[str]:
        """Return what was written."""
        return [str(frame.WhichOneof("kind")) for frame in self.call.written]


def settlement(disposition: Disposition) -> SettleRequest:
    """Return a settlement of one message of partition 0."""
    return SettleRequest(disposition, b"\0" * 16)


def ask(ask_id: int) -> partition_pb2.DeliverFramesRequest:
    """Return an ask."""
    return partition_pb2.DeliverFramesRequest(ask=partition_pb2.Ask(ask_id=ask_id))


@pytest.fixture
async def partition() -> Any:
    """A partition that reads nothing yet."""
    made = Partition(FakeCall())
    made.call.taking.clear()
    running = asyncio.ensure_future(made.run())
    await settle_down()
    yield made
    made.call.cancel()
    await running


@pytest.mark.parametrize("before", range(len(Lane)))
async def test_what_is_given_back_is_there_again_before_the_next_ask(
    partition: Partition, before: int
) -> None:
    settles = SettleDispatcher({0: partition}, Metrics())
    # Whichever lane is served next.
    for _ in range(before + 1):
        settles.start(settlement(Disposition.COMPLETE), lambda _: None)

    settles.start(settlement(Disposition.RELEASE), lambda _: None)
    assert partition.ask(ask(1))
    partition.call.taking.set()
    await settle_down()

    frames = partition.call.written
    released = [frame.settle.disposition for frame in frames].index(Disposition.RELEASE)
    asked = [frame.ask.ask_id for frame in frames].index(1)
    assert released < asked


async def test_messages_are_given_back_after_they_were_said_to_be_delivered(
    partition: Partition,
) -> None:
    settles = SettleDispatcher({0: partition}, Metrics())
    for _ in range(100):
        partition.follow(deliver_frames.deliver(0, 0, b"\0" * 16))

    settles.start(settlement(Disposition.RELEASE), lambda _: None)
    partition.call.taking.set()
    await settle_down()
    await partition.call.wrote(101)

    assert partition.kinds() == ["deliver"] * 100 + ["settle"]


async def test_giving_back_waits_for_no_room(partition: Partition) -> None:
    settles = SettleDispatcher({0: partition}, Metrics())
    for _ in range(FRAMES_MAX[Lane.FLOW] + 1):
        partition.ask(ask(1))

    settling = settles.start(settlement(Disposition.RELEASE), lambda _: None)

    assert settling.started


async def test_locks_of_partitions_that_do_not_exist_share_one_error(partition: Partition) -> None:
    settles = SettleDispatcher({0: partition}, Metrics())
    # Every second one is of partition 0.
    tokens = [(index % 2 * index).to_bytes(2, "big") + b"\0" * 14 for index in range(5_000)]
    request = SettleRequest(Disposition.COMPLETE, b"".join(tokens))

    settling = settles.start(request, lambda _: None)

    [(indexes, error)] = settling.outcome.failures
    assert list(indexes) == list(range(1, 5_000, 2))
    assert isinstance(error, errors.MessageLockLost)
    assert "has no partition 1" in error.message
