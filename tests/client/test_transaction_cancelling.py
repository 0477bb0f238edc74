"""A transaction one of whose operations is cancelled while its stream is opened."""

import asyncio
from collections import deque
from typing import Any

import pytest

from bendybus.domain.errors import InvalidOperation
from tests.client.test_transaction_link import COLLECTED, Bus, FakeCall, operation


@pytest.mark.requirement("R485")
async def test_a_transaction_that_ends_while_its_stream_is_opened_leaves_none() -> None:
    bus = Bus(COLLECTED)
    opened = asyncio.Event()
    open_stream = bus.open_transaction_stream

    async def slow() -> Any:
        await opened.wait()
        return await open_stream()

    bus.open_transaction_stream = slow  # type: ignore[method-assign]
    adding = asyncio.create_task(bus.link.add(operation(), 60))
    await asyncio.sleep(0)

    bus.link.abandon()
    opened.set()

    with pytest.raises(InvalidOperation, match="was cancelled"):
        await adding
    assert [(call.cancelled, call.written) for call in bus.calls] == [(True, [])]


@pytest.mark.requirement("R485")
async def test_a_transaction_that_ends_while_its_stream_is_admitted_writes_nothing() -> None:
    bus = Bus(COLLECTED)

    class Slow(FakeCall):
        async def initial_metadata(self) -> Any:
            bus.link.abandon()
            return await super().initial_metadata()

    call = Slow(deque())
    bus.kept.append(call)

    with pytest.raises(InvalidOperation, match="was cancelled"):
        await bus.link.add(operation(), 60)

    assert call.cancelled
    assert not call.written
