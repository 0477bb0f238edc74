"""What data pipelines do: partitions of an entity one by one, under a lease where they delete.

The lease of a drain is granted by the registrar, and held by every partition of the entity. What is
sent to one partition is stored once, whatever is repeated.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from bendybus.domain import bounds, errors, forwarding, limits, message_access, sequence_number
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.message_access import Access
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns, fan_out, routing
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.upstreams import pipeline_calls
from bendybus.frontend.upstreams.pipeline_calls import (
    Fence,
    Fenced,
    Lease,
    Page,
    PartitionRange,
    Settlement,
    Span,
    Stored,
)
from bendybus.frontend.upstreams.unary_calls import Target
from bendybus.frontend.upstreams.upstream import Upstream

REGISTRAR: Final = 0
# How long a renewal waits for the registrar alone; the shortest lease lasts for five seconds.
REGISTRAR_S: Final = 1.0
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Place:
    """One partition of a (sub-)queue, as a caller names it."""

    entity: str
    sub_queue: SubQueue
    partition: int


@dataclass(frozen=True, slots=True)
class Described:
    """An entity and its partitions; of one that does not answer, why."""

    entity: Entity
    max_message_size: int
    ranges: Mapping[int, PartitionRange | BusError]


@dataclass(frozen=True, slots=True)
class Held:
    """A lease, and for each partition how many messages are locked, or why it does not answer."""

    epoch: int
    locked: Mapping[int, int | BusError]


async def acquire(front_end: FrontEnd, name: str, sub_queue: SubQueue, lease: Lease) -> Held:
    """Take a lease (epoch 0), or renew it.

    Raises EntityDrained if another owner has it, DrainLeaseLost if a later drain took it over.
    """
    target = _target(front_end, name, sub_queue)
    bounds.check_text("owner", lease.owner, limits.DRAIN_OWNER_CHARS_MAX)
    if not lease.owner:
        raise errors.InvalidArgument("owner", "must not be empty: it names the data pipeline.")
    bounds.check_number("duration", lease.duration_ms, limits.DRAIN_MS_MAX, limits.DRAIN_MS_MIN)
    bounds.check_number("epoch", lease.epoch, bounds.NUMBER_MAX)
    registrar = front_end.upstreams[REGISTRAR]
    if lease.epoch:
        await _check_granted(registrar, target, lease)
        return await _hold(front_end, target, lease)
    epoch = await pipeline_calls.grant(registrar, target, lease, 0)
    try:
        return await _hold(front_end, target, replace(lease, epoch=epoch))
    except errors.DrainLeaseLost as lost:
        # The registrar was restored and does not know the last epochs. If it was another drain that
        # came between, the registrar refuses this one now.
        above = int(lost.metadata.get("epoch", 0))
        epoch = await pipeline_calls.grant(registrar, target, lease, above)
        return await _hold(front_end, target, replace(lease, epoch=epoch))


async def _check_granted(registrar: Upstream, target: Target, lease: Lease) -> None:
    """Raise what the registrar says of a lease that is renewed, before others learn its epoch.

    If it does not answer soon, the lease is renewed where it is held, before its time is over.
    """
    soon = replace(target, timeout_s=min(target.timeout_s, REGISTRAR_S))
    try:
        await pipeline_calls.hold(registrar, soon, lease)
    except errors.DrainLeaseLost:
        raise
    except BusError:
        return


async def _hold(front_end: FrontEnd, target: Target, lease: Lease) -> Held:
    answers = await _everywhere(
        front_end, target, lambda upstream: pipeline_calls.hold(upstream, target, lease)
    )
    lost = [each for each in answers.values() if isinstance(each, errors.DrainLeaseLost)]
    if lost:
        raise max(lost, key=lambda each: int(each.metadata.get("epoch", 0)))
    partitions = target.entity.partitions()
    return Held(lease.epoch, {each: answers[each] for each in partitions})


async def release(front_end: FrontEnd, name: str, sub_queue: SubQueue, lease: Lease) -> None:
    """End a lease; where a partition does not answer, it ends by time."""
    target = _target(front_end, name, sub_queue)
    lease = replace(lease, duration_ms=limits.DRAIN_MS_MIN)
    await _everywhere(
        front_end, target, lambda upstream: pipeline_calls.release(upstream, target, lease)
    )


async def settle(front_end: FrontEnd, place: Place, wanted: Settlement) -> tuple[int, bool]:
    """Delete messages of one partition under a lease; return how many, and whether there are more.

    Raises DrainLeaseLost, and InvalidOperation where sequence numbers were reset.
    """
    upstream, target = located(front_end, place, Access.RECEIVE)
    bounds.check_number("epoch", wanted.epoch, bounds.NUMBER_MAX, 1)
    bounds.check_text("incarnation", wanted.incarnation, limits.INCARNATION_CHARS_MAX)
    if wanted.numbers:
        bounds.check_numbers("numbers", wanted.numbers, limits.RANGE_NUMBERS_MAX)
    for field, values in (("upto", [wanted.upto]), ("numbers", wanted.numbers)):
        for number in values:
            check_number(target.entity, place.partition, field, number)
    return await pipeline_calls.settle(upstream, target, wanted)


def _target(front_end: FrontEnd, name: str, sub_queue: SubQueue) -> Target:
    entity = front_end.directory.find(name)
    message_access.check(entity, Access.RECEIVE)
    forwarding.check_receives(entity, sub_queue)
    return Target(entity, sub_queue, front_end.settings.unary_timeout_s)


async def _everywhere(
    front_end: FrontEnd, target: Target, ask: Callable[[Upstream], Awaitable[Answer]]
) -> dict[int, Answer | BusError]:
    """Ask the partitions of an entity, and the registrar, at once."""
    partitions = {*target.entity.partitions(), REGISTRAR}
    upstreams = {each: front_end.upstreams[each] for each in sorted(partitions)}
    return await fan_out.each(upstreams, ask)


async def describe(front_end: FrontEnd, name: str, sub_queue: SubQueue) -> Described:
    """Return where each partition begins and ends. Raises the first error if none answers."""
    entity = front_end.directory.find(name)
    fingerprint = front_end.directory.fingerprint
    assert fingerprint is not None, "entities are known"
    target = Target(entity, sub_queue, front_end.settings.unary_timeout_s)
    upstreams = {each: front_end.upstreams[each] for each in entity.partitions()}
    ranges = await fan_out.each(
        upstreams, lambda upstream: pipeline_calls.get_range(upstream, target)
    )
    failures = [each for each in ranges.values() if isinstance(each, BusError)]
    if len(failures) == len(ranges):
        raise failures[0]
    return Described(entity, entity.message_bytes_max(fingerprint.tier), ranges)


async def browse(front_end: FrontEnd, place: Place, span: Span) -> Page:
    """Return a page of one partition. Raises the domain error."""
    upstream, target = located(front_end, place, Access.BROWSE)
    for field, number in (("after", span.after), ("upto", span.upto)):
        check_number(target.entity, place.partition, field, number)
    bounds.check_number("max_bytes", span.max_bytes, bounds.BYTES_MAX)
    return await pipeline_calls.browse(upstream, target, span)


async def number_at(front_end: FrontEnd, place: Place, enqueued_time_ms: int) -> int:
    """Return the number after which messages were enqueued at a time or later."""
    upstream, target = located(front_end, place, Access.BROWSE)
    bounds.check_number("enqueued_time", enqueued_time_ms, bounds.TIME_MS_MAX)
    after, found = 0, False
    while not found:
        # A bounded look at a time; the call's time bounds them all.
        after, found = await pipeline_calls.find_number(upstream, target, enqueued_time_ms, after)
    return after


def located(front_end: FrontEnd, place: Place, access: Access) -> tuple[Upstream, Target]:
    """Return the partition that a call names. Raises InvalidArgument for one that is not there."""
    entity = front_end.directory.find(place.entity)
    message_access.check(entity, access)
    partitions = entity.partitions()
    if place.partition not in partitions:
        known = ", ".join(map(str, partitions))
        raise errors.InvalidArgument(
            "partition", f"{entity.title} has partitions {known}, not {place.partition}."
        )
    target = Target(entity, place.sub_queue, front_end.settings.unary_timeout_s)
    return front_end.upstreams[place.partition], target


def check_number(entity: Entity, partition: int, field: str, number: int) -> None:
    """Raise InvalidArgument for a sequence number that is not of the partition; 0 is of any."""
    bounds.check_number(field, number, bounds.NUMBER_MAX)
    if not number:
        return
    own = sequence_number.partition_of(entity, number)
    if own is None:
        raise errors.InvalidArgument(field, f"{number} is no sequence number of {entity.title}.")
    if own != partition:
        raise errors.InvalidArgument(
            field, f"{number} belongs to partition {own}, not to partition {partition}."
        )


async def send_fenced(front_end: FrontEnd, place: Place, fenced: Fenced) -> Stored:
    """Store what the partition does not have yet. Raises the domain error, ProducerFenced."""
    upstream, target = _producer_of(front_end, place)
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
    front_end.metrics.incoming.counts[target.entity.name] += stored.stored
    return stored


async def fence(front_end: FrontEnd, place: Place, producer_id: bytes) -> Fence:
    """Return how far a producer came in a partition. Raises the domain error."""
    upstream, target = _producer_of(front_end, place)
    bounds.check_number("producer_id", len(producer_id), bounds.PRODUCER_ID_BYTES_MAX)
    return await pipeline_calls.fence(upstream, target, producer_id)


def _producer_of(front_end: FrontEnd, place: Place) -> tuple[Upstream, Target]:
    if place.sub_queue is not SubQueue.MAIN:
        raise errors.InvalidOperation(
            f"messages cannot be sent to a sub-queue of {place.entity!r}. Send to the entity."
        )
    return located(front_end, place, Access.SEND)


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
