"""Receiving, settling and browsing, through both surfaces, with faults."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bendybus.client import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
    aio,
    exceptions,
)
from bendybus.client.exceptions import MessageAlreadySettled, MessageLockLostError
from bendybus.v1 import receiver_pb2
from tests.client.conftest import Either
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.memory_queue import MemoryQueue


@pytest.fixture
def queue(fake: FakeFrontEnd) -> MemoryQueue:
    """The queue `q`."""
    return fake.queues["q"]


async def eventually(condition: Any) -> None:
    """Wait until `condition()` holds."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def fill(sender: Any, count: int) -> None:
    """Send `count` messages."""
    await sender.send_messages([ServiceBusMessage(str(index)) for index in range(count)])


async def test_a_receive_returns_what_is_at_hand(sender: Any, receiver: Any) -> None:
    await fill(sender, 3)

    messages = await receiver.receive_messages(10)

    assert [str(message) for message in messages] == ["0", "1", "2"]


async def test_a_receive_ends_empty_when_its_wait_is_over(receiver: Any) -> None:
    started = time.monotonic()

    messages = await receiver.receive_messages(max_wait_time=0.2)

    assert messages == []
    assert 0.15 < time.monotonic() - started < 1.5


async def test_a_receive_waits_for_a_message(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient
) -> None:
    receiver = asynchronous.get_queue_receiver("q")
    waiting = asyncio.create_task(receiver.receive_messages(5, max_wait_time=10))
    await eventually(lambda: fake.asks)

    await asynchronous.get_queue_sender("q").send_messages(ServiceBusMessage("late"))

    assert [str(message) for message in await waiting] == ["late"]


async def test_a_completed_message_is_gone(sender: Any, receiver: Any, queue: MemoryQueue) -> None:
    await fill(sender, 1)
    [message] = await receiver.receive_messages()

    await receiver.complete_message(message)

    assert not queue.messages
    assert message.lock_token is None
    with pytest.raises(MessageAlreadySettled):
        await receiver.complete_message(message)


async def test_many_messages_are_completed_in_one_frame(
    sender: Any, receiver: Any, queue: MemoryQueue, fake: FakeFrontEnd
) -> None:
    await fill(sender, 50)
    messages = await receiver.receive_messages(50)

    await receiver.complete_messages(messages)

    assert not queue.messages
    assert [len(frame.lock_tokens) for frame in fake.settle_frames] == [16 * 50]


async def test_lost_locks_are_listed_and_the_others_completed(
    sender: Any, receiver: Any, queue: MemoryQueue
) -> None:
    await fill(sender, 3)
    messages = await receiver.receive_messages(3)
    queue.messages[messages[1].sequence_number].token = b""

    with pytest.raises(MessageLockLostError) as raised:
        await receiver.complete_messages(messages)

    assert [message for message, _ in raised.value.failures] == [messages[1]]
    assert list(queue.messages) == [messages[1].sequence_number]


async def test_completions_that_wait_share_frames(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient, queue: MemoryQueue
) -> None:
    await asynchronous.get_queue_sender("q").send_messages(
        [ServiceBusMessage("x") for _ in range(100)]
    )
    receiver = asynchronous.get_queue_receiver("q")
    messages = await receiver.receive_messages(100)

    await asyncio.gather(*(receiver.complete_message(message) for message in messages))

    assert not queue.messages
    assert len(fake.settle_frames) < 10


async def test_an_abandoned_message_comes_again_with_changed_properties(
    sender: Any, receiver: Any
) -> None:
    await sender.send_messages(ServiceBusMessage("x", application_properties={"a": 1, "b": 2}))
    [first] = await receiver.receive_messages()

    await receiver.abandon_message(first, properties_to_modify={"b": 3, "c": "new"})
    [second] = await receiver.receive_messages()

    assert second.delivery_count == 1
    assert second.decoded_properties == {"a": 1, "b": 3, "c": "new"}


async def test_a_deferred_message_comes_back_by_its_number(sender: Any, receiver: Any) -> None:
    await fill(sender, 2)
    [message, other] = await receiver.receive_messages(2)

    await receiver.defer_message(message)
    [back] = await receiver.receive_deferred_messages(message.sequence_number)
    await receiver.complete_message(back)

    with pytest.raises(exceptions.MessageNotFoundError):
        await receiver.receive_deferred_messages([other.sequence_number])
    assert await receiver.receive_deferred_messages([]) == []


async def test_a_dead_letter_says_why(client: Any, sender: Any, receiver: Any) -> None:
    await fill(sender, 1)
    [message] = await receiver.receive_messages()

    await receiver.dead_letter_message(message, reason="bad", error_description="very bad")
    dead = Either(
        client.get_queue_receiver("q", sub_queue=ServiceBusSubQueue.DEAD_LETTER, max_wait_time=2)
    )
    [letter] = await dead.receive_messages()

    assert (letter.dead_letter_reason, letter.dead_letter_error_description) == ("bad", "very bad")
    assert letter.application_properties[b"DeadLetterReason"] == b"bad"


async def test_a_lost_lock_is_told(sender: Any, receiver: Any, queue: MemoryQueue) -> None:
    await fill(sender, 1)
    [message] = await receiver.receive_messages()
    queue.messages[message.sequence_number].token = b""

    with pytest.raises(MessageLockLostError):
        await receiver.complete_message(message)

    assert message.lock_token is not None


async def test_a_message_is_completed_on_another_receiver(
    client: Any, sender: Any, receiver: Any, queue: MemoryQueue
) -> None:
    await fill(sender, 1)
    [message] = await receiver.receive_messages()
    other = Either(client.get_queue_receiver("q"))

    await other.complete_message(message)

    assert not queue.messages


async def test_receive_and_delete_refuses_settlement(
    client: Any, sender: Any, queue: MemoryQueue
) -> None:
    await fill(sender, 1)
    receiver = Either(
        client.get_queue_receiver("q", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)
    )

    [message] = await receiver.receive_messages()

    assert not queue.messages
    assert message.lock_token is None
    with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
        await receiver.complete_message(message)


async def test_a_lock_is_renewed(sender: Any, receiver: Any, queue: MemoryQueue) -> None:
    await fill(sender, 1)
    [message] = await receiver.receive_messages()
    before = message.locked_until_utc
    queue.lock_ms = 60_000

    until = await receiver.renew_message_lock(message)

    assert until == message.locked_until_utc
    assert until > before + timedelta(seconds=20)


async def test_repeated_peeks_show_each_message_once(sender: Any, receiver: Any) -> None:
    await fill(sender, 5)

    first = await receiver.peek_messages(3)
    second = await receiver.peek_messages(3)
    third = await receiver.peek_messages(3)
    again = await receiver.peek_messages(1, sequence_number=first[1].sequence_number)

    assert [str(message) for message in first + second] == ["0", "1", "2", "3", "4"]
    assert third == []
    assert [str(message) for message in again] == ["1"]
    with pytest.raises(ValueError, match="peeked"):
        await receiver.complete_message(first[0])


async def test_messages_are_deleted_and_purged(
    sender: Any, receiver: Any, queue: MemoryQueue
) -> None:
    await fill(sender, 700)
    await sender.schedule_messages(ServiceBusMessage("z"), datetime.now(UTC) + timedelta(hours=1))

    deleted = await receiver.delete_messages(10)
    purged = await receiver.purge_messages()

    assert deleted == 10
    assert purged == 691
    assert not queue.messages


async def test_prefetch_serves_from_a_buffer(client: Any, sender: Any, fake: FakeFrontEnd) -> None:
    await fill(sender, 40)
    receiver = Either(client.get_queue_receiver("q", prefetch_count=20, max_wait_time=2))

    bodies = [str((await receiver.receive_messages())[0]) for _ in range(40)]

    assert bodies == [str(index) for index in range(40)]
    assert len(fake.asks) < 10
    assert all(ask.max_messages <= 20 for ask in fake.asks)


async def test_closing_gives_back_what_nobody_saw(
    client: Any, sender: Any, queue: MemoryQueue, fake: FakeFrontEnd
) -> None:
    await fill(sender, 10)
    receiver = Either(client.get_queue_receiver("q", prefetch_count=10))
    await receiver.receive_messages(2)

    await receiver.close()

    assert fake.settle_frames[-1].disposition == receiver_pb2.DISPOSITION_RELEASE
    assert len(fake.settle_frames[-1].lock_tokens) == 16 * 8
    assert [one.delivery_count for one in queue.messages.values()] == [0] * 10
    assert sum(1 for one in queue.messages.values() if one.token) == 2


async def test_a_buffer_is_given_back_before_its_locks_end(
    asynchronous: aio.ServiceBusClient, fake: FakeFrontEnd
) -> None:
    queue = fake.add_queue("short", lock_ms=1_500)
    await asynchronous.get_queue_sender("short").send_messages(
        [ServiceBusMessage("x") for _ in range(5)]
    )
    receiver = asynchronous.get_queue_receiver("short", prefetch_count=5)

    await receiver.receive_messages(1)
    await eventually(lambda: fake.settle_frames)

    assert fake.settle_frames[0].disposition == receiver_pb2.DISPOSITION_RELEASE
    assert [one.delivery_count for one in queue.messages.values()] == [0] * 5


async def test_a_cancelled_receive_loses_nothing(
    asynchronous: aio.ServiceBusClient, fake: FakeFrontEnd
) -> None:
    sender = asynchronous.get_queue_sender("q")
    receiver = asynchronous.get_queue_receiver("q", max_wait_time=2)
    waiting = asyncio.create_task(receiver.receive_messages(5))
    await eventually(lambda: fake.asks)

    # The ask is still open at the bus when the message gets there: the waiter has just gone.
    sending = asyncio.create_task(sender.send_messages(ServiceBusMessage("kept")))
    await asyncio.sleep(0)
    waiting.cancel()
    await sending
    with pytest.raises(asyncio.CancelledError):
        await waiting
    messages = await receiver.receive_messages(5)

    assert [str(message) for message in messages] == ["kept"]
    assert messages[0].delivery_count == 0


async def test_a_timed_out_task_loses_nothing(asynchronous: aio.ServiceBusClient) -> None:
    sender = asynchronous.get_queue_sender("q")
    receiver = asynchronous.get_queue_receiver("q", max_wait_time=2)
    seen: list[str] = []

    for index in range(30):
        sending = asyncio.create_task(sender.send_messages(ServiceBusMessage(str(index))))
        try:
            async with asyncio.timeout(0.0015):
                seen += [str(message) for message in await receiver.receive_messages(3)]
        except TimeoutError:
            pass
        await sending
    while len(seen) < 30:
        found = await receiver.receive_messages(30)
        assert found
        seen += [str(message) for message in found]

    assert sorted(seen, key=int) == [str(index) for index in range(30)]


async def test_a_receiver_goes_on_after_its_stream_broke(
    sender: Any, receiver: Any, fake: FakeFrontEnd, queue: MemoryQueue
) -> None:
    await fill(sender, 2)
    [message] = await receiver.receive_messages(1)
    fake.break_receive_streams = 1

    await receiver.complete_message(message)
    [other] = await receiver.receive_messages(1)
    await receiver.complete_message(other)

    assert not queue.messages


async def test_a_missing_queue_is_told_to_receivers(client: Any) -> None:
    receiver = Either(client.get_queue_receiver("nowhere"))

    with pytest.raises(exceptions.MessagingEntityNotFoundError, match="nowhere"):
        await receiver.receive_messages()
    with pytest.raises(exceptions.MessagingEntityNotFoundError):
        await receiver.peek_messages()


async def test_iteration_ends_when_nothing_comes(asynchronous: aio.ServiceBusClient) -> None:
    await asynchronous.get_queue_sender("q").send_messages(
        [ServiceBusMessage(str(index)) for index in range(3)]
    )
    receiver = asynchronous.get_queue_receiver("q", max_wait_time=0.2)

    bodies = []
    async for message in receiver:
        bodies.append(str(message))
        await receiver.complete_message(message)

    assert bodies == ["0", "1", "2"]


def test_iteration_of_the_synchronous_receiver(sync: ServiceBusClient) -> None:
    sync.get_queue_sender("q").send_messages([ServiceBusMessage(str(index)) for index in range(3)])

    with sync.get_queue_receiver("q", max_wait_time=0.2, prefetch_count=10) as receiver:
        bodies = []
        for message in receiver:
            bodies.append(str(message))
            receiver.complete_message(message)

    assert bodies == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"max_message_count": 0}, "max_message_count"),
        ({"max_wait_time": 0}, "max_wait_time"),
        ({"max_wait_time": -1}, "max_wait_time"),
    ],
)
async def test_bad_arguments_are_named(receiver: Any, arguments: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        await receiver.receive_messages(**arguments)


async def test_a_closed_receiver_refuses(receiver: Any) -> None:
    await receiver.close()
    await receiver.close()

    with pytest.raises(ValueError, match="closed"):
        await receiver.receive_messages()
