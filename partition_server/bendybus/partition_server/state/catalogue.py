"""The catalogue of entities: the registrar decides, the other partitions copy.

Partition 0 is the registrar. It commits every create, update and delete first; entries of one
name follow each other by generation, which counts over the whole catalogue. Deleted entities
leave tombstones, so that a partition that was away cannot bring one back, and data is deleted
only because of a tombstone, never because an entry is absent. The newest `limits.TOMBSTONES_MAX`
are kept: one that was away for more deletions than that brings its queues back, and loses nothing.
What may follow what is a table, `lifecycle.TRANSITIONS`.

A topic's subscriptions are entries of their own. Each change of one raises its topic's generation
in the same commit, after its own; a topic is deleted with all of them.

Nothing here looks at all entries when one changes: there may be 10,000 and as many tombstones.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from bendybus.domain import (
    bounds,
    descriptions,
    errors,
    forwarding,
    limits,
    partitioning,
    subscription_name,
)
from bendybus.domain import entity as entities
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description, SubscriptionDescription
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.partition_server.state import catalogue_checks, catalogue_rules
from bendybus.partition_server.state.catalogue_rules import RuleCounts
from bendybus.partition_server.state.commands import CommitEntity, EntityRef, Now


class Catalogue:
    """The entries that a partition knows."""

    def __init__(self, fingerprint: Fingerprint, known: Iterable[Entity]) -> None:
        self._fingerprint = fingerprint
        self._by_key: dict[str, Entity] = {}
        self._by_uid: dict[str, Entity] = {}
        # UID → tombstone.
        self._buried: dict[str, Entity] = {}
        # Topic → its subscriptions, by name in lower case.
        self._by_topic: dict[str, dict[str, Entity]] = {}
        self._subscription_count = 0
        # What is forwarded to, by name in lower case: by which entities.
        self._sources: dict[str, set[str]] = {}
        self._rule_counts = RuleCounts()
        # Partitioned queues and topics.
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

    def name_of(self, uid: str) -> str:
        """Return the name of an entity, also of one that was deleted; "" if it is forgotten."""
        found = self._by_uid.get(uid) or self._buried.get(uid)
        return "" if found is None else found.name

    def subscriptions(self, topic: Entity) -> list[Entity]:
        """Return the subscriptions of a topic that there is data of; none of another entity."""
        if topic.kind is not EntityKind.TOPIC:
            return []
        return list(self._by_topic.get(topic.key, {}).values())

    def put(self, entity: Entity) -> None:
        """Take a committed entry."""
        old = self._by_key.get(entity.key)
        if old is not None and self._by_uid.pop(old.uid, None) is not None:
            self._count(old, -1)
        elif old is not None:
            self._buried.pop(old.uid, None)
        self._by_key[entity.key] = entity
        self._generation = max(self._generation, entity.generation)
        if entity.deleted:
            self._buried[entity.uid] = entity
        else:
            self._by_uid[entity.uid] = entity
            self._count(entity, 1)

    def is_never_idle(self, entity: Entity) -> bool:
        """Whether an entity is in use also without clients: it forwards, or is forwarded to."""
        return bool(entity.description.forward_to) or entity.key in self._sources

    def _count(self, entity: Entity, change: int) -> None:
        """Note that an entity exists from now on, or no longer does."""
        for name in forwarding.destinations(entity):
            sources = self._sources.setdefault(name, set())
            (sources.add if change > 0 else sources.discard)(entity.key)
            if not sources:
                del self._sources[name]
        if entity.kind is not EntityKind.SUBSCRIPTION:
            self._spread += change * entity.partitioned
            return
        self._subscription_count += change
        self._rule_counts.count(entity, change)
        known = self._by_topic.setdefault(entity.topic_key, {})
        if change > 0:
            known[entity.key] = entity
        else:
            del known[entity.key]
        if not known:
            del self._by_topic[entity.topic_key]

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
                f"{entity.title}: the front end knows generation {ref.generation}, "
                f"partition {self._fingerprint.partition} has {entity.generation}.",
                metadata={"generation": str(entity.generation), "entity": entity.name},
            )
        return entity

    def decide(self, command: CommitEntity, now: Now) -> tuple[Entity, list[Entity]]:
        """Return the entry that a management call leads to, and all that change, in order.

        Only at the registrar. Raises the domain error that says why not; then nothing changes.
        """
        if self._fingerprint.partition != 0:
            raise errors.InvalidOperation("only partition 0, the registrar, decides on entities.")
        entities.check_name_of(command.name, command.kind)
        bounds.check_text("uid", command.uid, bounds.UID_CHARS_MAX)
        bounds.check_text("manifest_uid", command.manifest_uid, bounds.UID_CHARS_MAX)
        current = self._by_key.get(command.name.lower())
        catalogue_checks.check_kind(command, current)
        if current is not None and catalogue_checks.is_repeat(command, current):
            return current, []
        next_state = catalogue_checks.state_after(command, current)
        if command.action is EntityAction.CREATE:
            made = self._create(command, current, now)
            catalogue_checks.check_destinations(self, made, None)
            return self._with_family(made)
        assert current is not None, "the table lets nothing else happen to what is absent"
        catalogue_checks.check_may_change(command, current, self._fingerprint)
        changes: dict[str, Any] = {}
        if command.action in (EntityAction.UPDATE, EntityAction.ADOPT):
            changes["description"] = self._changed(command, current, now)
            changes["manifest_rules"] = catalogue_rules.in_manifest(command, current)
            changes |= catalogue_checks.taken_over(command, current)
        if command.action is EntityAction.ADOPT:
            changes["manifest_uid"] = command.manifest_uid
        if command.action is EntityAction.UPDATE and command.rule_change is None:
            same = all(getattr(current, field) == value for field, value in changes.items())
            if same:
                return current, []
        deleted = next_state is EntityState.DELETED
        if command.action is EntityAction.DELETE_IDLE:
            catalogue_checks.check_may_be_idle(current, in_use=self.is_never_idle(current))
        if deleted:
            changes["description"] = descriptions.buried(current.description)
            catalogue_checks.check_subscriptions_may_go(
                command, current, self.subscriptions(current)
            )
        entity = replace(
            current,
            deleted=deleted,
            orphaned=next_state is EntityState.ORPHANED,
            auto_deleted=command.action is EntityAction.DELETE_IDLE,
            generation=self._generation + 1,
            updated_at_ms=now.wall_ms,
            **changes,
        )
        catalogue_checks.check_destinations(self, entity, current)
        return self._with_family(entity)

    def _with_family(self, entity: Entity) -> tuple[Entity, list[Entity]]:
        """Return an entry that changes, and all that change with it, in the order of copies.

        A topic's generation rises after every change of a subscription: a partition that knows it
        has the change, too, and one that does not refuses publishes. Subscriptions are deleted
        with their topic.
        """
        if entity.kind is EntityKind.SUBSCRIPTION:
            topic = self._by_key[entity.topic_key]
            return entity, [entity, replace(topic, generation=entity.generation + 1)]
        gone = self.subscriptions(entity) if entity.deleted else []
        tombstones = [
            replace(
                each,
                description=descriptions.buried(each.description),
                deleted=True,
                orphaned=False,
                # Not `auto_deleted`: its manifest makes it again when there is a topic again.
                generation=entity.generation + offset,
                updated_at_ms=entity.updated_at_ms,
            )
            for offset, each in enumerate(gone)
        ]
        entity = replace(entity, generation=entity.generation + len(tombstones))
        return entity, [*tombstones, entity]

    def accept(self, entry: Entity) -> bool:
        """Whether an entry of the registrar is news here.

        Raises PartitioningImmutable when it would change how a known entity is spread or numbered.
        """
        entities.check_entry(entry)
        current = self._by_key.get(entry.key)
        if current is None:
            return True
        same = current.uid == entry.uid and not entry.deleted
        if same and current.partition_count != entry.partition_count:
            raise errors.PartitioningImmutable(
                f"{entry.title} has {current.partition_count} partition(s) in the file of "
                f"partition {self._fingerprint.partition}, not {entry.partition_count}.",
                metadata={"entity": entry.name},
            )
        if same and current.plain_numbers != entry.plain_numbers:
            # Its messages would change their numbers at the next start.
            raise errors.PartitioningImmutable(
                f"the sequence numbers of {entry.title} have another form in the file of partition "
                f"{self._fingerprint.partition} than in its new entry: the file of partition 0, "
                "which has all entries, was lost or is older. Restore that from a newer copy.",
                metadata={"entity": entry.name},
            )
        return entry.generation > current.generation

    def _create(self, command: CommitEntity, current: Entity | None, now: Now) -> Entity:
        entities.check_new_name(command.name, command.kind)
        manifest_uid = catalogue_checks.manifest(command)
        if current is not None:
            catalogue_checks.check_not_auto_deleted(current, manifest_uid)
        wanted = catalogue_checks.created(command, self._fingerprint)
        name, count, home = self._place(command.name, wanted, migrated=command.migrated)
        return Entity(
            name=name,
            uid=self._new_uid(manifest_uid or command.uid, current),
            generation=self._generation + 1,
            origin=command.origin,
            description=self._with_rules(wanted, name, None, now),
            partition_count=count,
            home_partition=home,
            created_at_ms=now.wall_ms,
            updated_at_ms=now.wall_ms,
            manifest_uid=manifest_uid,
            manifest_rules=catalogue_rules.in_manifest(command, None),
            plain_numbers=count == 1,
        )

    def _place(self, name: str, wanted: Description, *, migrated: bool) -> tuple[str, int, int]:
        """Return name, number of partitions and home of a new entity, if there is room for it."""
        if isinstance(wanted, SubscriptionDescription):
            topic, own_name = self._topic_of(name)
            self._check_room_for_subscription(topic)
            own = subscription_name.compose(topic.name, own_name)
            return own, topic.partition_count, topic.home_partition
        count, home = partitioning.placement(
            name,
            enable_partitioning=wanted.enable_partitioning,
            tier=self._fingerprint.tier,
            partition_count=self._fingerprint.partition_count,
            migrated=migrated,
        )
        self._check_room(count)
        return name, count, home

    def _topic_of(self, name: str) -> tuple[Entity, str]:
        """Return the topic of a new subscription, and the subscription's name within it."""
        parts = subscription_name.split(name)
        assert parts is not None, name
        topic = self._by_key.get(parts[0].lower())
        if topic is None or topic.deleted:
            raise errors.EntityNotFound(
                f"topic {parts[0]!r} does not exist. Create it first: bendybus create topic "
                f"{parts[0]}, a manifest, or an administration client.",
                metadata={"entity": parts[0]},
            )
        entities.check_kind(topic, EntityKind.TOPIC)
        if topic.orphaned:
            raise errors.RetainedData(
                f"topic {topic.name!r} holds the data of a deleted manifest. Adopt it before "
                "it gets more subscriptions.",
                metadata={"entity": topic.name},
            )
        return topic, parts[1]

    def _new_uid(self, wanted: str, tombstone: Entity | None) -> str:
        """Return the UID of a new entity: another one than any data of its name ever had.

        A partition that was away during both the deletion and the creation tells by it that
        what it holds is the old data.
        """
        if tombstone is not None and wanted in (tombstone.uid, tombstone.manifest_uid):
            return f"{wanted}-{self._generation + 1}"
        other = self._by_uid.get(wanted) or self._buried.get(wanted)
        if other is not None:
            raise errors.InvalidArgument("uid", f"is that of {other.title}. Use another.")
        return wanted

    def _changed(self, command: CommitEntity, current: Entity, now: Now) -> Description:
        """Return the description that an update or an adoption leads to."""
        if command.rule_change is not None:
            return catalogue_rules.changed(
                current, command.rule_change, counts=self._rule_counts, now_ms=now.wall_ms
            )
        wanted = catalogue_checks.changed(command, current, self._fingerprint)
        return self._with_rules(wanted, current.name, current, now)

    def _with_rules(
        self, wanted: Description, name: str, current: Entity | None, now: Now
    ) -> Description:
        """Return a description whose rules are checked; only subscriptions have any."""
        if not isinstance(wanted, SubscriptionDescription):
            return wanted
        topic = self._topic_of(name)[0] if current is None else self._by_key[current.topic_key]
        return catalogue_rules.settled(
            wanted, current, counts=self._rule_counts, topic=topic, now_ms=now.wall_ms
        )

    def _check_room(self, partition_count: int) -> None:
        # Orphans count: what they hold is kept.
        existing = len(self._by_uid) - self._subscription_count
        if existing >= limits.ENTITIES_PER_NAMESPACE:
            raise errors.QuotaExceeded(
                f"the namespace has reached its limit of {existing} entities. Delete some."
            )
        if (
            partition_count > 1
            and self._fingerprint.tier is not limits.Tier.PREMIUM
            and self._spread >= limits.PARTITIONED_ENTITIES_PER_NAMESPACE
        ):
            raise errors.QuotaExceeded(
                f"the namespace has reached the limit of tier {self._fingerprint.tier}, "
                f"{self._spread} partitioned entities. Create this one without partitioning."
            )

    def _check_room_for_subscription(self, topic: Entity) -> None:
        existing = len(self._by_topic.get(topic.key, ()))
        if existing >= limits.SUBSCRIPTIONS_PER_TOPIC:
            raise errors.QuotaExceeded(
                f"topic {topic.name!r} has reached its limit of {existing} subscriptions. "
                "Delete some."
            )
        if self._subscription_count >= limits.SUBSCRIPTIONS_PER_NAMESPACE:
            raise errors.QuotaExceeded(
                f"the namespace has reached its limit of {self._subscription_count} subscriptions. "
                "Delete some."
            )
