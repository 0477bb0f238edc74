"""What unary calls may hold: of a connection, of a policy, of all."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from bendybus.domain import errors
from bendybus.frontend.core.quota.bounds import Bounds, share
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder, Room
from bendybus.frontend.listeners import call_gate
from bendybus.frontend.listeners.call_gate import UnaryCall

pytestmark = pytest.mark.requirement("R306")
A, B = Holder("a", "p"), Holder("b", "p")
OTHER = Holder("c", "q")


def test_each_connection_policy_and_all_have_a_bound() -> None:
    room = Room(Bounds(10, 15, 20))

    assert room.take(A, 10)
    assert not room.take(A, 1)
    assert room.take(B, 5)
    assert not room.take(B, 1)
    assert room.take(OTHER, 5)
    assert not room.take(OTHER, 1)
    for holder, size in ((A, 10), (B, 5), (OTHER, 5)):
        room.give(holder, size)
    assert room.held == 0
    assert room.take(A, 10)


def test_what_is_larger_than_a_bound_passes_alone() -> None:
    room = Room(Bounds(10, 10, 10))

    assert room.take(A, 100)
    assert not room.take(OTHER, 1)
    room.give(A, 100)
    assert room.take(OTHER, 1)
    assert not room.take(OTHER, 100)


@pytest.mark.requirement("R635")
def test_nothing_is_counted_for_who_takes_nothing() -> None:
    room = Room(Bounds(10, 10, 10))

    assert room.hold(A, 0, "busy")
    assert not any((room._connections, room._policies, room._entities))


async def test_those_who_wait_are_served_in_order_and_leave_nothing() -> None:
    room = Room(Bounds(10, 100, 100))
    await room.wait(A, 10)
    first, second = (asyncio.ensure_future(room.wait(A, size)) for size in (8, 2))
    await asyncio.sleep(0)
    # Another connection does not wait for this one.
    await asyncio.wait_for(room.wait(B, 10), 1)

    room.give(A, 10)
    await asyncio.wait_for(asyncio.gather(first, second), 1)

    given_up = asyncio.ensure_future(room.wait(A, 1))
    await asyncio.sleep(0)
    given_up.cancel()
    for holder, size in ((A, 8), (A, 2), (B, 10)):
        room.give(holder, size)
    assert room.held == 0


@pytest.mark.requirement("R430")
async def test_connections_are_served_in_turn_however_many_calls_of_one_wait() -> None:
    room, served = Room(Bounds(8, 64, 8)), []

    async def calls(holder: Holder) -> None:
        while True:
            await room.wait(holder, 8)
            served.append(holder)
            await asyncio.sleep(0)
            room.give(holder, 8)

    greedy = [asyncio.ensure_future(calls(holder)) for holder in (A, B) for _ in range(4)]
    await asyncio.sleep(0)
    served.clear()
    await asyncio.wait_for(room.wait(OTHER, 1), 5)

    assert len(served) <= 4
    room.give(OTHER, 1)
    for each in greedy:
        each.cancel()
    await asyncio.gather(*greedy, return_exceptions=True)
    assert room.held == 8 * sum(1 for each in greedy if not each.cancelled())


async def test_a_call_given_up_as_it_gets_its_room_gives_it_back() -> None:
    room = Room(Bounds(1, 1, 1))
    await room.wait(A, 1)
    waiting = asyncio.ensure_future(room.wait(A, 1))
    await asyncio.sleep(0)

    room.give(A, 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert room.held == 0


class Context:
    """A call of gRPC; its caller takes its answer, or does not."""

    def __init__(self, *, takes: bool = True) -> None:
        self.written: list[bytes] = []
        self._takes = takes

    def peer(self) -> str:
        """Return the connection."""
        return "a"

    async def write(self, data: bytes) -> None:
        """Take the answer."""
        if not self._takes:
            await asyncio.Event().wait()
        self.written.append(data)


def call(ledger: Quota, *, takes: bool = True) -> UnaryCall:
    """Return a call."""
    context: Any = Context(takes=takes)
    return UnaryCall(ledger, context, "p")


async def sent(*requests: bytes, after_s: float = 0.0) -> AsyncIterator[bytes]:
    """Yield requests, the first of them late."""
    await asyncio.sleep(after_s)
    for each in requests:
        yield each


async def test_a_request_that_is_there_costs_its_bytes_until_it_is_answered() -> None:
    ledger = Quota()
    with call(ledger) as made:
        assert await read(made, sent(b"x" * 5_000), 1 << 20) == b"x" * 5_000
        assert ledger.requests.held == 5_000
        await made.write(b"")
        assert ledger.requests.held == 0


async def read(made: UnaryCall, requests: AsyncIterator[bytes], bytes_max: int) -> bytes:
    """Return the request that a call reads."""
    context: Any = made._context
    context.read = lambda: anext(requests, grpc.aio.EOF)
    return await made.read(bytes_max)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time be short."""
    monkeypatch.setattr(call_gate, "AT_ONCE_S", 0.01)
    monkeypatch.setattr(call_gate, "REQUEST_S", 0.5)
    monkeypatch.setattr(call_gate, "REQUEST_S_PER_MB", 0.0)
    monkeypatch.setattr(call_gate, "ANSWER_S", 0.05)


@pytest.mark.usefixtures("quick")
async def test_a_slow_request_takes_room_for_the_largest_and_others_are_refused() -> None:
    ledger = Quota()
    with call(ledger) as slow, call(ledger) as other:
        reading = asyncio.ensure_future(read(slow, sent(b"late", after_s=0.05), 100 << 20))
        await asyncio.sleep(0.02)
        assert ledger.requests.held == 100 << 20
        with pytest.raises(errors.ServerBusy, match="large or slow requests"):
            await read(other, sent(b"late", after_s=1), 100 << 20)
        assert await reading == b"late"
        assert ledger.requests.held == 0


@pytest.mark.usefixtures("quick")
async def test_a_request_that_does_not_come_ends_its_call() -> None:
    ledger = Quota()
    with pytest.raises(errors.ServiceTimeout, match="was not received"), call(ledger) as made:
        await read(made, sent(b"late", after_s=1), 1 << 20)
    with pytest.raises(errors.InvalidArgument, match="is missing"), call(ledger) as made:
        await read(made, sent(), 1 << 20)
    assert ledger.requests.held == 0


@pytest.mark.usefixtures("quick")
async def test_an_answer_that_is_not_taken_ends_its_call() -> None:
    ledger = Quota()
    with call(ledger, takes=False) as made:
        await made.room_for_answer(1 << 20)
        assert ledger.answers.held == 1 << 20
        async with asyncio.timeout(5):
            with pytest.raises(errors.ServiceTimeout, match="was not read"):
                await made.write(b"x")
    assert ledger.answers.held == 0


@pytest.mark.requirement("R430")
@pytest.mark.usefixtures("quick")
async def test_a_receive_that_gets_no_room_in_its_wait_is_refused_and_keeps_no_other_call() -> None:
    ledger = Quota()
    with call(ledger) as first, call(ledger) as second, call(ledger) as peek:
        await first.room_for_answer(32 << 20, 60.0)
        with pytest.raises(errors.ServerBusy, match="not read yet"):
            async with asyncio.timeout(0.8):
                await second.room_for_answer(1 << 20, 0.0)
        assert ledger.receives.held == 32 << 20
        async with asyncio.timeout(0.8):
            await peek.room_for_answer(8 << 20)
    assert ledger.receives.held == ledger.answers.held == 0


@pytest.mark.requirement("R430")
async def test_an_answer_that_is_made_holds_what_it_is_not_what_it_might_have_been() -> None:
    ledger, held = Quota(), []
    made = call(ledger)

    async def write(_: bytes) -> None:
        held.append(ledger.answers.held)

    context: Any = made._context
    context.write = write
    with made:
        await made.room_for_answer(100 << 20)
        await made.write(b"x" * 10)

    assert held == [10]
    assert ledger.answers.held == 0


@pytest.mark.requirement("R434")
def test_calls_of_one_policy_leave_places_to_others() -> None:
    ledger = Quota()
    ledger.calls.use(Bounds(20, share(20), 20))
    with contextlib.ExitStack() as stack:
        for _ in range(18):
            stack.enter_context(call(ledger))
        with pytest.raises(errors.ServerBusy, match="of this policy"), call(ledger):
            pass
        assert ledger.calls.take(OTHER, 1)
        ledger.calls.give(OTHER, 1)
    assert ledger.calls.held == 0


@pytest.mark.requirement("R434")
def test_where_there_are_no_policies_all_callers_are_equal() -> None:
    room = Room(Bounds(20, share(20), 20), by_policy=False)

    assert all(room.take(Holder("a", ""), 1) for _ in range(20))
    assert not room.take(Holder("a", ""), 1)


@pytest.mark.requirement("R635")
def test_one_entity_leaves_room_to_others() -> None:
    room = Room(Bounds(100, 100, 100, entity=60))

    assert room.take(A, 50, "busy")
    assert not room.take(OTHER, 20, "busy")
    assert room.take(OTHER, 20, "other")
    room.give(A, 50, "busy")
    assert room.take(OTHER, 20, "busy")
    room.give(OTHER, 20, "busy")
    room.give(OTHER, 20, "other")
    assert not any((room.held, room._connections, room._policies, room._entities))
