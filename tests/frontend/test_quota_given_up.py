"""Calls that wait for room: those that gave up, and many of one policy, keep no other from it."""

import asyncio
import random
from unittest.mock import Mock

import pytest

from bendybus.domain import errors
from bendybus.frontend.core.quota.bounds import Bounds
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder, Room
from bendybus.frontend.listeners import call_gate
from tests.frontend.test_quota_room import call

A, OTHER = Holder("a", "p"), Holder("c", "q")


@pytest.mark.requirement("R450")
async def test_a_call_that_gave_up_keeps_no_later_one_from_room_that_is_there() -> None:
    room = Room(Bounds(10, 100, 100))
    await room.wait(A, 5)
    large = asyncio.ensure_future(room.wait(A, 8))
    behind = asyncio.ensure_future(room.wait(A, 2))
    await asyncio.sleep(0)
    assert not behind.done()

    large.cancel()
    await asyncio.wait_for(behind, 1)
    await asyncio.wait_for(room.wait(A, 3), 1)

    assert room.held == 10


@pytest.mark.requirement("R450")
async def test_calls_that_gave_up_are_not_kept() -> None:
    room = Room(Bounds(10, 100, 100))
    await room.wait(A, 10)
    waiting = [asyncio.ensure_future(room.wait(A, 1)) for _ in range(100)]
    await asyncio.sleep(0)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert not room._waiting
    assert room.held == 10


@pytest.mark.requirement("R450")
async def test_a_receive_that_was_refused_lets_smaller_ones_of_its_connection_pass() -> None:
    ledger = Quota()
    with call(ledger) as long, call(ledger) as large, call(ledger) as small:
        await long.room_for_answer(20 << 20, 60.0)
        with pytest.raises(errors.ServerBusy):
            await large.room_for_answer(20 << 20, 0.0)
        await small.room_for_answer(1 << 20, 0.0)
        assert ledger.receives.held == 21 << 20


@pytest.mark.requirement("R451")
async def test_connections_of_one_policy_that_wait_cost_calls_of_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room, looks = Room(Bounds(10, 20, 40)), Mock()
    # How often what is held is compared with bounds.
    for name in ("has", "_fits_own"):
        looks.attach_mock(Mock(wraps=getattr(room, name)), name)
        monkeypatch.setattr(room, name, getattr(looks, name))
    for name in ("x", "y"):
        await room.wait(Holder(name, "p"), 10)
    waiting = [asyncio.ensure_future(room.wait(Holder(at, "p"), 5)) for at in range(500)]
    await asyncio.sleep(0)

    looks.reset_mock()
    await room.wait(OTHER, 5)
    room.give(OTHER, 5)
    assert len(looks.mock_calls) < 10

    looks.reset_mock()
    room.give(Holder("x", "p"), 5)
    assert len(looks.mock_calls) < 10
    for each in waiting:
        each.cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert sum(each is not None for each in results) == len(waiting)
    assert room.held == 15


@pytest.mark.requirement("R451")
@pytest.mark.parametrize("seed", range(20))
async def test_no_call_waits_while_there_is_room_for_it(seed: int) -> None:
    chance, room = random.Random(seed), Room(Bounds(10, 20, 30))
    holders = [Holder(at, policy) for policy in "pqr" for at in range(3)]
    waiting: dict[asyncio.Future[None], tuple[Holder, int]] = {}
    held: list[tuple[Holder, int]] = []
    for _ in range(400):
        kind = chance.random()
        if kind < 0.5:
            call_ = (chance.choice(holders), chance.choice((1, 2, 5, 9, 25)))
            waiting[asyncio.ensure_future(room.wait(*call_))] = call_
        elif kind < 0.8 and held:
            room.give(*held.pop(chance.randrange(len(held))))
        elif waiting:
            given_up = chance.choice(list(waiting))
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            del waiting[given_up]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for done in [each for each in waiting if each.done()]:
            held.append(waiting.pop(done))
        assert room.held == sum(size for _, size in held)
        first = dict(reversed(waiting.values()))
        for holder, size in first.items():
            assert not room.take(holder, size)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not room._waiting


@pytest.mark.requirement("R452")
async def test_a_small_answer_that_is_not_taken_gives_its_place_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_gate, "ANSWER_S", 0.05)
    ledger = Quota()
    async with asyncio.timeout(5):
        with call(ledger, takes=False) as made:
            await made.room_for_answer(0)
            with pytest.raises(errors.ServiceTimeout, match="was not read"):
                await made.write(b"x")

    assert ledger.calls.held == 0
