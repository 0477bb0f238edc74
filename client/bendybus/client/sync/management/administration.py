# Generated from aio/management/administration.py by `make sync`: edit that file.
"""The administration client of the synchronous surface."""

from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any

from bendybus.client import arguments
from bendybus.client.core import administration
from bendybus.client.entities import descriptions, requests, runtime
from bendybus.client.entities.models import (
    ApiVersion,
    AuthorizationRule,
    CorrelationRuleFilter,
    NamespaceProperties,
    QueueProperties,
    RuleProperties,
    SqlRuleAction,
    SqlRuleFilter,
    SubscriptionProperties,
    TopicProperties,
    TrueRuleFilter,
)
from bendybus.client.entities.runtime import (
    QueueRuntimeProperties,
    SessionRuntimeProperties,
    SubscriptionRuntimeProperties,
    TopicRuntimeProperties,
)
from bendybus.client.sync.management.management_calls import ItemPaged, ManagementCalls
from bendybus.domain import subscription_name as subscription_name_rules
from bendybus.domain.entity_kind import EntityKind
from bendybus.v1 import management_pb2


class SessionOperations(ManagementCalls):
    """Lists sessions with their counts."""

    def list_queue_sessions_runtime_properties(
        self, queue_name: str, **kwargs: Any
    ) -> ItemPaged[SessionRuntimeProperties]:
        """Return an iterator over runtime properties of the sessions of the queue `queue_name`.

        Those with messages in any state, a state, or a receiver; by partition and name. Its
        `by_page()` returns pages, of which some may be empty. Needs the right to listen. Raises
        ResourceNotFoundError, HttpResponseError if the queue has no sessions.
        """
        return self._list_sessions(arguments.text("queue_name", queue_name), kwargs)

    def list_subscription_sessions_runtime_properties(
        self, topic_name: str, subscription_name: str, **kwargs: Any
    ) -> ItemPaged[SessionRuntimeProperties]:
        """Return an iterator over runtime properties of the sessions of a subscription.

        `topic_name`, `subscription_name`: the subscription. Otherwise as for queues.
        """
        path = subscription_name_rules.compose(
            requests.topic_name(topic_name),
            arguments.text("subscription_name", subscription_name),
        )
        return self._list_sessions(path, kwargs)

    def _list_sessions(
        self, path: str, options: dict[str, Any]
    ) -> ItemPaged[SessionRuntimeProperties]:
        def fetch(token: str) -> tuple[list[SessionRuntimeProperties], str]:
            request = runtime.list_request(path, token)
            response = self._call(lambda stubs: stubs.receiver.ListSessionCounts, request, options)
            return runtime.page(response)

        return ItemPaged(fetch)


_EVERYTHING = TrueRuleFilter()


class RuleOperations(ManagementCalls):
    """Creates, updates, lists and deletes rules."""

    def create_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule_name: str,
        *,
        filter: CorrelationRuleFilter | SqlRuleFilter = _EVERYTHING,
        action: SqlRuleAction | None = None,
        **kwargs: Any,
    ) -> RuleProperties:
        """Create a rule; return it as it is on every partition.

        `topic_name`, `subscription_name`: the subscription. `rule_name`: its name within the
        subscription. `filter`: which messages it takes; TrueRuleFilter, FalseRuleFilter,
        CorrelationRuleFilter or SqlRuleFilter. `action`: how its copy of a message differs.
        A subscription has the rule `$Default`, which takes every message, until it is deleted.
        Raises ResourceExistsError, ResourceNotFoundError without the subscription, and
        HttpResponseError with line and column of what does not parse.
        """
        rule = administration.to_rule(rule_name, filter, action)
        fields = requests.rule_of(topic_name, subscription_name, rule=rule, origin=requests.CLIENT)
        request = management_pb2.CreateRuleRequest(**fields)
        response = self._ask(request, kwargs)
        return administration.to_properties(response.rule)

    def get_rule(
        self, topic_name: str, subscription_name: str, rule_name: str, **kwargs: Any
    ) -> RuleProperties:
        """Return the rule `rule_name` of a subscription. Raises ResourceNotFoundError.

        `topic_name`, `subscription_name`: the subscription.
        """
        name = arguments.text("rule_name", rule_name)
        fields = requests.rule_of(topic_name, subscription_name, name=name)
        request = management_pb2.GetRuleRequest(**fields)
        response = self._ask(request, kwargs)
        return administration.to_properties(response.rule)

    def update_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule: RuleProperties | Mapping[str, Any],
        **kwargs: Any,
    ) -> None:
        """Replace filter and action of the rule that has the name of `rule`.

        `topic_name`, `subscription_name`: the subscription. Raises as `create_rule`, and
        ResourceNotFoundError without the rule.
        """
        overrides: dict[str, Any] = {
            name: kwargs.pop(name) for name in ("filter", "action") if name in kwargs
        }
        request = administration.update_of(topic_name, subscription_name, rule, overrides)
        self._ask(request, kwargs)

    def delete_rule(
        self, topic_name: str, subscription_name: str, rule_name: str, **kwargs: Any
    ) -> None:
        """Delete the rule `rule_name` of a subscription. Raises ResourceNotFoundError.

        `topic_name`, `subscription_name`: the subscription. One without rules gets no messages.
        """
        name = arguments.text("rule_name", rule_name)
        fields = requests.rule_of(topic_name, subscription_name, name=name, origin=requests.CLIENT)
        request = management_pb2.DeleteRuleRequest(**fields)
        self._ask(request, kwargs)

    def list_rules(
        self, topic_name: str, subscription_name: str, **kwargs: Any
    ) -> ItemPaged[RuleProperties]:
        """Return an iterator over the rules of a subscription; its `by_page()` returns pages.

        `topic_name`, `subscription_name`: the subscription. Raises ResourceNotFoundError.
        """
        given = requests.rule_of(topic_name, subscription_name)
        request = management_pb2.ListRulesRequest(**given)
        return self._list(request, administration.to_properties, "rules", kwargs)


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
        `enable_batched_operations` is kept and shown.
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
        `authorization_rules` are policies on the topic; the bus makes the keys that they lack.
        `filtering_messages_before_publishing` is not supported; `enable_batched_operations`,
        `enable_express` and `support_ordering` are kept and shown, and `size_in_bytes` has no
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


QUEUE = EntityKind.QUEUE


class ServiceBusAdministrationClient(
    TopicOperations, SubscriptionOperations, RuleOperations, SessionOperations
):
    """Creates, updates, lists and deletes entities."""

    def __enter__(self) -> "ServiceBusAdministrationClient":
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @classmethod
    def from_connection_string(
        cls, conn_str: str, *, api_version: str | ApiVersion = ApiVersion.V2024_05, **kwargs: Any
    ) -> "ServiceBusAdministrationClient":
        """Return a client for a connection string.

        `conn_str`: `Endpoint=sb://HOST:PORT;SharedAccessKeyName=…;SharedAccessKey=…`.
        `api_version` has no effect. Other arguments: as for the constructor.
        """
        made: ServiceBusAdministrationClient = cls._from_connection_string(conn_str, kwargs)
        return made

    def create_queue(
        self,
        queue_name: str,
        *,
        authorization_rules: list[AuthorizationRule] | None = None,
        auto_delete_on_idle: timedelta | str | None = None,
        dead_lettering_on_message_expiration: bool | None = None,
        default_message_time_to_live: timedelta | str | None = None,
        duplicate_detection_history_time_window: timedelta | str | None = None,
        enable_batched_operations: bool | None = None,
        enable_express: bool | None = None,
        enable_partitioning: bool | None = None,
        lock_duration: timedelta | str | None = None,
        max_delivery_count: int | None = None,
        max_size_in_megabytes: int | None = None,
        requires_duplicate_detection: bool | None = None,
        requires_session: bool | None = None,
        forward_to: str | None = None,
        user_metadata: str | None = None,
        forward_dead_lettered_messages_to: str | None = None,
        max_message_size_in_kilobytes: int | None = None,
        **kwargs: Any,
    ) -> QueueProperties:
        """Create a queue; options that are None get their defaults. Raises ResourceExistsError.

        `queue_name`: its name. Immutable: `enable_partitioning` (spread over all partitions),
        `requires_duplicate_detection`, `requires_session`.
        `lock_duration`, `max_delivery_count`, `default_message_time_to_live`,
        `dead_lettering_on_message_expiration`, `duplicate_detection_history_time_window`,
        `auto_delete_on_idle`, `max_size_in_megabytes`, `max_message_size_in_kilobytes` and
        `user_metadata` are as in Service Bus; durations are timedelta or ISO-8601 text.
        `forward_to` and `forward_dead_lettered_messages_to` name a queue or topic that messages, or
        dead letters, are handed on to;
        `authorization_rules` are policies on the queue; the bus makes the keys that they lack.
        `enable_batched_operations` and `enable_express` are kept and shown.
        """
        fields = {**locals(), **kwargs}
        request = requests.create(QUEUE, [queue_name], fields, kwargs)
        response = self._ask(request, kwargs)
        return descriptions.to_properties(response.queue)

    def get_queue(self, queue_name: str, **kwargs: Any) -> QueueProperties:
        """Return the queue `queue_name`. Raises ResourceNotFoundError."""
        return descriptions.to_properties(self._get(QUEUE, kwargs, queue_name))

    def get_queue_runtime_properties(
        self, queue_name: str, **kwargs: Any
    ) -> QueueRuntimeProperties:
        """Return runtime properties of the queue `queue_name`. Raises ResourceNotFoundError."""
        return runtime.queue_runtime(self._get(QUEUE, kwargs, queue_name))

    def update_queue(self, queue: QueueProperties | Mapping[str, Any], **kwargs: Any) -> None:
        """Update a queue to the properties of `queue`. Raises ResourceNotFoundError."""
        request = requests.update(QUEUE, [], queue, kwargs)
        self._ask(request, kwargs)

    def delete_queue(self, queue_name: str, **kwargs: Any) -> None:
        """Delete the queue `queue_name` and its messages. Raises ResourceNotFoundError."""
        request = requests.of("Delete", QUEUE, [queue_name], origin=requests.CLIENT)
        self._ask(request, kwargs)

    def list_queues(self, **kwargs: Any) -> ItemPaged[QueueProperties]:
        """Return an iterator over all queues; its `by_page()` returns pages."""
        request = management_pb2.ListQueuesRequest()
        return self._list(request, descriptions.to_properties, "queues", kwargs)

    def list_queues_runtime_properties(self, **kwargs: Any) -> ItemPaged[QueueRuntimeProperties]:
        """Return an iterator over runtime properties of all queues; `by_page()` returns pages."""
        request = management_pb2.ListQueuesRequest(include_runtime=True)
        return self._list(request, runtime.queue_runtime, "queues", kwargs)

    def get_namespace_properties(self, **kwargs: Any) -> NamespaceProperties:
        """Return the namespace."""
        request = management_pb2.GetNamespaceRequest()
        return descriptions.to_namespace(self._ask(request, kwargs))
