"""Who is looked at for AutoDeleteOnIdle, and that it goes on."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain.entity import Entity
from bendybus.frontend.listeners import auto_delete
from tests.frontend.entities import queue


async def test_only_queues_with_an_interval_are_looked_after_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    twice = asyncio.Event()

    async def look(gateway: Any, entity: Entity) -> bool:
        looked.append(entity.name)
        if len(looked) == 2:
            twice.set()
        return False

    monkeypatch.setattr(auto_delete, "delete_if_idle", look)
    entities = [queue("kept"), queue("idle", auto_delete_on_idle_ms=300_000)]
    gateway: Any = SimpleNamespace(
        settings=SimpleNamespace(idle_check_s=0.001),
        directory=SimpleNamespace(live=lambda: entities),
    )

    task = asyncio.get_running_loop().create_task(auto_delete.run(gateway))
    async with asyncio.timeout(5):
        await twice.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert set(looked) == {"idle"}
