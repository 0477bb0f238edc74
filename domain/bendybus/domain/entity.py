"""What an entity is: its description, the rules that descriptions obey, and its catalogue entry."""

import dataclasses
import heapq
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

from bendybus.domain import bounds, limits
from bendybus.domain.errors import InvalidArgument, InvalidOperation, PartitioningImmutable
from bendybus.domain.lifecycle import EntityState
from bendybus.domain.limits import Tier
from bendybus.domain.sub_queue import SubQueue

DEAD_LETTER_SUFFIX: Final = "$DeadLetterQueue"
SUBSCRIPTIONS: Final = "/subscriptions/"
PARTITIONS_MAX: Final = max(limits.PREMIUM_PARTITION_COUNTS)
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9_])?\Z")


class EntityStatus(StrEnum):
    """What an entity accepts at the moment."""

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"

    @property
    def sends(self) -> bool:
        """Whether messages may be sent."""
        return self in (EntityStatus.ACTIVE, EntityStatus.RECEIVE_DISABLED)

    @property
    def receives(self) -> bool:
        """Whether messages may be received."""
        return self in (EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED)


class Origin(StrEnum):
    """How an entity was created, which decides how it may be changed."""

    CLIENT = "Client"
    MANIFEST = "Manifest"


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """What a queue is to be. Durations in milliseconds, None is without end."""

    enable_partitioning: bool = False
    lock_duration_ms: int = limits.LOCK_DURATION_MS_DEFAULT
    max_size_in_megabytes: int = limits.QUEUE_SIZE_MB_DEFAULT
    # 0: the default of the tier.
    max_message_size_in_kilobytes: int = 0
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window_ms: int = limits.DUPLICATE_WINDOW_MS_DEFAULT
    requires_session: bool = False
    default_message_time_to_live_ms: int | None = None
    dead_lettering_on_message_expiration: bool = False
    max_delivery_count: int = limits.MAX_DELIVERY_COUNT_DEFAULT
    auto_delete_on_idle_ms: int | None = None
    status: EntityStatus = EntityStatus.ACTIVE
    forward_to: str = ""
    forward_dead_lettered_messages_to: str = ""
    user_metadata: str = ""


# Manifest names of the fields, for error sentences and manifests alike.
MANIFEST_NAMES: Final[dict[str, str]] = {
    "enable_partitioning": "enablePartitioning",
    "lock_duration_ms": "lockDuration",
    "max_size_in_megabytes": "maxSizeInMegabytes",
    "max_message_size_in_kilobytes": "maxMessageSizeInKilobytes",
    "requires_duplicate_detection": "requiresDuplicateDetection",
    "duplicate_detection_history_time_window_ms": "duplicateDetectionHistoryTimeWindow",
    "requires_session": "requiresSession",
    "default_message_time_to_live_ms": "defaultMessageTimeToLive",
    "dead_lettering_on_message_expiration": "deadLetteringOnMessageExpiration",
    "max_delivery_count": "maxDeliveryCount",
    "auto_delete_on_idle_ms": "autoDeleteOnIdle",
    "status": "status",
    "forward_to": "forwardTo",
    "forward_dead_lettered_messages_to": "forwardDeadLetteredMessagesTo",
    "user_metadata": "userMetadata",
}
IMMUTABLE_FIELDS: Final = (
    "enable_partitioning",
    "requires_duplicate_detection",
    "requires_session",
)
# Accepted names whose behaviour does not exist yet: refused, never ignored.
NOT_YET: Final = ("requires_session", "forward_to", "forward_dead_lettered_messages_to")


def check_name(name: str) -> None:
    """Raise InvalidArgument unless `name` can be an entity's name."""
    if len(name) > limits.ENTITY_NAME_CHARS_MAX:
        raise InvalidArgument(
            "entityName",
            f"must be at most {limits.ENTITY_NAME_CHARS_MAX} characters (got {len(name)}).",
        )
    if not _NAME.match(name) or "//" in name:
        raise InvalidArgument(
            "entityName",
            f"{name!r} must start with a letter or digit, end with one (or _), and have only "
            "letters, digits and . - _ / in between.",
        )


def check_new_name(name: str) -> None:
    """Raise InvalidArgument unless an entity of this name can be made.

    A path with /Subscriptions/ is that of a subscription: an entity of such a name would be
    covered by the policies of another.
    """
    check_name(name)
    if SUBSCRIPTIONS in name.lower():
        raise InvalidArgument(
            "entityName",
            f"{name!r} must not contain {SUBSCRIPTIONS!r}, which is for subscriptions of topics.",
        )


def check_description(wanted: QueueDescription, *, tier: Tier, partition_count: int) -> None:
    """Raise InvalidArgument for the first field of `wanted` that a namespace cannot have."""
    for name in NOT_YET:
        if getattr(wanted, name):
            raise InvalidArgument(MANIFEST_NAMES[name], "is not supported yet. Omit it.")
    _check_range(
        wanted, "lock_duration_ms", limits.LOCK_DURATION_MS_MIN, limits.LOCK_DURATION_MS_MAX
    )
    _check_range(
        wanted,
        "duplicate_detection_history_time_window_ms",
        limits.DUPLICATE_WINDOW_MS_MIN,
        limits.DUPLICATE_WINDOW_MS_MAX,
    )
    _check_range(wanted, "max_delivery_count", 1, limits.MAX_DELIVERY_COUNT_MAX)
    _check_time_to_live(wanted, tier)
    idle_ms = wanted.auto_delete_on_idle_ms
    if idle_ms is not None and idle_ms < limits.AUTO_DELETE_ON_IDLE_MS_MIN:
        raise InvalidArgument("autoDeleteOnIdle", "must be at least PT5M; omit it for never.")
    if idle_ms is not None and idle_ms > limits.TIME_TO_LIVE_MS_MAX:
        raise InvalidArgument("autoDeleteOnIdle", "must be at most P10675199D; omit it for never.")
    if len(wanted.user_metadata) > limits.USER_METADATA_CHARS_MAX:
        raise InvalidArgument(
            "userMetadata",
            f"must be at most {limits.USER_METADATA_CHARS_MAX} characters "
            f"(got {len(wanted.user_metadata)}).",
        )
    _check_sizes(wanted, tier)
    if tier is Tier.PREMIUM and wanted.enable_partitioning and partition_count == 1:
        raise InvalidArgument(
            "enablePartitioning",
            "this Premium namespace was created with one partition. Premium partitioning is "
            "chosen with premiumMessagingPartitions when the namespace is created.",
        )


def _check_range(wanted: QueueDescription, name: str, lowest: int, highest: int) -> None:
    value = getattr(wanted, name)
    if not lowest <= value <= highest:
        unit = " ms" if name.endswith("_ms") else ""
        raise InvalidArgument(
            MANIFEST_NAMES[name], f"must be {lowest}{unit} to {highest}{unit} (got {value}{unit})."
        )


def _check_time_to_live(wanted: QueueDescription, tier: Tier) -> None:
    time_to_live_ms = wanted.default_message_time_to_live_ms
    if time_to_live_ms is not None and time_to_live_ms < 1_000:
        raise InvalidArgument("defaultMessageTimeToLive", "must be at least PT1S.")
    if (time_to_live_ms or 0) > limits.TIME_TO_LIVE_MS_MAX:
        raise InvalidArgument(
            "defaultMessageTimeToLive", "must be at most P10675199D; omit it for no expiry."
        )
    if tier is Tier.BASIC and (time_to_live_ms or 0) > limits.BASIC_TIME_TO_LIVE_MS_MAX:
        raise InvalidArgument("defaultMessageTimeToLive", "must be at most P14D in the Basic tier.")


def _check_sizes(wanted: QueueDescription, tier: Tier) -> None:
    size_mb, message_kb = wanted.max_size_in_megabytes, wanted.max_message_size_in_kilobytes
    if tier is Tier.PREMIUM:
        if not 1 <= size_mb <= limits.PREMIUM_QUEUE_SIZE_MB_MAX:
            raise InvalidArgument(
                "maxSizeInMegabytes",
                f"must be 1 to {limits.PREMIUM_QUEUE_SIZE_MB_MAX} (got {size_mb}).",
            )
        lowest, highest = limits.PREMIUM_MESSAGE_KB_MIN, limits.PREMIUM_MESSAGE_KB_MAX
        if message_kb and not lowest <= message_kb <= highest:
            raise InvalidArgument(
                "maxMessageSizeInKilobytes", f"must be {lowest} to {highest} (got {message_kb})."
            )
        return
    if size_mb not in limits.QUEUE_SIZES_MB:
        allowed = ", ".join(str(size) for size in limits.QUEUE_SIZES_MB)
        raise InvalidArgument("maxSizeInMegabytes", f"must be one of {allowed} (got {size_mb}).")
    if message_kb not in (0, limits.STANDARD_MESSAGE_BYTES_MAX // limits.KB):
        raise InvalidArgument(
            "maxMessageSizeInKilobytes", f"can be set only in Premium; {tier} allows 256."
        )


def check_entry(entry: "Entity") -> None:
    """Raise InvalidArgument unless a partition can keep an entry of the registrar."""
    check_name(entry.name)
    bounds.check_text("uid", entry.uid, bounds.UID_CHARS_MAX)
    bounds.check_text("manifest_uid", entry.manifest_uid, bounds.UID_CHARS_MAX)
    bounds.check_number("generation", entry.generation, bounds.NUMBER_MAX)
    bounds.check_number("partition_count", entry.partition_count, PARTITIONS_MAX, 1)
    bounds.check_number("home_partition", entry.home_partition, PARTITIONS_MAX - 1)
    bounds.check_number("created_at", entry.created_at_ms, bounds.TIME_MS_MAX)
    bounds.check_number("updated_at", entry.updated_at_ms, bounds.TIME_MS_MAX)
    for field in fields(QueueDescription):
        value = getattr(entry.queue, field.name)
        if isinstance(value, int):
            bounds.check_number(field.name, value, bounds.NUMBER_MAX)
    if len(entry.queue.user_metadata) > limits.USER_METADATA_CHARS_MAX:
        raise InvalidArgument(
            "userMetadata", f"must be at most {limits.USER_METADATA_CHARS_MAX} characters."
        )


def check_update(name: str, current: QueueDescription, wanted: QueueDescription) -> None:
    """Raise PartitioningImmutable or InvalidOperation when an update changes what is fixed.

    Source: "It isn't possible to change the partitioning option on any existing … queue".
    """
    for field in IMMUTABLE_FIELDS:
        if getattr(current, field) == getattr(wanted, field):
            continue
        manifest_name = MANIFEST_NAMES[field]
        sentence = (
            f"queue {name!r}: {manifest_name} cannot be changed after creation (is "
            f"{_word(getattr(current, field))}, got {_word(getattr(wanted, field))}). Create "
            "another queue with that setting."
        )
        kind = PartitioningImmutable if field == "enable_partitioning" else InvalidOperation
        raise kind(sentence, metadata={"field": manifest_name, "entity": name})


def _word(value: object) -> str:
    return str(value).lower()


def merged(current: QueueDescription, changes: dict[str, Any]) -> QueueDescription:
    """Return `current` with the fields in `changes` replaced."""
    known = {field.name for field in fields(QueueDescription)}
    assert changes.keys() <= known, changes.keys() - known
    return replace(current, **changes)


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
    queue: QueueDescription
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

    @property
    def key(self) -> str:
        """The name as it is compared: without regard to case."""
        return self.name.lower()

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

    def message_bytes_max(self, tier: Tier) -> int:
        """Return the largest message that may be sent to this entity."""
        own = self.queue.max_message_size_in_kilobytes * limits.KB
        largest = own or limits.message_bytes_default(tier)
        if tier is Tier.PREMIUM and self.partitioned:
            return min(largest, limits.PREMIUM_PARTITIONED_MESSAGE_BYTES_MAX)
        return largest


def settled(wanted: QueueDescription, *, tier: Tier, partition_count: int) -> QueueDescription:
    """Return the description as a namespace keeps it: what the tier decides is written down.

    Premium: partitioning is the namespace's, whatever the description says.
    """
    premium = tier is Tier.PREMIUM
    default_kb = limits.message_bytes_default(tier) // limits.KB
    return replace(
        wanted,
        enable_partitioning=partition_count > 1 if premium else wanted.enable_partitioning,
        max_message_size_in_kilobytes=wanted.max_message_size_in_kilobytes or default_kb,
    )


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
    if f"${suffix}".lower() != DEAD_LETTER_SUFFIX.lower():
        raise InvalidOperation(
            f"{entity_path!r}: the only sub-queue is NAME/{DEAD_LETTER_SUFFIX}.",
            metadata={"field": "entity_path"},
        )
    return name, SubQueue.DEAD_LETTER
