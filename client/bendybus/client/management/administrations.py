"""What the administration clients of both surfaces share: requests, and how to page."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from bendybus.client import arguments, tracing
from bendybus.client.core import client_base, entity_handle
from bendybus.client.core.connection import Link
from bendybus.client.management import descriptions
from bendybus.client.management.models import ApiVersion
from bendybus.client.tracing import Nothing, Operation
from bendybus.v1 import management_pb2

PAGE_SIZE: Final = 100
# What spans call the operations.
_NAMES: Final = {
    management_pb2.CreateQueueRequest: "create_queue",
    management_pb2.UpdateQueueRequest: "update_queue",
    management_pb2.DeleteQueueRequest: "delete_queue",
    management_pb2.GetQueueRequest: "get_queue",
    management_pb2.ListQueuesRequest: "list_queues",
    management_pb2.GetNamespaceRequest: "get_namespace_properties",
}


class AdministrationHandle:
    """An administration client without its way of waiting."""

    # Whether there is a loop of the application's, on which credentials are asked.
    _of_loop = False

    def __init__(
        self,
        fully_qualified_namespace: str,
        credential: Any,
        *,
        api_version: str | ApiVersion = ApiVersion.V2024_05,
        **kwargs: Any,
    ) -> None:
        """Connect to a bus when it is first needed.

        `fully_qualified_namespace`, `credential` and all others: as a ServiceBusClient takes them.
        `api_version` has no effect.
        """
        self.fully_qualified_namespace = fully_qualified_namespace
        self._credential = credential
        kwargs.pop("entity_name", None)
        self._link = Link(entity_handle.settings_of(fully_qualified_namespace, credential, kwargs))
        self._link.of_loop = self._of_loop

    def _managing(self, request: Any) -> Operation | Nothing:
        """Return what makes the span of a call, where there are spans."""
        settings = self._link.settings
        found = tracing.of(settings.tracing, settings.target)
        if found is None:
            return tracing.NOTHING
        return found.managing(getattr(request, "name", None), _NAMES[type(request)])

    @classmethod
    def _from_connection_string(cls, conn_str: str, options: Mapping[str, Any]) -> Any:
        return cls(**client_base.arguments_of(conn_str, dict(options)))


def create_request(
    name: str, fields: Mapping[str, Any], options: Mapping[str, Any]
) -> management_pb2.CreateQueueRequest:
    """Return the request that makes a queue; `options`: those `fields` that are no parameters."""
    descriptions.check_names(options)
    return management_pb2.CreateQueueRequest(
        name=arguments.text("queue_name", name),
        description=descriptions.to_description(fields),
        origin=management_pb2.ENTITY_ORIGIN_CLIENT,
        # A repeat whose answer was lost is known by it.
        uid=str(uuid.uuid4()),
    )


def delete_request(name: str) -> management_pb2.DeleteQueueRequest:
    """Return the request that deletes a queue."""
    return management_pb2.DeleteQueueRequest(
        name=arguments.text("queue_name", name), origin=management_pb2.ENTITY_ORIGIN_CLIENT
    )


def get_request(name: str) -> management_pb2.GetQueueRequest:
    """Return the request for a queue with its counts."""
    return management_pb2.GetQueueRequest(
        name=arguments.text("queue_name", name), include_runtime=True
    )


def list_request(token: str, *, runtime: bool) -> management_pb2.ListQueuesRequest:
    """Return the request for a page."""
    return management_pb2.ListQueuesRequest(
        include_runtime=runtime, page_size=PAGE_SIZE, page_token=token
    )


Show = Callable[[management_pb2.Queue], Any]
