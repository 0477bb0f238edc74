"""What the registrar checks before it changes an entry: kind, state, owner, forwarding.

Functions of a command and the entry that has its name; called by `Catalogue.decide` only, which
decides on one change after the other. So two updates whose forwarding would make a cycle together
cannot both pass `check_destinations`.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from bendybus.domain import descriptions, entity_settings, errors, forwarding, lifecycle
from bendybus.domain import entity as entities
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import BY_NAME, Description
from bendybus.domain.errors import BusError
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.partition_server.state import catalogue_rules
from bendybus.partition_server.state.commands import CommitEntity


def check_kind(command: CommitEntity, current: Entity | None) -> None:
    """Raise when a name belongs to an entity of another kind: all kinds share the names."""
    if current is None or current.deleted or current.kind is command.kind:
        return
    if command.action is EntityAction.CREATE:
        raise errors.EntityAlreadyExists(
            f"{current.title} already exists: a {command.kind} cannot have the "
            "same name. Choose another one.",
            metadata={"entity": current.name, "kind": current.kind},
        )
    entities.check_kind(current, command.kind)


def state_after(command: CommitEntity, current: Entity | None) -> EntityState:
    """Return the state that a command leads to. Raises what refuses it."""
    if current is None:
        return lifecycle.after(
            EntityState.ABSENT, command.action, command.name, facts={}, kind=command.kind
        )
    facts = {"uid": current.uid, "manifest_uid": current.manifest_uid}
    return lifecycle.after(
        current.state, command.action, current.name, facts=facts, kind=command.kind
    )


def manifest(command: CommitEntity) -> str:
    """Return the manifest that a command speaks for."""
    return entities.manifest_of(command.manifest_uid, uid=command.uid, origin=command.origin)


def is_repeat(command: CommitEntity, current: Entity) -> bool:
    """Whether what a caller wants was done for it already: it may have lost the answer.

    A manifest is known by its UID, a client's creation by the UID that it gave the entity.
    """
    if lifecycle.REPEATS.get(command.action) is not current.state:
        return False
    if command.action is EntityAction.ORPHAN:
        same = command.manifest_uid in ("", current.manifest_uid)
        return same and command.uid in ("", current.uid) and command.origin is Origin.MANIFEST
    if command.action is EntityAction.CREATE and command.origin is Origin.CLIENT:
        return current.origin is Origin.CLIENT and command.uid == current.uid
    return current.manifest_uid != "" and current.manifest_uid == manifest(command)


def check_not_auto_deleted(tombstone: Entity, manifest_uid: str) -> None:
    """Raise when a manifest would make again what the bus deleted because it was idle."""
    if tombstone.auto_deleted and manifest_uid and manifest_uid == tombstone.manifest_uid:
        raise errors.InvalidOperation(
            f"{tombstone.title} was deleted by the bus because it was idle for its "
            "autoDeleteOnIdle. Delete its manifest and make it again to have a new one.",
            metadata={"entity": tombstone.name, "auto_deleted": "true"},
        )


def check_may_change(command: CommitEntity, current: Entity, namespace: Fingerprint) -> None:
    """Raise unless the caller may do this to an entity that is in the state for it.

    A client may still change authorization rules, since a manifest cannot: keys must be revocable.
    """
    purge = current.orphaned and command.action is EntityAction.DELETE
    _check_identity(command, current, any_manifest=purge)
    if command.action is EntityAction.DELETE_IDLE or purge:
        return
    if command.action in lifecycle.MANIFEST_ACTIONS:
        if command.origin is not Origin.MANIFEST or current.origin is not Origin.MANIFEST:
            raise errors.InvalidOperation(
                f"{current.title} is not managed by a manifest: only manifests orphan and "
                "adopt, and only what they manage.",
                metadata={"entity": current.name},
            )
        if command.action is EntityAction.ADOPT and not command.manifest_uid:
            raise errors.InvalidArgument(
                "manifest_uid", "adoption requires the UID of the new manifest."
            )
    elif command.rule_change is not None:
        catalogue_rules.check_may_change(command, current)
    elif (
        current.origin is Origin.MANIFEST
        and command.origin is not Origin.MANIFEST
        and not _is_undeclared(command, current, namespace)
    ):
        raise errors.ManagedByManifest(
            f"{current.title} comes from a manifest or Config.json and is changed only there: edit "
            "the manifest and apply it, or Config.json and start the bus again.",
            metadata={"entity": current.name},
        )


def _is_undeclared(command: CommitEntity, current: Entity, namespace: Fingerprint) -> bool:
    """Whether an update changes something, and nothing that a manifest has."""
    if command.action is not EntityAction.UPDATE:
        return False
    before = current.description
    merged = descriptions.merged(before, command.changes)
    wanted = descriptions.with_own_size(merged, namespace.tier)
    other = [
        each
        for each in entity_settings.BY_KIND[current.kind]
        if getattr(wanted, each.name) != getattr(before, each.name)
    ]
    return bool(other) and not any(each.is_declared for each in other)


def taken_over(command: CommitEntity, current: Entity) -> dict[str, Any]:
    """Return the change of owner: a manifest that updates an entity of a client owns it."""
    if command.origin is not Origin.MANIFEST or current.origin is Origin.MANIFEST:
        return {}
    return {"origin": Origin.MANIFEST, "manifest_uid": current.uid}


def _check_identity(command: CommitEntity, current: Entity, *, any_manifest: bool) -> None:
    """Raise when the caller means other data, another manifest's, or an older generation."""
    adopts = command.action is EntityAction.ADOPT
    other_data = command.uid not in ("", current.uid)
    other_manifest = command.manifest_uid not in ("", current.manifest_uid)
    if other_data or (other_manifest and not adopts and not any_manifest):
        raise errors.InvalidOperation(
            f"{current.title} belongs to another manifest (UID {current.uid}).",
            metadata={"entity": current.name, "manifest_uid": current.manifest_uid},
        )
    if command.if_generation and command.if_generation != current.generation:
        raise errors.GenerationMismatch(
            f"{current.title} was changed meanwhile (generation {current.generation}). "
            "Read it again and repeat.",
            metadata={"entity": current.name, "generation": str(current.generation)},
        )


def check_may_be_idle(current: Entity, *, in_use: bool) -> None:
    """Raise when an entity that forwards, or is forwarded to, is to be deleted for being idle."""
    if in_use:
        raise errors.InvalidOperation(
            f"{current.title} forwards its messages or is forwarded to: it is never idle.",
            metadata={"entity": current.name},
        )


def check_subscriptions_may_go(
    command: CommitEntity, topic: Entity, subscriptions: Iterable[Entity]
) -> None:
    """Raise when a topic is to be deleted with subscriptions that only others may delete.

    The deletion of a topic's manifest takes its subscriptions with it; a purge of what an earlier
    manifest left takes none that has a manifest itself.
    """
    for each in subscriptions:
        if each.orphaned and command.action is EntityAction.DELETE_IDLE:
            raise errors.RetainedData(
                f"{each.title} holds the data of a deleted manifest.",
                metadata={"entity": each.name},
            )
        purged = each.orphaned and topic.orphaned
        others = topic.orphaned or command.origin is Origin.CLIENT
        managed = each.origin is Origin.MANIFEST and others
        if managed and not purged and command.action is EntityAction.DELETE:
            raise errors.ManagedByManifest(
                f"{topic.title}: its {each.title} comes from a manifest. Delete that manifest, and "
                "purge what it leaves, before the topic.",
                metadata={"entity": each.name},
            )


def created(command: CommitEntity, namespace: Fingerprint) -> Description:
    """Return the description of a new entity, as its namespace keeps it. Raises BusError."""
    tier, count = namespace.tier, namespace.partition_count
    wanted = descriptions.merged(entity_settings.TYPES[command.kind](), command.changes)
    if command.origin is Origin.CLIENT:
        if not command.migrated:
            descriptions.check_choice(command.changes, tier=tier, partition_count=count)
        wanted = descriptions.with_own_size(wanted, tier)
    descriptions.check(wanted, tier=tier, partition_count=count)
    descriptions.check_new(wanted, tier=tier, partition_count=count)
    return descriptions.settled(wanted, tier=tier, partition_count=count)


def changed(command: CommitEntity, current: Entity, namespace: Fingerprint) -> Description:
    """Return the description that an update or an adoption leads to. Raises BusError."""
    tier, count = namespace.tier, namespace.partition_count
    before = current.description
    wanted = descriptions.merged(before, command.changes)
    if command.origin is Origin.MANIFEST:
        # A manifest has a value for every field, also for what the namespace decides.
        wanted = descriptions.settled(wanted, tier=tier, partition_count=count, current=before)
    else:
        wanted = descriptions.with_own_size(wanted, tier)
    descriptions.check_unchanged(current.name, before, wanted)
    descriptions.check(wanted, tier=tier, partition_count=count)
    descriptions.check_new(wanted, tier=tier, partition_count=count, current=before)
    return descriptions.settled(wanted, tier=tier, partition_count=count, current=before)


class Entries(Protocol):
    """What is read of the catalogue."""

    def by_key(self, key: str) -> Entity | None:
        """Return the entry of a name in lower case, also a tombstone."""

    def subscriptions(self, topic: Entity) -> list[Entity]:
        """Return the subscriptions of a topic; none of another entity."""


def check_destinations(catalogue: Entries, wanted: Entity, current: Entity | None) -> None:
    """Raise what refuses the destinations of an entry. Those that it has already are kept."""
    for field in forwarding.FIELDS:
        name = getattr(wanted.description, field)
        if not name or (current is not None and name == getattr(current.description, field)):
            continue
        destination = _destination(catalogue, wanted, field, name)
        # A subscription that forwards to its own topic comes to an end: hops are bounded.
        if field == "forward_to" and destination.key != wanted.topic_key:
            _check_cycle(catalogue, wanted, destination)


def _destination(catalogue: Entries, wanted: Entity, field: str, name: str) -> Entity:
    """Return the entity that is forwarded to. Raises what refuses it."""
    forwarding.check_destination_name(field, name)
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
