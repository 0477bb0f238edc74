"""What the registrar checks of forwarding before it changes an entry: destinations, and cycles.

Called by `Catalogue.decide` only, which decides on one change after the other: two updates that
would make a cycle together cannot both pass.
"""

from typing import Protocol

from bendybus.domain import entity as entities
from bendybus.domain import errors, forwarding
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import BY_NAME
from bendybus.domain.errors import BusError


class Entries(Protocol):
    """What is read of the catalogue."""

    def by_key(self, key: str) -> Entity | None:
        """Return the entry of a name in lower case, also a tombstone."""

    def subscriptions(self, topic: Entity) -> list[Entity]:
        """Return the subscriptions of a topic; none of another entity."""


def check(catalogue: Entries, wanted: Entity, current: Entity | None) -> None:
    """Raise what refuses the destinations of an entry. Those that it has already are kept."""
    for field in forwarding.FIELDS:
        name = getattr(wanted.description, field)
        if not name or (current is not None and name == getattr(current.description, field)):
            continue
        destination = _destination(catalogue, wanted, field, name)
        if field == "forward_to":
            _check_cycle(catalogue, wanted, destination)


def _destination(catalogue: Entries, wanted: Entity, field: str, name: str) -> Entity:
    """Return the entity that is forwarded to. Raises what refuses it."""
    entities.check_name(name)
    if name.lower() == wanted.key:
        raise _refusal(wanted, field, f"{wanted.title} cannot forward to itself. Choose another")
    found = catalogue.by_key(name.lower())
    if found is None or found.deleted:
        raise _refusal(
            wanted,
            field,
            f"the destination {name!r} of {wanted.title} does not exist. Create it first: bendybus "
            f"create queue {name}, or create topic {name}",
            errors.EntityNotFound,
        )
    if found.kind is EntityKind.SUBSCRIPTION:
        raise _refusal(
            wanted, field, f"{found.title} is no queue or topic. Forward to its topic or a queue"
        )
    return found


def _check_cycle(catalogue: Entries, wanted: Entity, destination: Entity) -> None:
    """Raise InvalidOperation if what is forwarded to `destination` could come back.

    A topic hands on to its subscriptions, and these forward.
    """
    # Subscription or not, what comes to its topic comes to it.
    own = {wanted.key, wanted.topic_key or wanted.key}
    # Each with the entity that leads to it.
    came_from: dict[str, str] = {destination.key: ""}
    ahead = [destination.key]
    while ahead:
        key = ahead.pop()
        if key in own:
            path = " to ".join(_path(came_from, key))
            raise _refusal(
                wanted,
                "forward_to",
                f"{wanted.title} would get its own messages back: from {path}. Break the cycle",
            )
        for name in _next(catalogue, key):
            if name not in came_from:
                came_from[name] = key
                ahead.append(name)


def _next(catalogue: Entries, key: str) -> list[str]:
    """Return where messages of an entity go on to by `forwardTo`, if there is one of this name."""
    entity = catalogue.by_key(key)
    if entity is None or entity.deleted:
        return []
    family = [entity, *catalogue.subscriptions(entity)]
    return [name.lower() for each in family if (name := each.description.forward_to)]


def _path(came_from: dict[str, str], key: str) -> list[str]:
    names: list[str] = []
    while key:
        names.append(repr(key))
        key = came_from[key]
    return names[::-1]


def _refusal(
    wanted: Entity, field: str, sentence: str, kind: type[BusError] = errors.InvalidOperation
) -> BusError:
    name = BY_NAME[field].manifest_name
    return kind(f"{name}: {sentence}.", metadata={"field": name, "entity": wanted.name})
