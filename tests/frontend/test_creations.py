"""Of clients that create the same thing at the same time, one is told that it did."""

import asyncio
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters.rule import Rule
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.lifecycle import EntityAction
from bendybus.frontend.upstreams.unary_calls import Commit
from tests.frontend.catalogue_bus import Bus, create

CREATIONS = [
    Commit(EntityAction.CREATE, "q0"),
    Commit(EntityAction.CREATE, "t1", kind=EntityKind.TOPIC),
    Commit(EntityAction.CREATE, "t0/Subscriptions/s1", kind=EntityKind.SUBSCRIPTION),
    Commit(
        EntityAction.UPDATE,
        "t0/Subscriptions/s0",
        kind=EntityKind.SUBSCRIPTION,
        rule_change=RuleChange(RuleAction.CREATE, Rule("large")),
    ),
]


async def shown(bus: Bus, generation: int) -> None:
    """Wait until every front end knows of a change."""
    for front_end in bus.front_ends:
        live = front_end.directory.live
        while all(each.generation < generation for each in live()):  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.parametrize("wanted", CREATIONS)
@pytest.mark.parametrize("others", [0, 1])
async def test_of_equal_creations_at_the_same_time_one_succeeds(
    wanted: Commit, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Bus(1, front_ends=2) as bus:
        await create(bus, EntityKind.TOPIC, "t0")
        await create(bus, EntityKind.SUBSCRIPTION, "t0/Subscriptions/s0")
        made = max(each.generation for each in bus.partitions[0].taken) + 1
        for partition in bus.partitions[1:]:
            partition.reached.clear()
        link: Any = bus.front_ends[others].upstreams[0]
        first = asyncio.ensure_future(bus.front_ends[0].manager.change(wanted))
        if not others:
            await shown(bus, made)
        commit = link.CommitEntity

        async def late(request: Any, timeout: float) -> Any:
            await shown(bus, made)
            return await commit(request, timeout)

        monkeypatch.setattr(link, "CommitEntity", late)
        second = asyncio.ensure_future(bus.front_ends[others].manager.change(wanted))

        for _ in range(200):
            await asyncio.sleep(0)
        for partition in bus.partitions:
            partition.reached.set()

        with pytest.raises(errors.EntityAlreadyExists):
            await second
        await first
