"""Partitions and front ends of the simulated world of sessions: the real code, on virtual lines."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from bendybus.domain.directory import Directory
from bendybus.domain.entity import Fingerprint
from bendybus.domain.limits import Tier
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.flow_control import ConnectionFlow, FlowControl, StreamFlow
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.receive import ReceiveDispatcher
from bendybus.frontend.core.sessions import SessionDispatcher
from bendybus.frontend.core.settle import SettleDispatcher
from bendybus.frontend.listeners.receiver_stream import ReceiverStream
from bendybus.frontend.upstreams import deliver_frames as sent_frames
from bendybus.frontend.upstreams.deliver_outbox import DeliverOutbox
from bendybus.frontend.upstreams.stream import Ending, Lane, PartitionStream
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.service import frames
from bendybus.partition_server.state.commands import Command, StreamEnded
from bendybus.partition_server.state.stage import Answer
from bendybus.v1 import receiver_pb2
from bendybus.wire import frame_forms
from bendybus.wire.contract_versions import CLIENT
from bendybus.wire.streams import ADMITTED
from tests.simulation.partitions import PARTITIONS, Node, Partitions
from tests.simulation.wires import Call, gone


class Served:
    """A front end's stream, as its partition serves it."""

    def __init__(self, node: Node, answer: Callable[[Any], None]) -> None:
        self.node = node
        self.answer = answer
        self.expected = 0
        self.done = asyncio.Event()

    def expect(self) -> None:
        """Note that an outcome is owed."""
        self.expected += 1
        self.done.clear()

    def told(self, value: Any) -> None:
        """Write an answer."""
        thread: Any = SimpleNamespace(index=self.node.index)
        self.answer(frames.response(value, thread))
        if frames.is_outcome(value):
            self.expected -= 1
        if self.expected <= 0:
            self.done.set()


class Processes(Partitions):
    """Partitions in virtual time, and the calls that they serve."""

    description = replace(Partitions.description, requires_session=True)

    def __init__(self, seed: int, silent_crashes: float) -> None:
        self._loop = asyncio.get_running_loop()
        super().__init__(seed, silent_crashes)
        self.calls: dict[int, list[Call]] = {index: [] for index in range(PARTITIONS)}

    @property
    def now(self) -> int:
        """Virtual time in ms."""
        return round(self._loop.time() * 1_000)

    @now.setter
    def now(self, _: int) -> None:
        """Time is the loop's."""

    def after(self, milliseconds: int, action: Callable[[], None]) -> None:
        """Let something happen later."""
        self._loop.call_later(milliseconds / 1_000, action)

    def crash(self, index: int) -> None:
        """Kill a partition."""
        super().crash(index)
        calls, self.calls[index] = self.calls[index], []
        for call in calls:
            call.break_(at_once=True)

    def open(self, index: int) -> Call:
        """Return a front end's call of a partition. Raises what grpc.aio raises."""
        node = self.nodes[index]
        if node.rules is None:
            raise gone()
        call = Call(
            self.random,
            partial(self._serve, node),
            partition_pb2.DeliverFramesRequest,
            partition_pb2.DeliverFramesResponse,
        )
        self.calls[index] = [each for each in self.calls[index] if not each.broken]
        self.calls[index].append(call)
        return call

    async def _serve(
        self, node: Node, requests: AsyncIterator[Any], answer: Callable[[Any], None]
    ) -> None:
        stream: Any = Served(node, answer)
        generation = node.generation
        try:
            async for request in requests:
                self.take(node, frames.commands_of(request, stream))
            if stream.expected > 0:
                await stream.done.wait()
        finally:
            if node.generation == generation:
                self.take(node, [StreamEnded(stream)])

    def take(self, node: Node, commands: list[Command]) -> None:
        """Hand commands to a partition."""
        if node.rules is not None:
            node.waiting += commands
            self._step(node)

    def ask(self, index: int, command: Command) -> None:
        """Send a command that a caller waits for: its `reply_to` is a future."""
        generation = self.nodes[index].generation

        def arrive() -> None:
            if self.nodes[index].generation == generation:
                self.take(self.nodes[index], [command])

        self.after(self.line(), arrive)

    def _tell(self, node: Node, answers: list[Answer]) -> None:
        for to, value in answers:
            if isinstance(to, Served):
                to.told(value)
            elif isinstance(to, asyncio.Future):
                self.after(self.line(), partial(_resolve, to, value))

    def _answered(self, index: int, to: Any, value: Any) -> None:
        raise AssertionError

    def _lost(self, index: int) -> None:
        """Front ends see it by their streams."""

    def _returned(self, index: int) -> None:
        """See `_lost`."""

    def _stalled(self, index: int, why: str) -> None:
        """See `_lost`."""


def _resolve(future: "asyncio.Future[Any]", value: Any) -> None:
    if not future.done():
        future.set_result(value)


class Way:
    """A front end's way to one partition; see frontend.upstreams.upstream."""

    clock_offset_ms = 0

    def __init__(self, world: Processes, front_end: "SimulatedFrontEnd", index: int) -> None:
        self.partition = index
        self._world = world
        self._front_end = front_end
        self._stream: PartitionStream[Any, Any] = PartitionStream(
            self._changed, lambda: front_end.deliver_stream_moving(index), outbox=DeliverOutbox
        )
        self._open = False
        self.call: Call | None = None

    @property
    def available(self) -> bool:
        """Whether it can be asked."""
        return self._stream.open

    delivers = available

    def conditions(self) -> list[str]:
        """Say nothing."""
        return []

    def ask(self, request: Any) -> bool:
        """See Upstream."""
        return self._stream.put(request, Lane.FLOW)

    def follow(self, request: Any) -> bool:
        """See Upstream."""
        return self._stream.put_always(request)

    def settle(self, request: Any, *, renewal: bool, waited: bool = False) -> bool:
        """See Upstream."""
        return self._stream.put(request, Lane.RENEW if renewal else Lane.WORK)

    async def room(self) -> None:
        """See Upstream."""
        await self._stream.room()

    def move(self) -> None:
        """Go over to a new stream."""
        self._stream.mark()

    def _changed(self) -> None:
        if self.available and not self._open:
            self._front_end.back(self.partition)
        self._open = self.available

    async def run(self) -> None:
        """Keep the stream open."""
        while True:
            ending = Ending(True, "")
            try:
                while ending.moved:
                    self.call = self._world.open(self.partition)
                    ending = await self._stream.run(self.call, self._take)
            except type(gone()):
                pass
            self._front_end.deliver_stream_lost(self.partition, ending.why)
            await asyncio.sleep(self._world.random.uniform(0.05, 0.5))

    def _take(self, response: Any) -> None:
        for part in frame_forms.parts(response):
            self._front_end.delivered(self.partition, sent_frames.answer(part))


class _Caller:
    """May do everything."""

    def check(self, *_: Any) -> None:
        """Allow."""


class SimulatedFrontEnd:
    """One front end process."""

    def __init__(self, world: Processes, number: int) -> None:
        self._world = world
        directory = Directory()
        fingerprint = Fingerprint("sim", "ns", Tier.PREMIUM, PARTITIONS, 0)
        directory.update(0, fingerprint, [world.entity], snapshot=True)
        self.directory = directory
        self.ways = {index: Way(world, self, index) for index in range(PARTITIONS)}
        ways: Any = self.ways
        self.receives = ReceiveDispatcher(ways, directory, Metrics())
        self.sessions = SessionDispatcher(ways, self.receives, timeout_s=60.0)
        self.settles = SettleDispatcher(ways, Metrics())
        self.quota = Quota()
        self.copies = SimpleNamespace(changed=lambda: None)
        self._flow = FlowControl(self.receives)
        self._peers = itertools.count()
        self.calls: list[Call] = []
        self.streams: list[ReceiverStream] = []
        self.alive = True
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(way.run()) for way in self.ways.values()]
        self._tasks.append(loop.create_task(self.receives.run()))

    delivered: Any = FrontEnd.delivered
    deliver_stream_lost: Any = FrontEnd.deliver_stream_lost
    deliver_stream_moving: Any = FrontEnd.deliver_stream_moving
    back: Any = FrontEnd.back

    def kill(self) -> None:
        """End the process."""
        self.alive = False
        for task in self._tasks:
            task.cancel()
        for way in self.ways.values():
            if way.call is not None:
                way.call.break_()
        for call in self.calls:
            call.break_(at_once=True)

    def open(self) -> Call:
        """Return a client's call. Raises what grpc.aio raises."""
        if not self.alive:
            raise gone()
        call = Call(
            self._world.random,
            self._serve,
            receiver_pb2.ReceiveStreamRequest,
            receiver_pb2.ReceiveStreamResponse,
        )
        call.metadata = (ADMITTED, CLIENT.said)
        self.calls = [each for each in self.calls if not each.broken]
        self.calls.append(call)
        return call

    async def _serve(self, requests: AsyncIterator[Any], answer: Callable[[Any], None]) -> None:
        caller: Any = _Caller()
        front_end: Any = self
        with self._flow.of(f"peer-{next(self._peers)}") as connection, connection.stream() as flow:
            outcomes = StreamFlow(ConnectionFlow(FlowControl(), "me"))
            async with ReceiverStream(
                front_end, caller, Holder("me", ""), flow, outcomes
            ) as stream:
                reader = asyncio.get_running_loop().create_task(stream.read(requests))
                self.streams.append(stream)
                try:
                    async for frame in stream.frames():
                        answer(frame)
                        await asyncio.sleep(0)
                finally:
                    self.streams.remove(stream)
                    reader.cancel()
