"""Loops: the next ask rides with a settlement; its messages are used or given back."""

import asyncio
import time
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.client import aio, exceptions
from bendybus.client.core.pending_receive import AskAhead
from tests.client.conftest import Either
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.loops import complete_some, eventually, fill, locked, released
from tests.client.memory_queue import MemoryQueue


@pytest.mark.usefixtures("kept")
async def test_the_next_ask_shares_the_frame_of_a_settlement(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue
) -> None:
    await fill(client, 20)
    receiver = client.get_queue_receiver("q", max_wait_time=5)

    bodies = await complete_some(receiver, 20)

    assert bodies == [str(index) for index in range(20)]
    assert not queue.messages
    together = in_step.receiver_frames.count(["settle", "ask"])
    # Not for the first message: nothing says yet that there will be steps that follow at once.
    assert together >= 15
    assert all(ask.with_settle_frame_id for ask in in_step.asks[-5:])
    await Either(receiver).close()


async def test_a_message_is_given_back_when_the_application_stops_iterating(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue
) -> None:
    await fill(client, 10)
    receiver = client.get_queue_receiver("q", max_wait_time=5)

    await complete_some(receiver, 5)

    # The receiver stays open; others need not wait for half of a lock.
    await eventually(lambda: released(in_step) >= 1 and not locked(queue))
    assert len(queue.messages) == 5
    assert not any(stored.delivery_count for stored in queue.messages.values())
    assert await complete_some(receiver, 5) == ["5", "6", "7", "8", "9"]
    await Either(receiver).close()


async def test_closing_gives_back_at_once_what_was_asked_for_ahead(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue
) -> None:
    await fill(client, 10)
    receiver = client.get_queue_receiver("q", max_wait_time=5)
    await complete_some(receiver, 5)

    await Either(receiver).close()

    assert not any(stored.token for stored in queue.messages.values())


async def test_the_message_is_served_to_another_receive_first(
    client: Any, in_step: FakeFrontEnd
) -> None:
    await fill(client, 10)
    receiver = client.get_queue_receiver("q", max_wait_time=5)
    await complete_some(receiver, 5)

    [message] = await Either(receiver).receive_messages(1)

    assert str(message) == "5"
    await Either(receiver).close()


async def test_an_ask_that_got_nothing_is_taken_back_when_nobody_iterates(
    client: Any, in_step: FakeFrontEnd
) -> None:
    await fill(client, 5)
    receiver = client.get_queue_receiver("q", max_wait_time=60)
    await complete_some(receiver, 5)

    await eventually(lambda: ["cancel_ask"] in in_step.receiver_frames)

    await fill(client, 1)
    other = Either(client.get_queue_receiver("q"))
    assert len(await other.receive_messages(1, max_wait_time=5)) == 1
    await Either(receiver).close()


async def test_a_shorter_receive_does_not_wait_as_long_as_what_was_asked_ahead(
    client: Any, in_step: FakeFrontEnd
) -> None:
    await fill(client, 5)
    receiver = client.get_queue_receiver("q", max_wait_time=60)
    await complete_some(receiver, 5)
    began = time.monotonic()

    # Empty, and no error: the bus is asked with the wait of this receive.
    assert await Either(receiver).receive_messages(1, max_wait_time=0.3) == []

    assert time.monotonic() - began < 3
    assert in_step.asks[-1].max_wait_ms <= 300
    await Either(receiver).close()


async def test_a_settlement_that_fails_leaves_the_next_message_in_its_place(
    asynchronous: aio.ServiceBusClient, in_step: FakeFrontEnd, queue: MemoryQueue
) -> None:
    await fill(asynchronous, 10)
    receiver = asynchronous.get_queue_receiver("q", max_wait_time=5)
    await complete_some(receiver, 5)
    failing = await anext(receiver)
    queue.messages[failing.sequence_number or 0].token = b""

    with pytest.raises(exceptions.MessageLockLostError):
        await receiver.complete_message(failing)

    bodies = sorted([str(await anext(receiver)) for _ in range(5)])
    # The one whose lock was lost comes again.
    assert bodies == ["5", "6", "7", "8", "9"]
    await receiver.close()


async def test_a_stream_that_breaks_costs_the_loop_no_message(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue
) -> None:
    # What the broken stream was given comes again when its lock ends.
    queue.lock_ms = 700
    await fill(client, 10)
    receiver = client.get_queue_receiver("q", max_wait_time=5)
    bodies = await complete_some(receiver, 5)
    in_step.break_receive_streams = 1

    while queue.messages:
        bodies += await complete_some(receiver, 1)

    assert sorted(set(bodies)) == [str(index) for index in range(10)]
    await Either(receiver).close()


async def test_a_loop_that_settles_in_the_background_does_not_wait_for_outcomes(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue
) -> None:
    await fill(client, 20)
    receiver = client.get_queue_receiver("q", max_wait_time=5)
    receiver.settle_in_background()

    bodies = await complete_some(receiver, 20)
    await Either(receiver).flush()

    assert bodies == [str(index) for index in range(20)]
    assert not queue.messages
    # The ask rides with the settlement all the same, and is not held for its outcome.
    assert in_step.receiver_frames.count(["settle", "ask"]) >= 1
    assert not any(ask.with_settle_frame_id for ask in in_step.asks)
    await Either(receiver).close()


async def test_an_answer_that_crosses_a_cancelled_ask_is_given_back(
    asynchronous: aio.ServiceBusClient,
    in_step: FakeFrontEnd,
    queue: MemoryQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receiver = asynchronous.get_queue_receiver("q")
    waiting = asyncio.create_task(receiver.receive_messages(5))
    await eventually(lambda: in_step.asks)
    # The front end answers all the same.
    monkeypatch.setattr(receiver._receive_stream()._asks, "_cancels", deque(maxlen=0))
    waiting.cancel()

    await fill(asynchronous, 5)

    await eventually(lambda: released(in_step) == 5)
    assert not locked(queue)
    await receiver.close()


async def test_what_was_asked_for_before_a_fork_stays_with_the_parent(
    client: Any, in_step: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(client, 10)
    receiver = client.get_queue_receiver("q", max_wait_time=5)
    await complete_some(receiver, 5)
    # A child finds a stream of its own.
    child = SimpleNamespace(outcome_s=0.0, take_ahead=lambda count: [])
    monkeypatch.setattr(receiver, "_receive_stream", lambda: child)

    assert receiver._begin_step(1, 5.0) == []
    assert not receiver._steps.following
    monkeypatch.undo()
    await Either(receiver).close()


def test_a_message_is_kept_a_while_from_when_it_came() -> None:
    ahead = AskAhead()
    released: list[Any] = []
    cancelled: list[int] = []
    ahead.plan(1, 5.0)
    ahead.opened(1, 0.0)
    assert ahead.look(cancelled.append, released.extend)
    part: Any = ("delivered", 0, 1)
    ahead.arrived([part])

    assert ahead.look(cancelled.append, released.extend)
    assert not released
    assert not ahead.look(cancelled.append, released.extend)
    assert released == [part]
    assert not cancelled


@pytest.mark.parametrize("lock_left_s", [100.0, 0.0])
def test_a_message_that_is_looked_at_while_it_is_taken_is_given_back_or_taken(
    lock_left_s: float,
) -> None:
    ahead = AskAhead()
    released: list[Any] = []
    now_s = time.monotonic()

    class LookedAt:
        """The I/O thread looks for the second time while the application's takes the message."""

        lock_end_s = now_s + 30

        @property
        def lock_tokens(self) -> bytes:
            ahead.look(lambda ask_id: None, released.extend)
            return b"t" * 16

    part: Any = (LookedAt(), 0, 1)
    ahead.arrived([part])
    ahead.look(lambda ask_id: None, released.extend)

    taken = ahead.take(ahead.count, now_s + lock_left_s)

    assert [*taken, *released] == [part]
    assert not ahead
