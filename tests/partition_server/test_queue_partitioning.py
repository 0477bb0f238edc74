"""How many partitions a queue has, and how many partitioned queues a namespace."""

from dataclasses import replace

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.entity import Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.limits import Tier
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.commands import (
    ApplyEntity,
)
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint


def test_a_manifest_need_not_repeat_what_a_premium_namespace_decides(driver: Driver) -> None:
    created = commit(driver, EntityAction.CREATE, origin=Origin.MANIFEST)
    manifest = {"enable_partitioning": False, "max_message_size_in_kilobytes": 0}

    updated = commit(driver, EntityAction.UPDATE, origin=Origin.MANIFEST, changes=manifest)

    assert updated == created
    assert updated.description.enable_partitioning


def test_a_client_cannot_switch_partitioning_off_in_a_premium_namespace(driver: Driver) -> None:
    driver.create()

    with pytest.raises(errors.PartitioningImmutable):
        commit(driver, EntityAction.UPDATE, changes={"enable_partitioning": False})


@pytest.mark.requirement("R08")
def test_the_partitioning_of_a_queue_cannot_be_changed(make_store: MakeStore) -> None:
    driver = Driver(make_store(fingerprint(tier=Tier.STANDARD, count=16)))
    driver.create(enable_partitioning=True)

    with pytest.raises(errors.PartitioningImmutable, match="another queue"):
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
        [answer] = copy.run(ApplyEntity("t", [entry]))
        assert not isinstance(answer, Failed)
    assert copy.partition.state.catalogue.by_key("orders") == new


@pytest.mark.requirement("R08")
def test_a_copy_with_other_partitioning_is_refused_by_the_file(driver: Driver) -> None:
    entity = driver.create()

    [answer] = driver.run(
        ApplyEntity("t", [replace(entity, partition_count=1, generation=entity.generation + 1)])
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
    assert entity.description == QueueDescription(
        enable_partitioning=count > 1, max_message_size_in_kilobytes=1024
    )


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
