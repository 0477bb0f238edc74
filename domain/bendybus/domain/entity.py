"""What an entity is: its name, and its entry in the catalogue."""

import dataclasses
import heapq
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bendybus.domain import bounds, entity_settings, limits, partitioning, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description, SettingType, SubscriptionDescription
from bendybus.domain.errors import EntityNotFound, InvalidArgument, InvalidOperation
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule_set import RuleSet
from bendybus.domain.lifecycle import EntityState
from bendybus.domain.limits import Tier
from bendybus.domain.sub_queue import SubQueue

DEAD_LETTER_SUFFIX: Final = "$DeadLetterQueue"
# What is sent on in transactions; no client sees it.
TRANSFER_SUFFIX: Final = "$Transfer"
TRANSFER_DEAD_LETTER_SUFFIX: Final = f"{TRANSFER_SUFFIX}/{DEAD_LETTER_SUFFIX}"
PARTITIONS_MAX: Final = max(limits.PREMIUM_PARTITION_COUNTS)
_SUB_QUEUES: Final = {
    DEAD_LETTER_SUFFIX.lower(): SubQueue.DEAD_LETTER,
    TRANSFER_DEAD_LETTER_SUFFIX.lower(): SubQueue.TRANSFER_DEAD_LETTER,
}
_NO_RULES: Final = RuleSet()
# A segment of dots alone would be removed from the path of a URL.
_SEGMENT: Final = r"[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*"
_NAME: Final = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*\Z")


class Origin(StrEnum):
    """How an entity was created, which decides how it may be changed."""

    CLIENT = "Client"
    MANIFEST = "Manifest"


def is_name(name: str) -> bool:
    """Whether `name` can be an entity's name."""
    try:
        check_name(name)
    except InvalidArgument:
        return False
    return True


def check_name(name: str) -> None:
    """Raise InvalidArgument unless `name` can be an entity's name."""
    if len(name) > limits.ENTITY_NAME_CHARS_MAX:
        raise InvalidArgument(
            "entityName",
            f"must be at most {limits.ENTITY_NAME_CHARS_MAX} characters (got {len(name)}).",
        )
    if not _NAME.match(name):
        raise InvalidArgument(
            "entityName",
            f"{name!r} must be segments of letters, digits and . - _ with one slash between two, "
            "and no segment may be of dots alone.",
        )


def check_new_name(name: str, kind: EntityKind = EntityKind.QUEUE) -> None:
    """Raise InvalidArgument unless an entity of this name can be made.

    A path with /Subscriptions/ is that of a subscription: another entity of such a name would be
    covered by the policies of another.
    """
    check_name_of(name, kind)
    # "a/Subscriptions" cannot be a topic: its subscriptions would be those of "a".
    below = f"{name}/" if kind is EntityKind.TOPIC else name
    if kind is not EntityKind.SUBSCRIPTION and subscription_name.split(below):
        raise InvalidArgument(
            "entityName",
            f"{name!r} must not contain {subscription_name.SEPARATOR!r}, which is for "
            "subscriptions of topics.",
        )


def check_name_of(name: str, kind: EntityKind) -> None:
    """Raise InvalidArgument unless `name` can be the name of an entity of this kind."""
    if kind is not EntityKind.SUBSCRIPTION:
        check_name(name)
        return
    parts = subscription_name.split(name)
    if parts is None:
        raise InvalidArgument(
            "entityName", f"{name[:100]!r} must be TOPIC{subscription_name.SEPARATOR}NAME."
        )
    check_name(parts[0])
    subscription_name.check(parts[1])


def check_entry(entry: "Entity") -> None:
    """Raise InvalidArgument unless a partition can keep an entry of the registrar."""
    check_name_of(entry.name, entry.kind)
    bounds.check_text("uid", entry.uid, bounds.UID_CHARS_MAX)
    bounds.check_text("manifest_uid", entry.manifest_uid, bounds.UID_CHARS_MAX)
    bounds.check_number("generation", entry.generation, bounds.NUMBER_MAX)
    bounds.check_number("partition_count", entry.partition_count, PARTITIONS_MAX, 1)
    bounds.check_number("home_partition", entry.home_partition, PARTITIONS_MAX - 1)
    bounds.check_number("created_at", entry.created_at_ms, bounds.TIME_MS_MAX)
    bounds.check_number("updated_at", entry.updated_at_ms, bounds.TIME_MS_MAX)
    if isinstance(entry.description, SubscriptionDescription):
        rule_set.check_bounds(entry.description.rules)
    for setting in entity_settings.BY_KIND[entry.kind]:
        value = getattr(entry.description, setting.name)
        if isinstance(value, int):
            bounds.check_number(setting.name, value, bounds.NUMBER_MAX)
        elif value and setting.type is SettingType.NAME:
            bounds.check_text(setting.manifest_name, value, setting.most)
        elif setting.type is SettingType.TEXT and len(value) > setting.most:
            raise InvalidArgument(
                setting.manifest_name, f"must be at most {setting.most} characters."
            )


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a partition's file belongs to; a server refuses a file with another one."""

    namespace_name: str
    namespace_uid: str
    tier: Tier
    partition_count: int
    partition: int
    # Which copy of the file it is: new when it is made and when it is restored; b"": not told.
    incarnation: bytes = dataclasses.field(default=b"", compare=False)


@dataclass(frozen=True, slots=True)
class Entity:
    """An entry of the catalogue. `generation` rises over the whole catalogue with every change."""

    name: str
    uid: str
    generation: int
    origin: Origin
    description: Description
    partition_count: int
    home_partition: int
    created_at_ms: int
    updated_at_ms: int
    deleted: bool = False
    orphaned: bool = False
    # The manifest that it belongs to; "" for what a client made. `uid` is the identity of the
    # data for ever, also when another manifest adopts it.
    manifest_uid: str = ""
    # Of a tombstone: deleted by AutoDeleteOnIdle.
    auto_deleted: bool = False
    # Of a subscription that has a manifest: the rules are in it, and no client changes them.
    manifest_rules: bool = False
    # A plain entity whose sequence numbers are 1, 2, 3, and name no partition.
    plain_numbers: bool = False

    @property
    def key(self) -> str:
        """The name as it is compared: without regard to case."""
        return self.name.lower()

    @property
    def kind(self) -> EntityKind:
        """What it is."""
        return self.description.kind

    @property
    def title(self) -> str:
        """What it is called in sentences: kind and name."""
        return f"{self.kind} {self.name!r}"

    @property
    def top_level_name(self) -> str:
        """The name of the queue or topic that it is, or that it is a subscription of."""
        return subscription_name.family(self.name)

    @property
    def topic_key(self) -> str:
        """Of a subscription: the key of its topic; of a topic: its own; "" of a queue."""
        if self.kind is EntityKind.SUBSCRIPTION:
            parts = subscription_name.split(self.key)
            assert parts is not None, self.name
            return parts[0]
        return self.key if self.kind is EntityKind.TOPIC else ""

    @property
    def state(self) -> EntityState:
        """Where in its life it is."""
        if self.deleted:
            return EntityState.DELETED
        return EntityState.ORPHANED if self.orphaned else EntityState.LIVE

    @property
    def partitioned(self) -> bool:
        """Whether messages are spread over partitions."""
        return self.partition_count > 1

    def partitions(self) -> range:
        """Return the indexes of the partitions that hold messages of this entity."""
        if self.partitioned:
            return range(self.partition_count)
        return range(self.home_partition, self.home_partition + 1)

    def partition_of(self, key: str) -> int:
        """Return the partition that holds the messages of a key."""
        if self.partitioned:
            return partitioning.partition_of(key, self.partition_count)
        return self.home_partition

    def message_bytes_max(self, tier: Tier) -> int:
        """Return the largest message that may be sent to this entity."""
        own = self.description.max_message_size_in_kilobytes * limits.KB
        largest = own or limits.message_bytes_default(tier)
        if tier is Tier.PREMIUM and self.partitioned:
            return min(largest, limits.PREMIUM_PARTITIONED_MESSAGE_BYTES_MAX)
        return largest


def check_kind(entity: Entity, kind: EntityKind) -> None:
    """Raise EntityNotFound unless an entity is of this kind."""
    if entity.kind is not kind:
        raise EntityNotFound(
            f"there is no {kind} {entity.name!r}: it is a {entity.kind}.",
            metadata={"entity": entity.name, "kind": entity.kind},
        )


def rules_of(entity: Entity) -> RuleSet:
    """Return the rules of a subscription; none of another entity."""
    described = entity.description
    return described.rules if isinstance(described, SubscriptionDescription) else _NO_RULES


def with_rules(subscription: Entity, rules: RuleSet) -> Entity:
    """Return a subscription with other rules."""
    described = subscription.description
    assert isinstance(described, SubscriptionDescription), subscription
    return replace(subscription, description=replace(described, rules=rules))


def forgettable(count: int, tombstones: Iterable[Entity]) -> list[Entity]:
    """Return the oldest of `count` tombstones, where these are more than are remembered.

    That is none mostly, then many at a time, so that a deletion costs the same however many there
    were before it.
    """
    most = limits.TOMBSTONES_MAX
    if count <= most + most // 10:
        return []
    return heapq.nsmallest(count - most, tombstones, key=lambda each: each.generation)


def manifest_of(manifest_uid: str, *, uid: str, origin: Origin) -> str:
    """Return the manifest that an entry belongs to, also for one written before entries said so."""
    return manifest_uid or (uid if origin is Origin.MANIFEST else "")


def split_path(entity_path: str) -> tuple[str, SubQueue]:
    """Return (entity name, sub-queue) of a path.

    Raises InvalidOperation for a sub-queue that does not exist.
    """
    name, separator, suffix = entity_path.partition("/$")
    if not separator:
        return entity_path, SubQueue.MAIN
    sub_queue = _SUB_QUEUES.get(f"${suffix}".lower())
    if sub_queue is None:
        raise InvalidOperation(
            f"{entity_path!r}: the sub-queues are NAME/{DEAD_LETTER_SUFFIX} and "
            f"NAME/{TRANSFER_DEAD_LETTER_SUFFIX}.",
            metadata={"field": "entity_path"},
        )
    return name, sub_queue
