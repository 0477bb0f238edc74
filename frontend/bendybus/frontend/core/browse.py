"""Peek over many partitions."""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bendybus.domain import limits
from bendybus.domain.errors import BusError
from bendybus.frontend.core import columns, peek_cursor
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.upstreams.unary_calls import Make, call
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2
from bendybus.wire import entity_refs


@dataclass(frozen=True, slots=True)
class Peek:
    """What to show. `cursor`: of the answer before; it takes precedence over the number."""

    entity_path: str
    max_messages: int = 1
    from_sequence_number: int = 0
    cursor: bytes = b""


@dataclass(frozen=True, slots=True)
class Peeked:
    """Messages, and the cursor of the next peek."""

    batches: Sequence[message_pb2.DeliveredBatch]
    cursor: bytes


async def peek(front_end: FrontEnd, request: Peek) -> Peeked:
    """Return messages of whichever partitions answer first, and a cursor to go on from."""
    entity, sub_queue = front_end.directory.lookup(request.entity_path)
    count = max(1, min(request.max_messages, limits.FRAME_MESSAGES_MAX))
    positions = peek_cursor.start(
        request.cursor, len(front_end.upstreams), request.from_sequence_number
    )
    asked = [p for p in entity.partitions() if positions[p] != peek_cursor.SKIP]
    ref = entity_refs.to_proto(entity, sub_queue)
    if request.from_sequence_number:
        found = await _in_order(front_end, asked, ref, positions, count)
    else:
        make = _peek_call(front_end, ref, positions, count, limits.PEEK_BYTES_MAX)
        found = await _first_answers(front_end, asked, make)
    shown = _bounded(found, count)
    for partition, batch in shown:
        positions[partition] = batch.sequence_numbers[-1] + 1
    return Peeked([batch for _, batch in shown], peek_cursor.encode(positions))


def _peek_call(
    front_end: FrontEnd,
    ref: partition_pb2.EntityRef,
    positions: Sequence[int],
    count: int,
    size_bytes: int,
) -> Make:
    return lambda calls, partition: calls.Peek(
        partition_pb2.PeekRequest(
            partition=partition,
            entity=ref,
            from_sequence_number=positions[partition],
            max_messages=count,
            max_bytes=size_bytes,
        ),
        timeout=front_end.settings.unary_timeout_s,
    )


Found = list[tuple[int, message_pb2.DeliveredBatch]]


async def _in_order(
    front_end: FrontEnd,
    partitions: Iterable[int],
    ref: partition_pb2.EntityRef,
    positions: Sequence[int],
    count: int,
) -> Found:
    """Go through the partitions in the order of numbers, leaving nothing out.

    It stops where the answer is full, and before a partition that cannot be asked: the reply's
    cursor, and the number after the last one shown, go on right there. Raises PartitionUnavailable
    if that is the first one.
    """
    found: Found = []
    size_bytes, at = limits.PEEK_BYTES_MAX, list(positions)
    for partition in partitions:
        while count > 0:
            make = _peek_call(front_end, ref, at, count, size_bytes)
            try:
                batch = (await call(front_end.upstreams[partition], make)).batch
            except BusError:
                if not found:
                    raise
                return found
            if not batch.messages:
                break
            taken = sum(map(len, batch.messages))
            if found and taken > size_bytes:
                return found
            found.append((partition, batch))
            count -= len(batch.messages)
            size_bytes -= taken
            at[partition] = batch.sequence_numbers[-1] + 1
            if size_bytes <= 0:
                return found
    return found


async def _first_answers(front_end: FrontEnd, partitions: list[int], make: Make) -> Found:
    """Ask all at once; return the first answer with messages, and what else is there by then."""
    tasks: dict[asyncio.Task[Any], int] = {
        asyncio.get_running_loop().create_task(
            call(front_end.upstreams[partition], make), name="peek"
        ): partition
        for partition in partitions
    }
    pending = set(tasks)
    done: list[asyncio.Task[Any]] = []
    try:
        while pending:
            ended, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            done += ended
            answered = [task for task in done if task.exception() is None]
            if any(task.result().batch.messages for task in answered):
                return [(tasks[task], task.result().batch) for task in answered]
    finally:
        for task in pending:
            task.cancel()
    failures = [task.exception() for task in done]
    first = next((failure for failure in failures if failure is not None), None)
    if first is not None and all(failures):
        raise first
    return []


def _bounded(found: Found, count: int) -> Found:
    """Cut what was found to `count` messages and 256 KB (but at least one message)."""
    shown: Found = []
    size_bytes = 0
    for partition, batch in found:
        sizes = itertools.accumulate(map(len, batch.messages), initial=size_bytes)
        totals = list(sizes)[1:]
        first = not shown
        kept = sum(1 for total in totals if total <= limits.PEEK_BYTES_MAX) or int(
            first and bool(totals)
        )
        kept = min(kept, count)
        if not kept:
            if totals:
                break
            continue
        shown.append((partition, columns.cut(batch, 0, kept)))
        count -= kept
        size_bytes = totals[kept - 1]
    return shown
