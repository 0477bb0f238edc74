"""One stream of a receiver: frames of several commands, and outcomes that share a frame."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from bendybus.domain import errors, lock_token
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota import flow_control
from bendybus.frontend.core.quota.bounds import (
    REPEATED_FEW,
    REPEATED_TOKENS,
    TOKENS,
    TOKENS_A_FRAME,
    UNBOUNDED,
    Bounds,
)
from bendybus.frontend.core.quota.flow_control import ConnectionFlow, FlowControl, StreamFlow
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.settle import SettleDispatcher
from bendybus.frontend.listeners import receiver_stream
from bendybus.frontend.listeners.receiver_service import ReceiverService
from bendybus.frontend.listeners.receiver_stream import ReceiverStream
from bendybus.frontend.listeners.request_memory import Frames
from bendybus.frontend.listeners.request_values import HOLDER
from bendybus.frontend.upstreams import deliver_frames
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import receiver_pb2
from bendybus.wire import frame_forms, statuses
from tests.frontend.test_receive import Bus, Caller, opening

COMPLETE = receiver_pb2.DISPOSITION_COMPLETE


class Settles:
    """The partition that a settlement goes to."""

    partition = 0
    delivers = True

    def __init__(self) -> None:
        self.told: list[Any] = []

    def settle(self, request: Any, *, renewal: bool, waited: bool = False) -> bool:
        """Take a settlement."""
        self.told.append(request)
        return True


class FrontEnd:
    """What a stream needs."""

    def __init__(self, bus: Bus) -> None:
        self.receives = bus.desk
        self.partition = Settles()
        upstreams: Any = {0: self.partition}
        self.settles = SettleDispatcher(upstreams, Metrics())
        self.quota = Quota()

    def answer(self, *, error: errors.BusError | None = None) -> None:
        """Let the partition answer the settlement."""
        result = partition_pb2.SettleResult(settle_id=self.partition.told[-1].settle.settle_id)
        if error is not None:
            result.failures.add(indexes=[0], error=statuses.to_error(error))
        answer = deliver_frames.answer(partition_pb2.DeliverFramesResponse(settled=result))
        assert isinstance(answer, deliver_frames.Settled)
        self.settles.settled(answer)


class Client:
    """A client of a stream, and what it read."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.front_end = FrontEnd(self.bus)
        front_end: Any = self.front_end
        caller: Any = Caller()
        self.connection = ConnectionFlow(FlowControl(self.bus.desk), "me")
        self.flow = StreamFlow(self.connection)
        self.outcomes = ConnectionFlow(FlowControl(), "me")
        self.stream = ReceiverStream(
            front_end, caller, Holder("me", "policy"), self.flow, StreamFlow(self.outcomes)
        )
        self.frames: list[list[str]] = []
        # Whole frames that were read.
        self.heard = 0

    async def say(self, *requests: receiver_pb2.ReceiveStreamRequest) -> None:
        """Write frames."""

        async def written() -> AsyncIterator[Any]:
            for request in requests:
                yield request.SerializeToString()
            await asyncio.sleep(60)

        def heard() -> None:
            self.heard += 1

        kind = receiver_pb2.ReceiveStreamRequest
        frames = Frames(Quota(), Holder("me", ""), written().__anext__, kind, heard)
        self.reader = asyncio.ensure_future(self.stream.read(frames))
        await settle_down()

    async def read(self) -> None:
        """Read what the stream says, until cancelled."""
        async for frame in self.stream.frames():
            parts = frame_forms.parts(frame)
            self.frames.append([str(part.WhichOneof("kind")) for part in parts])


async def settle_down() -> None:
    """Let every task run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


def settle_and_ask() -> receiver_pb2.ReceiveStreamRequest:
    """Return a frame of an iterator: a settlement, and the ask for what comes after it."""
    return receiver_pb2.ReceiveStreamRequest(
        settle=receiver_pb2.SettleFrame(frame_id=7, disposition=COMPLETE, lock_tokens=b"\0" * 16),
        further=[
            receiver_pb2.ReceiveStreamRequest(
                ask=receiver_pb2.Ask(
                    ask_id=1, max_messages=1, max_wait_ms=60_000, with_settle_frame_id=7
                )
            )
        ],
    )


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client that wrote the frame of an iterator."""
    made = Client()
    async with made.stream:
        reading = asyncio.ensure_future(made.read())
        await made.say(opening(), settle_and_ask())
        yield made
        reading.cancel()
        made.reader.cancel()


@pytest.mark.requirement("R421")
def test_each_whole_frame_shows_that_the_stream_is_not_silent(client: Client) -> None:
    assert client.heard == 2


async def test_a_message_comes_with_the_outcome_that_it_was_asked_for_with(client: Client) -> None:
    client.bus.reserve(b"next")
    await settle_down()
    # The partition was told at once: it is delivered, and its lock has begun.
    assert client.bus.upstream.of("deliver")
    assert client.frames == [["opened"]]

    client.front_end.answer()
    await settle_down()

    assert client.frames == [["opened"], ["settle_result", "delivery"]]


async def test_an_outcome_does_not_wait_for_a_message(client: Client) -> None:
    client.front_end.answer()
    await settle_down()
    assert client.frames == [["opened"], ["settle_result"]]

    client.bus.reserve(b"next")
    await settle_down()

    assert client.frames[-1] == ["delivery"]


async def test_a_message_comes_also_where_the_settlement_failed(client: Client) -> None:
    client.bus.reserve(b"next")

    client.front_end.answer(error=errors.MessageLockLost("The lock is lost."))
    await settle_down()

    assert client.frames[-1] == ["settle_result", "delivery"]


async def test_a_message_does_not_wait_long_for_an_outcome(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.bus.reserve(b"next")

    async with asyncio.timeout(10):
        while client.frames == [["opened"]]:  # noqa: ASYNC110
            await asyncio.sleep(receiver_stream.HOLD_S)

    assert client.frames[-1] == ["delivery"]


@pytest.mark.requirement("R648")
async def test_a_stream_that_ends_leaves_nothing_of_what_it_held_in_the_counts() -> None:
    client = Client()
    async with client.stream:
        await client.say(opening(), settle_and_ask())
        client.bus.reserve(b"next")
        client.reader.cancel()

    client.flow.close()
    assert client.connection._unread_bytes == 0
    assert client.connection._tokens == 0
    # Nobody waits for the outcome any more, but the partition has the locks until it answers.
    assert client.front_end.quota.settling.held == TOKENS_A_FRAME
    client.front_end.answer()
    assert client.front_end.quota.settling.held == 0
    assert not client.front_end.settles._waiting


@pytest.mark.requirement("R648")
async def test_a_policy_whose_locks_are_being_settled_does_not_hold_up_others() -> None:
    client = Client()
    room = client.front_end.quota.settling
    busy = Holder("another connection", "policy")
    assert room.take(busy, TOKENS.policy)
    async with client.stream:
        await client.say(opening(), settle_and_ask())
        assert not client.front_end.partition.told

        # Its own policy waits, another one does not.
        assert room.take(Holder("another", "another policy"), TOKENS_A_FRAME)
        room.give(busy, TOKENS.policy)
        await settle_down()

        assert len(client.front_end.partition.told) == 1


@pytest.mark.requirement("R648")
async def test_a_settlement_by_a_call_of_its_own_counts_for_its_policy() -> None:
    client = Client()
    front_end: Any = client.front_end
    anything: Any = None
    room = client.front_end.quota.settling
    busy = Holder("another connection", "policy")
    assert room.take(busy, TOKENS.policy)
    request = receiver_pb2.SettleRequest(disposition=COMPLETE, lock_tokens=[str(UUID(int=0))])

    HOLDER.set(Holder("me", "policy"))
    call = asyncio.ensure_future(ReceiverService(front_end, anything).Settle(request, anything))
    await settle_down()
    assert not client.front_end.partition.told

    room.give(busy, TOKENS.policy)
    await settle_down()
    assert room.held == TOKENS_A_FRAME
    client.front_end.answer()

    assert not (await call).failures
    assert room.held == 0


async def test_outcomes_that_a_client_does_not_read_are_counted_and_end_its_settlements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Room for three outcomes with an error.
    most = 3 * (receiver_stream.OUTCOME_BYTES + receiver_stream.FAILURE_BYTES)
    monkeypatch.setattr(flow_control, "UNREAD_MIN", most)
    monkeypatch.setattr(flow_control, "UNREAD", Bounds(most, UNBOUNDED, UNBOUNDED))
    client = Client()
    # The partition does not exist: the outcome is there at once.
    lost = receiver_pb2.SettleFrame(disposition=COMPLETE, lock_tokens=b"\xff" * 16)
    async with client.stream:
        await client.say(opening(), *[receiver_pb2.ReceiveStreamRequest(settle=lost)] * 10)

        assert len(client.stream._answers) == 1 + 3
        # A client that reads no outcomes is handed messages all the same.
        assert not client.connection.paused

        reading = asyncio.ensure_future(client.read())
        await settle_down()
        await settle_down()
        assert sum(map(len, client.frames)) == 1 + 10
        assert client.outcomes._unread_bytes == 0
        reading.cancel()
        client.reader.cancel()


async def test_others_have_turns_between_large_settlements_of_one_frame(client: Client) -> None:
    settlement = settle_and_ask()
    settlement.settle.lock_tokens = b"\0" * 16 * 1_000
    frame = receiver_pb2.ReceiveStreamRequest()
    frame.CopyFrom(settlement)
    del frame.further[:]
    frame.further.extend([receiver_pb2.ReceiveStreamRequest(settle=settlement.settle)] * 5)
    reading = asyncio.ensure_future(client.stream.read(each(frame)))
    told = client.front_end.partition.told
    turns: list[int] = []

    while len(told) < 7:
        turns.append(len(told))
        await asyncio.sleep(0)

    reading.cancel()
    assert {2, 3, 4, 5, 6} <= set(turns)


async def each(*frames: Any) -> AsyncIterator[Any]:
    """Yield frames that are parsed already."""
    for frame in frames:
        yield frame


async def test_a_frame_out_of_bounds_ends_the_stream_with_the_reason() -> None:
    client = Client()
    frame = settle_and_ask()
    frame.further.add(further=[settle_and_ask()])
    async with client.stream:
        await client.say(opening(), frame)
        await client.read()
        client.reader.cancel()

    assert client.frames[-1][-1] == "error"


@pytest.mark.requirement("R651")
async def test_a_repeat_of_many_locks_counts_for_what_its_partition_looks_through() -> None:
    client = Client()
    room = client.front_end.quota.settling
    frame = settle_and_ask()
    frame.settle.repeat = True
    frame.settle.lock_tokens = bytes(lock_token.TOKEN_BYTES) * (REPEATED_FEW + 1)
    async with client.stream:
        await client.say(opening(), frame)

        assert room.held == client.connection._tokens == REPEATED_TOKENS
        client.front_end.answer()
        assert room.held == 0
