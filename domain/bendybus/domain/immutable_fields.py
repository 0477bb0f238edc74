"""What cannot be changed once a namespace or an entity exists: partitioning before all.

Source: "It isn't possible to change the partitioning option on any existing namespace, queue, or
topic; you can only set the option when you create the entity".
"""

from typing import Final

from bendybus.domain import descriptions
from bendybus.domain.descriptions import Description
from bendybus.domain.errors import InvalidOperation, PartitioningImmutable
from bendybus.domain.limits import Tier

IMMUTABLE_FIELDS: Final = (
    "enable_partitioning",
    "requires_duplicate_detection",
    "requires_session",
)


def check_entity(name: str, current: Description, wanted: Description) -> None:
    """Raise PartitioningImmutable or InvalidOperation when an update changes what is fixed."""
    names = descriptions.manifest_names(type(current))
    for field in IMMUTABLE_FIELDS:
        if field not in names:
            continue
        if getattr(current, field) == getattr(wanted, field):
            continue
        manifest_name = names[field]
        sentence = (
            f"{current.kind} {name!r}: {manifest_name} cannot be changed after creation (is "
            f"{_word(getattr(current, field))}, got {_word(getattr(wanted, field))}). Create "
            f"another {current.kind} with that setting."
        )
        kind = PartitioningImmutable if field == "enable_partitioning" else InvalidOperation
        raise kind(sentence, metadata={"field": manifest_name, "entity": name})


def _word(value: object) -> str:
    return str(value).lower()


def check_namespace(
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
