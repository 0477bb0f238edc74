"""What the status of an entity allows."""

from bendybus.domain import errors, forwarding, lifecycle
from bendybus.domain.entity import Entity
from bendybus.domain.sub_queue import SubQueue


def check_sends(entity: Entity) -> None:
    """Raise what refuses sends to an entity that is orphaned or disabled."""
    if entity.orphaned:
        raise lifecycle.refuse_sends(entity.name, entity.kind)
    if not entity.description.status.sends:
        raise errors.EntityDisabled(
            f"{entity.title} is {entity.description.status}: sending is disabled. Set its "
            "status to Active.",
            metadata={"entity": entity.name, "status": entity.description.status},
        )


def check_receives(entity: Entity, sub_queue: SubQueue) -> None:
    """Raise what refuses receives from an entity that is disabled, or forwards its messages."""
    forwarding.check_receives(entity, sub_queue)
    status = entity.description.status
    if not status.receives:
        raise errors.EntityDisabled(
            f"{entity.title} is {status}: receiving is disabled. Set its status to Active.",
            metadata={"entity": entity.name, "status": status},
        )
