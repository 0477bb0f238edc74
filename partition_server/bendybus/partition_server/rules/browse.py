"""Looking at messages without receiving them, and cancelling what is scheduled."""

from typing import Final

from bendybus.domain import bounds, limits
from bendybus.partition_server.rules import receive
from bendybus.partition_server.rules.receive import Keeper
from bendybus.partition_server.state.commands import (
    CancelScheduled,
    Delivery,
    Done,
    Now,
    Peek,
    Peeked,
)
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.store.records import COUNTER_MASK, State

PEEK_ROWS_MAX: Final = 1_000


def peek(keeper: Keeper, command: Peek, now: Now) -> Peeked:
    """Return messages of every state from a counter on, oldest first, at most 256 KB (but one)."""
    place = keeper.find(command.entity, now)
    bounds.check_number("from_sequence_number", command.start, bounds.NUMBER_MAX)
    bounds.check_number("max_bytes", command.max_bytes, bounds.BYTES_MAX)
    count = max(1, min(command.max_messages, PEEK_ROWS_MAX))
    most = command.max_bytes or limits.PEEK_BYTES_MAX
    start = min(command.start, COUNTER_MASK)
    rows = keeper.store.browse(place.queue.state.slot, start, count, most)
    if len(rows) > 1 and sum(row.size() for row in rows) > most:
        rows.pop()
    following = rows[-1].counter + 1 if rows else 0
    return Peeked(Delivery(place.queue.state.slot, rows), following)


def cancel_scheduled_once(keeper: Keeper, command: CancelScheduled, stage: Stage, now: Now) -> Done:
    """Delete scheduled messages; a repeat gets the first outcome."""
    done: Done | None = keeper.operations.outcome_of(command.operation_id, command.age_ms, now)
    if done is None:
        done = cancel_scheduled(keeper, command, stage, now)
        stage.remember_operation(command.operation_id, done)
    return done


def cancel_scheduled(keeper: Keeper, command: CancelScheduled, stage: Stage, now: Now) -> Done:
    """Delete scheduled messages, all or none. Raises MessageNotFound for one that is not."""
    place = keeper.find(command.entity, now)
    slot = place.queue.state.slot
    receive.check_counters(keeper, command.counters, bounds.NUMBERS_A_CALL_MAX)
    wanted = sorted(set(command.counters))
    heads = [head for n in wanted for head in keeper.store.heads(slot, n, n, 1)]
    found = {head.counter for head in heads if head.state == State.SCHEDULED}
    missing = [counter for counter in command.counters if counter not in found]
    if missing:
        raise receive.not_found(
            *(keeper, place, missing[0], "scheduled", "it may be active already")
        )
    for head in heads:
        stage.remove(place.queue, head.id, head.state, head.size_bytes)
    return Done(len(heads))
