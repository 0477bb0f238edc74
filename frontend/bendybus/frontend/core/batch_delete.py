"""Batch delete over many partitions; a repeat deletes no more than its first try was asked for."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bendybus.domain import bounds, errors, limits
from bendybus.domain.errors import BusError, RetryableError
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.upstreams.unary_calls import call
from bendybus.internal.v1 import partition_pb2
from bendybus.wire import entity_refs


@dataclass(frozen=True, slots=True)
class BatchDelete:
    """What to delete, and the name under which the operation may be repeated; empty: it may not."""

    entity_path: str
    max_messages: int
    # Only messages that were enqueued before; 0: all.
    enqueued_before_ms: int = 0
    include_deferred_and_scheduled: bool = False
    operation_id: bytes = b""
    # Since the first try; 0: this is it.
    age_ms: int = 0


async def delete_messages(front_end: FrontEnd, request: BatchDelete) -> int:
    """Delete the oldest messages, partition by partition; return how many were deleted.

    Raises OutcomeUnknown when a partition may have deleted some and does not say how many: others
    must not delete as many again. A repeat of the operation under its name learns it.
    """
    entity, sub_queue = front_end.directory.lookup(request.entity_path)
    fingerprint = front_end.directory.fingerprint
    assert fingerprint is not None
    most = limits.delete_messages_max(fingerprint.tier)
    if not 0 < request.max_messages <= most:
        raise errors.InvalidArgument("max_messages", f"must be 1 to {most} a call.")
    bounds.check_number("enqueued_before", request.enqueued_before_ms, bounds.TIME_MS_MAX)
    ref = entity_refs.to_proto(entity, sub_queue)
    timeout_s = front_end.settings.unary_timeout_s

    async def delete(partition: int, most: int, *, only_known: bool = False) -> int:
        asked = partition_pb2.DeleteMessagesRequest(
            partition=partition,
            entity=ref,
            max_messages=most,
            enqueued_before_ms=request.enqueued_before_ms,
            include_deferred_and_scheduled=request.include_deferred_and_scheduled,
            operation_id=request.operation_id,
            age_ms=request.age_ms,
            only_known=only_known,
        )
        answer = await call(
            front_end.upstreams[partition],
            lambda calls, _: calls.DeleteMessages(asked, timeout=timeout_s),
            changes=True,
        )
        return int(answer.deleted)

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
