"""The pull of the catalogue: what it tries again, and how often."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.limits import Tier
from bendybus.partition_server.service import catalogue_pull
from bendybus.partition_server.service.catalogue_pull import CataloguePull

FINGERPRINT = Fingerprint("n", "u", Tier.PREMIUM, 4, 0)
ENTITY = Entity("a", "u1", 1, Origin.CLIENT, QueueDescription(), 4, 0, 0, 0)


class Refusing:
    """A partition that takes nothing."""

    def __init__(self) -> None:
        self.asked = 0

    async def take(self, partition: int, entries: Sequence[Entity]) -> None:
        """Refuse entries."""
        self.asked += 1
        raise errors.InvalidArgument("rules", "are those of a later version.")


def hosts_of(*partitions: int) -> Any:
    """Return a process with partitions."""
    store = SimpleNamespace(fingerprint=FINGERPRINT)
    return SimpleNamespace(threads={n: SimpleNamespace(index=n, store=store) for n in partitions})


@contextlib.asynccontextmanager
async def pulling(refusing: Refusing) -> AsyncIterator[CataloguePull]:
    """Run the pull of partition 1, without a connection."""
    pull = CataloguePull(hosts_of(1), refusing.take, None)
    pull._heard(1, FINGERPRINT, [], snapshot=True)
    task = asyncio.create_task(pull._catch_up(1))
    try:
        yield pull
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.requirement("R481")
async def test_news_do_not_make_a_refused_entry_be_tried_more_often_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogue_pull, "AGAIN_S", 0.1)
    refusing = Refusing()
    async with pulling(refusing) as pull:
        for _ in range(50):
            pull._heard(0, FINGERPRINT, [ENTITY], snapshot=True)
            await asyncio.sleep(0.001)
        before = refusing.asked
        await asyncio.sleep(0.35)

    assert before > 10
    assert 1 <= refusing.asked - before <= 4


@pytest.mark.requirement("R481")
async def test_a_partition_that_is_slow_to_take_entries_delays_no_other() -> None:
    taken: list[str] = []

    async def take(partition: int, entries: Sequence[Entity]) -> None:
        if partition == 1:
            await asyncio.Event().wait()
        taken.extend(entry.name for entry in entries)

    pull = CataloguePull(hosts_of(1, 2), take, None)
    for partition in (1, 2):
        pull._heard(partition, FINGERPRINT, [], snapshot=True)
    tasks = [asyncio.create_task(pull._catch_up(each)) for each in (1, 2)]
    try:
        for number, name in enumerate("abc"):
            entity = replace(ENTITY, name=name, uid=name, generation=number + 1)
            pull._heard(0, FINGERPRINT, [entity], snapshot=not number)
            await asyncio.sleep(0.01)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    assert taken == ["a", "b", "c"]
