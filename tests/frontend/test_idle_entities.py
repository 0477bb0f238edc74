"""Which queues AutoDeleteOnIdle looks at, and that it goes on, also after a failure."""

import asyncio
import contextlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

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


IDLE_MS: Final = 300_000


def manager_of(monkeypatch: pytest.MonkeyPatch, used: int, fenced: list[int]) -> EntityManager:
    """Return a manager of four partitions, of which `used` says that the entity was used."""

    async def idle_times(upstream: Any, uids: Sequence[str], _: float) -> dict[str, int]:
        return dict.fromkeys(uids, 0 if upstream.partition == used else IDLE_MS)

    async def fence(upstream: Any, *_: Any) -> bool:
        fenced.append(upstream.partition)
        return bool(upstream.partition != used)

    monkeypatch.setattr(unary_calls, "idle_times", idle_times)
    monkeypatch.setattr(unary_calls, "fence_idle", fence)
    upstreams: Any = {n: SimpleNamespace(partition=n, available=True) for n in range(4)}
    copies: Any = SimpleNamespace(held=lambda _key: contextlib.nullcontext())
    directory: Any = SimpleNamespace(subscriptions=lambda _topic: iter(()))
    return EntityManager(upstreams, directory, copies, 1.0)


@pytest.mark.requirement("R146")
@pytest.mark.parametrize("busy", [0, 2, 3])
async def test_every_partition_is_asked_since_each_may_have_messages_for_a_queue(
    monkeypatch: pytest.MonkeyPatch, busy: int
) -> None:
    manager = manager_of(monkeypatch, busy, [])
    idle = queue("idle", partitions=1, home=1, auto_delete_on_idle_ms=IDLE_MS)

    assert not await manager.delete_if_idle(idle)


@pytest.mark.requirement("R146")
async def test_a_queue_that_one_partition_uses_is_refused_in_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fenced: list[int] = []
    manager = manager_of(monkeypatch, 3, fenced)

    assert not await manager.delete_if_idle(queue("idle", auto_delete_on_idle_ms=IDLE_MS))

    assert fenced == []


@pytest.mark.requirement("R146")
async def test_what_is_used_between_the_looks_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fenced: list[int] = []
    manager = manager_of(monkeypatch, 3, fenced)

    async def idle_times(_: Any, uids: Sequence[str], __: float) -> dict[str, int]:
        return dict.fromkeys(uids, IDLE_MS)

    monkeypatch.setattr(unary_calls, "idle_times", idle_times)

    assert not await manager.delete_if_idle(queue("idle", auto_delete_on_idle_ms=IDLE_MS))

    assert fenced == [0, 1, 2, 3]
