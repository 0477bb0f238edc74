# Generated from aio/management/topics.py by `make sync`: edit that file.
"""Synchronous administration of topics."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from bendybus.client.entities import descriptions, requests, runtime
from bendybus.client.entities.models import AuthorizationRule, TopicProperties
from bendybus.client.entities.requests import Convert
from bendybus.client.entities.runtime import TopicRuntimeProperties
from bendybus.client.sync.management.management_calls import ManagementCalls
from bendybus.client.sync.management.paging import ItemPaged
from bendybus.v1 import management_pb2


class TopicOperations(ManagementCalls):
    """Creates, updates, lists and deletes topics."""

    def create_topic(
        self,
        topic_name: str,
        *,
        default_message_time_to_live: timedelta | str | None = None,
        max_size_in_megabytes: int | None = None,
        requires_duplicate_detection: bool | None = None,
        duplicate_detection_history_time_window: timedelta | str | None = None,
        enable_batched_operations: bool | None = None,
        size_in_bytes: int | None = None,
        filtering_messages_before_publishing: bool | None = None,
        authorization_rules: list[AuthorizationRule] | None = None,
        support_ordering: bool | None = None,
        auto_delete_on_idle: timedelta | str | None = None,
        enable_partitioning: bool | None = None,
        enable_express: bool | None = None,
        user_metadata: str | None = None,
        max_message_size_in_kilobytes: int | None = None,
        **kwargs: Any,
    ) -> TopicProperties:
        """Create a topic; options that are None get their defaults. Raises ResourceExistsError.

        `topic_name`: its name. Immutable: `enable_partitioning` (spread over all partitions, with
        its subscriptions), `requires_duplicate_detection`.
        `default_message_time_to_live`, `duplicate_detection_history_time_window`,
        `auto_delete_on_idle`, `max_size_in_megabytes`, `max_message_size_in_kilobytes` and
        `user_metadata` are as in Service Bus; durations are timedelta or ISO-8601 text.
        `filtering_messages_before_publishing`, `enable_express` and `authorization_rules` are not
        supported; `enable_batched_operations`, `size_in_bytes` and `support_ordering` have no
        effect.
        """
        request = requests.create_topic(topic_name, {**locals(), **kwargs}, kwargs)
        response = self._call(lambda stubs: stubs.management.CreateTopic, request, kwargs)
        return descriptions.to_topic(response.topic)

    def get_topic(self, topic_name: str, **kwargs: Any) -> TopicProperties:
        """Return the topic `topic_name`. Raises ResourceNotFoundError."""
        return descriptions.to_topic(self._get_topic(topic_name, kwargs))

    def get_topic_runtime_properties(
        self, topic_name: str, **kwargs: Any
    ) -> TopicRuntimeProperties:
        """Return runtime properties of the topic `topic_name`. Raises ResourceNotFoundError."""
        return runtime.topic_runtime(self._get_topic(topic_name, kwargs))

    def update_topic(self, topic: TopicProperties | Mapping[str, Any], **kwargs: Any) -> None:
        """Update a topic to the properties of `topic`. Raises ResourceNotFoundError."""
        request = requests.update_topic(topic, kwargs)
        self._call(lambda stubs: stubs.management.UpdateTopic, request, kwargs)

    def delete_topic(self, topic_name: str, **kwargs: Any) -> None:
        """Delete the topic `topic_name` and its subscriptions, with all their messages.

        Raises ResourceNotFoundError.
        """
        request = requests.delete_topic(topic_name)
        self._call(lambda stubs: stubs.management.DeleteTopic, request, kwargs)

    def list_topics(self, **kwargs: Any) -> ItemPaged[TopicProperties]:
        """Return an iterator over all topics; its `by_page()` returns pages."""
        return self._list_topics(descriptions.to_topic, kwargs, with_runtime=False)

    def list_topics_runtime_properties(self, **kwargs: Any) -> ItemPaged[TopicRuntimeProperties]:
        """Return an iterator over runtime properties of all topics; `by_page()` returns pages."""
        return self._list_topics(runtime.topic_runtime, kwargs, with_runtime=True)

    def _get_topic(self, topic_name: str, options: Mapping[str, Any]) -> management_pb2.Topic:
        request = requests.get_topic(topic_name)
        response = self._call(lambda stubs: stubs.management.GetTopic, request, options)
        topic: management_pb2.Topic = response.topic
        return topic

    def _list_topics(
        self, convert: Convert, options: Mapping[str, Any], *, with_runtime: bool
    ) -> ItemPaged[Any]:
        def fetch(token: str) -> tuple[list[Any], str]:
            made = management_pb2.ListTopicsRequest
            request = requests.list_page(made, token, runtime=with_runtime)
            response = self._call(lambda stubs: stubs.management.ListTopics, request, options)
            return requests.page_of(convert, response.topics, response)

        return ItemPaged(fetch)
