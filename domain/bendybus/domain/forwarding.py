"""Forwarding: messages that go on by themselves, to another queue or topic.

    queue or subscription ──forwardTo──────────────────────────► queue or topic
          ├── dead letters ──forwardDeadLetteredMessagesTo─────► queue or topic
          └── transfer queue ──sent there in a transaction─────► queue or topic

A message that cannot be forwarded ends in the transfer dead-letter sub-queue of its entity.
"""

from typing import Final

from bendybus.domain import entity as entities
from bendybus.domain import entity_settings, limits
from bendybus.domain.entity import Entity
from bendybus.domain.entity_settings import Description
from bendybus.domain.errors import InvalidArgument, InvalidOperation
from bendybus.domain.sub_queue import SubQueue

HOPS_REASON: Final = "MaxTransferHopCountExceeded"
HOPS_DESCRIPTION: Final = (
    "The maximum number of allowed hops when forwarding between queues or topics has been "
    f"exceeded. This value is set to {limits.FORWARD_HOPS_MAX}."
)
FIELDS: Final = ("forward_to", "forward_dead_lettered_messages_to")


def destination_of(entity: Entity, sub_queue: SubQueue) -> str:
    """Return the name that the messages of a (sub-)queue are forwarded to, "" if they stay."""
    if sub_queue is SubQueue.MAIN:
        return entity.description.forward_to
    if sub_queue is SubQueue.DEAD_LETTER:
        return entity.description.forward_dead_lettered_messages_to
    return ""


def destinations(entity: Entity) -> list[str]:
    """Return the names that an entity forwards to, in lower case."""
    return destinations_of(entity.description)


def destinations_of(described: Description) -> list[str]:
    """Return the names that an entity so described forwards to, in lower case."""
    names = (getattr(described, field) for field in FIELDS)
    return [name.lower() for name in names if name]


def check_names(described: Description, current: Description | None = None) -> None:
    """Raise InvalidArgument for a destination that can be the name of no queue or topic.

    Those that `current` has already are kept.
    """
    for field in FIELDS:
        name = getattr(described, field)
        if name and (current is None or getattr(current, field) != name):
            check_destination_name(field, name)


def check_destination_name(field: str, name: str) -> None:
    """Raise InvalidArgument, with the field as users write it, unless a name can be one."""
    try:
        entities.check_name(name)
    except InvalidArgument as error:
        raise error.named(entity_settings.BY_NAME[field].manifest_name) from error


def check_receives(entity: Entity, sub_queue: SubQueue) -> None:
    """Raise InvalidOperation for a receive from what is forwarded."""
    destination = destination_of(entity, sub_queue)
    if destination:
        raise InvalidOperation(
            "Cannot create a message receiver on an entity with auto-forwarding enabled: "
            f"{entity.title} forwards to {destination!r}. Receive there.",
            metadata={"entity": entity.name, "destination": destination},
        )


def stays_in(destination: Entity, partition: int) -> bool:
    """Whether every message for a destination has this partition there, whatever its key."""
    return not destination.partitioned and destination.home_partition == partition


def stays(source: Entity, destination: Entity) -> bool:
    """Whether each message has the same partition at its destination as here, whatever its key."""
    if not source.partitioned:
        return not destination.partitioned and source.home_partition == destination.home_partition
    if source.partition_count != destination.partition_count:
        return False
    # A MessageId is a key only where duplicates are detected; without a key, a message stays.
    return (
        source.description.requires_duplicate_detection
        or not destination.description.requires_duplicate_detection
    )
