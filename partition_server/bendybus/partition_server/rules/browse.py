"""Looking at messages without receiving them."""

from typing import Final

from bendybus.domain import bounds, errors, limits
from bendybus.domain.message_access import Access
from bendybus.partition_server.state.answers import Delivery, Peeked
from bendybus.partition_server.state.commands import Peek
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import COUNTER_MASK, Row

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
    following = rows[-1].counter + 1 if rows else 0
    return Peeked(Delivery(queue.slot, rows), following)


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
