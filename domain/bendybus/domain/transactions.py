"""What may be done in one transaction: the rules that need nothing but its parts.

Source: "All messages that are sent as part of the same transaction must specify the same partition
key"; a transaction has 100 messages at most, lasts two minutes at most, and settles messages of one
entity, which it is about; without a settlement that is the first one that it sends to. What it
sends to others is kept there, and forwarded after its commit.
"""

from collections.abc import Collection, Iterable

from bendybus.domain import limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidArgument, InvalidOperation
from bendybus.domain.limits import Tier


def check_allowed(tier: Tier) -> None:
    """Raise InvalidOperation where a namespace has no transactions."""
    if tier is Tier.BASIC:
        raise InvalidOperation(
            "the Basic tier has no transactions. Use a Standard or Premium namespace."
        )


def check_age(age_ms: int) -> None:
    """Raise InvalidOperation for a transaction that is not committed in time."""
    if age_ms > limits.TRANSACTION_MS_MAX:
        raise InvalidOperation(
            "the transaction was rolled back, since it was not committed within "
            f"{limits.TRANSACTION_MS_MAX // 1000} s of its first operation: nothing of it is done. "
            "Run it again."
        )


def check_top_level(first: Entity, other: Entity) -> None:
    """Raise InvalidOperation for the second entity of a transaction that may not span several."""
    if first.top_level_name.lower() != other.top_level_name.lower():
        raise InvalidOperation(
            "Local transactions cannot span multiple top-level entities such as queue or topic: "
            f"this one began with {first.title} and continues with {other.title}. Create a client "
            "for transactions across entities, or use a transaction for each.",
            metadata={"entity": first.name},
        )


def check_receives(first: str, name: str) -> None:
    """Raise InvalidOperation for a receiver of another entity than its session began with.

    In such a session messages are sent to other entities through the first, and nothing can be
    received through an entity.
    """
    if first.lower() != name.lower():
        raise InvalidOperation(
            f"{name!r} cannot be received from through {first!r}, the first entity that this "
            "client used: in transactions across entities only the first one is received from. "
            "Create the receiver first, or another client."
        )


def check_settles(first: Entity, other: Entity) -> None:
    """Raise InvalidOperation unless messages settle of the entity that a transaction is about."""
    if first.uid != other.uid:
        raise InvalidOperation(
            "Local transactions cannot span multiple top-level entities such as queue or topic: "
            f"this one settles messages of {first.title}; settle those of {other.title} in another "
            "one.",
            metadata={"entity": first.name},
        )


def check_transfers(via: Entity, destination: Entity) -> None:
    """Raise InvalidOperation unless messages for another entity can be kept at `via` until sent."""
    if via.kind is EntityKind.TOPIC:
        raise InvalidOperation(
            "Local transactions cannot span multiple top-level entities such as queue or topic: "
            f"this one began with {via.title} and continues with {destination.title}, and a topic "
            "keeps no messages for others. Begin with an operation on a queue or subscription.",
            metadata={"entity": via.name},
        )


def check_sessions(entity: Entity, sessions: Collection[object]) -> None:
    """Raise InvalidOperation for several sessions of a partitioned entity.

    `sessions`: those whose messages are settled, by id or by session token, and sent to.
    """
    if entity.partitioned and len(sessions) > 1:
        raise InvalidOperation(
            f"{entity.title} is partitioned: messages of different sessions cannot be settled or "
            f"sent in one transaction (got {len(sessions)} sessions). Use a transaction for each.",
            metadata={"entity": entity.name},
        )


def check_cancelled(numbers: Collection[int]) -> None:
    """Raise InvalidOperation for a scheduled message that a transaction cancels twice."""
    if len(set(numbers)) < len(numbers):
        raise InvalidOperation(
            "a scheduled message can be cancelled only once in a transaction. Leave out the second "
            "cancellation."
        )


def check_disposition(disposition: Disposition) -> None:
    """Raise InvalidArgument for what is not done in a transaction."""
    if disposition is Disposition.RELEASE:
        raise InvalidArgument("disposition", "must be a settlement or a renewal.")


def check_partitions(entity: Entity, partitions: Collection[int]) -> None:
    """Raise InvalidOperation unless all messages, sent or settled, are of one partition."""
    if len(partitions) > 1:
        named = ", ".join(map(str, sorted(partitions)))
        raise InvalidOperation(
            f"{entity.title}: all messages of a transaction must be in one partition; these are in "
            f"partitions {named}. Use a transaction for each partition, and send with the "
            "partition key of the messages that are settled.",
            metadata={"entity": entity.name, "partitions": named},
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
    """Raise InvalidOperation unless the messages sent to partitioned entities have one key.

    `keys`: the effective keys of all of them in the transaction, see `partitioning`; `entity`: the
    one that the last was sent to. Messages of a plain entity need none.
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
