"""What remains of a deleted queue, and for how long; and what fences an idle one."""

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.entity import Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.answers import AskRefused, Done, Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    ApplyEntity,
    Ask,
    CommitEntity,
    FenceIdle,
)
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver


def test_a_deleted_queue_leaves_a_tombstone_that_an_older_copy_cannot_undo(
    driver: Driver,
) -> None:
    entity = driver.create()
    driver.send(b"a")
    commit(driver, EntityAction.DELETE)

    assert driver.run(ApplyEntity("t", [entity])) == [Done()]
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
