"""Unary calls end with their callers and with their client, and in time."""

import asyncio
import threading
import time
from typing import Any

import pytest

from bendybus.client import aio
from bendybus.client.aio import calls, management
from bendybus.client.core import io_thread
from bendybus.client.core.channel import Channel
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


class Token:
    """A token that expires after a second."""

    token = "t"

    def __init__(self) -> None:
        self.expires_on = int(time.time()) + 1


class SlowCredential:
    """A credential whose tokens take their time."""

    def __init__(self) -> None:
        self.asked = 0

    async def get_token(self, *scopes: str, **options: Any) -> Token:
        """Return a token."""
        self.asked += 1
        await asyncio.sleep(0.5)
        return Token()


@pytest.mark.requirement("R484")
async def test_a_call_that_waits_for_its_token_during_a_fork_is_made(fake: FakeFrontEnd) -> None:
    credential = SlowCredential()
    async with aio.ServiceBusClient(f"http://127.0.0.1:{fake.port}", credential, **RETRY) as client:
        receiver = client.get_queue_receiver("q")
        await receiver.peek_messages()
        client._shared.get()._credentials.refused()  # the token has expired
        call = asyncio.create_task(receiver.peek_messages())
        await asyncio.sleep(0.2)
        assert credential.asked == 2

        await asyncio.to_thread(io_thread._before_fork)  # what os.fork() runs
        await asyncio.to_thread(io_thread._after_fork_in_parent)

        assert await call == []


@pytest.mark.requirement("R484")
@pytest.mark.parametrize("deletes", [False, True])
async def test_a_call_under_way_is_repeated_when_certificates_are_replaced(
    fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch, deletes: bool
) -> None:
    known, began, tries = ManagementService._known, threading.Event(), 0

    async def slow(self: ManagementService, name: str, context: Any) -> None:
        nonlocal tries
        tries += 1
        if tries == 1 and deletes:
            del fake.entities["q"]
        began.set()
        if tries == 1:
            await asyncio.sleep(30)
        await known(self, name, context)

    monkeypatch.setattr(ManagementService, "_known", slow)
    async with management.ServiceBusAdministrationClient.from_connection_string(
        fake.connection_string, **RETRY
    ) as client:
        call: asyncio.Task[Any] = asyncio.create_task(
            client.delete_queue("q") if deletes else client.get_queue("q")
        )
        await asyncio.to_thread(began.wait, 5)
        connection = client._shared.get()

        # The file of certificates has changed, and a stream of this client met the new ones.
        monkeypatch.setattr(Channel, "_certificates", lambda self: b"new")
        connection.io.submit(connection._channel._reload_certificates)
        found = await asyncio.wait_for(call, 10)

        assert tries == 2
        assert deletes or found.name == "q"
