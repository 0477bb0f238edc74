"""Orphans: entities whose manifest is gone, kept and receivable until adopted or purged."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import EntityStatus, QueueDescription
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.partition_server.state.answers import AskRefused
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    ApplyEntity,
    Ask,
    CommitEntity,
    EntityRef,
    FenceIdle,
    ReceiveDeferred,
)
from bendybus.partition_server.store.errors import FileRefused
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.manifest_changes import FIRST, SECOND, commit, create, only
from tests.work import steps


def test_an_orphan_gives_what_it_holds_in_every_way(driver: Driver) -> None:
    create(driver)
    driver.send(b"done", b"deferred", b"dead")
    [first, second, third] = driver.receive(3)
    driver.settle(Disposition.DEFER, second[1])
    driver.settle(Disposition.DEAD_LETTER, third[1])
    driver.send(b"later")

    commit(driver, EntityAction.ORPHAN)

    assert not driver.settle(Disposition.COMPLETE, first[1]).failures
    assert [row.payload for row, _ in driver.receive(5)] == [b"later"]
    [deferred] = driver.run(ReceiveDeferred("t", driver.ref(), False, [second[0].counter]))
    assert [row.payload for row in deferred.rows] == [b"deferred"]
    assert [row.payload for row, _ in driver.receive(1, dead_letter=True)] == [b"dead"]
    assert [row.payload for row in driver.peek()] == [b"deferred", b"later"]


@pytest.mark.parametrize("scheduled_ms", [(), (1_900_000_000_000,)])
def test_an_orphan_takes_no_messages_and_says_what_to_do(
    orphan: Driver, scheduled_ms: tuple[int, ...]
) -> None:
    with pytest.raises(
        errors.EntityOrphaned, match=r"manifest was deleted.*Adopt.*purge"
    ) as raised:
        orphan.send(b"d", scheduled_ms=scheduled_ms)

    assert not raised.value.retryable
    assert orphan.counts().active == 3


def test_what_was_stored_before_is_told_to_a_sender_that_repeats(driver: Driver) -> None:
    create(driver)
    producer: dict[str, Any] = {"producer_id": b"p" * 16, "producer_sequence": 1}
    stored = driver.send(b"a", **producer)
    commit(driver, EntityAction.ORPHAN)

    assert list(driver.send(b"a", **producer).numbers) == list(stored.numbers)


def test_scheduled_messages_of_an_orphan_still_become_active(driver: Driver) -> None:
    create(driver)
    driver.send(b"later", scheduled_ms=[driver.wall_ms + 5_000])
    commit(driver, EntityAction.ORPHAN)

    driver.advance(5_000)

    assert [row.payload for row, _ in driver.receive()] == [b"later"]


def test_an_orphan_is_one_after_a_restart_too(orphan: Driver) -> None:
    before = only(orphan)

    orphan.restart()

    assert only(orphan) == before
    assert before.state is EntityState.ORPHANED
    assert len(orphan.receive(3)) == 3
    with pytest.raises(errors.EntityOrphaned):
        orphan.send(b"d")


def test_orphaning_is_a_new_generation_so_that_everybody_learns_it(driver: Driver) -> None:
    created = create(driver)
    driver.run(Ask("s", 1, driver.ref(), False, 1, 100))

    values = driver.run(CommitEntity("t", EntityAction.ORPHAN, "orders", Origin.MANIFEST))

    [orphaned] = [value for value in values if isinstance(value, Entity)]
    [refused] = [value for value in values if isinstance(value, AskRefused)]
    assert orphaned.generation > created.generation
    assert (orphaned.uid, orphaned.manifest_uid) == (FIRST, FIRST)
    assert isinstance(refused.error, errors.GenerationMismatch)


def test_a_partition_that_copies_the_entry_refuses_sends_too(
    orphan: Driver, make_store: MakeStore, tmp_path: Path
) -> None:
    other = Driver(make_store(fingerprint(1)))
    entry = only(orphan)
    other.run(ApplyEntity("t", [replace(entry, generation=1, orphaned=False)]))
    other.send(b"x")

    other.run(ApplyEntity("t", [entry]))

    with pytest.raises(errors.EntityOrphaned):
        other.send(b"y")
    assert len(other.receive(5)) == 1


def test_only_manifests_orphan_and_adopt_and_only_what_has_one(driver: Driver) -> None:
    driver.create()
    with pytest.raises(errors.InvalidOperation, match="manifest"):
        commit(driver, EntityAction.ORPHAN)
    commit(driver, EntityAction.DELETE, origin=Origin.CLIENT)
    create(driver)
    with pytest.raises(errors.InvalidOperation, match="is not managed by a manifest"):
        commit(driver, EntityAction.ORPHAN, origin=Origin.CLIENT)
    with pytest.raises(errors.InvalidOperation, match="only an orphaned one"):
        commit(driver, EntityAction.ADOPT, manifest_uid=SECOND)
    commit(driver, EntityAction.ORPHAN)
    with pytest.raises(errors.InvalidArgument, match="manifest_uid"):
        commit(driver, EntityAction.ADOPT)


def test_an_orphan_is_never_deleted_because_it_is_idle(driver: Driver) -> None:
    create(driver, auto_delete_on_idle_ms=300_000)
    orphan = commit(driver, EntityAction.ORPHAN)
    driver.advance(900_000)

    assert driver.run(FenceIdle("t", orphan.uid, orphan.generation, 300_000)) == [False]
    with pytest.raises(errors.RetainedData):
        commit(driver, EntityAction.DELETE_IDLE, uid=orphan.uid)


def test_a_partition_that_was_away_during_delete_and_create_drops_the_old_messages(
    driver: Driver, make_store: MakeStore, tmp_path: Path
) -> None:
    other = Driver(make_store(fingerprint(1)))
    other.run(ApplyEntity("t", [create(driver)]))
    other.send(b"old")
    commit(driver, EntityAction.DELETE)

    other.run(ApplyEntity("t", [create(driver)]))
    other.sweep()

    assert other.receive(1) == []


def test_orphans_count_to_the_entities_of_a_namespace(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bendybus.domain import limits

    monkeypatch.setattr(limits, "ENTITIES_PER_NAMESPACE", 1)
    create(driver)
    commit(driver, EntityAction.ORPHAN)

    with pytest.raises(errors.QuotaExceeded):
        driver.create("more")
    commit(driver, EntityAction.DELETE)
    driver.create("more")


def test_counts_tell_orphans_apart(orphan: Driver) -> None:
    counts = orphan.counts()

    assert counts.orphaned
    assert counts.messages == 3


def test_a_status_of_the_lost_manifest_still_holds(driver: Driver) -> None:
    create(driver, status=EntityStatus.RECEIVE_DISABLED)
    commit(driver, EntityAction.ORPHAN)

    [refused] = driver.run(Ask("s", 1, driver.ref(), False, 1, 100))

    assert isinstance(refused.error, errors.EntityDisabled)


# Files of earlier versions

OLD_ENTRY = {
    "name": "Orders",
    "uid": "u-1",
    "generation": 7,
    "origin": "Manifest",
    "queue": {
        "enable_partitioning": True,
        "lock_duration_ms": 60000,
        "max_size_in_megabytes": 1024,
        "max_message_size_in_kilobytes": 1024,
        "requires_duplicate_detection": False,
        "duplicate_detection_history_time_window_ms": 600000,
        "requires_session": False,
        "default_message_time_to_live_ms": None,
        "dead_lettering_on_message_expiration": False,
        "max_delivery_count": 10,
        "auto_delete_on_idle_ms": None,
        "status": "Active",
        "forward_to": "",
        "forward_dead_lettered_messages_to": "",
        "user_metadata": "",
    },
    "partition_count": 4,
    "home_partition": 2,
    "created_at_ms": 1,
    "updated_at_ms": 2,
    "deleted": False,
}


@pytest.mark.parametrize(("origin", "manifest"), [("Manifest", "u-1"), ("Client", "")])
def test_entries_written_before_orphans_existed_are_read(
    tmp_path: Path, origin: str, manifest: str
) -> None:
    store = SqliteStore(tmp_path, fingerprint())
    store.open()
    store.close()
    entry = json.dumps(OLD_ENTRY | {"origin": origin})
    with apsw.Connection(str(store.path)) as db:
        db.execute("INSERT INTO entities VALUES ('orders', 7, 0, ?, 1)", (entry,))
    db.close()

    driver = Driver(store)
    found = only(driver)

    assert (found.state, found.manifest_uid) == (EntityState.LIVE, manifest)
    if manifest:
        assert commit(driver, EntityAction.ORPHAN).orphaned
    store.close()


def test_a_file_of_another_namespace_says_what_to_do_on_kubernetes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, fingerprint())
    store.open()
    store.close()

    with pytest.raises(FileRefused, match=r"bendybus\.io/retained-data: adopt"):
        SqliteStore(tmp_path, fingerprint(uid="another")).open()
    with pytest.raises(FileRefused) as raised:
        SqliteStore(tmp_path, fingerprint(count=8)).open()
    assert "retained-data" not in str(raised.value)


# Work


@pytest.mark.parametrize("partition", [0, 1])
def test_a_change_costs_the_same_however_many_entities_and_tombstones_there_are(
    make_store: MakeStore, partition: int
) -> None:
    driver = Driver(make_store(fingerprint(partition)))
    pattern = Entity("", "", 0, Origin.CLIENT, QueueDescription(), 4, 0, 0, 0)

    def fill(numbers: range) -> None:
        for number in numbers:
            entry = replace(pattern, name=f"q{number}", uid=f"u{number}", generation=number + 1)
            driver.run(ApplyEntity("t", [replace(entry, deleted=number % 2 == 0)]))

    def change(number: int) -> int:
        """Return the work of a creation, and of a call for an entity that is gone."""
        name = f"new{number}"
        generation = 1_000_000 + number
        creation: Any = CommitEntity("t", EntityAction.CREATE, name, Origin.CLIENT, uid=name)
        if partition != 0:
            creation = ApplyEntity(
                "t", [replace(pattern, name=name, uid=name, generation=generation)]
            )
        late = Append("t", EntityRef("u0", 1), Batch([b"x"]))
        return steps(lambda: driver.run(creation, late))

    fill(range(20))
    change(0)
    few = change(1)
    fill(range(20, 600))
    many = change(2)

    assert few > 500
    assert many <= few * 1.1
