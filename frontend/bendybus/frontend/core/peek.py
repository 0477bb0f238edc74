"""Peek over many partitions: where each one goes on, and who answers first.

Source: the peek of a partitioned entity "returns the oldest message in one of the partitions
whose message broker responded first". The cursor holds the next number of every partition, so
that repeated peeks show each message once. A peek from an explicit number starts in the number's
own partition and goes on through those after it, in the order of whole sequence numbers.
"""

import asyncio
import itertools
import struct
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bendybus.domain import bounds, limits, message_access, sequence_number
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError, InvalidArgument
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.upstreams import unary_calls
from bendybus.frontend.upstreams.unary_calls import Target
from bendybus.frontend.upstreams.upstream import Upstream

_VERSION: Final = b"\x01"
# A partition that is not to be shown (any more).
SKIP: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Peek:
    """What to show. `cursor`: of the answer before; it takes precedence over the number."""

    entity: str
    sub_queue: SubQueue = SubQueue.MAIN
    max_messages: int = 1
    from_sequence_number: int = 0
    cursor: bytes = b""
    # Only messages of this session; None: of all.
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Peeked:
    """Messages, and the cursor of the next peek."""

    batches: Sequence[columns.DeliveredBatch]
    cursor: bytes


async def peek(front_end: FrontEnd, request: Peek) -> Peeked:
    """Return messages of whichever partitions answer first, and a cursor to go on from."""
    entity = front_end.directory.find(request.entity)
    message_access.check(entity, message_access.Access.BROWSE)
    count = max(1, min(request.max_messages, limits.FRAME_MESSAGES_MAX))
    partitions: Sequence[int] = entity.partitions()
    if request.from_sequence_number:
        positions = positions_from(entity, len(front_end.upstreams), request.from_sequence_number)
    else:
        positions = positions_at(request.cursor, len(front_end.upstreams))
    if request.session_id is not None:
        message_access.check_session(entity, request.sub_queue, by_session=True)
        bounds.check_text("session_id", request.session_id, limits.KEY_CHARS_MAX)
        partitions = (entity.partition_of(request.session_id),)
    asked = [p for p in partitions if positions[p] != SKIP]
    target = Target(entity, request.sub_queue, front_end.settings.unary_timeout_s)
    upstreams = [front_end.upstreams[partition] for partition in asked]
    if request.from_sequence_number:
        found = await _in_order(upstreams, request, target, positions, count)
    else:
        ask = _asking(request, target, positions, count, limits.PEEK_BYTES_MAX)
        found = await _first_answers(upstreams, ask)
    shown = _bounded(found, count)
    for partition, batch in shown:
        positions[partition] = batch.sequence_numbers[-1] + 1
    return Peeked([batch for _, batch in shown], cursor_of(positions))


Ask = Callable[[Upstream], Coroutine[None, None, columns.DeliveredBatch]]


def _asking(
    request: Peek, target: Target, positions: Sequence[int], count: int, size_bytes: int
) -> Ask:
    return lambda upstream: unary_calls.peek(
        upstream,
        target,
        from_number=positions[upstream.partition],
        messages=count,
        size_bytes=size_bytes,
        session_id=request.session_id,
    )


Found = list[tuple[int, columns.DeliveredBatch]]


async def _in_order(
    upstreams: Iterable[Upstream],
    request: Peek,
    target: Target,
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
    for upstream in upstreams:
        while count > 0:
            try:
                batch = await _asking(request, target, at, count, size_bytes)(upstream)
            except BusError:
                if not found:
                    raise
                return found
            if not batch.messages:
                break
            taken = sum(columns.delivered_sizes(batch))
            if found and taken > size_bytes:
                return found
            found.append((upstream.partition, batch))
            count -= len(batch.messages)
            size_bytes -= taken
            at[upstream.partition] = batch.sequence_numbers[-1] + 1
            if size_bytes <= 0:
                return found
    return found


async def _first_answers(upstreams: Iterable[Upstream], ask: Ask) -> Found:
    """Ask all at once; return the first answer with messages, and what else is there by then."""
    tasks: dict[asyncio.Task[columns.DeliveredBatch], int] = {
        asyncio.get_running_loop().create_task(ask(upstream), name="peek"): upstream.partition
        for upstream in upstreams
    }
    pending = set(tasks)
    done: list[asyncio.Task[columns.DeliveredBatch]] = []
    try:
        while pending:
            ended, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            done += ended
            answered = [task for task in done if task.exception() is None]
            if any(task.result().messages for task in answered):
                return [(tasks[task], task.result()) for task in answered]
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
        sizes = itertools.accumulate(columns.delivered_sizes(batch), initial=size_bytes)
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


def positions_from(entity: Entity, partition_count: int, number: int) -> list[int]:
    """Return the next number to show per partition; SKIP where all are below a number.

    Raises InvalidArgument for a number that is above all of the entity.
    """
    if number < 0:
        raise InvalidArgument("from_sequence_number", "is negative.")
    found = [sequence_number.first_from(entity, each, number) for each in range(partition_count)]
    if all(found[each] is None for each in entity.partitions()):
        raise InvalidArgument(
            "from_sequence_number", f"{number} is above all sequence numbers of {entity.title}."
        )
    return [SKIP if each is None else each for each in found]


def positions_at(cursor: bytes, partition_count: int) -> list[int]:
    """Return the next number to show per partition; SKIP where nothing is to be shown.

    Raises InvalidArgument for a cursor of another entity.
    """
    if not cursor:
        return [0] * partition_count
    if cursor[:1] != _VERSION or len(cursor) != 1 + 8 * partition_count:
        raise InvalidArgument("cursor", "belongs to another entity. Start without a cursor.")
    positions = list(struct.unpack(f">{partition_count}Q", cursor[1:]))
    if any(position != SKIP and position > bounds.NUMBER_MAX for position in positions):
        raise InvalidArgument("cursor", "belongs to another entity. Start without a cursor.")
    return positions


def cursor_of(positions: Sequence[int]) -> bytes:
    """Return the cursor of these positions."""
    return _VERSION + struct.pack(f">{len(positions)}Q", *positions)
