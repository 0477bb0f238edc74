"""Calls of data pipelines to one partition: values in, values out, failures as domain errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bendybus.domain.message_state import MessageState
from bendybus.frontend.upstreams.unary_calls import Target, call
from bendybus.frontend.upstreams.upstream import Upstream, now_ms
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, pipeline_pb2

# Handed on as they are.
PartitionRange: TypeAlias = pipeline_pb2.PartitionRange
Page: TypeAlias = pipeline_pb2.BrowsePartitionResponse


@dataclass(frozen=True, slots=True)
class Span:
    """A part of one partition, and how much of it a page may hold; see the contract."""

    after: int
    upto: int
    max_messages: int
    max_bytes: int
    states: frozenset[MessageState]
    without_bodies: bool = False


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is deleted under a lease: all up to a number, or `numbers` instead."""

    epoch: int
    incarnation: str
    upto: int
    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class Lease:
    """Whose lease of a drain, and for how long."""

    owner: str
    duration_ms: int
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Fenced:
    """Messages of a producer; see the contract."""

    producer_id: bytes
    epoch: int
    ordinals: Sequence[int]
    batch: message_pb2.MessageBatch
    mark: bytes
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a producer's messages."""

    stored: int
    repeated: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class Fence:
    """How far a producer came; epoch 0: nothing is known of it."""

    epoch: int
    ordinal: int
    mark: bytes


async def get_range(upstream: Upstream, target: Target) -> PartitionRange:
    """Return where a partition begins and ends. Raises the domain error."""
    request = partition_pb2.GetRangeRequest(partition=upstream.partition, entity=target.ref)
    answer = await call(
        upstream, lambda calls, _: calls.GetRange(request, timeout=target.timeout_s)
    )
    return answer.range


async def browse(upstream: Upstream, target: Target, span: Span) -> Page:
    """Return a page of a range. Raises the domain error."""
    request = partition_pb2.BrowseRangeRequest(
        partition=upstream.partition,
        entity=target.ref,
        after=span.after,
        upto=span.upto,
        max_messages=span.max_messages,
        max_bytes=span.max_bytes,
        states=sorted(span.states),  # type: ignore[arg-type]
        without_bodies=span.without_bodies,
    )
    answer = await call(
        upstream,
        lambda calls, _: calls.BrowseRange(request, timeout=target.timeout_s),
    )
    return answer.page


async def find_number(
    upstream: Upstream, target: Target, enqueued_time_ms: int, after: int
) -> tuple[int, bool]:
    """Return the number to go on after, and whether that is it. Raises the domain error."""
    request = partition_pb2.FindNumberRequest(
        partition=upstream.partition,
        entity=target.ref,
        enqueued_time_ms=enqueued_time_ms,
        after=after,
    )
    answer = await call(
        upstream, lambda calls, _: calls.FindNumber(request, timeout=target.timeout_s)
    )
    return answer.after, answer.found


async def grant(upstream: Upstream, target: Target, lease: Lease, above: int) -> int:
    """Return the epoch that the registrar grants, above one. Raises the domain error."""
    answer = await _drain(upstream, target, lease, grant_above=above)
    return answer.epoch


async def hold(upstream: Upstream, target: Target, lease: Lease) -> int:
    """Have a partition hold a lease; return how many messages are locked there."""
    answer = await _drain(upstream, target, lease, hold_epoch=lease.epoch)
    return answer.locked_message_count


async def release(upstream: Upstream, target: Target, lease: Lease) -> None:
    """Have a partition end a lease. Raises the domain error."""
    await _drain(upstream, target, lease, release_epoch=lease.epoch)


async def _drain(
    upstream: Upstream, target: Target, lease: Lease, **action: int
) -> partition_pb2.DrainResponse:
    request = partition_pb2.DrainRequest(
        partition=upstream.partition,
        entity=target.ref,
        owner=lease.owner,
        duration_ms=lease.duration_ms,
        **action,
    )
    return await call(
        upstream,
        lambda calls, _: calls.Drain(request, timeout=target.timeout_s),
        changes=True,
    )


async def settle(upstream: Upstream, target: Target, wanted: Settlement) -> tuple[int, bool]:
    """Delete under a lease; return how many, and whether there are more."""
    request = partition_pb2.SettleRangeRequest(
        partition=upstream.partition,
        entity=target.ref,
        epoch=wanted.epoch,
        incarnation=wanted.incarnation,
    )
    if wanted.numbers:
        request.numbers.values.extend(wanted.numbers)
    else:
        request.upto = wanted.upto
    answer = await call(
        upstream,
        lambda calls, _: calls.SettleRange(request, timeout=target.timeout_s),
        changes=True,
    )
    return answer.deleted, answer.more


async def send(upstream: Upstream, target: Target, fenced: Fenced) -> Stored:
    """Store messages of a producer, each once. Raises the domain error."""
    offset = upstream.clock_offset_ms
    request = partition_pb2.SendFencedRequest(
        partition=upstream.partition,
        entity=target.ref,
        producer_id=fenced.producer_id,
        epoch=fenced.epoch,
        ordinals=fenced.ordinals,
        mark=fenced.mark,
        replace=fenced.replace,
        deadline_monotonic_ms=(
            0 if offset is None else round(now_ms() + target.timeout_s * 1_000) + offset
        ),
    )
    # Given to a constructor it would be serialised and parsed.
    request.batch.CopyFrom(fenced.batch)
    answer = await call(
        upstream,
        lambda calls, _: calls.SendFenced(request, timeout=target.timeout_s),
        changes=True,
    )
    return Stored(answer.stored, answer.repeated_messages, answer.duplicates)


async def fence(upstream: Upstream, target: Target, producer_id: bytes) -> Fence:
    """Return how far a producer came. Raises the domain error."""
    request = partition_pb2.GetFenceRequest(
        partition=upstream.partition, entity=target.ref, producer_id=producer_id
    )
    answer = await call(
        upstream, lambda calls, _: calls.GetFence(request, timeout=target.timeout_s)
    )
    return Fence(answer.epoch, answer.ordinal, answer.mark)
