"""Namespace → how many partitions; entity → its partitions; key → partition.

Changes here would break the order of stored messages.

Rule (Service Bus, "Using a partition key"): SessionId, else PartitionKey, else MessageId where
the entity detects duplicates, else none. SessionId and PartitionKey both set and different is an
invalid operation. Partition = CRC-32 of the UTF-8 key modulo the number of partitions.
"""

from zlib import crc32

from bendybus.domain import limits
from bendybus.domain.errors import InvalidOperation
from bendybus.domain.limits import Tier


def namespace_partition_count(tier: Tier, premium_messaging_partitions: int | None) -> int:
    """Return how many partitions a namespace has: 16 in Basic and Standard, chosen in Premium."""
    if tier is Tier.PREMIUM:
        return premium_messaging_partitions or 1
    return limits.STANDARD_PARTITION_COUNT


def effective_key(
    *,
    session_id: str | None,
    partition_key: str,
    message_id: str,
    detects_duplicates: bool,
) -> str | None:
    """Return the key that pins a message to a partition, or None if it may go anywhere.

    An empty PartitionKey or MessageId is none; an empty SessionId is a key.
    Raises InvalidOperation when SessionId and PartitionKey contradict each other.
    """
    if session_id is not None:
        if partition_key and partition_key != session_id:
            raise InvalidOperation(
                f"PartitionKey {partition_key!r} differs from SessionId {session_id!r}: a message "
                "that has both must have the same text in both. Set only SessionId.",
                metadata={"field": "PartitionKey"},
            )
        return session_id
    if partition_key:
        return partition_key
    if detects_duplicates and message_id:
        return message_id
    return None


def partition_of(key: str, partition_count: int) -> int:
    """Return the partition, 0 and up, that owns `key` (case-sensitive)."""
    return crc32(key.encode("utf-8", "surrogatepass")) % partition_count


def home_partition(entity_name: str, partition_count: int) -> int:
    """Return the partition that holds a plain entity, by its name without regard to case."""
    return partition_of(entity_name.lower(), partition_count)


def placement(
    entity_name: str,
    *,
    enable_partitioning: bool,
    tier: Tier,
    partition_count: int,
    migrated: bool = False,
) -> tuple[int, int]:
    """Return (number of partitions, home partition) of a new entity; they never change.

    Premium: every entity is spread over the partitions of the namespace. Basic and Standard:
    only if it enables partitioning; otherwise its home partition holds all of it. `migrated`: from
    a namespace of the earlier premium form; it keeps its two partitions, where there are so many.
    """
    if migrated and tier is not Tier.PREMIUM:
        raise InvalidOperation(
            f"only a Premium namespace takes migrated entities; this one is {tier}. Create it "
            "without `migrated`.",
            metadata={"field": "migrated"},
        )
    spread = enable_partitioning or tier is Tier.PREMIUM
    home = home_partition(entity_name, partition_count)
    count = min(limits.MIGRATED_PARTITION_COUNT, partition_count) if migrated else partition_count
    return (count, home) if spread and count > 1 else (1, home)
