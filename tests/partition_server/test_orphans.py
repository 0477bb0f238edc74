"""Orphans: entities whose manifest is gone, kept and receivable until adopted or purged."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity, EntityStatus, Origin, QueueDescription
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.domain.limits import Tier
from bendybus.partition_server.state.answers import AskRefused, Failed
from bendybus.partition_server.state.commands import (
    Append,
    ApplyEntity,
    Ask,
    Batch,
    CommitEntity,
    EntityRef,
    FenceIdle,
    ReceiveDeferred,
)
from bendybus.partition_server.store.errors import FileRefused
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint
from tests.work import steps

FIRST, SECOND = "manifest-1", "manifest-2"


def commit(
    driver: Driver, action: EntityAction, *, origin: Origin = Origin.MANIFEST, **options: Any
) -> Entity:
    """Commit a change of `orders`; return the entry or raise what refuses it."""
    values = driver.run(CommitEntity("t", action, "orders", origin, **options))
    [value] = [v for v in values if isinstance(v, Failed | Entity)]
    if isinstance(value, Failed):
        raise value.error
    return value


def create(driver: Driver, manifest: str = FIRST, **changes: Any) -> Entity:
    """Create `orders` from a manifest."""
    options: dict[str, Any] = {"changes": changes, "uid": manifest, "manifest_uid": manifest}
    return commit(driver, EntityAction.CREATE, **options)


@pytest.fixture
def orphan(driver: Driver) -> Driver:
    """Return a partition whose queue `orders` holds `a`, `b`, `c` and is orphaned."""
    create(driver)
    driver.send(b"a", b"b", b"c")
    commit(driver, EntityAction.ORPHAN)
    return driver


def only(driver: Driver) -> Entity:
    """Return the one entity that exists."""
    [entity] = driver.partition.state.catalogue.existing()
    return entity


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
    with pytest.raises(errors.EntityOrphaned, match=r"manifest is gone.*[Aa]dopt.*purge") as raised:
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
    other.run(ApplyEntity("t", replace(entry, generation=1, orphaned=False)))
    other.send(b"x")

    other.run(ApplyEntity("t", entry))

    with pytest.raises(errors.EntityOrphaned):
        other.send(b"y")
    assert len(other.receive(5)) == 1


def test_nobody_gets_the_name_of_an_orphan_without_saying_adopt_or_purge(orphan: Driver) -> None:
    before = only(orphan)

    for manifest in (FIRST, SECOND):
        with pytest.raises(errors.RetainedData, match=r"retained-data: adopt.*delete queue"):
            create(orphan, manifest)
    with pytest.raises(errors.RetainedData):
        commit(orphan, EntityAction.CREATE, origin=Origin.CLIENT, uid="client")
    with pytest.raises(errors.RetainedData):
        commit(orphan, EntityAction.UPDATE, changes={"max_delivery_count": 2})

    assert only(orphan) == before


def test_an_adopted_orphan_has_its_data_and_takes_messages_again(orphan: Driver) -> None:
    adopted = commit(
        orphan, EntityAction.ADOPT, manifest_uid=SECOND, changes={"max_delivery_count": 3}
    )
    orphan.send(b"d")

    assert (adopted.uid, adopted.manifest_uid) == (FIRST, SECOND)
    assert adopted.state is EntityState.LIVE
    assert adopted.queue.max_delivery_count == 3
    assert [row.payload for row, _ in orphan.receive(9)] == [b"a", b"b", b"c", b"d"]


def test_after_an_adoption_only_the_new_manifest_changes_the_queue(orphan: Driver) -> None:
    commit(orphan, EntityAction.ADOPT, manifest_uid=SECOND)

    for action in (EntityAction.UPDATE, EntityAction.ORPHAN, EntityAction.DELETE):
        with pytest.raises(errors.InvalidOperation, match="another manifest"):
            commit(orphan, action, manifest_uid=FIRST)
    with pytest.raises(errors.ManagedByManifest):
        commit(orphan, EntityAction.DELETE, origin=Origin.CLIENT)
    changed = {"max_delivery_count": 5}
    commit(orphan, EntityAction.UPDATE, manifest_uid=SECOND, changes=changed)

    assert only(orphan).queue.max_delivery_count == 5


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"enable_partitioning": False}, errors.PartitioningImmutable),
        ({"requires_duplicate_detection": True}, errors.InvalidOperation),
        ({"lock_duration_ms": 1}, errors.InvalidArgument),
    ],
)
def test_an_adoption_that_would_change_what_is_fixed_changes_nothing(
    make_store: MakeStore, changes: dict[str, Any], error: type[errors.BusError]
) -> None:
    driver = Driver(make_store(fingerprint(tier=Tier.STANDARD, count=16)))
    create(driver, enable_partitioning=True)
    commit(driver, EntityAction.ORPHAN)
    before = only(driver)

    with pytest.raises(error):
        commit(driver, EntityAction.ADOPT, manifest_uid=SECOND, changes=changes)

    assert only(driver) == before


@pytest.mark.parametrize("origin", list(Origin))
def test_anybody_may_purge_an_orphan_and_then_the_name_is_free(
    orphan: Driver, origin: Origin
) -> None:
    commit(orphan, EntityAction.DELETE, origin=origin)
    orphan.sweep()
    create(orphan, SECOND)

    assert orphan.store.browse(0, 0, 100, 1 << 20) == []
    assert orphan.receive(1) == []


def test_a_purge_of_what_was_adopted_meanwhile_is_refused(orphan: Driver) -> None:
    seen = only(orphan)
    commit(orphan, EntityAction.ADOPT, manifest_uid=SECOND)

    with pytest.raises(errors.GenerationMismatch):
        commit(orphan, EntityAction.DELETE, if_generation=seen.generation)

    assert only(orphan).state is EntityState.LIVE


def test_a_manifest_that_lost_the_answer_may_repeat(driver: Driver) -> None:
    created = create(driver)
    assert create(driver) == created

    orphaned = commit(driver, EntityAction.ORPHAN, if_generation=created.generation)
    again = commit(driver, EntityAction.ORPHAN, if_generation=created.generation)
    assert again == orphaned

    options: dict[str, Any] = {"manifest_uid": SECOND, "if_generation": orphaned.generation}
    adopted = commit(driver, EntityAction.ADOPT, **options)
    assert commit(driver, EntityAction.ADOPT, **options) == adopted


def test_a_repeat_in_the_name_of_another_manifest_is_none(driver: Driver) -> None:
    create(driver)
    with pytest.raises(errors.EntityAlreadyExists) as raised:
        create(driver, SECOND)
    assert raised.value.metadata["manifest_uid"] == FIRST

    commit(driver, EntityAction.ORPHAN)
    with pytest.raises(errors.InvalidOperation):
        commit(driver, EntityAction.ORPHAN, manifest_uid=SECOND)


def test_only_manifests_orphan_and_adopt_and_only_what_has_one(driver: Driver) -> None:
    driver.create()
    with pytest.raises(errors.InvalidOperation, match="manifest"):
        commit(driver, EntityAction.ORPHAN)
    commit(driver, EntityAction.DELETE, origin=Origin.CLIENT)
    create(driver)
    with pytest.raises(errors.InvalidOperation, match="only by manifests"):
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


def test_the_manifest_of_a_queue_that_the_bus_deleted_does_not_make_it_again(
    driver: Driver,
) -> None:
    create(driver, auto_delete_on_idle_ms=300_000)
    tombstone = commit(driver, EntityAction.DELETE_IDLE)
    driver.restart()

    with pytest.raises(errors.InvalidOperation, match=r"idle.*Delete its manifest") as raised:
        create(driver)
    again = create(driver, SECOND)

    assert tombstone.auto_deleted
    assert raised.value.metadata["auto_deleted"] == "true"
    assert not again.auto_deleted


def test_a_queue_that_its_manifest_makes_again_has_data_of_its_own(driver: Driver) -> None:
    first = create(driver)
    commit(driver, EntityAction.DELETE)

    second = create(driver)

    assert second.manifest_uid == first.manifest_uid
    assert second.uid != first.uid


def test_a_partition_that_was_away_during_delete_and_create_drops_the_old_messages(
    driver: Driver, make_store: MakeStore, tmp_path: Path
) -> None:
    other = Driver(make_store(fingerprint(1)))
    other.run(ApplyEntity("t", create(driver)))
    other.send(b"old")
    commit(driver, EntityAction.DELETE)

    other.run(ApplyEntity("t", create(driver)))
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
            driver.run(ApplyEntity("t", replace(entry, deleted=number % 2 == 0)))

    def change(number: int) -> int:
        """Return the work of a creation, and of a call for an entity that is gone."""
        name = f"new{number}"
        generation = 1_000_000 + number
        creation: Any = CommitEntity("t", EntityAction.CREATE, name, Origin.CLIENT, uid=name)
        if partition != 0:
            creation = ApplyEntity(
                "t", replace(pattern, name=name, uid=name, generation=generation)
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
