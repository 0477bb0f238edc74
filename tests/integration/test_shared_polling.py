"""A program that uses grpc.aio in a loop of its own, beside the client."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bendybus.client import ServiceBusMessage
from bendybus.client.aio import ServiceBusClient
from tests.integration.processes import Bus

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R601")]
SENDS = 300


async def both(bus: Bus, queue: str) -> int:
    """Send, and call another service until that is done; return how often it was called."""
    called, done = 0, False

    async def call() -> None:
        nonlocal called
        async with grpc.aio.insecure_channel(bus.front_end_address) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)
            while not done:
                await health.Check(health_pb2.HealthCheckRequest())
                called += 1

    calling = asyncio.create_task(call())
    async with (
        ServiceBusClient.from_connection_string(bus.connection_string) as client,
        client.get_queue_sender(queue) as sender,
    ):
        for _ in range(SENDS):
            await sender.send_messages(ServiceBusMessage("x"))
    done = True
    await calling
    return called


@pytest.fixture
def queue(bus: Bus) -> Iterator[str]:
    with bus.administration() as administration:
        administration.create_queue("shared-polling")
        yield "shared-polling"
        administration.delete_queue("shared-polling")


def test_its_log_stays_empty(bus: Bus, queue: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        called = asyncio.run(both(bus, queue))

    assert called > SENDS
    assert [record.getMessage() for record in caplog.records] == []


def test_other_errors_of_loops_are_logged(
    bus: Bus, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        await both(bus, queue)
        asyncio.get_running_loop().call_soon(_fail)
        await asyncio.sleep(0)

    asyncio.run(fail())

    assert "BlockingIOError: of the program" in caplog.text


def _fail() -> None:
    raise BlockingIOError("of the program")
