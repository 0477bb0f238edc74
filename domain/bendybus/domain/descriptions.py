"""What descriptions of entities may be as a whole, how they change, and what the tier decides.

The bounds of each setting by itself are in `entity_settings`. What cannot be changed once a
namespace or an entity exists is partitioning before all: "It isn't possible to change the
partitioning option on any existing namespace, queue, or topic; you can only set the option when you
create the entity".
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from bendybus.domain import entity_settings, forwarding, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description, SubscriptionDescription
from bendybus.domain.errors import InvalidArgument, InvalidOperation, PartitioningImmutable
from bendybus.domain.limits import Tier

AnyDescription = TypeVar("AnyDescription", bound=Description)


def check(wanted: Description, *, tier: Tier, partition_count: int) -> None:
    """Raise InvalidArgument for the first field of `wanted` that a namespace cannot have.

    InvalidOperation where its tier has no entities of the kind.
    """
    check_tier(wanted.kind, tier)
    if wanted.status not in wanted.statuses:
        allowed = " or ".join(wanted.statuses)
        raise InvalidArgument(
            "status", f"of a {wanted.kind} must be {allowed} (got {wanted.status})."
        )
    for setting in entity_settings.BY_KIND[wanted.kind]:
        setting.check(getattr(wanted, setting.name), tier)
    if wanted.requires_session and wanted.forward_to:
        raise InvalidArgument(
            "forwardTo",
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
    for setting in entity_settings.BY_KIND[wanted.kind]:
        value = getattr(wanted, setting.name)
        if current is None or getattr(current, setting.name) != value:
            setting.check_new(value, tier)
    forwarding.check_names(wanted, current)
    size_kb = wanted.max_message_size_in_kilobytes
    if current is None or current.max_message_size_in_kilobytes != size_kb:
        _check_new_message_size(size_kb, tier, partition_count)


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
            "of its entities are partitioned. Set it to true, or leave it out.",
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
    return replace(current, **changes)


def buried(described: AnyDescription) -> AnyDescription:
    """Return what a tombstone keeps of a description: nothing whose size a user chooses."""
    return merged(
        described,
        {
            each.name: () if each.is_list else ""
            for each in entity_settings.BY_KIND[described.kind]
            if each.is_text or each.is_list
        },
    )


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


def _check_new_message_size(size_kb: int, tier: Tier, partition_count: int) -> None:
    most_kb = limits.PREMIUM_PARTITIONED_MESSAGE_BYTES_MAX // limits.KB
    if tier is Tier.PREMIUM and partition_count > 1 and size_kb > most_kb:
        raise InvalidArgument(
            "maxMessageSizeInKilobytes",
            f"must be at most {most_kb} in a Premium namespace of {partition_count} partitions "
            f"(got {size_kb}); larger messages need a namespace of one partition.",
        )


def check_unchanged(name: str, current: Description, wanted: Description) -> None:
    """Raise PartitioningImmutable or InvalidOperation when an update changes what is fixed."""
    for setting in entity_settings.BY_KIND[current.kind]:
        before, after = getattr(current, setting.name), getattr(wanted, setting.name)
        if not setting.fixed or before == after:
            continue
        sentence = (
            f"{current.kind} {name!r}: {setting.manifest_name} cannot be changed after creation "
            f"(is {_word(before)}, got {_word(after)}). Create another {current.kind} with that "
            "setting."
        )
        kind = PartitioningImmutable if setting.name == "enable_partitioning" else InvalidOperation
        raise kind(sentence, metadata={"field": setting.manifest_name, "entity": name})


def _word(value: object) -> str:
    return str(value).lower()


def check_namespace_unchanged(
    name: str, *, tier: Tier, partition_count: int, wanted_tier: Tier, wanted_count: int
) -> None:
    """Raise PartitioningImmutable if an update of a namespace changes what is fixed."""
    changes = {
        "sku.tier": (tier.value, wanted_tier.value),
        "premiumMessagingPartitions": (partition_count, wanted_count),
    }
    for field, (now, wanted) in changes.items():
        if now != wanted:
            raise PartitioningImmutable(
                f"BusNamespace {name!r}: {field} is {now} since the namespace was created and "
                f"cannot become {wanted}. Create a namespace of another name and move to it.",
                metadata={"field": field, "namespace": name},
            )
