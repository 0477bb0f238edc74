"""Reading one partition of a queue by number, without locks: where it ends, and what is in a range.

What is below the tail stays below it: numbers are given in the commit that makes a message visible,
by the only thread that commits. A scheduled message that becomes active, a dead letter, a forwarded
one get a new number at the end of where they arrive.
"""

from typing import Final

from bendybus.domain import bounds, limits
from bendybus.domain.message_access import Access
from bendybus.domain.message_state import ACTIVE_ONLY, MessageState
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.answers import Delivery
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.pipeline_commands import (
    BrowseRange,
    FindNumber,
    GetRange,
    NumberFound,
    RangePage,
    RangeRead,
)
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import COUNTER_MASK, Row, State

STORED: Final = {
    MessageState.ACTIVE: State.ACTIVE,
    MessageState.DEFERRED: State.DEFERRED,
    MessageState.SCHEDULED: State.SCHEDULED,
}
# Before every time: a range shows also what is over and not expired yet.
_NEVER_MS: Final = -1
_FOUND_ROWS: Final = 1_000


def get_range(turn: Turn, command: GetRange) -> RangeRead:
    """Return where a queue begins and ends. Raises what `find` does."""
    partition = turn.partition
    queue = partition.find(command.entity, turn.now, Access.BROWSE)
    state = queue.state
    first = partition.store.summaries(queue.slot, 0, COUNTER_MASK, 1)
    return RangeRead(
        incarnation(turn, queue),
        queue.base + state.lost,
        queue.base + state.counter,
        queue.base + first[0].counter if first else 0,
        state.active,
        state.size_bytes,
    )


def incarnation(turn: Turn, queue: MessageQueue) -> str:
    """Return whose numbers these are: of which entity, file (both shortened) and sub-queue.

    It changes when numbers start over.
    """
    of_queue = f"{queue.entity.uid[:8]}-{turn.partition.fingerprint.incarnation.hex()[:12]}"
    sub_queue = queue.state.sub_queue
    return of_queue if sub_queue is SubQueue.MAIN else f"{of_queue}-{sub_queue.value}"


def page(turn: Turn, command: BrowseRange) -> RangePage:
    """Return messages of a range, oldest first. Raises what `find` does, InvalidArgument."""
    queue = turn.partition.find(command.entity, turn.now, Access.BROWSE)
    bounds.check_number("after", command.after, COUNTER_MASK)
    bounds.check_number("upto", command.upto, COUNTER_MASK)
    bounds.check_number("max_bytes", command.max_bytes, bounds.BYTES_MAX)
    limit = min(command.max_messages or limits.RANGE_ROWS_DEFAULT, limits.RANGE_ROWS_MAX)
    most = min(command.max_bytes or limits.RANGE_BYTES_MAX, limits.RANGE_BYTES_MAX)
    tail = queue.state.counter
    upto = min(command.upto or tail, tail)
    rows, following = _look(turn, queue, command, upto, (limit, most))
    if not command.bodies:
        # In format 0 the payload is the whole message, properties and all.
        rows = [row._replace(payload=b"") if row.format else row for row in rows]
    return RangePage(
        Delivery(queue.slot, queue.base, rows),
        queue.base + (max(command.after, upto) if following is None else following),
        following is None,
        incarnation(turn, queue),
        queue.base + queue.state.lost,
        queue.base + tail,
    )


def _look(
    turn: Turn, queue: MessageQueue, command: BrowseRange, upto: int, most: tuple[int, int]
) -> tuple[list[Row], int | None]:
    """Return rows of the wanted states, and the counter to go on after; None: that is all.

    `most`: how many rows are looked at, and how many bytes (but one row).
    """
    store, after, (limit, most_bytes) = turn.partition.store, command.after, most
    through = upto
    if command.states == ACTIVE_ONLY:
        # All that is not active is read on the way.
        through = min(upto, after + limits.RANGE_SPAN)
        found = store.active(queue.slot, after, through, limit, most_bytes, _NEVER_MS)
    else:
        found = store.browse(queue.slot, after + 1, limit, most_bytes)
    size_bytes = sum(row.delivered_bytes() for row in found)
    full = len(found) == limit or size_bytes >= most_bytes
    if len(found) > 1 and size_bytes > most_bytes:
        found.pop()
    following = found[-1].counter if full and found[-1].counter < upto else None
    if following is None and through < upto:
        further = store.summaries(queue.slot, through + 1, upto, 1)
        following = further[0].counter - 1 if further else None
    wanted = {STORED[state] for state in command.states}
    return [row for row in found if row.state in wanted and row.counter <= upto], following


def find_number(turn: Turn, command: FindNumber) -> NumberFound:
    """Return the number after which messages were enqueued at a time or later.

    In a main queue times rise with numbers, so it is found by halving. Dead letters keep the times
    that they were enqueued at first: they are looked through, a bounded number a call.
    """
    queue = turn.partition.find(command.entity, turn.now, Access.BROWSE)
    bounds.check_number("enqueued_time", command.enqueued_ms, bounds.TIME_MS_MAX)
    bounds.check_number("after", command.after, COUNTER_MASK)
    if queue.state.sub_queue is not SubQueue.MAIN:
        return _look_through(turn, queue, command)
    store, low, high = turn.partition.store, 0, queue.state.counter
    while low < high:
        middle = (low + high) // 2
        found = store.summaries(queue.slot, middle + 1, high, 1)
        if not found or found[0].enqueued_ms >= command.enqueued_ms:
            high = middle
        else:
            low = found[0].counter
    return NumberFound(queue.base + low, found=True)


def _look_through(turn: Turn, queue: MessageQueue, command: FindNumber) -> NumberFound:
    after, tail = command.after, queue.state.counter
    found = turn.partition.store.summaries(queue.slot, after + 1, tail, _FOUND_ROWS)
    for summary in found:
        if summary.enqueued_ms >= command.enqueued_ms:
            return NumberFound(queue.base + summary.counter - 1, found=True)
        after = summary.counter
    return NumberFound(queue.base + after, found=len(found) < _FOUND_ROWS)
