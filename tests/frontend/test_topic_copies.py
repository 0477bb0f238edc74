"""Topics and subscriptions reach every partition in the order of their changes, whatever fails.

Two front ends, four partitions with the real rules; copies fail, and news of the catalogue comes
late, by a seed.
"""

import asyncio
import contextlib
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.errors import BusError
from bendybus.domain.filters.rule import Rule
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.lifecycle import EntityAction
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.upstreams.unary_calls import Commit
from tests.frontend.catalogue_bus import Bus, create


async def change(bus: Bus, front_end: FrontEnd) -> None:
    """Make some change; it may fail."""
    chooser = bus.chooser
    topic = f"t{chooser.randrange(2)}"
    action = chooser.choice([EntityAction.CREATE, EntityAction.UPDATE, EntityAction.DELETE])
    kind, name = EntityKind.TOPIC, topic
    if chooser.random() < 0.8:
        kind, name = EntityKind.SUBSCRIPTION, f"{topic}/Subscriptions/s{chooser.randrange(4)}"
    elif action is EntityAction.DELETE and chooser.random() < 0.7:
        action = EntityAction.CREATE
    changes: dict[str, Any] = {}
    if action is not EntityAction.DELETE:
        changes = {"user_metadata": str(chooser.random())}
    with contextlib.suppress(BusError):
        await front_end.manager.change(Commit(action, name, changes, kind=kind))


@pytest.mark.requirement("R80")
@pytest.mark.requirement("R84")
@pytest.mark.parametrize("seed", range(40))
async def test_no_partition_has_a_topic_without_earlier_changes_of_its_subscriptions(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bendybus.frontend.core.catalogue_copies.RETRY_S", 0.0)
    async with asyncio.timeout(20), Bus(seed) as bus:
        for partition in bus.partitions[1:]:
            partition.fails = bus.chooser.choice([0.0, 0.3, 0.6])
        for _ in range(12):
            changes = [change(bus, bus.chooser.choice(bus.front_ends)) for _ in range(3)]
            running = asyncio.gather(*changes)
            while not running.done():
                bus.check()
                await asyncio.sleep(0)

        # What failed is copied when partitions answer again.
        for partition in bus.partitions:
            partition.fails = 0.0
        registrar = bus.partitions[0].driver.partition.state.catalogue
        wanted = {each.key: each for each in registrar.all()}
        async with asyncio.timeout(10):
            while any(
                {each.key: each for each in p.driver.partition.state.catalogue.all()} != wanted
                for p in bus.partitions
            ):
                bus.check()
                await asyncio.sleep(0)


@pytest.mark.requirement("R80")
async def test_success_means_that_every_partition_has_it() -> None:
    async with Bus(1) as bus:
        await create(bus, EntityKind.TOPIC, "t0")
        await create(bus, EntityKind.SUBSCRIPTION, "t0/Subscriptions/s0")

        for partition in bus.partitions:
            assert partition.entry("t0/subscriptions/s0") is not None
        assert bus.front_ends[0].directory.subscription_count("T0") == 1


@pytest.mark.requirement("R80")
async def test_success_waits_for_the_slowest_partition() -> None:
    async with Bus(1) as bus:
        slow = bus.partitions[2]
        slow.reached.clear()

        creating = asyncio.ensure_future(create(bus, EntityKind.TOPIC, "t0"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert bus.partitions[3].entry("t0") is not None
        assert not creating.done()
        slow.reached.set()
        await creating
        assert slow.entry("t0") is not None


@pytest.mark.requirement("R86")
async def test_a_change_that_a_partition_did_not_take_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bendybus.frontend.core.catalogue_copies.RETRY_S", 0.0)
    async with Bus(1, front_ends=1) as bus:
        await create(bus, EntityKind.TOPIC, "t0")
        bus.partitions[3].fails = 1.0

        with pytest.raises(errors.PartitionUnavailable, match=r"recorded, but partitions \[3\]"):
            await create(bus, EntityKind.SUBSCRIPTION, "t0/Subscriptions/s0")
        assert bus.partitions[1].entry("t0/subscriptions/s0") is not None

        bus.partitions[3].fails = 0.0
        # Repeating the call shows that it is done.
        await create(bus, EntityKind.SUBSCRIPTION, "t0/Subscriptions/s0")
        assert bus.partitions[3].entry("t0/subscriptions/s0") is not None


@pytest.mark.requirement("R260")
async def test_a_client_repeats_a_rule_of_a_manifests_subscription_that_a_partition_did_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bendybus.frontend.core.catalogue_copies.RETRY_S", 0.0)
    kind, name = EntityKind.SUBSCRIPTION, "t0/Subscriptions/s0"
    async with Bus(1, front_ends=1) as bus:
        manager = bus.front_ends[0].manager
        await create(bus, EntityKind.TOPIC, "t0")
        made = Commit(EntityAction.CREATE, name, origin=Origin.MANIFEST, uid="m", kind=kind)
        await manager.change(made)
        added = RuleChange(RuleAction.CREATE, Rule("large"))
        rule = Commit(EntityAction.UPDATE, name, kind=kind, rule_change=added)
        bus.partitions[3].fails = 1.0
        with pytest.raises(errors.PartitionUnavailable, match=r"recorded, but partitions \[3\]"):
            await manager.change(rule)

        bus.partitions[3].fails = 0.0
        await manager.change(rule)

        found = bus.partitions[3].entry("t0/subscriptions/s0")
        assert found is not None
        assert isinstance(found.description, SubscriptionDescription)
        assert [each.name for each in found.description.rules] == ["$Default", "large"]


@pytest.mark.requirement("R264")
@pytest.mark.parametrize("refused", ["t1", "q1"])
async def test_an_entry_that_a_partition_refuses_keeps_no_other_from_being_copied(
    refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bendybus.frontend.core.catalogue_copies.RETRY_S", 0.0)
    async with Bus(1, front_ends=1) as bus:
        late, names = bus.partitions[3], {"q0", "q1", "q2", "t0", "t1", "t2"}
        late.fails = 1.0
        for name in sorted(names):
            kind = EntityKind.QUEUE if name[0] == "q" else EntityKind.TOPIC
            with contextlib.suppress(errors.PartitionUnavailable):
                await create(bus, kind, name)
        late.refuses = {refused}
        late.fails = 0.0

        async def copied(wanted: set[str]) -> None:
            async with asyncio.timeout(20):
                while {name for name in names if late.entry(name)} != wanted:  # noqa: ASYNC110
                    await asyncio.sleep(0)

        await copied(names - {refused})
        late.refuses = set()
        await copied(names)


@pytest.mark.requirement("R86")
async def test_a_registrar_that_does_not_show_a_change_makes_the_call_fail() -> None:
    async with Bus(1, front_ends=1) as bus:
        bus.front_ends[0].copies._timeout_s = 0.05
        bus.partitions[0].watches.clear()

        with pytest.raises(errors.PartitionUnavailable, match="the change is recorded, but part"):
            await create(bus, EntityKind.TOPIC, "t0")

        assert bus.partitions[1].entry("t0") is None


@pytest.mark.requirement("R86")
async def test_a_page_shows_the_subscriptions_of_one_topic() -> None:
    async with Bus(1, front_ends=1) as bus:
        for name in ("t0", "t0-b", "t1"):
            await create(bus, EntityKind.TOPIC, name)
            for number in range(3):
                await create(bus, EntityKind.SUBSCRIPTION, f"{name}/Subscriptions/s{number}")
        directory = bus.front_ends[0].directory
        kind = EntityKind.SUBSCRIPTION

        first, more = directory.page("", 2, with_orphaned=False, kind=kind, topic="T0")
        rest, no_more = directory.page(first[-1].key, 2, with_orphaned=False, kind=kind, topic="t0")
        topics, _ = directory.page("", 9, with_orphaned=False, kind=EntityKind.TOPIC)

        assert [each.name for each in (*first, *rest)] == [f"t0/Subscriptions/s{n}" for n in "012"]
        assert (more, no_more) == (True, False)
        assert [each.name for each in topics] == ["t0", "t0-b", "t1"]
        assert directory.page("", 9, with_orphaned=True) == ([], False)
