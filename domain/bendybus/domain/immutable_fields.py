"""What cannot be changed once a namespace or an entity exists: partitioning before all.

Source: "It isn't possible to change the partitioning option on any existing namespace, queue, or
topic; you can only set the option when you create the entity".
"""

from bendybus.domain import entity_settings
from bendybus.domain.entity_settings import Description
from bendybus.domain.errors import InvalidOperation, PartitioningImmutable
from bendybus.domain.limits import Tier


def check_entity(name: str, current: Description, wanted: Description) -> None:
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
