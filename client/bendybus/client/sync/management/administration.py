# Generated from aio/management/administration.py by `make sync`: edit that file.
"""The administration client of the synchronous surface."""

from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any

from bendybus.client.entities import descriptions, requests, runtime
from bendybus.client.entities.models import (
    ApiVersion,
    AuthorizationRule,
    NamespaceProperties,
    QueueProperties,
)
from bendybus.client.entities.runtime import QueueRuntimeProperties
from bendybus.client.sync.management.paging import ItemPaged
from bendybus.client.sync.management.rules import RuleOperations
from bendybus.client.sync.management.sessions import SessionOperations
from bendybus.client.sync.management.subscriptions import SubscriptionOperations
from bendybus.client.sync.management.topics import TopicOperations
from bendybus.domain.entity_kind import EntityKind
from bendybus.v1 import management_pb2

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
        `enable_batched_operations`, `enable_express` and `authorization_rules` have no effect: the
        rules of a bus are in its manifest.
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
