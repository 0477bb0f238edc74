"""Looking at messages without receiving them, and deleting without looking."""

from typing import Final

from bendybus.domain import errors, limits
from bendybus.partition_server.commands import (
    CancelScheduled,
    DeleteMessages,
    Delivery,
    Done,
    Now,
    Peek,
    Peeked,
)
from bendybus.partition_server.reserving import Keeper
from bendybus.partition_server.stage import Stage
from bendybus.partition_server.stored import Row, State, row_id

PEEK_ROWS_MAX: Final = 1_000
# A batch delete looks at this many rows at most; the caller repeats.
DELETE_LOOKS_MAX: Final = 20_000
PAGE_BYTES: Final = 8 * limits.MB


def peek(keeper: Keeper, command: Peek, now: Now) -> Peeked:
    """Return messages of every state from a counter on, oldest first, at most 256 KB (but one)."""
    place = keeper.find(command.entity, now)
    count = max(1, min(command.max_messages, PEEK_ROWS_MAX))
    most = command.max_bytes or limits.PEEK_BYTES_MAX
    rows = keeper.store.browse(place.queue.state.slot, max(command.start, 0), count, most)
    if len(rows) > 1 and sum(row.size() for row in rows) > most:
        rows.pop()
    following = rows[-1].counter + 1 if rows else 0
    return Peeked(Delivery(place.queue.state.slot, rows), following)


def cancel_scheduled(keeper: Keeper, command: CancelScheduled, stage: Stage, now: Now) -> Done:
    """Delete scheduled messages, all or none. Raises MessageNotFound for one that is not."""
    place = keeper.find(command.entity, now)
    slot = place.queue.state.slot
    rows = keeper.store.rows([row_id(slot, counter) for counter in command.counters])
    found = {row.counter for row in rows if row.state == State.SCHEDULED}
    missing = [counter for counter in command.counters if counter not in found]
    if missing:
        raise errors.MessageNotFound(
            f"queue {place.entity.name!r}: no scheduled message has the number {missing[0]} in "
            f"partition {keeper.partition}; it may be active already.",
            metadata={"entity": place.entity.name, "sequence_number": str(missing[0])},
        )
    for row in rows:
        stage.remove_row(place.queue, row)
    return Done(len(rows))


def delete_messages(keeper: Keeper, command: DeleteMessages, stage: Stage, now: Now) -> Done:
    """Delete the oldest messages that are not locked; see DeleteMessages."""
    place = keeper.find(command.entity, now)
    queue = place.queue
    before_ms = command.enqueued_before_ms or now.wall_ms + 1
    start, looked, doomed = 0, 0, list[Row]()
    while len(doomed) < command.max_messages and looked < DELETE_LOOKS_MAX:
        rows = keeper.store.browse(queue.state.slot, start, PEEK_ROWS_MAX, PAGE_BYTES)
        if not rows:
            break
        looked += len(rows)
        start = rows[-1].counter + 1
        for row in rows:
            wanted = row.state == State.ACTIVE or command.include_deferred_and_scheduled
            if wanted and row.enqueued_ms < before_ms and row.counter not in queue.locks:
                doomed.append(row)
    for row in doomed[: command.max_messages]:
        stage.remove_row(queue, row)
    return Done(min(len(doomed), command.max_messages))
