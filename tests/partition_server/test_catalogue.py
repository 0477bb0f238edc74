"""The catalogue: the registrar decides, others copy."""

from typing import Any

import pytest

from bendybus.domain import authorization_rules, entity_settings, errors
from bendybus.domain.entity import Origin
from bendybus.domain.entity_settings import EntityStatus
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.answers import CatalogueChanged
from bendybus.partition_server.state.commands import (
    CommitEntity,
    Watch,
)
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint


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

    assert (entity.description.max_delivery_count, entity.description.lock_duration_ms) == (
        3,
        30_000,
    )


def test_an_update_to_what_is_already_there_changes_nothing(driver: Driver) -> None:
    before = driver.create(max_delivery_count=3)

    assert commit(driver, EntityAction.UPDATE, changes={"max_delivery_count": 3}) == before


def test_duplicate_detection_cannot_be_switched(driver: Driver) -> None:
    driver.create()

    with pytest.raises(errors.InvalidOperation, match="requiresDuplicateDetection"):
        commit(driver, EntityAction.UPDATE, changes={"requires_duplicate_detection": True})


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


def test_a_manifest_that_updates_a_queue_of_a_client_owns_it(driver: Driver) -> None:
    made = commit(driver, EntityAction.CREATE)

    taken = commit(driver, EntityAction.UPDATE, origin=Origin.MANIFEST)

    assert (taken.uid, taken.origin) == (made.uid, Origin.MANIFEST)
    assert taken.generation > made.generation
    with pytest.raises(errors.ManagedByManifest):
        commit(driver, EntityAction.UPDATE, changes={"max_delivery_count": 2})
    assert commit(driver, EntityAction.UPDATE, origin=Origin.MANIFEST) == taken


@pytest.mark.requirement("R578")
def test_clients_revoke_keys_of_what_comes_from_a_manifest_and_change_nothing_else(
    driver: Driver,
) -> None:
    rules = (authorization_rules.rule("app", ["Send"], "a", "b"),)
    made = commit(driver, EntityAction.CREATE, changes={"authorization_rules": rules})
    commit(driver, EntityAction.UPDATE, origin=Origin.MANIFEST)
    everything = entity_settings.values_of(made.description)

    for changes in ({}, everything, {**everything, "authorization_rules": (), "status": "x"}):
        with pytest.raises(errors.ManagedByManifest):
            commit(driver, EntityAction.UPDATE, changes=changes)
    revoked = commit(driver, EntityAction.UPDATE, changes={**everything, "authorization_rules": ()})

    assert (revoked.description.authorization_rules, revoked.origin) == ((), Origin.MANIFEST)


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
        ({"forward_to": "x" * 261}, "forwardTo"),
        ({"forward_dead_lettered_messages_to": "x" * 261}, "forwardDeadLetteredMessagesTo"),
        ({"forward_to": "x", "requires_session": True}, "forwardTo"),
    ],
)
def test_a_bad_description_names_the_field_and_creates_nothing(
    driver: Driver, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.InvalidArgument, match=field):
        driver.create(**changes)

    assert driver.partition.state.catalogue.all() == []


@pytest.mark.parametrize("name", ["", "..", "a b", "a//b", "$x", "x" * 261, "a/"])
def test_a_bad_name_is_refused(driver: Driver, name: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="entityName"):
        driver.create(name)
