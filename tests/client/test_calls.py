"""Unary calls end with their callers, and are repeated only for them."""

import asyncio
import threading
from typing import Any

import pytest

from bendybus.client.aio import management
from bendybus.domain import errors
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
