"""Destinations are checked by the registrar when they are set; cycles are refused."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import errors, forwarding
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import BY_NAME, QueueDescription, SubscriptionDescription
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.limits import Tier
from bendybus.partition_server.state.commands import CommitEntity
from bendybus.partition_server.store import file_format
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore

FIELDS = ["forward_to", "forward_dead_lettered_messages_to"]


def topic(driver: Driver, name: str) -> None:
    commit(driver, EntityAction.CREATE, name, kind=EntityKind.TOPIC)


def subscription(driver: Driver, topic: str, name: str, **changes: Any) -> None:
    path = f"{topic}/Subscriptions/{name}"
    commit(driver, EntityAction.CREATE, path, kind=EntityKind.SUBSCRIPTION, changes=changes)


@pytest.mark.requirement("R148", "R374")
@pytest.mark.parametrize("field", FIELDS)
def test_a_destination_must_exist_when_it_is_set(driver: Driver, field: str) -> None:
    driver.create("kept")
    with pytest.raises(errors.EntityNotFound, match="audit, or create topic audit"):
        commit(driver, EntityAction.CREATE, changes={field: "audit"})
    with pytest.raises(errors.EntityNotFound, match="does not exist"):
        commit(driver, EntityAction.UPDATE, "kept", changes={field: "audit"})
    driver.create("audit")
    commit(driver, EntityAction.DELETE, "audit")
    with pytest.raises(errors.EntityNotFound, match="does not exist"):
        commit(driver, EntityAction.CREATE, changes={field: "audit"})

    assert [e.name for e in driver.partition.state.catalogue.existing()] == ["kept"]


@pytest.mark.requirement("R148")
@pytest.mark.parametrize("field", FIELDS)
def test_a_destination_is_a_queue_or_a_topic_and_another_one(driver: Driver, field: str) -> None:
    topic(driver, "news")
    subscription(driver, "news", "all")
    driver.create("Orders")

    with pytest.raises(errors.InvalidOperation, match="cannot forward to itself"):
        commit(driver, EntityAction.UPDATE, "Orders", changes={field: "oRDERS"})
    with pytest.raises(errors.InvalidOperation, match="is no queue or topic"):
        commit(driver, EntityAction.UPDATE, "Orders", changes={field: "news/Subscriptions/all"})
    for name in ("Orders/$DeadLetterQueue", "a//b", "a b"):
        with pytest.raises(errors.InvalidArgument) as caught:
            commit(driver, EntityAction.UPDATE, "Orders", changes={field: name})
        assert caught.value.field == BY_NAME[field].manifest_name
    commit(driver, EntityAction.UPDATE, "Orders", changes={field: "NEWS"})


@pytest.mark.requirement("R149")
def test_cycles_are_refused_and_named(driver: Driver) -> None:
    driver.create("c")
    driver.create("b", forward_to="c")
    driver.create("a", forward_to="b")

    with pytest.raises(errors.InvalidOperation, match="from 'a' to 'b' to 'c'"):
        commit(driver, EntityAction.UPDATE, "c", changes={"forward_to": "a"})
    commit(driver, EntityAction.UPDATE, "c", changes={"forward_dead_lettered_messages_to": "a"})


@pytest.mark.requirement("R149")
def test_a_cycle_through_a_topic_is_refused(driver: Driver) -> None:
    topic(driver, "news")
    driver.create("orders", forward_to="news")
    driver.create("other")

    with pytest.raises(errors.InvalidOperation, match="messages back"):
        subscription(driver, "news", "back", forward_to="orders")
    # To its own topic: hops bound it.
    subscription(driver, "news", "again", forward_to="news")
    subscription(driver, "news", "on", forward_to="other")
    with pytest.raises(errors.InvalidOperation, match="messages back"):
        commit(driver, EntityAction.UPDATE, "other", changes={"forward_to": "orders"})
    with pytest.raises(errors.InvalidOperation, match="messages back"):
        commit(driver, EntityAction.UPDATE, "other", changes={"forward_to": "news"})


@pytest.mark.requirement("R149")
def test_two_updates_at_once_do_not_make_a_cycle(driver: Driver) -> None:
    driver.create("a")
    driver.create("b")
    update = EntityAction.UPDATE

    values = driver.run(
        CommitEntity("t", update, "a", Origin.CLIENT, {"forward_to": "b"}),
        CommitEntity("t", update, "b", Origin.CLIENT, {"forward_to": "a"}),
    )

    assert isinstance(values[0], Entity)
    assert isinstance(values[1].error, errors.InvalidOperation)


@pytest.mark.requirement("R149")
def test_a_destination_that_is_made_again_closes_no_cycle(driver: Driver) -> None:
    driver.create("b")
    driver.create("a", forward_to="b")
    commit(driver, EntityAction.DELETE, "b")

    with pytest.raises(errors.InvalidOperation, match="messages back"):
        commit(driver, EntityAction.CREATE, "b", uid="new", changes={"forward_to": "a"})


@pytest.mark.requirement("R148")
def test_a_source_is_changed_although_its_destination_is_gone(driver: Driver) -> None:
    driver.create("b")
    driver.create("a", forward_to="b")
    commit(driver, EntityAction.DELETE, "b")

    changed = commit(driver, EntityAction.UPDATE, "a", changes={"user_metadata": "x"})

    assert (changed.description.user_metadata, changed.description.forward_to) == ("x", "b")


def _queue(count: int, home: int, **changes: Any) -> Entity:
    described = QueueDescription(**changes)
    return Entity("q", "u", 1, Origin.CLIENT, described, count, home, 0, 0)


@pytest.mark.requirement("R210")
@pytest.mark.parametrize(
    ("source", "destination", "stays"),
    [
        (_queue(16, 0), _queue(16, 3), True),
        (_queue(16, 0), _queue(4, 3), False),
        (_queue(16, 0), _queue(1, 3), False),
        (_queue(1, 3), _queue(16, 3), False),
        (_queue(1, 3), _queue(1, 3), True),
        (_queue(1, 3), _queue(1, 4), False),
        (_queue(16, 0), _queue(16, 0, requires_duplicate_detection=True), False),
        (_queue(16, 0, requires_duplicate_detection=True), _queue(16, 0), True),
    ],
)
def test_whether_a_message_has_its_partition_at_the_destination(
    source: Entity, destination: Entity, stays: bool
) -> None:
    assert forwarding.stays(source, destination) is stays
    told = replace(source, description=SubscriptionDescription())
    if source.partitioned and source.description.requires_duplicate_detection:
        # Its topic may detect duplicates, a subscription does not say so.
        assert forwarding.stays(told, destination)


@pytest.mark.requirement("R210")
def test_a_destination_may_be_partitioned_in_another_way() -> None:
    driver = Driver(MemoryStore(fingerprint(tier=Tier.STANDARD, count=16)))
    driver.create("plain")
    driver.create("spread", enable_partitioning=True)

    driver.create("a", forward_to="plain", enable_partitioning=True)
    driver.create("b", forward_to="spread")
    driver.create("c", forward_to="spread", enable_partitioning=True)


@pytest.mark.requirement("R148")
def test_an_older_program_refuses_the_file_of_what_forwards(driver: Driver) -> None:
    driver.create("b")

    made = driver.create("a", forward_to="b")

    assert file_format.entry_version(made) == 3 <= file_format.ENTRY_VERSION
    assert file_format.entity_from_json(file_format.entity_to_json(made)) == made


def test_an_older_program_reads_an_entry_without_later_settings(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_format, "COMPLETE_ENTRY_VERSION", 2)
    driver.create("b")

    made = driver.create("a", forward_to="b")
    text = file_format.entity_to_json(made)

    assert "forward_to" in text
    assert "forward_dead_lettered_messages_to" not in text
    assert file_format.entity_from_json(text) == made
