"""What the status of an entity allows."""

from bendybus.domain import errors, lifecycle
from bendybus.domain.entity import Entity


def check_sends(entity: Entity) -> None:
    """Raise what refuses sends to an entity that is orphaned or disabled."""
    if entity.orphaned:
        raise lifecycle.refuse_sends(entity.name)
    if not entity.queue.status.sends:
        raise errors.EntityDisabled(
            f"queue {entity.name!r} is {entity.queue.status}: it takes no messages. Set its "
            "status to Active.",
            metadata={"entity": entity.name, "status": entity.queue.status},
        )


def check_receives(entity: Entity) -> None:
    """Raise what refuses receives from an entity that is disabled."""
    status = entity.queue.status
    if not status.receives:
        raise errors.EntityDisabled(
            f"queue {entity.name!r} is {status}: receiving is disabled. Set its status to Active.",
            metadata={"entity": entity.name, "status": status},
        )
