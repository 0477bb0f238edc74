"""Calls with large answers take turns on their connection."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bendybus.frontend.listeners.answer_slots import SLOTS, AnswerSlots

pytestmark = pytest.mark.requirement("R306")


class Call:
    """One call of a connection; `end` is what gRPC does when its answer is written."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._callbacks: list[Callable[[Any], None]] = []

    def peer(self) -> str:
        return self._peer

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def end(self) -> None:
        for callback in self._callbacks:
            callback(self)


async def taken(slots: AnswerSlots, call: Any) -> bool:
    """Whether a call gets its turn at once; if not, it gives up."""
    try:
        async with asyncio.timeout(0):
            await slots.take(call)
    except TimeoutError:
        return False
    return True


async def test_a_call_waits_until_an_answer_before_it_is_written() -> None:
    slots, calls = AnswerSlots(), [Call("a") for _ in range(SLOTS)]
    at_once = [await taken(slots, call) for call in calls]
    next_one: Any = Call("a")

    waiting = asyncio.create_task(slots.take(next_one))
    await asyncio.sleep(0)
    waited = not waiting.done()
    calls[0].end()

    await asyncio.wait_for(waiting, 5)
    assert all(at_once)
    assert waited
    assert not await taken(slots, Call("a"))


async def test_connections_do_not_wait_for_each_other_and_leave_nothing() -> None:
    slots, calls = AnswerSlots(), [Call("a") for _ in range(SLOTS)]
    for call in calls:
        await taken(slots, call)
    given_up, other = await taken(slots, Call("a")), Call("b")

    assert not given_up
    assert await taken(slots, other)
    assert slots.connections() == 2
    for call in (*calls, other):
        call.end()
    assert slots.connections() == 0
