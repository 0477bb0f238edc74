"""Which entities messages are sent to and received from."""

from enum import Enum, auto

from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidOperation


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
