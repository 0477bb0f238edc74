"""What cannot be changed of a namespace or a queue that exists."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import descriptions
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.errors import InvalidOperation, PartitioningImmutable
from bendybus.domain.limits import Tier


@pytest.mark.requirement("R07")
@pytest.mark.parametrize(
    ("tier", "count", "field"),
    [(Tier.PREMIUM, 4, "sku.tier"), (Tier.STANDARD, 8, "premiumMessagingPartitions")],
)
def test_tier_and_partitions_of_a_namespace_never_change(
    tier: Tier, count: int, field: str
) -> None:
    now: dict[str, Any] = {"tier": Tier.STANDARD, "partition_count": 4}

    descriptions.check_namespace_unchanged("bus", **now, wanted_tier=Tier.STANDARD, wanted_count=4)
    with pytest.raises(PartitioningImmutable, match="cannot become") as caught:
        descriptions.check_namespace_unchanged("bus", **now, wanted_tier=tier, wanted_count=count)

    assert caught.value.metadata["field"] == field


@pytest.mark.requirement("R08")
@pytest.mark.parametrize("before", [True, False])
def test_the_partitioning_of_a_queue_never_changes(before: bool) -> None:
    current = QueueDescription(enable_partitioning=before)

    with pytest.raises(PartitioningImmutable, match="cannot be changed after creation") as caught:
        descriptions.check_unchanged("q", current, replace(current, enable_partitioning=not before))

    assert caught.value.metadata["field"] == "enablePartitioning"


@pytest.mark.parametrize("field", ["requires_duplicate_detection", "requires_session"])
def test_other_fixed_fields_are_an_invalid_operation(field: str) -> None:
    changes: dict[str, Any] = {field: True}

    with pytest.raises(InvalidOperation):
        descriptions.check_unchanged("q", QueueDescription(), QueueDescription(**changes))


def test_all_else_may_change() -> None:
    wanted = QueueDescription(lock_duration_ms=5_000, max_delivery_count=3, user_metadata="x")

    descriptions.check_unchanged("q", QueueDescription(), wanted)
