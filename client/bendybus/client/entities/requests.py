"""Requests of administration clients, from the arguments of a call."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from bendybus.client import arguments
from bendybus.client.entities import descriptions
from bendybus.v1 import management_pb2

PAGE_SIZE: Final = 100
# From a queue in a response to what the caller gets.
Convert = Callable[[management_pb2.Queue], Any]


def create_request(
    name: str, fields: Mapping[str, Any], options: Mapping[str, Any]
) -> management_pb2.CreateQueueRequest:
    """Return the request that creates a queue; `options`: the `fields` that are not parameters."""
    descriptions.check_names(options)
    return management_pb2.CreateQueueRequest(
        name=arguments.text("queue_name", name),
        description=descriptions.to_description(fields),
        origin=management_pb2.ENTITY_ORIGIN_CLIENT,
        # Identifies a repeat after a lost response.
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
    """Return the request for the page that `token` names, "" for the first one."""
    return management_pb2.ListQueuesRequest(
        include_runtime=runtime, page_size=PAGE_SIZE, page_token=token
    )


def page_of(convert: Convert, response: Any) -> tuple[list[Any], str]:
    """Return the items of a page, and the token of the next one or ""."""
    return [convert(queue) for queue in response.queues], response.next_page_token
