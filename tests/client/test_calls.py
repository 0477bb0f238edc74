"""Unary calls end with their callers and with their client, and in time."""

import asyncio
import threading
from typing import Any

import pytest

from bendybus.client import aio
from bendybus.client.aio import calls, management
from bendybus.client.exceptions import OperationTimeoutError, ServiceBusConnectionError
from bendybus.domain import errors
from bendybus.v1.receiver_pb2 import PeekRequest
from bendybus.wire import statuses
from tests.client.conftest import RETRY
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.fake_management_service import ManagementService


@pytest.mark.requirement("R483")
async def test_a_deletion_that_was_cancelled_deletes_nothing_later(
    fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, away = ManagementService._known, True

    async def refusing(self: ManagementService, name: str, context: Any) -> None:
        if away:
            await statuses.abort(context, errors.PartitionUnavailable("partition 0 is away"))
        await known(self, name, context)

    monkeypatch.setattr(ManagementService, "_known", refusing)
    async with management.ServiceBusAdministrationClient.from_connection_string(
        fake.connection_string, retry_backoff_factor=0.4
    ) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.delete_queue("q")

        away = False
        await asyncio.sleep(1)

        assert "q" in fake.entities


@pytest.mark.requirement("R483")
async def test_a_call_under_way_is_cancelled_with_its_caller(
    fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    async def hanging(self: ManagementService, name: str, context: Any) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    monkeypatch.setattr(ManagementService, "_known", hanging)
    async with management.ServiceBusAdministrationClient.from_connection_string(
        fake.connection_string, **RETRY
    ) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.delete_queue("q")

        assert await asyncio.to_thread(ended.wait, 5)


@pytest.mark.requirement("R483")
@pytest.mark.parametrize("cause", ["no answer", "a retry pause"])
async def test_a_call_ends_when_its_client_is_closed(
    fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    async def known(self: ManagementService, name: str, context: Any) -> None:
        if cause == "no answer":
            await asyncio.sleep(30)
        await statuses.abort(context, errors.PartitionUnavailable("partition 0 is away"))

    monkeypatch.setattr(ManagementService, "_known", known)
    client = management.ServiceBusAdministrationClient.from_connection_string(
        fake.connection_string, retry_backoff_factor=30
    )
    call = asyncio.create_task(client.get_queue("q"))
    await asyncio.sleep(0.3)

    await client.close()
    await asyncio.wait({call}, timeout=2)

    assert call.done()
    assert "The client was closed" in str(call.exception())


@pytest.mark.requirement("R483")
async def test_a_call_of_a_connection_that_is_closed_fails_at_once(fake: FakeFrontEnd) -> None:
    client = aio.ServiceBusClient.from_connection_string(
        fake.connection_string, retry_backoff_factor=30
    )
    await client.get_queue_receiver("q").peek_messages()
    connection = client._shared.get()
    await client.close()

    with pytest.raises(ServiceBusConnectionError, match="The client was closed"):
        async with asyncio.timeout(2):
            await calls.call(connection, lambda stubs: stubs.receiver.Peek, PeekRequest())


@pytest.mark.requirement("R483")
async def test_the_wait_for_a_token_is_part_of_the_timeout_of_a_call(fake: FakeFrontEnd) -> None:
    class Mute:
        async def get_token(self, *scopes: str, **options: Any) -> Any:
            await asyncio.sleep(10)

    async with aio.ServiceBusClient(f"http://127.0.0.1:{fake.port}", Mute(), **RETRY) as client:
        with pytest.raises(OperationTimeoutError):
            async with asyncio.timeout(3):
                await client.get_queue_receiver("q").peek_messages(timeout=0.3)
