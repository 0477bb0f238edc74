"""Room for stored bytes: whatever can grow them asks here, and counts what it takes.

A queue pays for itself with all its sub-queues; a subscription's topic pays, with all its
subscriptions. What the partition does by itself (expiry, ends of locks, counts of deliveries,
messages that are set aside) and the texts of dead letters have room in any case: they are bounded.
"""

from bendybus.domain import errors, forwarding, lifecycle, limits
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.topics import SIZE_MS
from bendybus.partition_server.state.turn import Turn


def payer_of(partition: PartitionState, queue: MessageQueue) -> MessageQueue:
    """Return the main queue of the entity to whose quota a queue counts."""
    if queue.entity.kind is not EntityKind.SUBSCRIPTION:
        return partition.queues.main_of(queue.entity.uid)
    topic = partition.catalogue.by_key(queue.entity.topic_key)
    assert topic is not None, queue.entity
    return partition.queues.main_of(topic.uid)


def left(partition: PartitionState, payer: MessageQueue, now: Now, wanted: int) -> int:
    """Return the bytes that an entity has left: of a topic at least, if it is much.

    The sum over many subscriptions is made once a second, or when it decides; `grown` counts what
    comes in between.
    """
    most = payer.entity.description.max_size_in_megabytes * limits.MB
    if payer.entity.kind is not EntityKind.TOPIC:
        return most - partition.queues.size_bytes(payer.entity.uid)
    topic = partition.topics.of(payer.entity)
    age_ms = now.mono_ms - topic.measured_mono_ms
    # Once a turn: a frame of thousands of messages may find the topic full, each of them.
    if age_ms >= SIZE_MS or (age_ms and most - topic.size_bytes < wanted):
        topic.size_bytes = measured(partition, payer)
        topic.measured_mono_ms = now.mono_ms
    return most - topic.size_bytes


def measured(partition: PartitionState, topic: MessageQueue) -> int:
    """Return the size of a topic with all its subscriptions."""
    queues = partition.queues
    within = partition.catalogue.subscriptions(topic.entity)
    sizes = [queues.size_bytes(each.uid) for each in within if queues.all_of(each.uid)]
    return queues.size_bytes(topic.entity.uid) + sum(sizes)


def grown(partition: PartitionState, payer: MessageQueue, added_bytes: int) -> None:
    """Count what was stored since a topic was measured; what is taken back is uncounted."""
    if payer.entity.kind is EntityKind.TOPIC:
        topic = partition.topics.of(payer.entity)
        partition.journal.note(setattr, topic, "size_bytes", topic.size_bytes)
        topic.size_bytes += added_bytes


def refusal(turn: Turn, payer: MessageQueue, added_bytes: int) -> BusError | None:
    """Return why an entity may not grow by so much, None if it may."""
    partition = turn.partition
    if added_bytes <= 0:
        return None
    if partition.sends_refused:
        return errors.PartitionUnavailable(
            f"partition {partition.index} accepts no more data: {partition.sends_refused}. "
            "Receive or purge messages, or give the volume more room.",
            metadata={"partition": str(partition.index)},
        )
    if added_bytes > left(partition, payer, turn.now, added_bytes):
        return full(payer.entity, partition.index)
    return None


def take(turn: Turn, queue: MessageQueue, added_bytes: int) -> None:
    """Count what a queue grows by. Raises what refuses that: QuotaExceeded, or a full disk."""
    payer = payer_of(turn.partition, queue)
    refused = refusal(turn, payer, added_bytes)
    if refused is not None:
        raise refused
    grown(turn.partition, payer, added_bytes)


def full(entity: Entity, partition: int, what: str = "") -> errors.QuotaExceeded:
    """Return the error for an entity that has no room left in a partition."""
    return errors.QuotaExceeded(
        f"{entity.title}: partition {partition} is full "
        f"({entity.description.max_size_in_megabytes} MB{what}). Receive or purge messages.",
        metadata={"entity": entity.name, "partition": str(partition)},
    )


def check_sends(entity: Entity) -> None:
    """Raise what refuses sends to an entity that is orphaned or disabled."""
    if entity.orphaned:
        raise lifecycle.refuse_sends(entity.name, entity.kind)
    if not entity.description.status.sends:
        raise errors.EntityDisabled(
            f"{entity.title} is {entity.description.status}: sending is disabled. Set its "
            "status to Active.",
            metadata={"entity": entity.name, "status": entity.description.status},
        )


def check_receives(entity: Entity, sub_queue: SubQueue) -> None:
    """Raise what refuses receives from an entity that is disabled, or forwards its messages."""
    forwarding.check_receives(entity, sub_queue)
    status = entity.description.status
    if not status.receives:
        raise errors.EntityDisabled(
            f"{entity.title} is {status}: receiving is disabled. Set its status to Active.",
            metadata={"entity": entity.name, "status": status},
        )
