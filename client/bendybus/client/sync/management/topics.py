# Generated from aio/management/topics.py by `make sync`: edit that file.
"""Synchronous administration of topics."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from bendybus.client.entities import descriptions, requests, runtime
from bendybus.client.entities.models import AuthorizationRule, TopicProperties
from bendybus.client.entities.runtime import TopicRuntimeProperties
from bendybus.client.sync.management.management_calls import ManagementCalls
from bendybus.client.sync.management.paging import ItemPaged
from bendybus.domain.entity_kind import EntityKind
from bendybus.v1 import management_pb2

TOPIC = EntityKind.TOPIC


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
        request = requests.create(TOPIC, [topic_name], {**locals(), **kwargs}, kwargs)
        response = self._ask(request, kwargs)
        return descriptions.to_topic(response.topic)

    def get_topic(self, topic_name: str, **kwargs: Any) -> TopicProperties:
        """Return the topic `topic_name`. Raises ResourceNotFoundError."""
        return descriptions.to_topic(self._get(TOPIC, kwargs, topic_name))

    def get_topic_runtime_properties(
        self, topic_name: str, **kwargs: Any
    ) -> TopicRuntimeProperties:
        """Return runtime properties of the topic `topic_name`. Raises ResourceNotFoundError."""
        return runtime.topic_runtime(self._get(TOPIC, kwargs, topic_name))

    def update_topic(self, topic: TopicProperties | Mapping[str, Any], **kwargs: Any) -> None:
        """Update a topic to the properties of `topic`. Raises ResourceNotFoundError."""
        request = requests.update(TOPIC, [], topic, kwargs)
        self._ask(request, kwargs)

    def delete_topic(self, topic_name: str, **kwargs: Any) -> None:
        """Delete the topic `topic_name` and its subscriptions, with all their messages.

        Raises ResourceNotFoundError.
        """
        request = requests.of("Delete", TOPIC, [topic_name], origin=requests.CLIENT)
        self._ask(request, kwargs)

    def list_topics(self, **kwargs: Any) -> ItemPaged[TopicProperties]:
        """Return an iterator over all topics; its `by_page()` returns pages."""
        request = management_pb2.ListTopicsRequest()
        return self._list(request, descriptions.to_topic, "topics", kwargs)

    def list_topics_runtime_properties(self, **kwargs: Any) -> ItemPaged[TopicRuntimeProperties]:
        """Return an iterator over runtime properties of all topics; `by_page()` returns pages."""
        request = management_pb2.ListTopicsRequest(include_runtime=True)
        return self._list(request, runtime.topic_runtime, "topics", kwargs)
