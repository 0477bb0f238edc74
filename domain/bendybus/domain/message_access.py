"""Which entities messages are sent to and received from."""

from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidOperation


def check(entity: Entity) -> None:
    """Raise InvalidOperation for an entity that takes and gives no messages."""
    if entity.description.kind is EntityKind.QUEUE:
        return
    why = (
        "messages cannot be sent to topics yet, and a topic is received from through its "
        "subscriptions"
        if entity.kind is EntityKind.TOPIC
        else "messages cannot be received from subscriptions yet, and are sent to their topic"
    )
    raise InvalidOperation(
        f"{entity.title}: {why}. Use a queue.",
        metadata={"entity": entity.name, "kind": entity.kind},
    )
