"""Administration of topics and subscriptions through both surfaces."""

from datetime import timedelta
from typing import Any

import pytest

from bendybus.client import exceptions
from bendybus.client.exceptions import (
    ResourceExistsError,
    ResourceNotFoundError,
)
from bendybus.client.management import (
    EntityAvailabilityStatus,
    EntityStatus,
    SubscriptionProperties,
    TopicProperties,
)
from tests.client.test_management import every


@pytest.mark.requirement("R86")
async def test_a_topic_is_made_with_its_properties(administration: Any) -> None:
    made = await administration.create_topic(
        "news",
        enable_partitioning=True,
        default_message_time_to_live="P7D",
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=timedelta(minutes=1),
        user_metadata="note",
    )

    found = await administration.get_topic("news")

    assert isinstance(made, TopicProperties)
    for topic in (made, found):
        assert topic.name == "news"
        assert topic.enable_partitioning
        assert topic.requires_duplicate_detection
        assert topic.default_message_time_to_live == timedelta(days=7)
        assert topic.duplicate_detection_history_time_window == timedelta(minutes=1)
        assert topic.user_metadata == "note"
        assert topic.status == EntityStatus.ACTIVE
        assert topic.max_size_in_megabytes == 1024
    assert found.availability_status == EntityAvailabilityStatus.AVAILABLE


@pytest.mark.requirement("R86")
async def test_a_subscription_is_made_with_its_properties(administration: Any) -> None:
    await administration.create_topic("news")

    made = await administration.create_subscription(
        "news", "all", lock_duration="PT30S", max_delivery_count=3
    )

    found = await administration.get_subscription("NEWS", "ALL")
    assert isinstance(made, SubscriptionProperties)
    for each in (made, found):
        assert each.name == "all"
        assert each.lock_duration == timedelta(seconds=30)
        assert each.max_delivery_count == 3
        assert each.dead_lettering_on_filter_evaluation_exceptions
        assert each.forward_to is None


@pytest.mark.requirement("R86")
async def test_topics_and_subscriptions_are_updated_from_their_properties(
    administration: Any,
) -> None:
    topic = await administration.create_topic("news")
    within = await administration.create_subscription("news", "all")

    topic.user_metadata = "changed"
    await administration.update_topic(topic)
    within["max_delivery_count"] = 7
    await administration.update_subscription("news", within, status="Disabled")

    assert (await administration.get_topic("news")).user_metadata == "changed"
    changed = await administration.get_subscription("news", "all")
    assert (changed.max_delivery_count, changed.status) == (7, EntityStatus.DISABLED)


@pytest.mark.requirement("R86")
async def test_topics_and_subscriptions_are_listed_over_pages(administration: Any) -> None:
    for name in ("b", "a"):
        await administration.create_topic(name)
    for number in range(103):
        await administration.create_subscription("a", f"s{number:03}")

    assert [each.name for each in await every(administration.target.list_topics())] == ["a", "b"]
    listed = [each.name for each in await every(administration.target.list_subscriptions("a"))]
    assert listed == [f"s{number:03}" for number in range(103)]
    assert await every(administration.target.list_subscriptions("b")) == []
    runtimes = await every(administration.target.list_topics_runtime_properties())
    assert [each.subscription_count for each in runtimes] == [103, 0]
    with pytest.raises(ResourceNotFoundError):
        await every(administration.target.list_subscriptions("c"))


@pytest.mark.requirement("R86")
async def test_runtime_properties_of_topics_and_subscriptions(administration: Any) -> None:
    await administration.create_topic("news")
    await administration.create_subscription("news", "all")

    topic = await administration.get_topic_runtime_properties("news")
    within = await administration.get_subscription_runtime_properties("news", "all")

    assert (topic.name, topic.subscription_count, topic.scheduled_message_count) == ("news", 1, 0)
    assert (topic.size_in_bytes, topic.sql_filter_count, topic.correlation_filter_count) == (
        0,
        0,
        0,
    )
    assert (within.name, within.active_message_count, within.total_message_count) == ("all", 0, 0)
    assert within.created_at_utc is not None
    assert within.accessed_at_utc is None
    [listed] = await every(administration.target.list_subscriptions_runtime_properties("news"))
    assert listed.name == "all"


@pytest.mark.requirement("R86")
async def test_a_topic_is_deleted_with_its_subscriptions(administration: Any) -> None:
    await administration.create_topic("news")
    await administration.create_subscription("news", "a")
    await administration.create_subscription("news", "b")

    await administration.delete_subscription("news", "a")
    with pytest.raises(ResourceNotFoundError):
        await administration.get_subscription("news", "a")
    await administration.delete_topic("news")

    for gone in (
        administration.get_topic("news"),
        administration.get_subscription("news", "b"),
        administration.delete_topic("news"),
    ):
        with pytest.raises(ResourceNotFoundError):
            await gone


async def test_names_of_topics_are_taken_and_subscriptions_need_theirs(
    administration: Any,
) -> None:
    await administration.create_topic("news")
    await administration.create_subscription("news", "a")

    with pytest.raises(ResourceExistsError):
        await administration.create_topic("news")
    with pytest.raises(ResourceExistsError):
        await administration.create_subscription("news", "A")
    with pytest.raises(ResourceNotFoundError, match="topic 'none' does not exist"):
        await administration.create_subscription("none", "a")


async def test_bad_arguments_are_named(administration: Any) -> None:
    await administration.create_topic("news")

    with pytest.raises(TypeError, match="'lock_duration' is neither a property of a topic"):
        await administration.create_topic("x", lock_duration="PT30S")
    with pytest.raises(TypeError, match="neither a property of a subscription"):
        await administration.create_subscription("news", "x", enable_partitioning=True)
    with pytest.raises(exceptions.HttpResponseError, match="at most 50 characters"):
        await administration.create_subscription("news", "x" * 51)
    with pytest.raises(exceptions.ResourceNotFoundError, match="forwardTo"):
        await administration.create_subscription("news", "x", forward_to="other")
