"""What a queue may be, what of it is fixed, and where it lives."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import entity as entities
from bendybus.domain import limits
from bendybus.domain.entity import Entity, EntityStatus, Origin, QueueDescription
from bendybus.domain.errors import InvalidArgument, InvalidOperation, PartitioningImmutable
from bendybus.domain.limits import Tier
from bendybus.domain.sub_queue import SubQueue


def check(tier: Tier = Tier.STANDARD, count: int = 16, **fields: Any) -> None:
    entities.check_description(QueueDescription(**fields), tier=tier, partition_count=count)


def entity(description: QueueDescription | None = None, count: int = 16) -> Entity:
    description = description or QueueDescription()
    return Entity("Orders", "uid", 1, Origin.CLIENT, description, count, 3, 0, 0)


# Names


@pytest.mark.parametrize("name", ["a/Subscriptions/b", "a/b/SUBSCRIPTIONS/c/d"])
def test_names_of_subscriptions_cannot_be_made_as_entities(name: str) -> None:
    with pytest.raises(InvalidArgument, match="subscriptions of topics"):
        entities.check_new_name(name)

    entities.check_name(name)  # one that is there already can be changed and deleted
    entities.check_new_name("a/Subscriptions")
    entities.check_new_name("Subscriptions/a")


@pytest.mark.parametrize("name", ["q", "Orders", "a/b/c", "x.y-z_1", "q_", "0", "a" * 260])
def test_names_that_can_be(name: str) -> None:
    entities.check_name(name)


@pytest.mark.parametrize(
    "name", ["", "/q", "q/", "-q", "q-", ".q", "a//b", "a b", "q$", "ü", "q\n", "a" * 261]
)
def test_names_that_cannot_be_are_refused_by_field(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        entities.check_name(name)

    assert caught.value.field == "entityName"


# Descriptions


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("lock_duration_ms", (5_000, 300_000), (0, 4_999, 300_001)),
        ("max_delivery_count", (1, 2**31 - 1), (0, -1, 2**31)),
        (
            "duplicate_detection_history_time_window_ms",
            (20_000, 7 * limits.DAY_MS),
            (19_999, 7 * limits.DAY_MS + 1),
        ),
        ("default_message_time_to_live_ms", (1_000, None), (0, 999)),
        ("auto_delete_on_idle_ms", (300_000, None), (299_999, 0)),
        ("max_size_in_megabytes", (1024, 2048, 3072, 4096, 5120), (0, 1, 1000, 6144)),
        ("max_message_size_in_kilobytes", (0, 256), (1, 255, 1024)),
        ("user_metadata", ("", "x" * 1024), ("x" * 1025,)),
    ],
)
def test_every_bound_holds_at_its_edge(field: str, good: tuple[Any], bad: tuple[Any]) -> None:
    for value in good:
        check(**{field: value})
    for value in bad:
        with pytest.raises(InvalidArgument) as caught:
            check(**{field: value})
        assert caught.value.field == entities.MANIFEST_NAMES[field]


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("max_size_in_megabytes", (1, 81_920), (0, 81_921)),
        ("max_message_size_in_kilobytes", (0, 1_024, 102_400), (1, 1_023, 102_401)),
    ],
)
def test_premium_has_bounds_of_its_own(field: str, good: tuple[int], bad: tuple[int]) -> None:
    for value in good:
        check(Tier.PREMIUM, **{field: value})
    for value in bad:
        with pytest.raises(InvalidArgument):
            check(Tier.PREMIUM, **{field: value})


def test_basic_keeps_messages_two_weeks() -> None:
    check(Tier.BASIC, default_message_time_to_live_ms=14 * limits.DAY_MS)
    with pytest.raises(InvalidArgument, match="P14D"):
        check(Tier.BASIC, default_message_time_to_live_ms=14 * limits.DAY_MS + 1)


@pytest.mark.parametrize("field", sorted(entities.NOT_YET))
def test_what_does_not_work_yet_is_refused_and_not_ignored(field: str) -> None:
    wanted: dict[str, Any] = {field: True if field == "requires_session" else "other"}

    with pytest.raises(InvalidArgument, match="not supported yet") as caught:
        check(**wanted)

    assert caught.value.field == entities.MANIFEST_NAMES[field]


@pytest.mark.requirement("R04")
def test_a_premium_namespace_of_one_partition_partitions_nothing() -> None:
    with pytest.raises(InvalidArgument, match="premiumMessagingPartitions"):
        check(Tier.PREMIUM, 1, enable_partitioning=True)


def test_every_field_has_its_name_in_manifests() -> None:
    assert set(entities.MANIFEST_NAMES) == set(QueueDescription.__dataclass_fields__)


# What is fixed


@pytest.mark.requirement("R08")
@pytest.mark.parametrize("before", [True, False])
def test_the_partitioning_of_a_queue_never_changes(before: bool) -> None:
    current = QueueDescription(enable_partitioning=before)

    with pytest.raises(PartitioningImmutable, match="cannot be changed after creation") as caught:
        entities.check_update("q", current, replace(current, enable_partitioning=not before))

    assert caught.value.metadata["field"] == "enablePartitioning"


@pytest.mark.parametrize("field", ["requires_duplicate_detection", "requires_session"])
def test_other_fixed_fields_are_an_invalid_operation(field: str) -> None:
    changes: dict[str, Any] = {field: True}

    with pytest.raises(InvalidOperation):
        entities.check_update("q", QueueDescription(), QueueDescription(**changes))


def test_all_else_may_change() -> None:
    wanted = QueueDescription(lock_duration_ms=5_000, max_delivery_count=3, user_metadata="x")

    entities.check_update("q", QueueDescription(), wanted)


# Where it lives


@pytest.mark.requirement("R01", "R05")
def test_a_partitioned_queue_is_in_all_partitions_a_plain_one_at_home() -> None:
    spread, plain = entity(), entity(count=1)

    assert list(spread.partitions()) == list(range(16))
    assert list(plain.partitions()) == [3]
    assert (spread.partitioned, plain.partitioned) == (True, False)


@pytest.mark.requirement("R03", "R04")
@pytest.mark.parametrize(
    ("tier", "partitions", "asked", "kept"),
    [
        (Tier.BASIC, 16, False, False),
        (Tier.STANDARD, 16, False, False),
        (Tier.STANDARD, 16, True, True),
        (Tier.PREMIUM, 4, False, True),
        (Tier.PREMIUM, 1, False, False),
    ],
)
def test_the_choice_of_partitioning_is_kept_where_it_is_the_queues_own(
    tier: Tier, partitions: int, asked: bool, kept: bool
) -> None:
    wanted = QueueDescription(enable_partitioning=asked)

    settled = entities.settled(wanted, tier=tier, partition_count=partitions)

    assert settled.enable_partitioning is kept


@pytest.mark.requirement("R40")
def test_messages_of_partitioned_premium_queues_are_at_most_a_megabyte() -> None:
    large = QueueDescription(max_message_size_in_kilobytes=102_400)

    assert entity(large).message_bytes_max(Tier.PREMIUM) == limits.MB
    assert entity(large, count=1).message_bytes_max(Tier.PREMIUM) == 100 * limits.MB
    assert entity().message_bytes_max(Tier.STANDARD) == 256 * limits.KB
    assert limits.batch_bytes_max(Tier.PREMIUM) == limits.MB


# Paths and statuses


def test_the_dead_letter_queue_is_found_by_its_path() -> None:
    assert entities.split_path("a/b") == ("a/b", SubQueue.MAIN)
    assert entities.split_path("q/$DeadLetterQueue") == ("q", SubQueue.DEAD_LETTER)
    assert entities.split_path("q/$deadletterqueue") == ("q", SubQueue.DEAD_LETTER)
    with pytest.raises(InvalidOperation, match="only sub-queue"):
        entities.split_path("q/$Other")


def test_what_each_status_lets_through() -> None:
    table = {status: (status.sends, status.receives) for status in EntityStatus}

    assert table == {
        EntityStatus.ACTIVE: (True, True),
        EntityStatus.DISABLED: (False, False),
        EntityStatus.SEND_DISABLED: (False, True),
        EntityStatus.RECEIVE_DISABLED: (True, False),
    }
