"""Receives between clients and partitions: what is bounded, who is paused, how a receiver ends."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Fingerprint
from bendybus.domain.errors import BusError
from bendybus.domain.limits import MB, Tier
from bendybus.domain.message_state import ReceiveMode
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.bounds import CACHED, CREDITS_MAX, RECEIVER_ANSWERS_MAX, UNREAD
from bendybus.frontend.core.quota.flow_control import (
    ConnectionFlow,
    FlowControl,
    StreamFlow,
)
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.receive import ReceiveDispatcher, Source
from bendybus.frontend.core.receiver import Delivery
from bendybus.frontend.listeners import receiver_stream
from bendybus.frontend.listeners.receiver_stream import ReceiverStream
from bendybus.frontend.upstreams import deliver_frames
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import frame_forms
from tests.frontend.entities import queue

LOCK = ReceiveMode.PEEK_LOCK
DELETE = ReceiveMode.RECEIVE_AND_DELETE


class Upstream:
    """A partition that notes what it is told."""

    available = True
    clock_offset_ms = None

    def __init__(self) -> None:
        self.told: list[partition_pb2.DeliverFramesRequest] = []

    def ask(self, request: partition_pb2.DeliverFramesRequest) -> bool:
        """Take an ask."""
        self.told.append(request)
        return True

    follow = ask

    def conditions(self) -> list[str]:
        """Say nothing."""
        return []

    def of(self, kind: str) -> list[Any]:
        """Return what it was told of a kind."""
        return [getattr(each, kind) for each in self.told if each.WhichOneof("kind") == kind]


class Bus:
    """A desk of one partition with the queues q0, q1, …"""

    def __init__(self, queues: int = 1) -> None:
        directory = Directory()
        fingerprint = Fingerprint("n", "u", Tier.PREMIUM, 1, 0)
        entities = [queue(f"q{index}", partitions=1, home=0) for index in range(queues)]
        directory.update(0, fingerprint, entities, snapshot=True)
        self.upstream = Upstream()
        upstreams: Any = {0: self.upstream}
        self.desk = ReceiveDispatcher(upstreams, directory, Metrics())
        self.handed: list[Delivery] = []
        self.failed: list[BusError] = []

    def open(self, path: str = "q0", mode: ReceiveMode = LOCK, owner: str = "me") -> Any:
        """Open a receiver."""

        source = Source(path, mode=mode)
        return self.desk.open(source, self.handed.append, self.failed.append, owner=owner)

    def reserve(self, *messages: bytes) -> None:
        """Answer the last ask."""
        batch = message_pb2.DeliveredBatch(
            messages=messages, lock_tokens=b"t" * 16 * len(messages), lock_remaining_ms=60_000
        )
        reserved = partition_pb2.Reserved(
            ask_id=self.upstream.of("ask")[-1].ask_id, batch=batch, lock_remaining_ms=60_000
        )
        self.answer(partition_pb2.DeliverFramesResponse(reserved=reserved))

    def answer(self, response: partition_pb2.DeliverFramesResponse) -> None:
        """Let the partition answer."""
        answer: Any = deliver_frames.answer(response)
        self.desk.delivered(0, answer)


async def test_a_connection_that_is_paused_gets_nothing_of_a_queue_that_it_opens_then() -> None:
    bus = Bus(queues=2)
    bus.open("q0")
    bus.desk.pause("me")

    bus.open("q1").ask(1, 10, 0, 60_000)
    assert not bus.upstream.of("ask")
    bus.desk.resume("me")

    assert len(bus.upstream.of("ask")) == 1


async def test_a_connection_stays_paused_when_it_opens_its_receivers_anew() -> None:
    bus = Bus()
    bus.open(owner="other")
    first = bus.open()
    bus.desk.pause("me")
    bus.desk.close(first)

    bus.open().ask(1, 10, 0, 60_000)

    assert not bus.upstream.of("ask")


async def test_all_caches_together_hold_a_bounded_number_of_bytes() -> None:
    queues = CACHED.all // (12 * MB) + 2
    bus = Bus(queues)
    for index in range(queues):
        # Of a connection each: those have a bound of their own.
        bus.open(f"q{index}", owner=f"c{index}").ask(1, 1, 0, 60_000)
        bus.reserve(b"first", *[b"x" * MB] * 12)
        assert bus.desk.held.total <= CACHED.all

    given_back = sum(len(each.lock_tokens) // 16 for each in bus.upstream.of("release"))
    assert bus.desk.cached() + given_back == 12 * queues
    # The one that was used last keeps its own.
    last = list(bus.desk._caches.values())[-1]
    assert last.cache.cached() == 12
    assert bus.desk.held.total == sum(bus.desk.held.by_owner.values())


async def test_a_second_receive_of_the_same_number_ends_its_receiver() -> None:
    bus = Bus()
    receiver = bus.open()
    receiver.ask(1, 10, 0, 60_000)

    receiver.ask(1, 10, 0, 60_000)

    assert isinstance(bus.failed[0], errors.InvalidArgument)
    receiver.cancel(1)
    # Nothing is wanted any more: what was asked for is taken back.
    assert len(bus.upstream.of("ask")) == len(bus.upstream.of("withdraw")) == 1


async def test_a_receive_that_is_cancelled_while_its_messages_are_deleted_ends_with_them() -> None:
    bus = Bus()
    receiver = bus.open(mode=DELETE)
    receiver.ask(1, 10, 0, 60_000)
    bus.reserve(b"a")
    receiver.cancel(1)

    bus.desk.lost(0)

    assert bus.handed == [Delivery(1, [])]


class FrontEnd:
    """What a stream needs."""

    def __init__(self, bus: Bus) -> None:
        self.receives = bus.desk


class Caller:
    """May do everything."""

    def check(self, path: str, right: Any) -> None:
        """Allow it."""


def stream_of(bus: Bus) -> tuple[ReceiverStream, ConnectionFlow]:
    """Return a stream of a connection, and the counts of the connection."""
    front_end: Any = FrontEnd(bus)
    caller: Any = Caller()
    account = ConnectionFlow(FlowControl(bus.desk), "me")
    outcomes = StreamFlow(ConnectionFlow(FlowControl(), "me"))
    holder = Holder("me", "policy")
    return ReceiverStream(front_end, caller, holder, StreamFlow(account), outcomes), account


def opening(mode: ReceiveMode = LOCK) -> receiver_pb2.ReceiveStreamRequest:
    """Return the first frame."""
    return receiver_pb2.ReceiveStreamRequest(
        open=receiver_pb2.OpenReceiver(entity_path="q0", receive_mode=deliver_frames.MODES[mode])
    )


def ask(ask_id: int, wait_ms: int = 0) -> receiver_pb2.ReceiveStreamRequest:
    """Return an ask."""
    return receiver_pb2.ReceiveStreamRequest(
        ask=receiver_pb2.Ask(ask_id=ask_id, max_messages=1, max_wait_ms=wait_ms)
    )


async def test_a_client_that_reads_no_answer_is_not_read_from_either() -> None:
    bus = Bus()
    read = 0

    async def requests() -> AsyncIterator[Any]:
        nonlocal read
        yield opening()
        for ask_id in range(1, 3 * RECEIVER_ANSWERS_MAX):
            read = ask_id
            # Refused at once, because too many wait.
            yield ask(ask_id, 60_000)

    stream, _ = stream_of(bus)
    async with stream:
        reader = asyncio.ensure_future(stream.read(requests()))
        for _ in range(10):
            await asyncio.sleep(0)
        assert read <= RECEIVER_ANSWERS_MAX + CREDITS_MAX + 1

        frames = stream.frames()
        async with asyncio.timeout(60):
            while not reader.done():
                await anext(frames)
        assert read == 3 * RECEIVER_ANSWERS_MAX - 1


@pytest.mark.parametrize("half_closed", [True, False])
async def test_a_stream_ends_though_what_was_being_deleted_for_it_is_lost(
    half_closed: bool,
) -> None:
    bus = Bus()

    async def requests() -> AsyncIterator[Any]:
        yield opening(DELETE)
        yield ask(1, 60_000)
        bus.reserve(b"a")

    stream, account = stream_of(bus)
    async with stream:
        await stream.read(requests())
        if half_closed:
            bus.desk.lost(0)
            async with asyncio.timeout(30):
                frames = [frame async for frame in stream.frames()]
            parts = [part for frame in frames for part in frame_forms.parts(frame)]
            assert [part.WhichOneof("kind") for part in parts] == ["opened", "delivery"]
    if not half_closed:
        deliver_id = bus.upstream.of("deliver")[0].deliver_id
        delivered = partition_pb2.Delivered(deliver_id=deliver_id)
        bus.answer(partition_pb2.DeliverFramesResponse(delivered=delivered))
    # Nothing of a stream that ended is left in its connection's account.
    assert account._unread_bytes == 0
    account.handed(UNREAD.connection - 1)
    assert not bus.desk._paused


def test_a_disposition_that_the_contract_does_not_name_is_refused() -> None:
    frame = receiver_pb2.SettleFrame(lock_tokens=b"t" * 16)
    for number in (0, 99, -1):
        frame.disposition = number  # type: ignore[assignment]
        with pytest.raises(errors.InvalidArgument, match="disposition"):
            receiver_stream.to_request(frame)


async def test_a_receive_that_is_answered_at_once_sets_no_alarm_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = Bus()
    receiver = bus.open()
    # Somebody's wait ends sooner than all that follow.
    bus.open(owner="other").ask(1, 5_000, 0, 1_000)
    loop, set_anew = asyncio.get_running_loop(), 0
    call_at = loop.call_at

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal set_anew
        set_anew += 1
        return call_at(*args, **kwargs)

    # `call_later` uses it, too.
    monkeypatch.setattr(loop, "call_at", counted)
    for tag in range(100):
        receiver.ask(tag, 10, 0, 60_000)
        receiver.cancel(tag)

    assert set_anew == 0
