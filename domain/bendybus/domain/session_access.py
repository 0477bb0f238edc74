"""Which (sub-)queues are received from by session."""

from bendybus.domain.entity import Entity
from bendybus.domain.errors import InvalidOperation
from bendybus.domain.sub_queue import SubQueue


def check(entity: Entity, sub_queue: SubQueue, *, by_session: bool) -> None:
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


def missing(entity: Entity) -> InvalidOperation:
    """Return the error for a message without SessionId; the text is that of Service Bus."""
    return InvalidOperation(
        "The SessionId was not set on a message, and it cannot be sent to the entity. "
        "Entities that have session support enabled can only receive messages that have "
        "the SessionId set to a valid value.",
        metadata={"entity": entity.name},
    )
