"""What may be done in one transaction: the rules that need nothing but its parts.

Source: "All messages that are sent as part of the same transaction must specify the same partition
key"; a transaction has 100 messages at most and works on one entity.
"""

from collections.abc import Iterable

from bendybus.domain import limits
from bendybus.domain.entity import Entity
from bendybus.domain.errors import InvalidOperation
from bendybus.domain.limits import Tier


def check_allowed(tier: Tier) -> None:
    """Raise InvalidOperation where a namespace has no transactions."""
    if tier is Tier.BASIC:
        raise InvalidOperation(
            "the Basic tier has no transactions. Use a Standard or Premium namespace."
        )


def check_size(messages: int, content_bytes: int) -> None:
    """Raise InvalidOperation for more than one transaction may hold.

    `messages` are those that are sent and those that are settled.
    """
    most, most_bytes = limits.TRANSACTION_MESSAGES_MAX, limits.TRANSACTION_BYTES_MAX
    if not 0 < messages <= most:
        raise InvalidOperation(f"a transaction has 1 to {most} messages (got {messages}).")
    if messages > 1 and content_bytes > most_bytes:
        raise InvalidOperation(
            f"the messages of a transaction are {most_bytes} bytes at most (got {content_bytes}). "
            "Send fewer in one transaction."
        )


def check_keys(entity: Entity, keys: Iterable[str | None]) -> None:
    """Raise InvalidOperation unless the messages sent to a partitioned entity have one key.

    `keys` are their effective keys; see `partitioning`. Messages of a plain entity need none.
    """
    if not entity.partitioned:
        return
    seen: set[str | None] = set(keys)
    if None in seen:
        raise InvalidOperation(
            f"{entity.name!r} is partitioned: a message that is sent in a transaction needs a "
            "partition key. Set SessionId or PartitionKey.",
            metadata={"entity": entity.name},
        )
    if len(seen) > 1:
        raise InvalidOperation(
            f"{entity.name!r} is partitioned: all messages that are sent in one transaction must "
            f"have the same partition key (got {len(seen)} different ones).",
            metadata={"entity": entity.name},
        )
