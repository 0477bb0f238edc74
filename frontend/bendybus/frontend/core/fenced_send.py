"""Sends of data pipelines: to one partition, each message once, whatever is repeated."""

from bendybus.domain import bounds, errors, limits
from bendybus.domain.entity import Entity
from bendybus.domain.message_access import Access
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns, partition_ranges, routing
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.partition_ranges import Place
from bendybus.frontend.upstreams import pipeline_calls
from bendybus.frontend.upstreams.message_calls import Target
from bendybus.frontend.upstreams.pipeline_calls import Fence, Fenced, Stored
from bendybus.frontend.upstreams.upstream import Upstream


async def send(front_end: FrontEnd, place: Place, fenced: Fenced) -> Stored:
    """Store what the partition does not have yet. Raises the domain error, ProducerFenced."""
    upstream, target = _located(front_end, place)
    count = columns.count(fenced.batch)
    if not count and len(fenced.ordinals) == 1:
        return await pipeline_calls.send(upstream, target, fenced)
    if not 0 < count <= limits.FRAME_MESSAGES_MAX:
        raise errors.InvalidArgument(
            "batch", f"must hold 1 to {limits.FRAME_MESSAGES_MAX} messages (got {count})."
        )
    for error in columns.faults(fenced.batch).values():
        raise error
    if len(fenced.ordinals) != count:
        raise errors.InvalidArgument(
            "ordinals", f"has {len(fenced.ordinals)} entries for {count} messages."
        )
    _check_keys(target.entity, place.partition, fenced.batch)
    stored = await pipeline_calls.send(upstream, target, fenced)
    front_end.metrics.incoming.labels(target.entity.name).inc(stored.stored)
    return stored


async def fence(front_end: FrontEnd, place: Place, producer_id: bytes) -> Fence:
    """Return how far a producer came in a partition. Raises the domain error."""
    upstream, target = _located(front_end, place)
    bounds.check_number("producer_id", len(producer_id), bounds.PRODUCER_ID_BYTES_MAX)
    return await pipeline_calls.fence(upstream, target, producer_id)


def _located(front_end: FrontEnd, place: Place) -> tuple[Upstream, Target]:
    if place.sub_queue is not SubQueue.MAIN:
        raise errors.InvalidOperation(
            f"messages cannot be sent to a sub-queue of {place.entity!r}. Send to the entity."
        )
    return partition_ranges.located(front_end, place, Access.SEND)


def _check_keys(entity: Entity, partition: int, batch: columns.MessageBatch) -> None:
    """Raise InvalidArgument for a message whose key belongs to another partition.

    It would break the order of its key there.
    """
    for i, key in enumerate(routing.effective_keys(entity, columns.keys(batch))):
        if key is not None and entity.partition_of(key) != partition:
            raise errors.InvalidArgument(
                "batch",
                f"message {i} has the key {key!r}, which belongs to partition "
                f"{entity.partition_of(key)} of {entity.title}, not to {partition}.",
            )
