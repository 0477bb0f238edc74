"""Which entities can be received from."""

from bendybus.domain import errors, message_access
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity


def find(directory: Directory, name: str) -> Entity:
    """Return an entity that gives messages. Raises EntityNotFound, EntityDisabled."""
    entity = directory.find(name)
    message_access.check(entity, message_access.Access.RECEIVE)
    if not entity.description.status.receives:
        raise errors.EntityDisabled(
            f"{entity.title} is {entity.description.status}: receiving is disabled. Set its "
            "status to Active.",
            metadata={"entity": entity.name},
        )
    return entity
