# Generated from aio/management/subscriptions.py by `make sync`: edit that file.
"""Synchronous administration of subscriptions."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from bendybus.client.entities import descriptions, requests, runtime
from bendybus.client.entities.models import SubscriptionProperties
from bendybus.client.entities.requests import Convert
from bendybus.client.entities.runtime import SubscriptionRuntimeProperties
from bendybus.client.sync.management.management_calls import ManagementCalls
from bendybus.client.sync.management.paging import ItemPaged
from bendybus.v1 import management_pb2


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
        request = requests.create_subscription(topic_name, subscription_name, fields, kwargs)
        response = self._call(lambda stubs: stubs.management.CreateSubscription, request, kwargs)
        return descriptions.to_subscription(response.subscription)

    def get_subscription(
        self, topic_name: str, subscription_name: str, **kwargs: Any
    ) -> SubscriptionProperties:
        """Return `subscription_name` of the topic `topic_name`. Raises ResourceNotFoundError."""
        found = self._get_subscription(topic_name, subscription_name, kwargs)
        return descriptions.to_subscription(found)

    def get_subscription_runtime_properties(
        self, topic_name: str, subscription_name: str, **kwargs: Any
    ) -> SubscriptionRuntimeProperties:
        """Return runtime properties of `subscription_name` of the topic `topic_name`.

        Raises ResourceNotFoundError.
        """
        found = self._get_subscription(topic_name, subscription_name, kwargs)
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
        request = requests.update_subscription(topic_name, subscription, kwargs)
        self._call(lambda stubs: stubs.management.UpdateSubscription, request, kwargs)

    def delete_subscription(self, topic_name: str, subscription_name: str, **kwargs: Any) -> None:
        """Delete `subscription_name` of the topic `topic_name`, and its messages.

        Raises ResourceNotFoundError.
        """
        request = requests.delete_subscription(topic_name, subscription_name)
        self._call(lambda stubs: stubs.management.DeleteSubscription, request, kwargs)

    def list_subscriptions(
        self, topic_name: str, **kwargs: Any
    ) -> ItemPaged[SubscriptionProperties]:
        """Return an iterator over the subscriptions of the topic `topic_name`.

        Its `by_page()` returns pages. Raises ResourceNotFoundError.
        """
        convert = descriptions.to_subscription
        return self._list_subscriptions(topic_name, convert, kwargs, with_runtime=False)

    def list_subscriptions_runtime_properties(
        self, topic_name: str, **kwargs: Any
    ) -> ItemPaged[SubscriptionRuntimeProperties]:
        """Return an iterator over runtime properties of the subscriptions of `topic_name`.

        Its `by_page()` returns pages. Raises ResourceNotFoundError.
        """
        convert = runtime.subscription_runtime
        return self._list_subscriptions(topic_name, convert, kwargs, with_runtime=True)

    def _get_subscription(
        self, topic_name: str, subscription_name: str, options: Mapping[str, Any]
    ) -> management_pb2.Subscription:
        request = requests.get_subscription(topic_name, subscription_name)
        response = self._call(lambda stubs: stubs.management.GetSubscription, request, options)
        subscription: management_pb2.Subscription = response.subscription
        return subscription

    def _list_subscriptions(
        self,
        topic_name: str,
        convert: Convert,
        options: Mapping[str, Any],
        *,
        with_runtime: bool,
    ) -> ItemPaged[Any]:
        name = requests.topic_name(topic_name)

        def fetch(token: str) -> tuple[list[Any], str]:
            made = management_pb2.ListSubscriptionsRequest
            request = requests.list_page(made, token, runtime=with_runtime, topic_name=name)
            response = self._call(
                lambda stubs: stubs.management.ListSubscriptions, request, options
            )
            return requests.page_of(convert, response.subscriptions, response)

        return ItemPaged(fetch)
