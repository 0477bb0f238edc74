"""Requests of administration clients, from the arguments of a call."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from bendybus.client import arguments
from bendybus.client.entities import descriptions
from bendybus.domain.entity_kind import EntityKind
from bendybus.v1 import management_pb2

PAGE_SIZE: Final = 100
CLIENT: Final = management_pb2.ENTITY_ORIGIN_CLIENT
# From an entity in a response to what the caller gets.
Convert = Callable[[Any], Any]


def create_queue(
    name: str, fields: Mapping[str, Any], options: Mapping[str, Any]
) -> management_pb2.CreateQueueRequest:
    """Return the request that creates a queue; `options`: the `fields` that are not parameters."""
    return management_pb2.CreateQueueRequest(
        name=arguments.text("queue_name", name),
        **_creation(fields, options, EntityKind.QUEUE),
    )


def create_topic(
    name: str, fields: Mapping[str, Any], options: Mapping[str, Any]
) -> management_pb2.CreateTopicRequest:
    """Return the request that creates a topic."""
    return management_pb2.CreateTopicRequest(
        name=arguments.text("topic_name", name),
        **_creation(fields, options, EntityKind.TOPIC),
    )


def create_subscription(
    topic: str, name: str, fields: Mapping[str, Any], options: Mapping[str, Any]
) -> management_pb2.CreateSubscriptionRequest:
    """Return the request that creates a subscription."""
    return management_pb2.CreateSubscriptionRequest(
        **_subscription(topic, name),
        **_creation(fields, options, EntityKind.SUBSCRIPTION),
    )


def update_queue(queue: Any, overrides: Mapping[str, Any]) -> management_pb2.UpdateQueueRequest:
    """Return the request that updates a queue to `queue`, with `overrides`."""
    name, description = descriptions.update_of(queue, overrides, EntityKind.QUEUE)
    return management_pb2.UpdateQueueRequest(name=name, description=description, origin=CLIENT)


def update_topic(topic: Any, overrides: Mapping[str, Any]) -> management_pb2.UpdateTopicRequest:
    """Return the request that updates a topic to `topic`, with `overrides`."""
    name, description = descriptions.update_of(topic, overrides, EntityKind.TOPIC)
    return management_pb2.UpdateTopicRequest(name=name, description=description, origin=CLIENT)


def update_subscription(
    topic: str, subscription: Any, overrides: Mapping[str, Any]
) -> management_pb2.UpdateSubscriptionRequest:
    """Return the request that updates a subscription to `subscription`, with `overrides`."""
    name, description = descriptions.update_of(subscription, overrides, EntityKind.SUBSCRIPTION)
    return management_pb2.UpdateSubscriptionRequest(
        **_subscription(topic, name), description=description, origin=CLIENT
    )


def delete_queue(name: str) -> management_pb2.DeleteQueueRequest:
    """Return the request that deletes a queue."""
    return management_pb2.DeleteQueueRequest(name=arguments.text("queue_name", name), origin=CLIENT)


def delete_topic(name: str) -> management_pb2.DeleteTopicRequest:
    """Return the request that deletes a topic and its subscriptions."""
    return management_pb2.DeleteTopicRequest(name=arguments.text("topic_name", name), origin=CLIENT)


def delete_subscription(topic: str, name: str) -> management_pb2.DeleteSubscriptionRequest:
    """Return the request that deletes a subscription."""
    return management_pb2.DeleteSubscriptionRequest(**_subscription(topic, name), origin=CLIENT)


def get_queue(name: str) -> management_pb2.GetQueueRequest:
    """Return the request for a queue with its counts."""
    return management_pb2.GetQueueRequest(
        name=arguments.text("queue_name", name), include_runtime=True
    )


def get_topic(name: str) -> management_pb2.GetTopicRequest:
    """Return the request for a topic with its counts."""
    return management_pb2.GetTopicRequest(
        name=arguments.text("topic_name", name), include_runtime=True
    )


def get_subscription(topic: str, name: str) -> management_pb2.GetSubscriptionRequest:
    """Return the request for a subscription with its counts."""
    return management_pb2.GetSubscriptionRequest(**_subscription(topic, name), include_runtime=True)


def rule_of(topic: str, subscription: str, **fields: Any) -> dict[str, Any]:
    """Return the fields of a request about a rule, or about the rules of a subscription."""
    return {
        "topic_name": topic_name(topic),
        "subscription_name": arguments.text("subscription_name", subscription),
        **fields,
    }


def list_page(made: type[Any], token: str, *, runtime: bool, **fields: Any) -> Any:
    """Return the request of this type for the page that `token` names, "" for the first one."""
    return made(include_runtime=runtime, page_size=PAGE_SIZE, page_token=token, **fields)


def topic_name(name: Any) -> str:
    """Return the name of the topic whose subscriptions are listed."""
    return arguments.text("topic_name", name)


def page_of(convert: Convert, items: Any, response: Any) -> tuple[list[Any], str]:
    """Return the items of a page, and the token of the next one or ""."""
    return [convert(each) for each in items], response.next_page_token


def path_of(request: Any) -> str | None:
    """Return the path of the entity that a request is about; None: it is about no single one."""
    topic = getattr(request, "topic_name", None)
    whole = getattr(request, "entity_path", None)
    name: str | None = getattr(request, "subscription_name", getattr(request, "name", whole))
    return f"{topic}/Subscriptions/{name}" if topic and name else topic or name


def _subscription(topic: str, name: str) -> dict[str, Any]:
    return {
        "topic_name": topic_name(topic),
        "name": arguments.text("subscription_name", name),
    }


def _creation(
    fields: Mapping[str, Any], options: Mapping[str, Any], kind: EntityKind
) -> dict[str, Any]:
    descriptions.check_names(options, kind)
    return {
        "description": descriptions.to_description(fields, kind),
        "origin": CLIENT,
        # Identifies a repeat after a lost response.
        "uid": str(uuid.uuid4()),
    }
