"""What topics and subscriptions may be: the rules of queues, for the settings that they have."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import descriptions, entity_settings, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import (
    Description,
    EntityStatus,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from bendybus.domain.errors import InvalidArgument, InvalidOperation, PartitioningImmutable
from bendybus.domain.limits import Tier

TOPIC, SUBSCRIPTION = TopicDescription(), SubscriptionDescription()


def check(wanted: Description, tier: Tier = Tier.STANDARD) -> None:
    """Check a description in a namespace of 16 partitions."""
    descriptions.check(wanted, tier=tier, partition_count=16)


def test_the_defaults_are_those_of_the_service() -> None:
    assert (TOPIC.max_size_in_megabytes, TOPIC.duplicate_detection_history_time_window_ms) == (
        1024,
        600_000,
    )
    assert (SUBSCRIPTION.lock_duration_ms, SUBSCRIPTION.max_delivery_count) == (60_000, 10)
    assert SUBSCRIPTION.dead_lettering_on_filter_evaluation_exceptions
    for wanted in (TOPIC, SUBSCRIPTION):
        check(wanted)
        check(wanted, Tier.PREMIUM)


@pytest.mark.requirement("R80")
@pytest.mark.parametrize("wanted", [TOPIC, SUBSCRIPTION])
def test_a_basic_namespace_has_no_topics(wanted: Description) -> None:
    with pytest.raises(InvalidOperation, match="Standard or Premium; this one is Basic"):
        check(wanted, Tier.BASIC)

    check(QueueDescription(), Tier.BASIC)


@pytest.mark.requirement("R82")
@pytest.mark.parametrize(
    ("wanted", "changes", "field"),
    [
        (TOPIC, {"max_size_in_megabytes": 1}, "maxSizeInMegabytes"),
        (TOPIC, {"max_message_size_in_kilobytes": 1024}, "maxMessageSizeInKilobytes"),
        (TOPIC, {"duplicate_detection_history_time_window_ms": 1}, "duplicateDetectionHistory"),
        (TOPIC, {"default_message_time_to_live_ms": 1}, "defaultMessageTimeToLive"),
        (TOPIC, {"auto_delete_on_idle_ms": 299_999}, "autoDeleteOnIdle"),
        (TOPIC, {"user_metadata": "x" * 1_025}, "userMetadata"),
        (TOPIC, {"status": EntityStatus.RECEIVE_DISABLED}, "status"),
        (SUBSCRIPTION, {"lock_duration_ms": 300_001}, "lockDuration"),
        (SUBSCRIPTION, {"max_delivery_count": 0}, "maxDeliveryCount"),
        (SUBSCRIPTION, {"default_message_time_to_live_ms": 1}, "defaultMessageTimeToLive"),
        (SUBSCRIPTION, {"auto_delete_on_idle_ms": 299_999}, "autoDeleteOnIdle"),
        (SUBSCRIPTION, {"user_metadata": "x" * 1_025}, "userMetadata"),
        (SUBSCRIPTION, {"status": EntityStatus.SEND_DISABLED}, "status"),
        (SUBSCRIPTION, {"forward_to": "x", "requires_session": True}, "forwardTo"),
    ],
)
def test_a_setting_has_the_same_limits_whatever_has_it(
    wanted: Description, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidArgument, match=field):
        check(replace(wanted, **changes))


def test_what_the_tier_decides_is_written_down_for_topics_too() -> None:
    settled = descriptions.settled(TOPIC, tier=Tier.PREMIUM, partition_count=4)

    assert settled.enable_partitioning
    assert settled.max_message_size_in_kilobytes == limits.PREMIUM_MESSAGE_BYTES_DEFAULT // 1024
    assert descriptions.settled(SUBSCRIPTION, tier=Tier.PREMIUM, partition_count=4) == SUBSCRIPTION


@pytest.mark.requirement("R83")
@pytest.mark.parametrize(
    ("current", "field", "refusal"),
    [
        (TOPIC, "enable_partitioning", PartitioningImmutable),
        (TOPIC, "requires_duplicate_detection", InvalidOperation),
        (SUBSCRIPTION, "requires_session", InvalidOperation),
    ],
)
def test_what_is_fixed_at_creation_is_fixed_for_every_kind(
    current: Description, field: str, refusal: type[Exception]
) -> None:
    changes: dict[str, Any] = {field: True}

    with pytest.raises(refusal, match=f"{current.kind} 'x': "):
        descriptions.check_unchanged("x", current, replace(current, **changes))


def test_every_kind_has_what_rules_of_messages_read() -> None:
    """A rule never asks for the kind: a kind without a setting has a constant instead."""
    read = {each.name for each in entity_settings.BY_KIND[EntityKind.QUEUE]} - {
        "enable_partitioning",
        "support_ordering",
        "enable_express",
    }

    for kind, described in entity_settings.TYPES.items():
        lacks = {name for name in read if not hasattr(described(), name)}
        assert not lacks, kind
        assert described.kind is kind


def test_kinds_are_the_words_of_sentences() -> None:
    assert [f"{kind}" for kind in EntityKind] == ["queue", "topic", "subscription"]
