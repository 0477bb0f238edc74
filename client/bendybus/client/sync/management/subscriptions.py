# Generated from aio/management/subscriptions.py by `make sync`: edit that file.
"""Synchronous administration of subscriptions."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from bendybus.client.entities import descriptions, requests, runtime
from bendybus.client.entities.models import SubscriptionProperties
from bendybus.client.entities.runtime import SubscriptionRuntimeProperties
from bendybus.client.sync.management.management_calls import ManagementCalls
from bendybus.client.sync.management.paging import ItemPaged
from bendybus.domain.entity_kind import EntityKind
from bendybus.v1 import management_pb2

SUBSCRIPTION = EntityKind.SUBSCRIPTION


class SubscriptionOperations(ManagementCalls):
    """Creates, updates, lists and deletes subscriptions of topics."""

    def create_subscription(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        lock_duration: timedelta | str | None = None,
        requires_session: bool | None = None,
        default_message_time_to_live: timedelta | str | None = None,
        dead_lettering_on_message_expiration: bool | None = None,
        dead_lettering_on_filter_evaluation_exceptions: bool | None = None,
        max_delivery_count: int | None = None,
        enable_batched_operations: bool | None = None,
        forward_to: str | None = None,
        user_metadata: str | None = None,
        forward_dead_lettered_messages_to: str | None = None,
        auto_delete_on_idle: timedelta | str | None = None,
        **kwargs: Any,
    ) -> SubscriptionProperties:
        """Create a subscription; options that are None get their defaults.

        `topic_name`: the topic, which must exist. `subscription_name`: its name within the topic.
        Immutable: `requires_session`.
        `lock_duration`, `max_delivery_count`, `default_message_time_to_live`,
        `dead_lettering_on_message_expiration`, `dead_lettering_on_filter_evaluation_exceptions`,
        `auto_delete_on_idle` and `user_metadata` are as in Service Bus; durations are timedelta or
        ISO-8601 text. `forward_to` and `forward_dead_lettered_messages_to` name a queue or topic
        that messages, or dead letters, are handed on to;
        `enable_batched_operations` has no effect.
        Raises ResourceExistsError, and ResourceNotFoundError without the topic.
        """
        fields = {**locals(), **kwargs}
        request = requests.create(SUBSCRIPTION, [topic_name, subscription_name], fields, kwargs)
        response = self._ask(request, kwargs)
        return descriptions.to_subscription(response.subscription)

    def get_subscription(
        self, topic_name: str, subscription_name: str, **kwargs: Any
    ) -> SubscriptionProperties:
        """Return `subscription_name` of the topic `topic_name`. Raises ResourceNotFoundError."""
        found = self._get(SUBSCRIPTION, kwargs, topic_name, subscription_name)
        return descriptions.to_subscription(found)

    def get_subscription_runtime_properties(
        self, topic_name: str, subscription_name: str, **kwargs: Any
    ) -> SubscriptionRuntimeProperties:
        """Return runtime properties of `subscription_name` of the topic `topic_name`.

        Raises ResourceNotFoundError.
        """
        found = self._get(SUBSCRIPTION, kwargs, topic_name, subscription_name)
        return runtime.subscription_runtime(found)

    def update_subscription(
        self,
        topic_name: str,
        subscription: SubscriptionProperties | Mapping[str, Any],
        **kwargs: Any,
    ) -> None:
        """Update a subscription of the topic `topic_name` to the properties of `subscription`.

        Raises ResourceNotFoundError.
        """
        request = requests.update(SUBSCRIPTION, [topic_name], subscription, kwargs)
        self._ask(request, kwargs)

    def delete_subscription(self, topic_name: str, subscription_name: str, **kwargs: Any) -> None:
        """Delete `subscription_name` of the topic `topic_name`, and its messages.

        Raises ResourceNotFoundError.
        """
        names = [topic_name, subscription_name]
        request = requests.of("Delete", SUBSCRIPTION, names, origin=requests.CLIENT)
        self._ask(request, kwargs)

    def list_subscriptions(
        self, topic_name: str, **kwargs: Any
    ) -> ItemPaged[SubscriptionProperties]:
        """Return an iterator over the subscriptions of the topic `topic_name`.

        Its `by_page()` returns pages. Raises ResourceNotFoundError.
        """
        topic = requests.topic_name(topic_name)
        request = management_pb2.ListSubscriptionsRequest(topic_name=topic)
        return self._list(request, descriptions.to_subscription, "subscriptions", kwargs)

    def list_subscriptions_runtime_properties(
        self, topic_name: str, **kwargs: Any
    ) -> ItemPaged[SubscriptionRuntimeProperties]:
        """Return an iterator over runtime properties of the subscriptions of `topic_name`.

        Its `by_page()` returns pages. Raises ResourceNotFoundError.
        """
        topic = requests.topic_name(topic_name)
        request = management_pb2.ListSubscriptionsRequest(topic_name=topic, include_runtime=True)
        return self._list(request, runtime.subscription_runtime, "subscriptions", kwargs)
