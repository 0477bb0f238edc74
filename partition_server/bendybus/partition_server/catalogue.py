"""The catalogue of entities: the registrar decides, the other partitions copy.

Partition 0 is the registrar. It commits every create, update and delete first; entries of one
name follow each other by generation, which counts over the whole catalogue. Deleted entities
leave tombstones, so that a partition that was away cannot bring one back, and data is deleted
only because of a tombstone, never because an entry is absent.
"""

from collections.abc import Iterable
from dataclasses import replace

from bendybus.domain import entity as entities
from bendybus.domain import errors, limits
from bendybus.domain.entity import Entity, Fingerprint, Origin, QueueDescription
from bendybus.partition_server.commands import CommitEntity, EntityAction, EntityRef, Now


class Catalogue:
    """The entries that a partition knows."""

    def __init__(self, fingerprint: Fingerprint, known: Iterable[Entity]) -> None:
        self._fingerprint = fingerprint
        self._by_key = {entity.key: entity for entity in known}
        self._by_uid = {e.uid: e for e in self._by_key.values() if not e.deleted}

    def all(self) -> list[Entity]:
        """Return every entry, tombstones too."""
        return list(self._by_key.values())

    def live(self) -> list[Entity]:
        """Return what exists."""
        return list(self._by_uid.values())

    def by_uid(self, uid: str) -> Entity | None:
        """Return the entity, None if it is deleted or was never there."""
        return self._by_uid.get(uid)

    def put(self, entity: Entity) -> None:
        """Take a committed entry."""
        old = self._by_key.get(entity.key)
        if old is not None:
            self._by_uid.pop(old.uid, None)
        self._by_key[entity.key] = entity
        if not entity.deleted:
            self._by_uid[entity.uid] = entity

    def resolve(self, ref: EntityRef) -> Entity:
        """Return the entity of a call.

        Raises EntityNotFound when it was deleted here, GenerationMismatch when front end and
        partition know different versions of it.
        """
        entity = self._by_uid.get(ref.uid)
        if entity is None:
            if any(e.uid == ref.uid and e.generation >= ref.generation for e in self.all()):
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
        current = self._by_key.get(command.name.lower())
        if command.action is EntityAction.CREATE:
            return self._create(command, current, now)
        if current is None or current.deleted:
            raise errors.EntityNotFound(
                f"there is no queue {command.name!r}.", metadata={"entity": command.name}
            )
        self._check_may_change(command, current)
        if command.action is EntityAction.UPDATE:
            return self._update(command, current, now)
        return replace(
            current, deleted=True, generation=self._next_generation(), updated_at_ms=now.wall_ms
        )

    def accept(self, entry: Entity) -> bool:
        """Whether an entry of the registrar is news here.

        Raises PartitioningImmutable when it would change how a known entity is spread.
        """
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
        if current is not None and not current.deleted:
            raise errors.EntityAlreadyExists(
                f"there is a queue {current.name!r} already. Choose another name or update it.",
                metadata={"entity": current.name, "uid": current.uid},
            )
        fingerprint = self._fingerprint
        wanted = entities.merged(QueueDescription(), command.changes)
        entities.check_description(
            wanted, tier=fingerprint.tier, partition_count=fingerprint.partition_count
        )
        count, home = entities.placement(
            command.name,
            wanted,
            tier=fingerprint.tier,
            partition_count=fingerprint.partition_count,
        )
        self._check_room(count)
        return Entity(
            name=command.name,
            uid=command.uid,
            generation=self._next_generation(),
            origin=command.origin,
            queue=self._settled(wanted),
            partition_count=count,
            home_partition=home,
            created_at_ms=now.wall_ms,
            updated_at_ms=now.wall_ms,
        )

    def _update(self, command: CommitEntity, current: Entity, now: Now) -> Entity:
        wanted = entities.merged(current.queue, command.changes)
        if command.origin is Origin.MANIFEST:
            # A manifest has a value for every field, also for what the namespace decides.
            wanted = self._settled(wanted)
        entities.check_update(current.name, current.queue, wanted)
        entities.check_description(
            wanted,
            tier=self._fingerprint.tier,
            partition_count=self._fingerprint.partition_count,
        )
        wanted = self._settled(wanted)
        if wanted == current.queue:
            return current
        return replace(
            current,
            queue=wanted,
            generation=self._next_generation(),
            updated_at_ms=now.wall_ms,
        )

    def _settled(self, wanted: QueueDescription) -> QueueDescription:
        return entities.settled(
            wanted,
            tier=self._fingerprint.tier,
            partition_count=self._fingerprint.partition_count,
        )

    def _check_may_change(self, command: CommitEntity, current: Entity) -> None:
        if command.uid and command.uid != current.uid:
            raise errors.InvalidOperation(
                f"queue {current.name!r} belongs to another manifest (UID {current.uid}).",
                metadata={"entity": current.name},
            )
        if command.if_generation and command.if_generation != current.generation:
            raise errors.GenerationMismatch(
                f"queue {current.name!r} was changed meanwhile (generation {current.generation}). "
                "Read it again and repeat.",
                metadata={"entity": current.name, "generation": str(current.generation)},
            )
        if command.action is EntityAction.DELETE_IDLE:
            return
        if current.origin is Origin.MANIFEST and command.origin is not Origin.MANIFEST:
            raise errors.ManagedByManifest(
                f"queue {current.name!r} comes from a manifest and is changed only there: edit "
                "the manifest and apply it.",
                metadata={"entity": current.name},
            )

    def _check_room(self, partition_count: int) -> None:
        live = self.live()
        if len(live) >= limits.ENTITIES_PER_NAMESPACE:
            raise errors.QuotaExceeded(
                f"the namespace has {len(live)} entities, all that it may have. Delete some."
            )
        spread = sum(1 for entity in live if entity.partitioned)
        if (
            partition_count > 1
            and self._fingerprint.tier is not limits.Tier.PREMIUM
            and spread >= limits.PARTITIONED_ENTITIES_PER_NAMESPACE
        ):
            raise errors.QuotaExceeded(
                f"the namespace has {spread} partitioned entities, all that a "
                f"{self._fingerprint.tier} one may have. Create this one without partitioning."
            )

    def _next_generation(self) -> int:
        return max((e.generation for e in self._by_key.values()), default=0) + 1
