"""Looking at messages without receiving them, and deleting without looking."""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Final

from bendybus.domain import bounds, errors, limits
from bendybus.partition_server import reserving
from bendybus.partition_server.budget import Budget
from bendybus.partition_server.commands import (
    CancelScheduled,
    DeleteMessages,
    Delivery,
    Done,
    Now,
    Peek,
    Peeked,
)
from bendybus.partition_server.operations import Operations
from bendybus.partition_server.reserving import Keeper
from bendybus.partition_server.stage import Stage
from bendybus.partition_server.stored import COUNTER_MASK, State

PEEK_ROWS_MAX: Final = 1_000
# Batch deletes of one partition that are under way.
DELETIONS_MAX: Final = 1_000


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
    reserving.check_counters(command.counters, bounds.NUMBERS_A_CALL_MAX)
    wanted = sorted(set(command.counters))
    heads = [head for n in wanted for head in keeper.store.heads(slot, n, n, 1)]
    found = {head.counter for head in heads if head.state == State.SCHEDULED}
    missing = [counter for counter in command.counters if counter not in found]
    if missing:
        raise errors.MessageNotFound(
            f"queue {place.entity.name!r}: no scheduled message has the number {missing[0]} in "
            f"partition {keeper.partition}; it may be active already.",
            metadata={"entity": place.entity.name, "sequence_number": str(missing[0])},
        )
    for head in heads:
        stage.remove(place.queue, head.id, head.state, head.size_bytes)
    return Done(len(heads))


@dataclass(frozen=True, slots=True)
class Deletion:
    """A batch delete on its way through a queue: what does not fit in one turn goes on in the next.

    Only its end is answered, so that fewer than were asked for means that there are no more.
    """

    reply_to: Any
    slot: int
    uid: str
    left: int
    before_ms: int
    everything: bool
    start: int = 0
    deleted: int = 0
    operation_id: bytes = b""

    def end(self, stage: Stage, deleted: int) -> None:
        """Answer, and let a repeat get the same answer."""
        stage.answer(self.reply_to, Done(deleted))
        stage.remember_operation(self.operation_id, Done(deleted))

    def stopped(self, operations: Operations, now: Now) -> None:
        """Let a repeat get what was deleted until a step failed: it must not delete more."""
        if self.operation_id and self.deleted:
            operations.remember(self.operation_id, Done(self.deleted), now)


def begin_deletion(keeper: Keeper, command: DeleteMessages, now: Now) -> Deletion:
    """Return the batch delete that a command asks for. Raises what refuses it."""
    place = keeper.find(command.entity, now)
    most = limits.PREMIUM_DELETE_MESSAGES_MAX
    bounds.check_number("max_messages", command.max_messages, most, 1)
    bounds.check_number("enqueued_before", command.enqueued_before_ms, bounds.TIME_MS_MAX)
    return Deletion(
        command.reply_to,
        place.queue.state.slot,
        place.entity.uid,
        command.max_messages,
        command.enqueued_before_ms or max(now.wall_ms, place.queue.state.last_enqueued_ms) + 1,
        command.include_deferred_and_scheduled,
        operation_id=command.operation_id,
    )


def deleted_before(
    keeper: Keeper, command: DeleteMessages, under_way: deque[Deletion], stage: Stage, now: Now
) -> bool:
    """Answer the repeat of a batch delete that is done, or let it wait for one under way."""
    done = keeper.operations.outcome_of(command.operation_id, command.age_ms, now)
    if done is not None:
        stage.answer(command.reply_to, done)
        return True
    for index, deletion in enumerate(under_way):
        if command.operation_id and deletion.operation_id == command.operation_id:
            # Whoever repeats it does not wait for the first answer any more.
            under_way[index] = replace(deletion, reply_to=command.reply_to)
            return True
    return False


def go_on_deleting(
    keeper: Keeper, deletion: Deletion, stage: Stage, budget: Budget
) -> Deletion | None:
    """Delete some of the oldest messages that are not locked; None when that is all."""
    place = keeper.place(deletion.slot)
    if place is None or place.entity.uid != deletion.uid:
        # The queue was deleted meanwhile, messages and all.
        deletion.end(stage, deletion.deleted)
        return None
    queue, left, at = place.queue, deletion.left, deletion.start
    heads = keeper.store.heads(queue.state.slot, at, COUNTER_MASK, budget.rows_left)
    complete = len(heads) < budget.rows_left
    for index, head in enumerate(heads):
        if not left or (index and budget.spent()):
            complete = not left
            break
        at = head.counter + 1
        wanted = head.state == State.ACTIVE or deletion.everything
        doomed = (
            wanted and head.enqueued_ms < deletion.before_ms and head.counter not in queue.locks
        )
        if doomed:
            stage.remove(queue, head.id, head.state, head.size_bytes)
            if head.state == State.ACTIVE:
                stage.vanished.append((queue, head.counter))
            left -= 1
        budget.spend(head.size_bytes if doomed else 0)
    deleted = deletion.deleted + deletion.left - left
    if complete or not left:
        deletion.end(stage, deleted)
        return None
    return replace(deletion, left=left, start=at, deleted=deleted)
