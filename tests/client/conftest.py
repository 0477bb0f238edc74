"""A front end per test, and clients of both surfaces."""

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bendybus import client as sync_client
from bendybus.client import aio
from bendybus.client import management as sync_management
from bendybus.client.aio import management as aio_management
from bendybus.client.core import pending_receive, receive_stream
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.memory_queue import MemoryQueue

# Short pauses: a test that retries should not sleep.
RETRY: dict[str, Any] = {"retry_backoff_factor": 0.01}


class Either:
    """Calls methods of one surface or the other; a test awaits both alike."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.target, name)
        if not callable(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            outcome = found(*args, **kwargs)
            return await outcome if inspect.isawaitable(outcome) else outcome

        return call


@pytest.fixture
def fake() -> Iterator[FakeFrontEnd]:
    """A front end with the queue `q`."""
    front_end = FakeFrontEnd().start()
    front_end.add_queue("q")
    yield front_end
    front_end.stop()


@pytest.fixture
def in_step(fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch) -> FakeFrontEnd:
    """A front end; loops are in step with it however slow the machine is."""
    monkeypatch.setattr(pending_receive, "_IN_STEP_S", 60.0)
    return fake


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no receive has taken yet is kept, however late the next step of the loop is."""
    monkeypatch.setattr(pending_receive, "LOOK_S", 60.0)
    monkeypatch.setattr(receive_stream, "_SWEEP_S", 60.0)


@pytest.fixture
def queue(in_step: FakeFrontEnd) -> MemoryQueue:
    """The queue `q`."""
    return in_step.queues["q"]


@pytest.fixture
def sync(fake: FakeFrontEnd) -> Iterator[sync_client.ServiceBusClient]:
    """A synchronous client."""
    with sync_client.ServiceBusClient.from_connection_string(
        fake.connection_string, **RETRY
    ) as made:
        yield made


@pytest.fixture
async def asynchronous(fake: FakeFrontEnd) -> AsyncIterator[aio.ServiceBusClient]:
    """An asynchronous client."""
    async with aio.ServiceBusClient.from_connection_string(fake.connection_string, **RETRY) as made:
        yield made


@pytest.fixture(params=["sync", "aio"])
async def client(request: pytest.FixtureRequest, fake: FakeFrontEnd) -> AsyncIterator[Any]:
    """A client of either surface, whose handles are awaited alike."""
    if request.param == "sync":
        made: Any = sync_client.ServiceBusClient.from_connection_string(
            fake.connection_string, **RETRY
        )
    else:
        made = aio.ServiceBusClient.from_connection_string(fake.connection_string, **RETRY)
    yield made
    await Either(made).close()


@pytest.fixture
def sender(client: Any) -> Any:
    """A sender to `q`."""
    return Either(client.get_queue_sender("q"))


@pytest.fixture
def receiver(client: Any) -> Any:
    """A receiver of `q` that waits briefly."""
    return Either(client.get_queue_receiver("q", max_wait_time=2))


@pytest.fixture(params=["sync", "aio"])
async def administration(request: pytest.FixtureRequest, fake: FakeFrontEnd) -> AsyncIterator[Any]:
    """An administration client of either surface."""
    kind: Any = sync_management if request.param == "sync" else aio_management
    made = kind.ServiceBusAdministrationClient.from_connection_string(
        fake.connection_string, **RETRY
    )
    yield Either(made)
    await Either(made).close()
