"""Orphans that are adopted by a manifest, or purged; and manifests that repeat themselves."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Origin
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.domain.limits import Tier
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.manifest_changes import FIRST, SECOND, commit, create, only


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
    assert adopted.description.max_delivery_count == 3
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

    assert only(orphan).description.max_delivery_count == 5


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
