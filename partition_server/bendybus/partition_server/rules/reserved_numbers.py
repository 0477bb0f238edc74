"""Numbers that are given before there is a message: a client that schedules one in a transaction
gets its number at once, and cancels it by that number after the commit.

    reserve ──► answer to the client ──► commit: the scheduled message is stored under its number
                                    └──► rolled back: the number belongs to no message, ever

Source: the live test `transactionScheduleAndCommitTest` of the SDK for Java.
"""

from bendybus.domain import bounds, limits, sequence_number
from bendybus.partition_server.state.answers import NumbersReserved
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.stage import check_numbers
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Row, State, row_id


def reserve(turn: Turn, queue: MessageQueue, count: int) -> NumbersReserved:
    """Give numbers away. Raises QuotaExceeded; InvalidArgument if a transaction needs fewer."""
    bounds.check_number("count", count, limits.TRANSACTION_MESSAGES_MAX, least=1)
    check_numbers(queue, count)
    state = turn.stage.touch(queue).queue.state
    first = state.counter + 1
    state.counter += count
    return NumbersReserved(queue.base + first)


def append(turn: Turn, queue: MessageQueue, row: Row, number: int) -> int:
    """Append a message, under the number that is reserved for it if it is scheduled.

    `number`: 0 if none is. Returns the counter that it has: a new one where it is due by now, or
    the number is not free here. Times rise with numbers (see `find_number`): it is shown as
    enqueued no later than the message that follows it.
    """
    state, counter = queue.state, sequence_number.counter_of(number)
    if row.state == State.SCHEDULED and _is_ours(turn, queue, number):
        after = turn.partition.store.summaries(queue.slot, counter, state.counter, 1)
        if not after or after[0].counter != counter:
            enqueued_ms = min([row.enqueued_ms, *(each.enqueued_ms for each in after)])
            row = row._replace(id=row_id(queue.slot, counter), enqueued_ms=enqueued_ms)
            turn.stage.insert_row(queue, row)
            return counter
    turn.stage.append_row(queue, row._replace(id=row_id(queue.slot, state.counter + 1)))
    return state.counter


def _is_ours(turn: Turn, queue: MessageQueue, number: int) -> bool:
    """Whether a number can be one that was reserved here, and is not used in this turn."""
    counter = number - queue.base
    if not 0 < counter <= queue.state.counter:
        return False
    place = row_id(queue.slot, counter)
    return all(row.id != place for row in turn.stage.changes.inserts)
