"""The outbox of a stream to a partition: lanes with room of their own, and moves."""

import asyncio
from typing import Any

import grpc
import pytest

from bendybus.frontend.upstreams import stream
from bendybus.frontend.upstreams.deliver_outbox import DeliverOutbox
from bendybus.frontend.upstreams.stream import Lane, PartitionStream
from bendybus.internal.v1 import partition_pb2
from bendybus.wire import frame_forms


class FakeCall:
    """A stream that takes frames while `reads` is set."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.taking = asyncio.Event()
        self.taking.set()
        self.ended = asyncio.Event()
        self.failing = False
        self.half_closed = False
        self.metadata: tuple[tuple[str, str], ...] = ()

    async def wait_for_connection(self) -> None:
        """Be connected."""

    async def initial_metadata(self) -> Any:
        """Return what the partition says of itself."""
        return self.metadata

    async def write(self, request: Any) -> None:
        """Take a frame."""
        await self.taking.wait()
        if self.failing:
            raise ValueError("cannot be serialised")
        self.written.append(request)

    async def wrote(self, frames: int) -> None:
        """Wait until so many frames were taken."""
        async with asyncio.timeout(30):
            while len(self.written) < frames:  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def done_writing(self) -> None:
        """Half-close."""
        self.half_closed = True
        self.ended.set()

    async def read(self) -> Any:
        """Wait for the end."""
        await self.ended.wait()
        if self.failing:
            raise asyncio.CancelledError
        return grpc.aio.EOF

    async def code(self) -> grpc.StatusCode:
        """Return the end's status."""
        return grpc.StatusCode.OK

    def cancel(self) -> bool:
        """End."""
        self.ended.set()
        return True


@pytest.fixture
async def call() -> FakeCall:
    """A call on the test's loop."""
    return FakeCall()


async def full_stream(call: FakeCall) -> tuple[PartitionStream[Any, Any], asyncio.Future[Any]]:
    """Return a stream whose lane WORK is full, as its partition takes nothing yet."""
    partition_stream = PartitionStream[Any, Any](lambda: None)
    call.taking.clear()
    running = asyncio.ensure_future(partition_stream.run(call, lambda response: None))
    await settle_down()
    for _ in range(2):
        # The writer has one in its hands.
        while partition_stream.put("first"):
            pass
        await settle_down()
    return partition_stream, running


async def settle_down() -> None:
    """Let every task run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_follows_from_asks_is_never_dropped_while_other_lanes_are_full(
    call: FakeCall,
) -> None:
    partition_stream = PartitionStream[Any, Any](lambda: None)
    call.taking.clear()
    running = asyncio.ensure_future(partition_stream.run(call, lambda response: None))
    await settle_down()
    for lane in (Lane.WORK, Lane.RENEW, Lane.FLOW):
        while partition_stream.put((lane, "filler"), lane):
            pass

    followed = [partition_stream.put_always(("withdraw", n)) for n in range(30_000)]
    call.taking.set()
    await call.wrote(30_000 + sum(stream.FRAMES_MAX.values()))

    assert all(followed)
    assert [entry for entry in call.written if entry[0] == "withdraw"] == [
        ("withdraw", n) for n in range(30_000)
    ]
    call.ended.set()
    await running


async def test_lanes_are_served_in_turn(call: FakeCall) -> None:
    partition_stream = PartitionStream[Any, Any](lambda: None)
    call.taking.clear()
    running = asyncio.ensure_future(partition_stream.run(call, lambda response: None))
    await settle_down()
    for n in range(100):
        partition_stream.put_always(("flow", n))
    partition_stream.put("settlement")
    partition_stream.put("renewal", Lane.RENEW)

    call.taking.set()
    await call.wrote(102)

    assert call.written.index("settlement") < 5
    assert call.written.index("renewal") < 5
    call.ended.set()
    await running


async def test_whoever_fills_the_lane_of_settlements_waits_for_room(call: FakeCall) -> None:
    partition_stream, running = await full_stream(call)
    waiting = asyncio.ensure_future(partition_stream.room())
    await settle_down()
    assert not waiting.done()

    call.taking.set()
    await asyncio.wait_for(waiting, 5)

    assert partition_stream.put("settlement")
    call.ended.set()
    await running


async def test_those_who_wait_for_room_are_woken_one_by_one_in_their_order(
    call: FakeCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, room = [0], stream.Outbox.room

    def counted(outbox: stream.Outbox[Any], lane: Lane) -> int:
        looks[0] += 1
        return room(outbox, lane)

    monkeypatch.setattr(stream.Outbox, "room", counted)
    monkeypatch.setitem(stream.FRAMES_MAX, Lane.WORK, 10)
    partition_stream, running = await full_stream(call)

    async def work(number: int) -> None:
        waited = False
        while not partition_stream.put(number, waited=waited):
            await partition_stream.room()
            waited = True

    waiting = [asyncio.ensure_future(work(number)) for number in range(500)]
    await settle_down()
    # Some give up: their turn goes to the next one.
    for number in range(0, 500, 7):
        waiting[number].cancel()
    call.taking.set()
    expected = [number for number in range(500) if number % 7]
    await call.wrote(11 + len(expected))

    assert call.written == ["first"] * 11 + expected
    await asyncio.gather(*waiting, return_exceptions=True)
    # Each looks when it comes and when it is woken; the writer looks once a frame.
    assert looks[0] < 4 * 500
    call.ended.set()
    await running


@pytest.mark.requirement("R648")
async def test_room_belongs_to_those_who_wait_for_it(
    call: FakeCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stream.FRAMES_MAX, Lane.WORK, 10)
    partition_stream, running = await full_stream(call)
    turns: list[int] = []

    async def work(number: int) -> None:
        await partition_stream.room()
        turns.append(number)
        assert partition_stream.put(number, waited=True)

    waiting = [asyncio.ensure_future(work(number)) for number in range(30)]
    await settle_down()
    call.taking.set()
    while not turns:
        await asyncio.sleep(0)
        # One that has not waited finds no room while others wait, and lines up behind them.
        assert not partition_stream.put("newcomer")
    waiting.append(asyncio.ensure_future(work(30)))
    await asyncio.gather(*waiting)

    assert turns == list(range(31))
    assert partition_stream.put("newcomer")
    call.ended.set()
    await running


async def test_the_end_of_a_stream_wakes_all_who_wait_for_room(
    call: FakeCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stream.FRAMES_MAX, Lane.WORK, 10)
    partition_stream = PartitionStream[Any, Any](lambda: None)
    call.taking.clear()
    running = asyncio.ensure_future(partition_stream.run(call, lambda response: None))
    await settle_down()
    while partition_stream.put("first"):
        pass
    waiting = [asyncio.ensure_future(partition_stream.room()) for _ in range(20)]
    await settle_down()

    call.ended.set()
    await running

    await asyncio.wait_for(asyncio.gather(*waiting), 5)
    assert not partition_stream.open


async def test_a_moved_stream_writes_what_was_put_before_and_leaves_the_rest_to_the_next(
    call: FakeCall,
) -> None:
    moves: list[str] = []
    partition_stream = PartitionStream[Any, Any](lambda: None, lambda: moves.append("moving"))
    call.taking.clear()
    running = asyncio.ensure_future(partition_stream.run(call, lambda response: None))
    await settle_down()
    partition_stream.put("before")

    assert partition_stream.mark()
    partition_stream.put("after")
    call.taking.set()
    ending = await running
    following = FakeCall()
    running = asyncio.ensure_future(partition_stream.run(following, lambda response: None))
    await settle_down()

    assert (ending.moved, call.written, moves) == (True, ["before"], ["moving"])
    assert following.written == ["after"]
    following.ended.set()
    await running


async def test_a_writer_that_dies_ends_its_stream(call: FakeCall) -> None:
    shown: list[bool] = []
    partition_stream = PartitionStream[Any, Any](lambda: shown.append(partition_stream.open))
    call.failing = True
    running = asyncio.ensure_future(partition_stream.run(call, lambda response: None))
    await settle_down()
    partition_stream.put("poison")

    ending = await asyncio.wait_for(running, 5)

    assert not ending.moved
    assert shown == [True, False]


async def test_a_cancellation_is_never_lost_whatever_the_end_of_a_stream_is_doing() -> None:
    for steps in range(8):
        call = FakeCall()
        running = asyncio.ensure_future(
            PartitionStream(lambda: None).run(call, lambda response: None)
        )
        await settle_down()
        call.ended.set()
        for _ in range(steps):
            await asyncio.sleep(0)

        cancelled = running.cancel()
        await asyncio.wait({running}, timeout=30)

        assert running.cancelled() == cancelled, f"cancelled {steps} steps after the end"


async def test_an_answer_that_cannot_be_taken_costs_its_stream_and_not_the_process(
    call: FakeCall, caplog: pytest.LogCaptureFixture
) -> None:
    shown: list[bool] = []
    partition_stream = PartitionStream[Any, Any](lambda: shown.append(partition_stream.open))

    async def read() -> Any:
        return partition_pb2.DeliverFramesResponse()

    def take(response: Any) -> None:
        raise KeyError("what nobody thought of")

    call.read = read  # type: ignore[method-assign]

    ending = await asyncio.wait_for(partition_stream.run(call, take), 30)

    assert not ending.moved
    assert "what nobody thought of" in ending.why
    assert shown == [True, False]
    assert "could not be taken" in caplog.text


def ask(ask_id: int) -> partition_pb2.DeliverFramesRequest:
    """Return an ask."""
    return partition_pb2.DeliverFramesRequest(ask=partition_pb2.Ask(ask_id=ask_id))


def settle(settle_id: int, size: int = 16) -> partition_pb2.DeliverFramesRequest:
    """Return a settlement of so many bytes."""
    return partition_pb2.DeliverFramesRequest(
        settle=partition_pb2.Settle(settle_id=settle_id, lock_tokens=b"t" * size)
    )


async def written(call: FakeCall, *requests: tuple[Any, Lane]) -> list[Any]:
    """Return the frames that are written of requests that wait at the same time."""
    pump = PartitionStream[Any, Any](lambda: None, outbox=DeliverOutbox)
    call.taking.clear()
    running = asyncio.ensure_future(pump.run(call, lambda response: None))
    await settle_down()
    # The first one is being written while the others are put in.
    pump.put(partition_pb2.DeliverFramesRequest(), Lane.FLOW)
    await settle_down()
    for request, lane in requests:
        assert pump.put(request, lane)
    call.taking.set()
    await settle_down()
    call.cancel()
    await running
    return call.written[1:]


async def test_what_waits_for_a_partition_shares_a_frame(call: FakeCall) -> None:
    frames = await written(call, (settle(1), Lane.WORK), (ask(2), Lane.FLOW), (ask(3), Lane.FLOW))

    [parts] = [list(frame_forms.parts(frame)) for frame in frames]
    assert [part.settle.settle_id for part in parts if part.HasField("settle")] == [1]
    # Of one lane in their order.
    assert [part.ask.ask_id for part in parts if part.HasField("ask")] == [2, 3]


async def test_a_frame_has_a_bound_in_parts_and_in_bytes(call: FakeCall) -> None:
    many = [(ask(number), Lane.FLOW) for number in range(frame_forms.PARTS_MAX + 5)]
    large = [(settle(number, frame_forms.BYTES_MAX), Lane.WORK) for number in (1, 2)]

    frames = await written(call, *many, *large)

    assert all(len(frame.further) < frame_forms.PARTS_MAX for frame in frames)
    for frame in frames:
        assert sum(part.ByteSize() for part in frame.further) <= frame_forms.BYTES_MAX
    parts = [part for frame in frames for part in frame_forms.parts(frame)]
    assert len(parts) == len(many) + len(large)
