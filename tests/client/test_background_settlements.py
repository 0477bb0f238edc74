"""Settling in the background: what returns at once, what is bounded, where errors surface."""

import asyncio
import threading
import time
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage, exceptions
from bendybus.client.core import receive_stream, settlements, stream
from tests.client.conftest import Either
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.memory_queue import MemoryQueue


@pytest.fixture
def queue(fake: FakeFrontEnd) -> MemoryQueue:
    """The queue `q`."""
    return fake.queues["q"]


async def received(client: Any, receiver: Any, count: int) -> list[Any]:
    """Send and receive so many messages."""
    sender = Either(client.get_queue_sender("q"))
    await sender.send_messages([ServiceBusMessage(str(index)) for index in range(count)])
    messages: list[Any] = []
    while len(messages) < count:
        messages += await receiver.receive_messages(count)
    return messages


async def hold(fake: FakeFrontEnd) -> asyncio.Event:
    """Let the bus answer no settlement; return what ends that."""
    held = asyncio.Event()
    fake.hold_settlements = held
    return held


async def test_a_settlement_returns_before_the_bus_answers_and_flush_waits(
    client: Any, fake: FakeFrontEnd, queue: MemoryQueue
) -> None:
    receiver = Either(client.get_queue_receiver("q"))
    messages = await received(client, receiver, 20)
    held = await hold(fake)
    await receiver.settle_in_background()

    for message in messages[:10]:
        await receiver.complete_message(message)
    await receiver.complete_messages(messages[10:])
    assert len(queue.messages) == 20
    with pytest.raises(exceptions.MessageAlreadySettled):
        await receiver.complete_message(messages[0])
    fake.call(held.set)
    await receiver.flush()

    assert not queue.messages
    await receiver.close()


async def test_what_was_not_settled_is_listed_by_the_flush_once(
    client: Any, queue: MemoryQueue
) -> None:
    receiver = Either(client.get_queue_receiver("q"))
    messages = await received(client, receiver, 3)
    queue.messages[messages[1].sequence_number].token = b""
    await receiver.settle_in_background()

    for message in messages:
        await receiver.complete_message(message)
    with pytest.raises(exceptions.MessageLockLostError) as raised:
        await receiver.flush()

    assert [message for message, _ in raised.value.failures] == [messages[1]]
    await receiver.flush()
    await receiver.close()


async def test_closing_flushes_and_reports(client: Any, queue: MemoryQueue) -> None:
    receiver = Either(client.get_queue_receiver("q"))
    messages = await received(client, receiver, 3)
    queue.messages[messages[2].sequence_number].token = b""
    await receiver.settle_in_background()
    for message in messages:
        await receiver.complete_message(message)

    with pytest.raises(exceptions.MessageLockLostError, match="1 messages were not settled"):
        await receiver.close()

    assert len(queue.messages) == 1


async def test_renewing_a_lock_still_waits_for_its_end(client: Any) -> None:
    receiver = Either(client.get_queue_receiver("q"))
    [message] = await received(client, receiver, 1)
    await receiver.settle_in_background()

    assert await receiver.renew_message_lock(message) == message.locked_until_utc
    await receiver.close()


async def test_no_more_than_so_many_are_under_way(
    client: Any, fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlements, "PENDING_MAX", 4)
    receiver = Either(client.get_queue_receiver("q"))
    messages = await received(client, receiver, 6)
    held = await hold(fake)
    await receiver.settle_in_background()
    for message in messages[:4]:
        await receiver.complete_message(message)

    # The synchronous surface blocks this loop.
    threading.Timer(0.2, lambda: fake.call(held.set)).start()
    began = time.monotonic()
    await receiver.complete_message(messages[4])

    assert time.monotonic() - began > 0.1
    await receiver.flush()
    await receiver.close()


async def test_closing_the_client_reports_every_receiver_and_closes_all(
    client: Any, fake: FakeFrontEnd, queue: MemoryQueue
) -> None:
    receivers = [Either(client.get_queue_receiver("q")) for _ in range(2)]
    for receiver in receivers:
        messages = await received(client, receiver, 2)
        queue.messages[messages[0].sequence_number].token = b""
        await receiver.settle_in_background()
        for message in messages:
            await receiver.complete_message(message)

    with pytest.raises(exceptions.MessageLockLostError, match="2 messages") as raised:
        await Either(client).close()

    assert len(raised.value.failures) == 2
    assert client._shared.made() is None
    assert all(receiver.target._closed for receiver in receivers)
    await Either(client).close()


async def test_closing_the_client_waits_for_a_slow_bus(
    client: Any, fake: FakeFrontEnd, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, limit in ((stream, "_END_TIMEOUT_S"), (receive_stream, "_CLOSE_TIMEOUT_S")):
        monkeypatch.setattr(module, limit, 0.3)
    receiver = Either(client.get_queue_receiver("q"))
    messages = await received(client, receiver, 2)
    held = await hold(fake)
    await receiver.settle_in_background()
    for message in messages:
        await receiver.complete_message(message)

    # Longer than closing a stream waits.
    threading.Timer(0.8, lambda: fake.call(held.set)).start()
    await Either(client).close()

    assert not queue.messages
