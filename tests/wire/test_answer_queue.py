"""The end of a server's stream: everything outstanding is answered first."""

import asyncio

import pytest

from bendybus.domain import errors
from bendybus.wire import streams
from bendybus.wire.streams import AnswerQueue


async def test_a_stream_ends_when_what_it_owes_is_answered_and_not_before() -> None:
    outstanding = 1
    queue: AnswerQueue[str] = AnswerQueue(lambda: outstanding > 0)

    queue.finish()
    queue.put("answer")
    assert await queue.next() == "answer"
    reading = asyncio.ensure_future(queue.next())
    await asyncio.sleep(0)
    assert not reading.done()

    outstanding = 0
    queue.put("last")

    assert await reading == "last"
    assert await queue.next() is None


async def test_a_caller_that_does_not_half_close_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "MOVE_S", 0.01)
    queue: AnswerQueue[str] = AnswerQueue(lambda: False)

    queue.move("moving")

    assert await queue.next() == "moving"
    assert not queue.finishing
    async with asyncio.timeout(5):
        assert await queue.next() is None
    assert queue.finishing


async def test_an_error_ends_the_stream_after_the_answers_before_it() -> None:
    queue: AnswerQueue[str] = AnswerQueue(lambda: False)
    queue.put("answer")
    queue.put(errors.ServerBusy("busy"))

    assert await queue.next() == "answer"
    assert queue.take(lambda entry: True) is None
    with pytest.raises(errors.ServerBusy):
        await queue.next()


async def test_an_owner_waits_for_room_until_its_caller_reads() -> None:
    queue: AnswerQueue[int] = AnswerQueue(lambda: False)
    for number in range(3):
        queue.put(number)
    waiting = asyncio.ensure_future(queue.room(2))
    await asyncio.sleep(0)
    await queue.next()
    await asyncio.sleep(0)
    assert not waiting.done()

    await queue.next()

    async with asyncio.timeout(5):
        await waiting
