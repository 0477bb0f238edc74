"""Copies of topics and subscriptions: in the order of their changes, to whom can keep them."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidArgument, PartitionUnavailable
from bendybus.domain.limits import Tier
from bendybus.internal.v1 import entity_pb2
from bendybus.operator.bus.bus_link import BusLink
from tests.operator.manifests import BUS, entry, subscription, topic
from tests.operator.manifests import queue as queue_view
from tests.operator.talker import IDENTITY


class Link:
    """A partition that takes every copy, and commits what a test says."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.reachable = True
        self.refusal = ""
        self.pulls = False
        self.copied: list[list[str]] = []
        self.committed: Entity | None = None
        # The topic of which it takes nothing.
        self.refuses = "none"

    async def commit(self, _: Any) -> Entity:
        assert self.committed is not None
        return self.committed

    async def copy(self, entries: Sequence[Entity]) -> None:
        if any(each.topic_key == self.refuses for each in entries):
            raise InvalidArgument("rules", "are those of a later version.")
        self.copied.append([f"{each.name}@{each.generation}" for each in entries])


def linked(timeout_s: float = 5.0) -> tuple[BusLink, list[Link]]:
    """Return a link to a bus whose two partitions have the topic `sales` of generation 1."""
    made = BusLink(
        BUS,
        IDENTITY,
        None,
        timeout_s=timeout_s,
        entities_changed=lambda _: None,
        reachability_changed=lambda: None,
        address=lambda *_: "x:1",
    )
    links = [Link(0), Link(1)]
    made._links = links  # type: ignore[assignment]
    for partition in (0, 1):
        made.catalogue(partition, header(partition), [sales(1)], snapshot=True)
    return made, links


def header(partition: int) -> Fingerprint:
    return Fingerprint("orders", "bus-1", Tier.PREMIUM, 2, partition)


def sales(generation: int) -> Entity:
    return entry(topic(), generation=generation)


def queue(name: str, generation: int) -> Entity:
    return entry(queue_view(name), generation=generation)


def of_sales(name: str, generation: int) -> Entity:
    return entry(subscription(name), generation=generation)


@pytest.mark.requirement("R130")
async def test_a_subscription_is_copied_when_the_registrars_catalogue_shows_it() -> None:
    """Its answer may overtake what another front end changed before, which would be skipped."""
    link, (registrar, other) = linked()
    registrar.committed = of_sales("b", 4)
    committing = asyncio.create_task(
        link.commit(
            entity_pb2.ENTITY_ACTION_CREATE, "sales/Subscriptions/b", kind=EntityKind.SUBSCRIPTION
        )
    )
    await asyncio.sleep(0.05)
    assert not other.copied

    link.catalogue(0, header(0), [of_sales("a", 2), sales(3)], snapshot=False)
    await asyncio.sleep(0.05)
    assert not other.copied
    link.catalogue(0, header(0), [of_sales("b", 4), sales(5)], snapshot=False)
    await committing

    assert other.copied == [["sales/Subscriptions/a@2", "sales/Subscriptions/b@4", "sales@5"]]
    assert registrar.copied == []


@pytest.mark.requirement("R481")
async def test_a_commit_waits_for_partitions_that_take_it_by_themselves() -> None:
    link, (registrar, other) = linked()
    other.pulls = True
    registrar.committed = of_sales("a", 2)
    committing = asyncio.create_task(
        link.commit(
            entity_pb2.ENTITY_ACTION_CREATE, "sales/Subscriptions/a", kind=EntityKind.SUBSCRIPTION
        )
    )
    await asyncio.sleep(0.02)
    link.catalogue(0, header(0), [of_sales("a", 2), sales(3)], snapshot=False)
    await link.catch_up()
    await asyncio.sleep(0.02)
    assert not committing.done()

    link.catalogue(1, header(1), [of_sales("a", 2), sales(3)], snapshot=False)
    await asyncio.wait_for(committing, 5)

    assert other.copied == []


@pytest.mark.requirement("R481")
async def test_what_a_partition_does_not_take_in_time_is_copied_with_all_that_it_lacks() -> None:
    """Or each of many entities would wait for so long, one after the other."""
    link, (_, other) = linked(timeout_s=0.1)
    other.pulls = True
    link.catalogue(0, header(0), [queue("a", 2), queue("b", 3)], snapshot=False)

    await link.copy(queue("a", 2))

    assert other.copied == [["a@2"], ["b@3"]]


@pytest.mark.requirement("R481")
async def test_a_partition_that_stops_taking_changes_by_itself_gets_copies_at_once() -> None:
    link, (_, other) = linked(timeout_s=60.0)
    other.pulls = True
    link.catalogue(0, header(0), [queue("a", 2)], snapshot=False)
    copying = asyncio.create_task(link.copy(queue("a", 2)))
    await asyncio.sleep(0.02)
    assert not copying.done()

    other.pulls = False
    link.catalogue(1, header(1), [], snapshot=False)
    await asyncio.wait_for(copying, 1)

    assert other.copied == [["a@2"]]


@pytest.mark.requirement("R481")
async def test_entities_are_reconciled_when_a_partition_stops_taking_changes_by_itself() -> None:
    """What it lacks would be copied only when something else happens."""
    woken: list[str] = []
    link, (_, other) = linked()
    link._reachability_changed = lambda: woken.append("woken")
    other.pulls = True
    link.catalogue(1, header(1), [], snapshot=False)
    assert woken == []

    other.pulls = False
    for _ in range(2):
        link.catalogue(1, header(1), [], snapshot=False)

    assert woken == ["woken"]


async def test_a_registrar_that_does_not_show_a_change_is_asked_again_later() -> None:
    link, (registrar, other) = linked(timeout_s=0.05)
    registrar.committed = of_sales("b", 4)

    with pytest.raises(PartitionUnavailable, match="does not show the change"):
        await link.commit(
            entity_pb2.ENTITY_ACTION_CREATE, "sales/Subscriptions/b", kind=EntityKind.SUBSCRIPTION
        )

    assert other.copied == []


@pytest.mark.requirement("R264")
async def test_what_is_refused_of_one_topic_keeps_no_other_from_being_copied() -> None:
    made, links = linked()
    others = [entry(topic(name), generation=at) for at, name in enumerate(("a", "b", "c"), 2)]
    made.catalogue(0, header(0), others, snapshot=False)
    links[1].refuses = "b"

    await made.catch_up()
    after = links[1].copied.copy()
    links[1].refuses = "none"
    await made.catch_up()

    assert after == [["a@2"], ["c@4"]]
    assert links[1].copied[2:] == [["b@3"]]
