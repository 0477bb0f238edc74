"""The catalogue: the registrar decides, others copy."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.entity import Entity, EntityStatus, Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.limits import Tier
from bendybus.partition_server.state.answers import AskRefused, CatalogueChanged, Done, Failed
from bendybus.partition_server.state.commands import (
    Append,
    ApplyEntity,
    Ask,
    Batch,
    CommitEntity,
    FenceIdle,
    Watch,
)
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint


def commit(
    driver: Driver,
    action: EntityAction,
    name: str = "orders",
    *,
    origin: Origin = Origin.CLIENT,
    **options: Any,
) -> Any:
    """Commit a change; return the entry or raise what refuses it."""
    if action is EntityAction.CREATE:
        options.setdefault("uid", f"uid-{name}")
    values = driver.run(CommitEntity("t", action, name, origin, **options))
    [value] = [v for v in values if isinstance(v, Failed | Entity)]
    if isinstance(value, Failed):
        raise value.error
    return value


def test_generations_rise_over_the_whole_catalogue(driver: Driver) -> None:
    first = driver.create("a")
    second = driver.create("b")
    third = commit(driver, EntityAction.UPDATE, "a", changes={"max_delivery_count": 3})

    assert first.generation < second.generation < third.generation


def test_names_are_compared_without_regard_to_case(driver: Driver) -> None:
    driver.create("Orders")

    with pytest.raises(errors.EntityAlreadyExists):
        driver.create("ORDERS")


def test_a_repeated_creation_is_known_by_the_uid_that_it_gave(driver: Driver) -> None:
    made = commit(driver, EntityAction.CREATE, uid="mine")

    assert commit(driver, EntityAction.CREATE, uid="mine") == made
    with pytest.raises(errors.EntityAlreadyExists):
        commit(driver, EntityAction.CREATE, uid="another")


def test_no_client_takes_the_uid_of_another_queue(driver: Driver) -> None:
    commit(driver, EntityAction.CREATE, "a", uid="mine")

    with pytest.raises(errors.InvalidArgument, match="uid"):
        commit(driver, EntityAction.CREATE, "b", uid="mine")

    commit(driver, EntityAction.DELETE, "a")
    with pytest.raises(errors.InvalidArgument, match="uid"):
        commit(driver, EntityAction.CREATE, "b", uid="mine")


def test_the_catalogue_survives_a_restart(driver: Driver) -> None:
    driver.create(max_delivery_count=3, status=EntityStatus.SEND_DISABLED)
    before = driver.partition.state.catalogue.existing()

    driver.restart()

    assert driver.partition.state.catalogue.existing() == before


def test_an_update_changes_only_what_it_names(driver: Driver) -> None:
    driver.create(max_delivery_count=3)

    entity = commit(driver, EntityAction.UPDATE, changes={"lock_duration_ms": 30_000})

    assert (entity.queue.max_delivery_count, entity.queue.lock_duration_ms) == (3, 30_000)


def test_a_manifest_need_not_repeat_what_a_premium_namespace_decides(driver: Driver) -> None:
    created = commit(driver, EntityAction.CREATE, origin=Origin.MANIFEST)
    manifest = {"enable_partitioning": False, "max_message_size_in_kilobytes": 0}

    updated = commit(driver, EntityAction.UPDATE, origin=Origin.MANIFEST, changes=manifest)

    assert updated == created
    assert updated.queue.enable_partitioning


def test_a_client_cannot_switch_partitioning_off_in_a_premium_namespace(driver: Driver) -> None:
    driver.create()

    with pytest.raises(errors.PartitioningImmutable):
        commit(driver, EntityAction.UPDATE, changes={"enable_partitioning": False})


def test_an_update_to_what_is_already_there_changes_nothing(driver: Driver) -> None:
    before = driver.create(max_delivery_count=3)

    assert commit(driver, EntityAction.UPDATE, changes={"max_delivery_count": 3}) == before


@pytest.mark.requirement("R08")
def test_the_partitioning_of_a_queue_cannot_be_changed(make_store: MakeStore) -> None:
    driver = Driver(make_store(fingerprint(tier=Tier.STANDARD, count=16)))
    driver.create(enable_partitioning=True)

    with pytest.raises(errors.PartitioningImmutable, match="another name"):
        commit(driver, EntityAction.UPDATE, changes={"enable_partitioning": False})

    [entity] = driver.partition.state.catalogue.existing()
    assert entity.partition_count == 16


@pytest.mark.requirement("R44")
@pytest.mark.parametrize("first", [True, False])
def test_a_deleted_queue_may_come_back_with_another_partitioning(
    make_store: MakeStore, first: bool
) -> None:
    registrar = Driver(make_store(fingerprint(tier=Tier.STANDARD, count=16)))
    copy = Driver(make_store(fingerprint(3, tier=Tier.STANDARD, count=16)))
    changes = [{"enable_partitioning": first}, {"enable_partitioning": not first}]
    old = commit(registrar, EntityAction.CREATE, changes=changes[0], uid="one")
    gone = commit(registrar, EntityAction.DELETE)

    new = commit(registrar, EntityAction.CREATE, changes=changes[1], uid="two")

    assert (old.partitioned, new.partitioned) == (first, not first)
    # Also where the deletion was never heard of.
    for entry in (old, new) if first else (old, gone, new):
        [answer] = copy.run(ApplyEntity("t", entry))
        assert not isinstance(answer, Failed)
    assert copy.partition.state.catalogue.by_key("orders") == new


def test_duplicate_detection_cannot_be_switched(driver: Driver) -> None:
    driver.create()

    with pytest.raises(errors.InvalidOperation, match="requiresDuplicateDetection"):
        commit(driver, EntityAction.UPDATE, changes={"requires_duplicate_detection": True})


@pytest.mark.requirement("R08")
def test_a_copy_with_other_partitioning_is_refused_by_the_file(driver: Driver) -> None:
    entity = driver.create()

    [answer] = driver.run(
        ApplyEntity("t", replace(entity, partition_count=1, generation=entity.generation + 1))
    )

    assert isinstance(answer, Failed)
    assert isinstance(answer.error, errors.PartitioningImmutable)


@pytest.mark.requirement("R03")
@pytest.mark.requirement("R05")
def test_standard_queues_choose_sixteen_partitions_or_one(make_store: MakeStore) -> None:
    driver = Driver(make_store(fingerprint(tier=Tier.STANDARD, count=16)))

    spread = driver.create("spread", enable_partitioning=True)
    plain = driver.create("plain")

    assert (spread.partition_count, plain.partition_count) == (16, 1)
    assert list(plain.partitions()) == [plain.home_partition]


@pytest.mark.requirement("R04")
@pytest.mark.requirement("R06")
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_premium_queues_have_the_partitions_of_their_namespace(
    make_store: MakeStore, count: int
) -> None:
    driver = Driver(make_store(fingerprint(tier=Tier.PREMIUM, count=count)))

    entity = driver.create()

    assert entity.partition_count == count
    assert entity.queue.enable_partitioning is (count > 1)


@pytest.mark.requirement("R41")
@pytest.mark.parametrize("tier", [Tier.BASIC, Tier.STANDARD])
def test_a_basic_or_standard_namespace_has_at_most_100_partitioned_queues(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, tier: Tier
) -> None:
    assert limits.PARTITIONED_ENTITIES_PER_NAMESPACE == 100
    monkeypatch.setattr(limits, "PARTITIONED_ENTITIES_PER_NAMESPACE", 2)
    driver = Driver(make_store(fingerprint(tier=tier, count=16)))
    driver.create("a", enable_partitioning=True)
    driver.create("b", enable_partitioning=True)

    with pytest.raises(errors.QuotaExceeded, match="without partitioning"):
        driver.create("c", enable_partitioning=True)
    driver.create("plain")


@pytest.mark.requirement("R41")
def test_partitioned_queues_count_to_the_entities_of_a_namespace(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limits.ENTITIES_PER_NAMESPACE == 10_000
    monkeypatch.setattr(limits, "ENTITIES_PER_NAMESPACE", 2)
    driver = Driver(make_store(fingerprint(tier=Tier.STANDARD, count=16)))
    driver.create("a", enable_partitioning=True)
    driver.create("b")

    with pytest.raises(errors.QuotaExceeded, match="2 entities"):
        driver.create("c")


def test_only_the_registrar_decides(make_store: MakeStore) -> None:
    driver = Driver(make_store(fingerprint(2)))

    with pytest.raises(errors.InvalidOperation, match="registrar"):
        driver.create()


def test_a_queue_from_a_manifest_is_changed_only_there(driver: Driver) -> None:
    commit(driver, EntityAction.CREATE, origin=Origin.MANIFEST)

    for action in (EntityAction.UPDATE, EntityAction.DELETE):
        with pytest.raises(errors.ManagedByManifest, match="manifest"):
            commit(driver, action, changes={"max_delivery_count": 2})

    commit(driver, EntityAction.DELETE, origin=Origin.MANIFEST)


def test_a_change_based_on_an_older_generation_is_refused(driver: Driver) -> None:
    entity = driver.create()
    commit(driver, EntityAction.UPDATE, changes={"max_delivery_count": 2})

    with pytest.raises(errors.GenerationMismatch):
        commit(
            driver,
            EntityAction.UPDATE,
            changes={"max_delivery_count": 9},
            if_generation=entity.generation,
        )


def test_a_deleted_queue_leaves_a_tombstone_that_an_older_copy_cannot_undo(
    driver: Driver,
) -> None:
    entity = driver.create()
    driver.send(b"a")
    commit(driver, EntityAction.DELETE)

    assert driver.run(ApplyEntity("t", entity)) == [Done()]
    driver.restart()

    assert driver.partition.state.catalogue.existing() == []


def test_only_the_newest_deletions_are_remembered(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limits.TOMBSTONES_MAX == 20_000
    monkeypatch.setattr(limits, "TOMBSTONES_MAX", 10)
    kept = driver.create("kept")
    made = []
    for number in range(12):
        made.append(driver.create(f"q{number}"))
        commit(driver, EntityAction.DELETE, f"q{number}")

    def remembered() -> list[str]:
        found = driver.partition.state.catalogue.all()
        return sorted(entry.name for entry in found if entry.deleted)

    assert len(remembered()) == 12, "the next change forgets"
    driver.create("last")
    assert remembered() == sorted(f"q{number}" for number in range(2, 12))
    driver.restart()
    assert remembered() == sorted(f"q{number}" for number in range(2, 12))
    assert driver.partition.state.catalogue.existing()[0] == kept
    assert driver.create("next").generation > max(entity.generation for entity in made)


def test_data_of_a_queue_whose_deletion_is_remembered_no_more_is_still_removed(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TOMBSTONES_MAX", 0)
    driver.create()
    driver.send(*[b"x"] * 5)
    commit(driver, EntityAction.DELETE)
    driver.create("other")
    driver.restart()
    driver.sweep()

    assert driver.partition.state.catalogue.by_key("orders") is None
    assert driver.store.browse(0, 0, 10, 1 << 20) == []


def test_messages_of_a_deleted_queue_are_removed_in_bounded_steps(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bendybus.partition_server.state import budget

    monkeypatch.setattr(budget, "TURN_ROWS", 10)
    driver.create(requires_duplicate_detection=True)
    driver.send(*[b"x"] * 35, message_ids=[str(i) for i in range(35)])
    commit(driver, EntityAction.DELETE)

    driver.sweep()

    assert driver.store.browse(0, 0, 100, 1 << 30) == []
    assert driver.store.open().slots == []


def test_scheduled_messages_of_a_deleted_queue_are_removed_when_they_are_due(
    driver: Driver,
) -> None:
    driver.create()
    driver.send(b"later", b"soon", scheduled_ms=[driver.wall_ms + 5_000] * 2)
    commit(driver, EntityAction.DELETE)

    driver.wall_ms += 5_000
    stages = 0
    while (stage := driver.partition.sweep(driver.now)) is not None:
        driver.store.commit(stage.changes)
        driver.partition.apply(stage, driver.now)
        stages += 1
        assert stages < 20

    assert driver.store.browse(0, 0, 10, 1 << 20) == []


def test_a_queue_that_is_created_again_is_empty_and_has_a_new_uid(driver: Driver) -> None:
    driver.create()
    driver.send(b"old")
    commit(driver, EntityAction.DELETE)
    commit(driver, EntityAction.CREATE, uid="another")
    driver.sweep()

    assert driver.counts().active == 0
    assert driver.receive() == []


def test_asks_for_a_queue_that_is_deleted_are_refused(driver: Driver) -> None:
    driver.create()
    driver.run(Ask("s", 1, driver.ref(), False, 1, 100))

    values = driver.run(CommitEntity("t", EntityAction.DELETE, "orders", Origin.CLIENT))

    [refused] = [value for value in values if isinstance(value, AskRefused)]
    assert isinstance(refused.error, errors.EntityNotFound)


def test_a_call_for_a_deleted_queue_says_that_it_was_deleted(driver: Driver) -> None:
    driver.create()
    ref = driver.ref()
    commit(driver, EntityAction.DELETE)

    [answer] = driver.run(Append("t", ref, Batch([b"a"])))

    assert isinstance(answer, Failed)
    assert isinstance(answer.error, errors.EntityNotFound)


def test_a_watcher_gets_everything_and_then_every_change(driver: Driver) -> None:
    driver.create("a")
    [snapshot] = driver.run(Watch("w"))
    values = driver.run(CommitEntity("t", EntityAction.CREATE, "b", Origin.CLIENT, uid="u"))

    changes = [value for value in values if isinstance(value, CatalogueChanged)]
    assert snapshot.snapshot
    assert [entity.name for entity in snapshot.entities] == ["a"]
    assert [[e.name for e in change.entities] for change in changes] == [["b"]]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"lock_duration_ms": 4_999}, "lockDuration"),
        ({"lock_duration_ms": 300_001}, "lockDuration"),
        ({"max_delivery_count": 0}, "maxDeliveryCount"),
        ({"duplicate_detection_history_time_window_ms": 19_999}, "duplicateDetectionHistory"),
        ({"auto_delete_on_idle_ms": 1_000}, "autoDeleteOnIdle"),
        ({"default_message_time_to_live_ms": 1}, "defaultMessageTimeToLive"),
        ({"user_metadata": "x" * 1_025}, "userMetadata"),
        ({"max_message_size_in_kilobytes": 1_023}, "maxMessageSizeInKilobytes"),
        ({"max_size_in_megabytes": 0}, "maxSizeInMegabytes"),
        ({"requires_session": True}, "requiresSession"),
        ({"forward_to": "x"}, "forwardTo"),
        ({"forward_dead_lettered_messages_to": "x"}, "forwardDeadLetteredMessagesTo"),
    ],
)
def test_a_bad_description_names_the_field_and_creates_nothing(
    driver: Driver, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.InvalidArgument, match=field):
        driver.create(**changes)

    assert driver.partition.state.catalogue.all() == []


@pytest.mark.parametrize("name", ["", "-a", "a b", "a//b", "$x", "x" * 261, "a/"])
def test_a_bad_name_is_refused(driver: Driver, name: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="entityName"):
        driver.create(name)


def test_an_idle_queue_is_fenced_and_refuses_traffic_for_a_moment(driver: Driver) -> None:
    entity = driver.create(auto_delete_on_idle_ms=300_000)
    driver.advance(300_000)

    assert driver.run(FenceIdle("t", entity.uid, entity.generation, 300_000)) == [True]

    with pytest.raises(errors.ServerBusy):
        driver.send(b"a")
    driver.advance(10_001)
    driver.send(b"a")


def test_nothing_of_a_fence_stays_when_its_queue_is_deleted(driver: Driver) -> None:
    entity = driver.create(auto_delete_on_idle_ms=300_000)
    driver.advance(300_000)
    driver.run(FenceIdle("t", entity.uid, entity.generation, 300_000))

    commit(driver, EntityAction.DELETE)

    assert driver.partition.state.fenced_until == {}


def test_a_queue_in_use_is_not_fenced(driver: Driver) -> None:
    entity = driver.create()
    driver.advance(299_000)
    driver.send(b"a")
    driver.advance(1_000)

    assert driver.run(FenceIdle("t", entity.uid, entity.generation, 300_000)) == [False]


def test_a_receiver_that_waits_keeps_a_queue_in_use(driver: Driver) -> None:
    entity = driver.create()
    driver.reserve()
    driver.advance(300_000)

    assert driver.run(FenceIdle("t", entity.uid, entity.generation, 300_000)) == [False]


def test_reading_counts_is_no_use_of_a_queue(driver: Driver) -> None:
    entity = driver.create()
    driver.advance(300_000)
    driver.counts()

    assert driver.run(FenceIdle("t", entity.uid, entity.generation, 300_000)) == [True]
