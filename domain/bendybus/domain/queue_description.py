"""What a queue is to be, and the limits of its settings."""

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.limits import Tier


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


# Accepted names whose behaviour does not exist yet: refused, never ignored.
NOT_YET: Final = ("requires_session", "forward_to", "forward_dead_lettered_messages_to")


def check(wanted: QueueDescription, *, tier: Tier, partition_count: int) -> None:
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


def merged(current: QueueDescription, changes: dict[str, Any]) -> QueueDescription:
    """Return `current` with the fields in `changes` replaced."""
    known = {field.name for field in fields(QueueDescription)}
    assert changes.keys() <= known, changes.keys() - known
    return replace(current, **changes)


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
