"""What a queue may be, and what the tier decides of it."""

from typing import Any

import pytest

from bendybus.domain import descriptions, entity_settings, limits
from bendybus.domain.entity_settings import EntityStatus, QueueDescription
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.limits import Tier


def check(tier: Tier = Tier.STANDARD, count: int = 16, **fields: Any) -> None:
    descriptions.check(QueueDescription(**fields), tier=tier, partition_count=count)


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
        assert caught.value.field == entity_settings.BY_NAME[field].manifest_name


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


@pytest.mark.requirement("R100")
def test_basic_has_no_sessions() -> None:
    check(Tier.STANDARD, requires_session=True)
    with pytest.raises(InvalidArgument, match="tier Standard or Premium"):
        check(Tier.BASIC, requires_session=True)


@pytest.mark.requirement("R148")
@pytest.mark.parametrize("field", ["forward_to", "forward_dead_lettered_messages_to"])
def test_basic_has_no_forwarding(field: str) -> None:
    wanted: dict[str, Any] = {field: "other"}

    check(Tier.STANDARD, **wanted)
    with pytest.raises(InvalidArgument, match="tier Standard or Premium") as caught:
        check(Tier.BASIC, **wanted)

    assert caught.value.field == entity_settings.BY_NAME[field].manifest_name


@pytest.mark.requirement("R04")
def test_a_premium_namespace_of_one_partition_partitions_nothing() -> None:
    with pytest.raises(InvalidArgument, match="premiumMessagingPartitions"):
        check(Tier.PREMIUM, 1, enable_partitioning=True)


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

    settled = descriptions.settled(wanted, tier=tier, partition_count=partitions)

    assert settled.enable_partitioning is kept


def test_what_each_status_lets_through() -> None:
    table = {status: (status.sends, status.receives) for status in EntityStatus}

    assert table == {
        EntityStatus.ACTIVE: (True, True),
        EntityStatus.DISABLED: (False, False),
        EntityStatus.SEND_DISABLED: (False, True),
        EntityStatus.RECEIVE_DISABLED: (True, False),
    }
