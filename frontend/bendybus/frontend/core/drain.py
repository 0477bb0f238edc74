"""The lease of a drain: granted by the registrar, held by every partition of the entity."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from bendybus.domain import bounds, errors, forwarding, limits, message_access
from bendybus.domain.errors import BusError
from bendybus.domain.message_access import Access
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import fan_out, partition_ranges
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.partition_ranges import Place
from bendybus.frontend.upstreams import pipeline_calls
from bendybus.frontend.upstreams.message_calls import Target
from bendybus.frontend.upstreams.pipeline_calls import Lease, Settlement
from bendybus.frontend.upstreams.upstream import Upstream

REGISTRAR: Final = 0
# How long a renewal waits for the registrar alone; the shortest lease lasts for five seconds.
REGISTRAR_S: Final = 1.0
Answer = TypeVar("Answer")


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
    upstream, target = partition_ranges.located(front_end, place, Access.RECEIVE)
    bounds.check_number("epoch", wanted.epoch, bounds.NUMBER_MAX, 1)
    bounds.check_text("incarnation", wanted.incarnation, limits.INCARNATION_CHARS_MAX)
    if wanted.numbers:
        bounds.check_numbers("numbers", wanted.numbers, limits.RANGE_NUMBERS_MAX)
    for field, values in (("upto", [wanted.upto]), ("numbers", wanted.numbers)):
        for number in values:
            partition_ranges.check_number(place, field, number)
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
