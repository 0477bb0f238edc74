"""What entities of every kind are to be: one rule for each setting, whichever kinds have it.

A description holds the settings that a user can choose for its kind. What rules of messages read
and a kind has no setting for is a constant of its class, so that no rule asks for the kind.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

from bendybus.domain import limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidArgument, InvalidOperation
from bendybus.domain.limits import Tier
from bendybus.domain.queue_description import QueueDescription
from bendybus.domain.subscription_description import SubscriptionDescription
from bendybus.domain.topic_description import TopicDescription

Description = QueueDescription | TopicDescription | SubscriptionDescription
AnyDescription = TypeVar("AnyDescription", bound=Description)

TYPES: Final[Mapping[EntityKind, type[Description]]] = MappingProxyType(
    {
        EntityKind.QUEUE: QueueDescription,
        EntityKind.TOPIC: TopicDescription,
        EntityKind.SUBSCRIPTION: SubscriptionDescription,
    }
)
# Manifest names of the fields, for error sentences and manifests alike.
_MANIFEST_NAMES: Final[dict[str, str]] = {
    "enable_partitioning": "enablePartitioning",
    "lock_duration_ms": "lockDuration",
    "max_size_in_megabytes": "maxSizeInMegabytes",
    "max_message_size_in_kilobytes": "maxMessageSizeInKilobytes",
    "requires_duplicate_detection": "requiresDuplicateDetection",
    "duplicate_detection_history_time_window_ms": "duplicateDetectionHistoryTimeWindow",
    "requires_session": "requiresSession",
    "default_message_time_to_live_ms": "defaultMessageTimeToLive",
    "dead_lettering_on_message_expiration": "deadLetteringOnMessageExpiration",
    "dead_lettering_on_filter_evaluation_exceptions": "deadLetteringOnFilterEvaluationExceptions",
    "max_delivery_count": "maxDeliveryCount",
    "auto_delete_on_idle_ms": "autoDeleteOnIdle",
    "status": "status",
    "forward_to": "forwardTo",
    "forward_dead_lettered_messages_to": "forwardDeadLetteredMessagesTo",
    "user_metadata": "userMetadata",
    "rules": "rules",
}


def field_names(described: type[Any]) -> tuple[str, ...]:
    """Return the names of the settings of a kind, in order."""
    return tuple(field.name for field in fields(described))


def manifest_names(described: type[Any]) -> dict[str, str]:
    """Return the settings of a kind: field → its name in manifests and sentences."""
    return {name: _MANIFEST_NAMES[name] for name in field_names(described)}


def check(wanted: Description, *, tier: Tier, partition_count: int) -> None:
    """Raise InvalidArgument for the first field of `wanted` that a namespace cannot have.

    InvalidOperation where its tier has no entities of the kind.
    """
    check_tier(wanted.kind, tier)
    names = field_names(type(wanted))
    if wanted.status not in wanted.statuses:
        allowed = " or ".join(wanted.statuses)
        raise InvalidArgument(
            "status", f"of a {wanted.kind} must be {allowed} (got {wanted.status})."
        )
    for name in names:
        if rule := _RULES.get(name):
            rule(_MANIFEST_NAMES[name], getattr(wanted, name), tier)
    if wanted.requires_session and wanted.forward_to:
        raise InvalidArgument(
            _MANIFEST_NAMES["forward_to"],
            f"a {wanted.kind} that requires sessions cannot forward its messages; what it "
            "dead-letters can be forwarded. Set only one of both.",
        )
    if (
        tier is Tier.PREMIUM
        and not isinstance(wanted, SubscriptionDescription)
        and wanted.enable_partitioning
        and partition_count == 1
    ):
        raise InvalidArgument(
            "enablePartitioning",
            "this Premium namespace was created with one partition. Premium partitioning is "
            "chosen with premiumMessagingPartitions when the namespace is created.",
        )


def check_tier(kind: EntityKind, tier: Tier) -> None:
    """Raise InvalidOperation if a namespace of this tier has no entities of this kind."""
    if kind is not EntityKind.QUEUE and tier not in limits.TOPIC_TIERS:
        tiers = " or ".join(limits.TOPIC_TIERS)
        raise InvalidOperation(
            f"topics and subscriptions need a namespace of tier {tiers}; this one is {tier}.",
            metadata={"field": "sku.tier"},
        )


def check_new(
    wanted: Description, *, tier: Tier, partition_count: int, current: Description | None = None
) -> None:
    """Raise InvalidArgument for what a new entity, or a changed field of `current`, cannot have.

    Beside `check`; what exists goes on: earlier versions took more.
    """
    for name in field_names(type(wanted)):
        rule = _NEW_RULES.get(name)
        value = getattr(wanted, name)
        if rule and (current is None or getattr(current, name) != value):
            rule(_MANIFEST_NAMES[name], value, tier, partition_count)


def check_choice(changes: Mapping[str, Any], *, tier: Tier, partition_count: int) -> None:
    """Raise InvalidArgument if a client asks for what its namespace decides otherwise."""
    if (
        tier is Tier.PREMIUM
        and partition_count > 1
        and changes.get("enable_partitioning", True) is False
    ):
        raise InvalidArgument(
            "enablePartitioning",
            f"must not be false: this Premium namespace has {partition_count} partitions, and all "
            "of its entities are partitioned. Leave it out.",
        )


def reported_size_mb(described: Description, tier: Tier) -> int:
    """Return the size that administration calls show.

    Of a partitioned entity of Standard: of all partitions together; else that of the description.
    """
    return described.max_size_in_megabytes * _reported_factor(described, tier)


def with_own_size(wanted: AnyDescription, tier: Tier) -> AnyDescription:
    """Return a description with the size of one partition, where it has that of all.

    A client may give either: no number is both.
    """
    own_mb, rest = divmod(wanted.max_size_in_megabytes, _reported_factor(wanted, tier))
    if isinstance(wanted, SubscriptionDescription) or rest or own_mb not in limits.QUEUE_SIZES_MB:
        return wanted
    return replace(wanted, max_size_in_megabytes=own_mb)


def _reported_factor(described: Description, tier: Tier) -> int:
    spread = not isinstance(described, SubscriptionDescription) and described.enable_partitioning
    return limits.STANDARD_PARTITION_COUNT if spread and tier is not Tier.PREMIUM else 1


def merged(current: AnyDescription, changes: Mapping[str, Any]) -> AnyDescription:
    """Return `current` with the fields in `changes` replaced."""
    known = set(field_names(type(current)))
    assert changes.keys() <= known, changes.keys() - known
    return replace(current, **changes)


def buried(described: AnyDescription) -> AnyDescription:
    """Return what a tombstone keeps of a description: nothing whose size a user chooses."""
    texts = ("user_metadata", "forward_to", "forward_dead_lettered_messages_to")
    known = field_names(type(described))
    changes: dict[str, Any] = {name: "" for name in texts if name in known}
    if "rules" in known:
        changes["rules"] = ()
    return merged(described, changes)


def settled(
    wanted: AnyDescription,
    *,
    tier: Tier,
    partition_count: int,
    current: Description | None = None,
) -> AnyDescription:
    """Return the description as a namespace keeps it: what the tier decides is written down.

    Premium: partitioning is the namespace's, whatever the description says. Basic: messages expire,
    but for a `current` entity of an earlier version, where they did not.
    """
    if isinstance(wanted, SubscriptionDescription):
        return wanted
    premium = tier is Tier.PREMIUM
    default_kb = limits.message_bytes_default(tier) // limits.KB
    return replace(
        wanted,
        enable_partitioning=partition_count > 1 if premium else wanted.enable_partitioning,
        max_message_size_in_kilobytes=wanted.max_message_size_in_kilobytes or default_kb,
        default_message_time_to_live_ms=_time_to_live_of(wanted, tier, current),
    )


def _time_to_live_of(wanted: Description, tier: Tier, current: Description | None) -> int | None:
    own_ms = wanted.default_message_time_to_live_ms
    endless = current is not None and current.default_message_time_to_live_ms is None
    if own_ms is None and tier is Tier.BASIC and not endless:
        return limits.BASIC_TIME_TO_LIVE_MS_MAX
    return own_ms


def _range(lowest: int, highest: int, unit: str = "") -> Callable[[str, int, Tier], None]:
    def rule(name: str, value: int, tier: Tier) -> None:
        if not lowest <= value <= highest:
            raise InvalidArgument(
                name, f"must be {lowest}{unit} to {highest}{unit} (got {value}{unit})."
            )

    return rule


def _time_to_live(name: str, value: int | None, tier: Tier) -> None:
    if value is not None and value < limits.SECOND_MS:
        raise InvalidArgument(name, "must be at least PT1S.")
    if (value or 0) > limits.TIME_TO_LIVE_MS_MAX:
        raise InvalidArgument(name, "must be at most P10675199D; omit it for no expiry.")
    if tier is Tier.BASIC and (value or 0) > limits.BASIC_TIME_TO_LIVE_MS_MAX:
        raise InvalidArgument(name, "must be at most P14D in the Basic tier.")


def _idle(name: str, value: int | None, tier: Tier) -> None:
    if value is not None and value < limits.AUTO_DELETE_ON_IDLE_MS_MIN:
        raise InvalidArgument(name, "must be at least PT5M; omit it for never.")
    if (value or 0) > limits.TIME_TO_LIVE_MS_MAX:
        raise InvalidArgument(name, "must be at most P10675199D; omit it for never.")


def _session(name: str, value: bool, tier: Tier) -> None:
    if value and tier not in limits.SESSION_TIERS:
        tiers = " or ".join(limits.SESSION_TIERS)
        raise InvalidArgument(name, f"needs a namespace of tier {tiers}; this one is {tier}.")


def _forward(name: str, value: str, tier: Tier) -> None:
    if value and tier not in limits.FORWARDING_TIERS:
        tiers = " or ".join(limits.FORWARDING_TIERS)
        raise InvalidArgument(name, f"needs a namespace of tier {tiers}; this one is {tier}.")
    if len(value) > limits.ENTITY_NAME_CHARS_MAX:
        raise InvalidArgument(
            name, f"must be at most {limits.ENTITY_NAME_CHARS_MAX} characters (got {len(value)})."
        )


def _metadata(name: str, value: str, tier: Tier) -> None:
    if len(value) > limits.USER_METADATA_CHARS_MAX:
        raise InvalidArgument(
            name,
            f"must be at most {limits.USER_METADATA_CHARS_MAX} characters (got {len(value)}).",
        )


def _size(name: str, value: int, tier: Tier) -> None:
    if tier is Tier.PREMIUM:
        _range(1, limits.PREMIUM_QUEUE_SIZE_MB_MAX)(name, value, tier)
    elif value not in limits.QUEUE_SIZES_MB:
        allowed = ", ".join(str(size) for size in limits.QUEUE_SIZES_MB)
        raise InvalidArgument(name, f"must be one of {allowed} (got {value}).")


def _new_size(name: str, value: int, tier: Tier, partition_count: int) -> None:
    if tier is Tier.PREMIUM and value not in limits.PREMIUM_QUEUE_SIZES_MB:
        allowed = ", ".join(str(size) for size in limits.PREMIUM_QUEUE_SIZES_MB)
        raise InvalidArgument(name, f"must be one of {allowed} (got {value}).")


def _new_message_size(name: str, value: int, tier: Tier, partition_count: int) -> None:
    most_kb = limits.PREMIUM_PARTITIONED_MESSAGE_BYTES_MAX // limits.KB
    if tier is Tier.PREMIUM and partition_count > 1 and value > most_kb:
        raise InvalidArgument(
            name,
            f"must be at most {most_kb} in a Premium namespace of {partition_count} partitions "
            f"(got {value}); larger messages need a namespace of one partition.",
        )


def _new_duplicates(name: str, value: bool, tier: Tier, partition_count: int) -> None:
    # Up to version 0.4 every tier detected duplicates.
    if value and tier not in limits.DUPLICATE_DETECTION_TIERS:
        tiers = " or ".join(limits.DUPLICATE_DETECTION_TIERS)
        raise InvalidArgument(name, f"needs a namespace of tier {tiers}; this one is {tier}.")


def _message_size(name: str, value: int, tier: Tier) -> None:
    if tier is Tier.PREMIUM:
        if value:
            _range(limits.PREMIUM_MESSAGE_KB_MIN, limits.PREMIUM_MESSAGE_KB_MAX)(name, value, tier)
    elif value not in (0, limits.STANDARD_MESSAGE_BYTES_MAX // limits.KB):
        raise InvalidArgument(name, f"can be set only in Premium; {tier} allows 256.")


_NEW_RULES: Final[dict[str, Callable[[str, Any, Tier, int], None]]] = {
    "requires_duplicate_detection": _new_duplicates,
    "max_size_in_megabytes": _new_size,
    "max_message_size_in_kilobytes": _new_message_size,
}
_RULES: Final[dict[str, Callable[[str, Any, Tier], None]]] = {
    "lock_duration_ms": _range(limits.LOCK_DURATION_MS_MIN, limits.LOCK_DURATION_MS_MAX, " ms"),
    "duplicate_detection_history_time_window_ms": _range(
        limits.DUPLICATE_WINDOW_MS_MIN, limits.DUPLICATE_WINDOW_MS_MAX, " ms"
    ),
    "requires_session": _session,
    "max_delivery_count": _range(1, limits.MAX_DELIVERY_COUNT_MAX),
    "default_message_time_to_live_ms": _time_to_live,
    "auto_delete_on_idle_ms": _idle,
    "forward_to": _forward,
    "forward_dead_lettered_messages_to": _forward,
    "user_metadata": _metadata,
    "max_size_in_megabytes": _size,
    "max_message_size_in_kilobytes": _message_size,
}
