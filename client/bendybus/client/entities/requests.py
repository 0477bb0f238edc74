"""Requests of administration clients, from the arguments of a call."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from bendybus.client import arguments
from bendybus.client.entities import descriptions
from bendybus.domain.entity_kind import EntityKind
from bendybus.v1 import management_pb2

PAGE_SIZE: Final = 100
CLIENT: Final = management_pb2.ENTITY_ORIGIN_CLIENT
# From an entity in a response to what the caller gets.
Item = TypeVar("Item")
Convert = Callable[[Any], Item]


def create(
    kind: EntityKind, names: Sequence[object], fields: Mapping[str, Any], options: Mapping[str, Any]
) -> Any:
    """Return the request that creates an entity; `options`: the `fields` that are no parameters."""
    # Its UID identifies a repeat after a lost response.
    request = of("Create", kind, names, origin=CLIENT, uid=str(uuid.uuid4()))
    descriptions.check_names(options, kind)
    request.description.CopyFrom(descriptions.to_description(fields, kind))
    return request


def update(
    kind: EntityKind, topics: Sequence[object], properties: object, overrides: Mapping[str, Any]
) -> Any:
    """Return the request that updates an entity to `properties`, with `overrides`.

    `topics`: the name of its topic, if it has one.
    """
    name, description = descriptions.update_of(properties, overrides, kind)
    return of("Update", kind, (*topics, name), description=description, origin=CLIENT)


def of(verb: str, kind: EntityKind, names: Sequence[object], **fields: Any) -> Any:
    """Return the request of a call on one entity; `names`: its own, after that of its topic."""
    *topics, own = names
    within = {"topic_name": topic_name(topics[0])} if topics else {}
    name = arguments.text(f"{kind}_name", own)
    made = getattr(management_pb2, f"{verb}{kind.capitalize()}Request")
    return made(**within, name=name, **fields)


def rule_of(topic: str, subscription: str, **fields: Any) -> dict[str, Any]:
    """Return the fields of a request about a rule, or about the rules of a subscription."""
    return {
        "topic_name": topic_name(topic),
        "subscription_name": arguments.text("subscription_name", subscription),
        **fields,
    }


def topic_name(name: object) -> str:
    """Return the name of the topic whose subscriptions are listed."""
    return arguments.text("topic_name", name)


def path_of(request: Message) -> str | None:
    """Return the path of the entity that a request is about; None: it is about no single one."""
    topic = getattr(request, "topic_name", None)
    whole = getattr(request, "entity_path", None)
    name: str | None = getattr(request, "subscription_name", getattr(request, "name", whole))
    return f"{topic}/Subscriptions/{name}" if topic and name else topic or name
