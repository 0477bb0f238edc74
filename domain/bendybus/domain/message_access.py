"""Which entities and sub-queues messages are sent to and received from, and which by session."""

from enum import Enum, auto

from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidOperation
from bendybus.domain.sub_queue import SubQueue


class Access(Enum):
    """What a call wants of an entity."""

    # Send, schedule, cancel: queues and topics.
    SEND = auto()
    # Receive, settle, delete: queues and subscriptions.
    RECEIVE = auto()
    # Look at: all; a topic shows what is scheduled.
    BROWSE = auto()


def check(entity: Entity, access: Access) -> None:
    """Raise InvalidOperation for an entity of a kind that does not have this."""
    kind = entity.description.kind
    if kind is EntityKind.QUEUE or access is Access.BROWSE:
        return
    if access is Access.SEND and kind is EntityKind.SUBSCRIPTION:
        topic = entity.name.rpartition("/Subscriptions/")[0]
        raise InvalidOperation(
            f"{entity.title}: messages cannot be sent to a subscription. Send to topic {topic!r}.",
            metadata={"entity": entity.name, "kind": kind},
        )
    if access is Access.RECEIVE and kind is EntityKind.TOPIC:
        raise InvalidOperation(
            f"{entity.title}: messages cannot be received from a topic. Receive from one of its "
            "subscriptions.",
            metadata={"entity": entity.name, "kind": kind},
        )


def check_sub_queue(entity: Entity) -> None:
    """Raise InvalidOperation for a sub-queue of an entity of a kind that has none."""
    if entity.description.kind is EntityKind.TOPIC:
        raise InvalidOperation(
            f"{entity.title}: a topic has no dead letters. Name one of its subscriptions: "
            f"{entity.name}/Subscriptions/NAME.",
            metadata={"entity": entity.name, "kind": EntityKind.TOPIC},
        )


def check_session(entity: Entity, sub_queue: SubQueue, *, by_session: bool) -> None:
    """Raise InvalidOperation for a receiver without a session where there are some, or the reverse.

    Sub-queues have none.
    """
    if by_session and sub_queue is not SubQueue.MAIN:
        raise InvalidOperation(
            f"{entity.title}: its sub-queues have no sessions. Receive from them without one.",
            metadata={"entity": entity.name},
        )
    requires = entity.description.requires_session and sub_queue is SubQueue.MAIN
    if requires and not by_session:
        raise InvalidOperation(
            "It is not possible for an entity that requires sessions to create a non-sessionful "
            f"message receiver. Accept a session of {entity.title}.",
            metadata={"entity": entity.name},
        )
    if by_session and not requires:
        raise InvalidOperation(
            "A sessionful message receiver cannot be created on an entity that does not require "
            f"sessions. Receive from {entity.title} without one, or create an entity with "
            "requiresSession.",
            metadata={"entity": entity.name},
        )


def missing_session(entity: Entity) -> InvalidOperation:
    """Return the error for a message without SessionId; the text is that of Service Bus."""
    return InvalidOperation(
        "The SessionId was not set on a message, and it cannot be sent to the entity. "
        "Entities that have session support enabled can only receive messages that have "
        "the SessionId set to a valid value.",
        metadata={"entity": entity.name},
    )
