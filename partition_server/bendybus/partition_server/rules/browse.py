"""Looking at messages without receiving them."""

from collections.abc import Callable, Sequence
from typing import Final

from bendybus.domain import bounds, errors, limits
from bendybus.domain.message_access import Access
from bendybus.partition_server.state.answers import Delivery, Peeked
from bendybus.partition_server.state.commands import Peek
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import COUNTER_MASK, Row, Summary

PEEK_ROWS_MAX: Final = 1_000


def peek(turn: Turn, command: Peek) -> Peeked:
    """Return messages of every state from a counter on, oldest first, at most 256 KB (but one)."""
    queue = turn.partition.find(command.entity, turn.now, Access.BROWSE)
    bounds.check_number("from_sequence_number", command.start, bounds.NUMBER_MAX)
    bounds.check_number("max_bytes", command.max_bytes, bounds.BYTES_MAX)
    count = max(1, min(command.max_messages, PEEK_ROWS_MAX))
    most = command.max_bytes or limits.PEEK_BYTES_MAX
    start = min(command.start, COUNTER_MASK)
    if command.session_id is None:
        rows = turn.partition.store.browse(queue.slot, start, count, most)
    else:
        rows = _of_session(turn, queue, command.session_id, start, count, most)
    if len(rows) > 1 and sum(row.size() for row in rows) > most:
        rows.pop()
    following = queue.base + rows[-1].counter + 1 if rows else 0
    return Peeked(Delivery(queue.slot, queue.base, rows), following)


def _of_session(
    turn: Turn, queue: MessageQueue, session_id: str, start: int, count: int, most: int
) -> list[Row]:
    if not isinstance(queue, SessionQueue):
        raise errors.InvalidOperation(
            f"{queue.entity.title}: this (sub-)queue is not session-enabled. Peek it without one.",
            metadata={"entity": queue.entity.name},
        )
    bounds.check_text("session_id", session_id, limits.KEY_CHARS_MAX)
    return turn.partition.store.sessions.browse(queue.slot, session_id, start, count, most)


def through(
    turn: Turn,
    sweep: Sweep,
    summaries: Sequence[Summary],
    cursor: tuple[int, int],
    take: Callable[[Summary], int],
) -> tuple[bool, tuple[int, int]]:
    """Take summaries until the budget is spent, one at least; return whether all, and how far.

    `take` returns the bytes that it read. What raises is passed over for a while; see `faults`.
    """
    budget = turn.budget
    for index, summary in enumerate(summaries):
        if index and budget.spent():
            return False, cursor
        if turn.careful:
            _take_careful(turn, sweep, summary, take)
        else:
            budget.spend(take(summary))
        cursor = (summary.at_ms, summary.id)
    return True, cursor


def _take_careful(
    turn: Turn, sweep: Sweep, summary: Summary, take: Callable[[Summary], int]
) -> None:
    queue = turn.partition.queues.at(summary.slot)
    entity = queue.entity.name if queue else ""
    number = (queue.base if queue else 0) + summary.counter
    if turn.attempt(sweep.name, entity, lambda: turn.budget.spend(take(summary)), number=number):
        turn.budget.spend()
        turn.partition.faults.skip(sweep, summary.at_ms, turn.now.mono_ms)
