"""The way to a partition: when its circuit breaker opens."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.limits import Tier
from bendybus.frontend.settings import Settings
from bendybus.frontend.upstreams import echo_probe
from bendybus.frontend.upstreams.upstream import Upstream
from bendybus.internal.v1 import (
    entity_pb2,
    entity_pb2_grpc,
    partition_pb2,
    partition_pb2_grpc,
)
from bendybus.wire import catalogue, entities
from tests.frontend.entities import queue


class Partition:
    """A partition that answers echoes and holds streams open; what else there is, it lacks."""

    ReceiveDeferred = CancelScheduledMessages = DeleteMessages = GetCounts = Peek = Transact = None
    Forward = SetSessionState = GetSessionState = ListSessions = CountSessions = None
    GetRange = BrowseRange = FindNumber = Drain = SettleRange = SendFenced = GetFence = None
    ReserveNumbers = CommitEntity = ApplyEntity = FenceIdleEntity = None

    def __init__(self) -> None:
        self.echoes = 0
        self.answers = True
        self.end_echoes = asyncio.Event()
        # What it was told of deliveries, which it reads when `reads` is set.
        self.told: list[Any] = []
        self.reads = asyncio.Event()
        self.reads.set()
        # The answers to a watch, and the requests for watches.
        header = Fingerprint("n", "u", Tier.STANDARD, 16, 0)
        self.header = entities.fingerprint_to_proto(header)
        self.catalogue = list(catalogue.watch_responses(self.header, (), snapshot=True))
        self.watches: list[entity_pb2.WatchEntitiesRequest] = []
        self.end_watches = asyncio.Event()
        # The metadata of each stream.
        self.metadata: dict[str, tuple[Any, ...]] = {}

    async def Echo(self, requests: Any, context: Any) -> AsyncIterator[partition_pb2.EchoResponse]:
        """Answer until the test ends the stream."""
        self.end_echoes.clear()
        ending = asyncio.ensure_future(self.end_echoes.wait())
        try:
            while True:
                reading = asyncio.ensure_future(context.read())
                await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
                if ending.done() or reading.result() is grpc.aio.EOF:
                    return
                if self.answers:
                    self.echoes += 1
                    yield partition_pb2.EchoResponse(
                        echo_id=reading.result().echo_id, monotonic_ms=1, serving=True
                    )
        finally:
            ending.cancel()

    async def SendFrames(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        """Hold the stream."""
        self.metadata["SendFrames"] = tuple(context.invocation_metadata())
        await _hold(context)
        yield partition_pb2.SendFramesResponse()

    async def DeliverFrames(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        """Take frames, later than they come, until the stream is half-closed."""
        self.metadata["DeliverFrames"] = tuple(context.invocation_metadata())
        await context.send_initial_metadata(())
        await self.reads.wait()
        async for request in requests:
            self.told.append(request)
        if not self.told:
            yield partition_pb2.DeliverFramesResponse()

    async def WatchEntities(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Tell the catalogue, hold the stream."""
        self.watches.append(request)
        for response in self.catalogue:
            yield response
        await self.end_watches.wait()
        self.end_watches.clear()


async def _hold(context: Any) -> None:
    await context.send_initial_metadata(())
    await asyncio.Event().wait()


class Listener:
    """Notes what is told; any other method does nothing."""

    def __init__(self) -> None:
        self.stalls: list[str] = []
        self.catalogues: list[tuple[list[str], bool]] = []

    def catalogue(
        self, partition: int, fingerprint: Fingerprint, entries: list[Entity], *, snapshot: bool
    ) -> None:
        """Note what a partition has."""
        self.catalogues.append(([entry.name for entry in entries], snapshot))

    def entry(self, key: str) -> Entity | None:
        """Return that nothing is known."""
        return None

    def stalled(self, partition: int, why: str) -> None:
        """Note that the breaker opened."""
        self.stalls.append(why)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


@asynccontextmanager
async def reached(
    partition: Partition, listener: Listener, **settings: Any
) -> AsyncIterator[Upstream]:
    """Serve a partition and yield the upstream that reaches it, once it is available."""
    async with served(partition, listener, **settings) as upstream:
        await until(lambda: upstream.available)
        yield upstream


@asynccontextmanager
async def served(
    partition: Partition, listener: Listener, **settings: Any
) -> AsyncIterator[Upstream]:
    """Serve a partition and yield the upstream that looks for it."""
    server = grpc.aio.server()
    add_partition: Any = partition_pb2_grpc.add_PartitionServiceServicer_to_server
    add_entity: Any = entity_pb2_grpc.add_EntityServiceServicer_to_server
    add_partition(partition, server)
    add_entity(partition, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    upstream = Upstream(0, address, Settings(partitions={0: address}, **settings), listener)
    running = asyncio.create_task(upstream.run())
    try:
        yield upstream
    finally:
        running.cancel()
        await asyncio.wait([running])
        await server.stop(None)


async def until(condition: Any) -> None:
    """Wait until the condition is true."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.requirement("R42")
async def test_a_breaker_stays_closed_when_the_echo_stream_of_a_healthy_partition_ended() -> None:
    partition, listener = Partition(), Listener()
    async with reached(partition, listener, echo_every_s=60.0) as upstream:
        await asyncio.sleep(0.3)

        before = partition.echoes
        partition.end_echoes.set()
        # At once, although the next echo was due in a minute.
        await until(lambda: partition.echoes > before)

        assert listener.stalls == []
        assert upstream.available


async def test_a_late_echo_opens_the_breaker() -> None:
    partition, listener = Partition(), Listener()
    async with reached(partition, listener, echo_every_s=0.05, echo_timeout_s=0.3) as upstream:
        partition.answers = False
        await until(lambda: listener.stalls)

        assert listener.stalls == ["its echo is late"]
        assert not upstream.available


async def test_a_dead_partition_is_looked_at_soon() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    upstream = Upstream(0, address, Settings(partitions={0: address}), Listener())
    running = asyncio.create_task(upstream.run())

    await until(lambda: upstream.looked_at)

    assert not upstream.available
    running.cancel()
    await asyncio.wait([running])


async def test_time_in_which_the_process_stood_still_does_not_make_an_echo_late() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    # Answered while the process stands still: read only after the deadline has passed.
    asyncio.get_running_loop().call_later(0.01, lambda: time.sleep(0.4))
    asyncio.get_running_loop().call_later(0.45, answer.set_result, None)

    assert await echo_probe.done_in_time(answer, 0.3)


def test_an_echo_that_was_read_late_does_not_shift_the_partitions_clock() -> None:
    from bendybus.frontend.upstreams import upstream
    from bendybus.internal.v1 import partition_pb2

    woken = object.__new__(upstream.Upstream)
    woken.clock_offset_ms = 0
    late = partition_pb2.EchoResponse(monotonic_ms=upstream.now_ms() - 6_000)

    with pytest.raises(AttributeError, match="breaker"):
        # Nothing else of it is needed here.
        woken._echoed(late, asked_ms=upstream.now_ms() - 6_000)

    assert woken.clock_offset_ms == 0


async def test_what_a_partition_was_told_reaches_it_though_it_is_slow_and_the_front_end_ends() -> (
    None
):
    partition, listener = Partition(), Listener()
    partition.reads.clear()
    told = partition_pb2.DeliverFramesRequest(deliver=partition_pb2.Deliver(lock_tokens=b"t" * 16))
    async with reached(partition, listener) as upstream:
        assert upstream.follow(told)
        asyncio.get_running_loop().call_later(0.3, partition.reads.set)

        await upstream.flush()

        assert partition.told == [told]


@pytest.mark.requirement("R263")
async def test_a_catalogue_in_parts_is_taken_as_one() -> None:
    partition, listener = Partition(), Listener()
    entries = [queue(name) for name in ("a", "b", "c")]
    [whole] = catalogue.watch_responses(partition.header, entries, snapshot=True)
    partition.catalogue.clear()
    for number, each in enumerate(whole.entities):
        part = entity_pb2.WatchEntitiesResponse()
        part.CopyFrom(whole)
        del part.entities[:]
        part.entities.append(each)
        part.snapshot, part.more = number == 0, number < 2
        partition.catalogue.append(part)

    async with reached(partition, listener):
        await until(lambda: listener.catalogues)

    assert listener.catalogues[0] == (["a", "b", "c"], True)
