"""Batch delete over many partitions; a repeat deletes no more than its first try was asked for."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bendybus.domain import bounds, errors, limits, message_access
from bendybus.domain.errors import BusError, RetryableError
from bendybus.domain.message_state import ACTIVE_ONLY, MessageState
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.upstreams import unary_calls
from bendybus.frontend.upstreams.unary_calls import Repeatable, Target


@dataclass(frozen=True, slots=True)
class BatchDelete:
    """What to delete, and the name under which the operation may be repeated; empty: it may not."""

    entity: str
    sub_queue: SubQueue
    max_messages: int
    # Only messages that were enqueued before; 0: all.
    enqueued_before_ms: int = 0
    states: frozenset[MessageState] = ACTIVE_ONLY
    operation_id: bytes = b""
    # Since the first try; 0: this is it.
    age_ms: int = 0


async def delete_messages(front_end: FrontEnd, request: BatchDelete) -> int:
    """Delete the oldest messages, partition by partition; return how many were deleted.

    Raises OutcomeUnknown when a partition may have deleted some and does not say how many: others
    must not delete as many again. A repeat of the operation under its name learns it.
    """
    entity = front_end.directory.find(request.entity)
    message_access.check(entity, message_access.Access.RECEIVE)
    fingerprint = front_end.directory.fingerprint
    assert fingerprint is not None
    most = limits.delete_messages_max(fingerprint.tier)
    if not 0 < request.max_messages <= most:
        raise errors.InvalidArgument("max_messages", f"must be 1 to {most} a call.")
    bounds.check_number("enqueued_before", request.enqueued_before_ms, bounds.TIME_MS_MAX)
    target = Target(entity, request.sub_queue, front_end.settings.unary_timeout_s)
    name = Repeatable(request.operation_id, request.age_ms)

    async def delete(partition: int, most: int, *, only_known: bool = False) -> int:
        return await unary_calls.delete_messages(
            front_end.upstreams[partition],
            target,
            name,
            messages=most,
            enqueued_before_ms=request.enqueued_before_ms,
            states=request.states,
            only_known=only_known,
        )

    partitions = list(entity.partitions())
    left = request.max_messages
    if request.age_ms > 0:
        known = await _deleted_before(partitions, delete)
        partitions = [partition for partition in partitions if not known[partition]]
        left -= sum(known.values())
    failed: BusError | None = None
    for partition in partitions:
        if left <= 0:
            break
        try:
            left -= await delete(partition, left)
        except RetryableError as error:
            # It did nothing: others have some as well.
            failed = error
    if failed is not None and left == request.max_messages:
        raise failed
    return request.max_messages - left


async def _deleted_before(
    partitions: list[int], delete: Callable[..., Awaitable[int]]
) -> dict[int, int]:
    """Return how many an earlier try of the operation deleted in each partition.

    All have to say it, also those that the earlier try may have passed over. Raises OutcomeUnknown.
    """
    try:
        counts = await asyncio.gather(*(delete(each, 1, only_known=True) for each in partitions))
    except RetryableError as error:
        raise errors.OutcomeUnknown(
            f"{error.message} An earlier try may have deleted messages there.",
            metadata=error.metadata,
        ) from error
    return dict(zip(partitions, counts, strict=True))
