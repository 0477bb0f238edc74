"""Loops over batches: the next ask rides with the settlement that ends a batch."""

import asyncio
from typing import Any

import pytest

from bendybus.client.core import io_thread, pending_receive, receive_stream
from tests.client.conftest import Either
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.loops import eventually, fill, locked, released
from tests.client.memory_queue import MemoryQueue


async def complete_batches(receiver: Any, size: int, count: int, *, singly: bool) -> list[str]:
    """Receive and complete so many messages in batches; return their bodies."""
    bodies: list[str] = []
    while len(bodies) < count:
        messages = await Either(receiver).receive_messages(size)
        bodies += map(str, messages)
        if singly:
            for message in messages:
                await Either(receiver).complete_message(message)
        else:
            await Either(receiver).complete_messages(messages)
    return bodies


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("singly", [False, True])
async def test_the_ask_of_the_next_batch_rides_with_the_settlement_that_ends_this_one(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue, singly: bool
) -> None:
    await fill(client, 60)
    receiver = client.get_queue_receiver("q", max_wait_time=5)

    bodies = await complete_batches(receiver, 10, 60, singly=singly)

    assert bodies == [str(index) for index in range(60)]
    assert not queue.messages
    assert {ask.max_messages for ask in in_step.asks} == {10}
    # Not with the first batch: nothing says yet that there will be steps that follow at once; nor
    # with those that only begin to settle a batch.
    assert 3 <= in_step.receiver_frames.count(["settle", "ask"]) <= 6
    await Either(receiver).close()


async def test_a_batch_that_is_not_taken_is_given_back(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue
) -> None:
    await fill(client, 60)
    receiver = client.get_queue_receiver("q", max_wait_time=5)

    await complete_batches(receiver, 10, 40, singly=False)

    await eventually(lambda: released(in_step) >= 10 and not locked(queue))
    assert not any(stored.delivery_count for stored in queue.messages.values())
    await Either(receiver).close()


@pytest.mark.usefixtures("kept")
async def test_a_smaller_receive_gets_no_more_than_it_asks_for(
    client: Any, in_step: FakeFrontEnd
) -> None:
    await fill(client, 60)
    receiver = client.get_queue_receiver("q", max_wait_time=5)
    await complete_batches(receiver, 10, 40, singly=False)

    first = await Either(receiver).receive_messages(4)
    second = await Either(receiver).receive_messages(10)

    assert [str(message) for message in first] == ["40", "41", "42", "43"]
    # Four more if the answer to the ask of the loop came after the first receive had asked, too.
    assert len(second) in (6, 10)
    assert [str(message) for message in second] == [str(44 + i) for i in range(len(second))]
    await Either(receiver).close()


async def test_what_a_smaller_receive_left_is_given_back(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue
) -> None:
    await fill(client, 60)
    receiver = client.get_queue_receiver("q", max_wait_time=5)
    await complete_batches(receiver, 10, 40, singly=False)

    messages = await Either(receiver).receive_messages(4)

    # Others need not wait for half of a lock, whether this application receives again or not.
    await eventually(lambda: len(locked(queue)) == 4)
    assert [str(message) for message in messages] == ["40", "41", "42", "43"]
    await Either(receiver).close()


async def test_what_is_given_back_while_the_bus_is_away_is_given_back_after(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive_stream, "_CLOSE_TIMEOUT_S", 0.1)
    # Looked at by this test.
    monkeypatch.setattr(pending_receive, "LOOK_S", 60.0)
    await fill(client, 60)
    receiver = client.get_queue_receiver("q", max_wait_time=5)
    await complete_batches(receiver, 10, 40, singly=False)
    await eventually(lambda: len(locked(queue)) == 10)
    in_step.hold_receivers = back = asyncio.Event()
    in_step.break_receive_streams = 1
    asks = receiver._receive_stream()._asks
    for _ in range(2):
        io_thread.current().submit(asks._look_ahead)
    await eventually(lambda: not in_step.break_receive_streams)

    # Longer than closing would wait for it.
    await asyncio.sleep(3 * receive_stream._SWEEP_S)
    in_step.call(back.set)

    await eventually(lambda: not locked(queue))
    await Either(receiver).close()
