"""Which queues AutoDeleteOnIdle looks at, and that it goes on, also after a failure."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.frontend.core import manage
from bendybus.frontend.core.manage import EntityManager
from bendybus.frontend.upstreams import unary_calls
from tests.frontend.entities import queue


@pytest.mark.parametrize("error", [None, errors.PartitionUnavailable("away")])
async def test_only_queues_with_an_interval_are_looked_at_again_and_again(
    error: errors.BusError | None,
) -> None:
    looked: list[str] = []
    twice = asyncio.Event()

    async def look(entity: Entity) -> bool:
        looked.append(entity.name)
        if len(looked) == 2:
            twice.set()
        if error is not None:
            raise error
        return False

    manager: Any = SimpleNamespace(delete_if_idle=look)
    entities = [queue("kept"), queue("idle", auto_delete_on_idle_ms=300_000)]
    directory: Any = SimpleNamespace(live=lambda: entities)

    task = asyncio.get_running_loop().create_task(manage.delete_idle(manager, directory, 0.001))
    async with asyncio.timeout(5):
        await twice.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert set(looked) == {"idle"}


@pytest.mark.requirement("R146")
@pytest.mark.parametrize("busy", [0, 2, 3])
async def test_every_partition_is_asked_since_each_may_have_messages_for_a_queue(
    monkeypatch: pytest.MonkeyPatch, busy: int
) -> None:
    async def fence(upstream: Any, *_: Any) -> bool:
        return bool(upstream.partition != busy)

    monkeypatch.setattr(unary_calls, "fence_idle", fence)
    upstreams: Any = {n: SimpleNamespace(partition=n, available=True) for n in range(4)}
    copies: Any = SimpleNamespace(held=lambda _key: contextlib.nullcontext())
    directory: Any = None
    manager = EntityManager(upstreams, directory, copies, 1.0)
    idle = queue("idle", partitions=1, home=1, auto_delete_on_idle_ms=300_000)

    assert not await manager.delete_if_idle(idle)
