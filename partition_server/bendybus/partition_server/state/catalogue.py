"""The catalogue of entities: the registrar decides, the other partitions copy.

Partition 0 is the registrar. It commits every create, update and delete first; entries of one
name follow each other by generation, which counts over the whole catalogue. Deleted entities
leave tombstones, so that a partition that was away cannot bring one back, and data is deleted
only because of a tombstone, never because an entry is absent. The newest `limits.TOMBSTONES_MAX`
are kept: one that was away for more deletions than that brings its queues back, and loses nothing.
What may follow what is a table, `lifecycle.TRANSITIONS`.

Nothing here looks at all entries when one changes: there may be 10,000 and as many tombstones.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from bendybus.domain import (
    bounds,
    errors,
    immutable_fields,
    lifecycle,
    limits,
    partitioning,
    queue_description,
)
from bendybus.domain import entity as entities
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.domain.queue_description import QueueDescription
from bendybus.partition_server.state.commands import CommitEntity, EntityRef, Now


class Catalogue:
    """The entries that a partition knows."""

    def __init__(self, fingerprint: Fingerprint, known: Iterable[Entity]) -> None:
        self._fingerprint = fingerprint
        self._by_key: dict[str, Entity] = {}
        self._by_uid: dict[str, Entity] = {}
        # UID → tombstone.
        self._buried: dict[str, Entity] = {}
        self._spread = 0
        self._generation = 0
        for entity in known:
            self.put(entity)

    def all(self) -> list[Entity]:
        """Return every entry, tombstones too."""
        return list(self._by_key.values())

    def existing(self) -> list[Entity]:
        """Return what there is data of: live entities and orphans."""
        return list(self._by_uid.values())

    def by_key(self, key: str) -> Entity | None:
        """Return the entry of a name in lower case, also a tombstone."""
        return self._by_key.get(key)

    def by_uid(self, uid: str) -> Entity | None:
        """Return the entity, None if it is deleted or was never there."""
        return self._by_uid.get(uid)

    def put(self, entity: Entity) -> None:
        """Take a committed entry."""
        old = self._by_key.get(entity.key)
        if old is not None and self._by_uid.pop(old.uid, None) is not None:
            self._spread -= old.partitioned
        elif old is not None:
            self._buried.pop(old.uid, None)
        self._by_key[entity.key] = entity
        self._generation = max(self._generation, entity.generation)
        if entity.deleted:
            self._buried[entity.uid] = entity
        else:
            self._by_uid[entity.uid] = entity
            self._spread += entity.partitioned

    def forgettable(self) -> list[str]:
        """Return the names whose tombstones may go with the next change; see `forget`."""
        oldest = entities.forgettable(len(self._buried), self._buried.values())
        return [tombstone.key for tombstone in oldest]

    def forget(self, key: str) -> None:
        """Forget a deleted name, as it was committed."""
        del self._buried[self._by_key.pop(key).uid]

    def resolve(self, ref: EntityRef) -> Entity:
        """Return the entity of a call.

        Raises EntityNotFound when it was deleted here, GenerationMismatch when front end and
        partition know different versions of it.
        """
        entity = self._by_uid.get(ref.uid)
        if entity is None:
            tombstone = self._buried.get(ref.uid)
            if tombstone is not None and tombstone.generation >= ref.generation:
                raise errors.EntityNotFound("the entity was deleted.")
            raise errors.GenerationMismatch(
                f"partition {self._fingerprint.partition} does not know the entity yet.",
                metadata={"generation": "0"},
            )
        if entity.generation != ref.generation:
            raise errors.GenerationMismatch(
                f"queue {entity.name!r}: the front end knows generation {ref.generation}, "
                f"partition {self._fingerprint.partition} has {entity.generation}.",
                metadata={"generation": str(entity.generation), "entity": entity.name},
            )
        return entity

    def decide(self, command: CommitEntity, now: Now) -> Entity:
        """Return the entry that a management call leads to; only at the registrar.

        Raises the domain error that says why not; then nothing changes.
        """
        if self._fingerprint.partition != 0:
            raise errors.InvalidOperation("only partition 0, the registrar, decides on entities.")
        entities.check_name(command.name)
        bounds.check_text("uid", command.uid, bounds.UID_CHARS_MAX)
        bounds.check_text("manifest_uid", command.manifest_uid, bounds.UID_CHARS_MAX)
        current = self._by_key.get(command.name.lower())
        if current is not None and _is_repeat(command, current):
            return current
        next_state = _state_after(command, current)
        if command.action is EntityAction.CREATE:
            entities.check_new_name(command.name)
            return self._create(command, current, now)
        assert current is not None, "the table lets nothing else happen to what is absent"
        _check_may_change(command, current)
        changes: dict[str, Any] = {}
        if command.action in (EntityAction.UPDATE, EntityAction.ADOPT):
            changes["queue"] = self._changed(command, current)
        if command.action is EntityAction.ADOPT:
            changes["manifest_uid"] = command.manifest_uid
        if changes == {"queue": current.queue}:
            return current
        return replace(
            current,
            deleted=next_state is EntityState.DELETED,
            orphaned=next_state is EntityState.ORPHANED,
            auto_deleted=command.action is EntityAction.DELETE_IDLE,
            generation=self._generation + 1,
            updated_at_ms=now.wall_ms,
            **changes,
        )

    def accept(self, entry: Entity) -> bool:
        """Whether an entry of the registrar is news here.

        Raises PartitioningImmutable when it would change how a known entity is spread.
        """
        entities.check_entry(entry)
        current = self._by_key.get(entry.key)
        if current is None:
            return True
        if (
            current.uid == entry.uid
            and not entry.deleted
            and current.partition_count != entry.partition_count
        ):
            raise errors.PartitioningImmutable(
                f"queue {entry.name!r} has {current.partition_count} partition(s) in the file of "
                f"partition {self._fingerprint.partition}, not {entry.partition_count}.",
                metadata={"entity": entry.name},
            )
        return entry.generation > current.generation

    def _create(self, command: CommitEntity, current: Entity | None, now: Now) -> Entity:
        manifest_uid = _manifest(command)
        if current is not None:
            _check_not_auto_deleted(current, manifest_uid)
        fingerprint = self._fingerprint
        wanted = queue_description.merged(QueueDescription(), command.changes)
        queue_description.check(
            wanted, tier=fingerprint.tier, partition_count=fingerprint.partition_count
        )
        count, home = partitioning.placement(
            command.name,
            enable_partitioning=wanted.enable_partitioning,
            tier=fingerprint.tier,
            partition_count=fingerprint.partition_count,
        )
        self._check_room(count)
        return Entity(
            name=command.name,
            uid=self._new_uid(manifest_uid or command.uid, current),
            generation=self._generation + 1,
            origin=command.origin,
            queue=self._settled(wanted),
            partition_count=count,
            home_partition=home,
            created_at_ms=now.wall_ms,
            updated_at_ms=now.wall_ms,
            manifest_uid=manifest_uid,
        )

    def _new_uid(self, wanted: str, tombstone: Entity | None) -> str:
        """Return the UID of a new entity: another one than any data of its name ever had.

        A partition that was away during both the deletion and the creation tells by it that
        what it holds is the old data.
        """
        if tombstone is not None and wanted in (tombstone.uid, tombstone.manifest_uid):
            return f"{wanted}-{self._generation + 1}"
        other = self._by_uid.get(wanted) or self._buried.get(wanted)
        if other is not None:
            raise errors.InvalidArgument("uid", f"is that of queue {other.name!r}. Use another.")
        return wanted

    def _changed(self, command: CommitEntity, current: Entity) -> QueueDescription:
        """Return the description that an update or an adoption leads to."""
        wanted = queue_description.merged(current.queue, command.changes)
        if command.origin is Origin.MANIFEST:
            # A manifest has a value for every field, also for what the namespace decides.
            wanted = self._settled(wanted)
        immutable_fields.check_queue(current.name, current.queue, wanted)
        queue_description.check(
            wanted,
            tier=self._fingerprint.tier,
            partition_count=self._fingerprint.partition_count,
        )
        return self._settled(wanted)

    def _settled(self, wanted: QueueDescription) -> QueueDescription:
        return queue_description.settled(
            wanted,
            tier=self._fingerprint.tier,
            partition_count=self._fingerprint.partition_count,
        )

    def _check_room(self, partition_count: int) -> None:
        # Orphans count: what they hold is kept.
        existing = len(self._by_uid)
        if existing >= limits.ENTITIES_PER_NAMESPACE:
            raise errors.QuotaExceeded(
                f"the namespace has {existing} entities, all that it may have. Delete some."
            )
        if (
            partition_count > 1
            and self._fingerprint.tier is not limits.Tier.PREMIUM
            and self._spread >= limits.PARTITIONED_ENTITIES_PER_NAMESPACE
        ):
            raise errors.QuotaExceeded(
                f"the namespace has {self._spread} partitioned entities, all that a "
                f"{self._fingerprint.tier} one may have. Create this one without partitioning."
            )


def _state_after(command: CommitEntity, current: Entity | None) -> EntityState:
    if current is None:
        return lifecycle.after(EntityState.ABSENT, command.action, command.name, facts={})
    facts = {"uid": current.uid, "manifest_uid": current.manifest_uid}
    return lifecycle.after(current.state, command.action, current.name, facts=facts)


def _manifest(command: CommitEntity) -> str:
    """Return the manifest that a command speaks for."""
    return entities.manifest_of(command.manifest_uid, uid=command.uid, origin=command.origin)


def _is_repeat(command: CommitEntity, current: Entity) -> bool:
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
    return current.manifest_uid != "" and current.manifest_uid == _manifest(command)


def _check_not_auto_deleted(tombstone: Entity, manifest_uid: str) -> None:
    if tombstone.auto_deleted and manifest_uid and manifest_uid == tombstone.manifest_uid:
        raise errors.InvalidOperation(
            f"queue {tombstone.name!r} was deleted by the bus because it was idle for its "
            "autoDeleteOnIdle. Delete its manifest and make it again to have a new queue.",
            metadata={"entity": tombstone.name, "auto_deleted": "true"},
        )


def _check_may_change(command: CommitEntity, current: Entity) -> None:
    """Raise unless the caller may do this to an entity that is in the state for it."""
    purge = current.orphaned and command.action is EntityAction.DELETE
    _check_identity(command, current, any_manifest=purge)
    if command.action is EntityAction.DELETE_IDLE or purge:
        return
    if command.action in lifecycle.MANIFEST_ACTIONS:
        if command.origin is not Origin.MANIFEST or current.origin is not Origin.MANIFEST:
            raise errors.InvalidOperation(
                f"queue {current.name!r}: only what has a manifest is orphaned or adopted, and "
                "only by manifests.",
                metadata={"entity": current.name},
            )
        if command.action is EntityAction.ADOPT and not command.manifest_uid:
            raise errors.InvalidArgument("manifest_uid", "an adoption names the new manifest.")
    elif current.origin is Origin.MANIFEST and command.origin is not Origin.MANIFEST:
        raise errors.ManagedByManifest(
            f"queue {current.name!r} comes from a manifest and is changed only there: edit "
            "the manifest and apply it.",
            metadata={"entity": current.name},
        )


def _check_identity(command: CommitEntity, current: Entity, *, any_manifest: bool) -> None:
    """Raise when the caller means other data, another manifest's, or an older generation."""
    adopts = command.action is EntityAction.ADOPT
    other_data = command.uid not in ("", current.uid)
    other_manifest = command.manifest_uid not in ("", current.manifest_uid)
    if other_data or (other_manifest and not adopts and not any_manifest):
        raise errors.InvalidOperation(
            f"queue {current.name!r} belongs to another manifest (UID {current.uid}).",
            metadata={"entity": current.name, "manifest_uid": current.manifest_uid},
        )
    if command.if_generation and command.if_generation != current.generation:
        raise errors.GenerationMismatch(
            f"queue {current.name!r} was changed meanwhile (generation {current.generation}). "
            "Read it again and repeat.",
            metadata={"entity": current.name, "generation": str(current.generation)},
        )
