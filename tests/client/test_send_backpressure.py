"""The bound on what waits to be sent."""

import asyncio
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage, aio
from bendybus.client.core.send_queue import SendLimit


class Door:
    """A waiter that notes that it was let in."""

    def __init__(self) -> None:
        self.admitted = False

    abandoned = False

    def resolve(self, value: Any) -> None:
        """Come in."""
        self.admitted = True

    def fail(self, error: BaseException) -> None:
        """Not used."""


def test_who_does_not_fit_waits_until_there_is_room() -> None:
    send_limit, door = SendLimit(messages_max=10, bytes_max=100), Door()
    assert send_limit.try_acquire(8, 10)

    assert not send_limit.try_acquire(3, 10)
    send_limit.wait(3, 10, door)

    assert not door.admitted
    send_limit.release(8, 10)
    assert door.admitted


def test_bytes_count_as_well_and_one_unit_always_fits() -> None:
    send_limit = SendLimit(messages_max=10, bytes_max=100)

    assert send_limit.try_acquire(1, 1_000)
    assert not send_limit.try_acquire(1, 1)


def test_first_come_first_served() -> None:
    send_limit = SendLimit(messages_max=10, bytes_max=100)
    big, small = Door(), Door()
    send_limit.try_acquire(5, 0)
    send_limit.wait(9, 0, big)

    assert not send_limit.try_acquire(1, 0)
    send_limit.wait(1, 0, small)
    assert not small.admitted
    send_limit.cancel(big)

    assert small.admitted
    assert not big.admitted


@pytest.mark.requirement("R485")
async def test_a_send_that_is_cancelled_as_it_gets_room_is_cancelled(
    asynchronous: aio.ServiceBusClient,
) -> None:
    sender = asynchronous.get_queue_sender("q")
    await sender.send_messages(ServiceBusMessage(b"0"))
    limit = asynchronous._shared.get().send_limit
    limit._messages = limit._messages_max  # the send queue is full
    sending = asyncio.create_task(sender.send_messages(ServiceBusMessage(b"1")))
    async with asyncio.timeout(5):
        while not limit._waiting:  # noqa: ASYNC110
            await asyncio.sleep(0)
    waiter: Any = limit._waiting[0][2]

    limit.release(limit._messages_max, 0)
    async with asyncio.timeout(5):
        while not waiter.future.done():  # noqa: ASYNC110
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    sending.cancel()
    await asyncio.wait([sending], timeout=5)

    assert sending.cancelled()
