"""Helpers of tests of loops, whose next ask rides with a settlement."""

import asyncio
import time
from typing import Any

from bendybus.client import ServiceBusMessage
from bendybus.v1 import receiver_pb2
from tests.client.conftest import Either
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.memory_queue import MemoryQueue

_RELEASE = receiver_pb2.DISPOSITION_RELEASE


async def fill(client: Any, count: int) -> None:
    """Send `count` messages."""
    sender = Either(client.get_queue_sender("q"))
    await sender.send_messages([ServiceBusMessage(str(index)) for index in range(count)])


async def step(receiver: Any) -> Any:
    """Return the next message of an iterator of either surface."""
    if hasattr(receiver, "__anext__"):
        return await anext(receiver)
    return await asyncio.to_thread(next, receiver)


async def complete_some(receiver: Any, count: int) -> list[str]:
    """Iterate and complete so many messages; return their bodies."""
    bodies = []
    for _ in range(count):
        message = await step(receiver)
        bodies.append(str(message))
        await Either(receiver).complete_message(message)
    return bodies


async def eventually(condition: Any) -> None:
    """Wait until `condition()` holds."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def released(fake: FakeFrontEnd) -> int:
    """Return how many messages were given back."""
    return sum(
        len(frame.lock_tokens) // 16
        for frame in fake.settle_frames
        if frame.disposition == _RELEASE
    )


def locked(queue: MemoryQueue) -> list[int]:
    """Return the numbers of the messages that are locked."""
    return [stored.number for stored in list(queue.messages.values()) if stored.token]
