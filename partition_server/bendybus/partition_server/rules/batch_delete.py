"""Batch deletes: without looking, within the budget of a turn, however much lies between."""

from dataclasses import replace
from typing import Final

from bendybus.domain import bounds, errors, limits
from bendybus.domain.message_state import MessageState
from bendybus.partition_server.rules import delays, drain
from bendybus.partition_server.state import faults, outcomes
from bendybus.partition_server.state.answers import Done, Failed
from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.state.commands import DeleteMessages
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.message_lock import HeldLock
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.state.unfinished_work import DELETIONS_MAX, Deletion
from bendybus.partition_server.store.records import COUNTER_MASK, State

_STORED: Final = {
    MessageState.ACTIVE: State.ACTIVE,
    MessageState.DEFERRED: State.DEFERRED,
    MessageState.SCHEDULED: State.SCHEDULED,
}


def delete(turn: Turn, command: DeleteMessages) -> Done | None:
    """Do the first step of a batch delete; None: its end is answered later.

    Raises what refuses it.
    """
    partition = turn.partition
    name = outcomes.name_of(command)
    done = partition.operations.outcome_of(name, command.age_ms, turn.now, Done)
    if done is not None:
        return done
    if partition.deletions.take_over(name, command.reply_to):
        return None
    if command.only_known:
        return Done(0)
    if not partition.deletions.has_room(command.entity.uid):
        raise errors.ServerBusy(
            f"partition {partition.index}: too many batch deletes of the entity are in progress, "
            f"its share of {DELETIONS_MAX}. Wait for one to end.",
            retry_after_ms=1_000,
        )
    _step(turn, _deletion(turn, command), Budget(partition.clock_ms))
    return None


def sweep(turn: Turn) -> None:
    """Do a step of the batch delete whose turn it is."""
    deletions = turn.partition.deletions
    deletion, name = deletions.first(), Sweep.DELETION.name
    if turn.attempt(name, "", lambda: _step(turn, deletion, turn.budget)):
        deletions.step(turn.stage, deletion, None)
        error = faults.internal_error(turn.partition.index, name, "")
        turn.stage.answer(deletion.reply_to, Failed(error))
        # A repeat goes on from here.
        deletion.stopped(turn.partition.operations, turn.now)


def _deletion(turn: Turn, command: DeleteMessages) -> Deletion:
    """Return the batch delete that a command asks for. Raises what refuses it."""
    queue = turn.partition.find(command.entity, turn.now)
    drain.check_removes(turn.partition, queue)
    most = limits.PREMIUM_DELETE_MESSAGES_MAX
    bounds.check_number("max_messages", command.max_messages, most, 1)
    bounds.check_number("enqueued_before", command.enqueued_before_ms, bounds.TIME_MS_MAX)
    return Deletion(
        command.reply_to,
        queue.slot,
        queue.entity.uid,
        command.max_messages,
        command.enqueued_before_ms or max(turn.now.wall_ms, queue.state.last_enqueued_ms) + 1,
        frozenset(_STORED[state] for state in command.states),
        name=outcomes.name_of(command),
    )


def _step(turn: Turn, deletion: Deletion, budget: Budget) -> None:
    rest = _go_on(turn, deletion, budget)
    turn.partition.deletions.step(turn.stage, deletion, rest)


def _go_on(turn: Turn, deletion: Deletion, budget: Budget) -> Deletion | None:
    """Delete some of the oldest messages that are not locked; None when that is all."""
    stage = turn.stage
    queue = turn.partition.queues.at(deletion.slot)
    if queue is None or queue.entity.uid != deletion.uid:
        # The queue was deleted meanwhile, messages and all.
        _end(turn, deletion, deletion.deleted)
        return None
    if turn.partition.drains.held(deletion.uid, queue.state.sub_queue) is not None:
        # From here on a data pipeline alone removes messages.
        _end(turn, deletion, deletion.deleted)
        return None
    left, at = deletion.left, deletion.start
    summaries = turn.partition.store.summaries(queue.slot, at, COUNTER_MASK, budget.rows_left)
    complete = len(summaries) < budget.rows_left
    for index, summary in enumerate(summaries):
        if not left or (index and budget.spent()):
            complete = not left
            break
        at = summary.counter + 1
        wanted = summary.state in deletion.states
        lock = queue.locks.get(summary.counter)
        held = isinstance(lock, HeldLock)
        doomed = wanted and summary.enqueued_ms < deletion.before_ms and (lock is None or held)
        if doomed:
            stage.remove(queue, summary.id, summary.state, summary.size_bytes)
            stage.lose(queue, summary.counter)
            if held:
                stage.unlock(queue, summary.counter)
                delays.end(turn, queue, summary.counter)
            elif summary.state == State.ACTIVE:
                stage.touch(queue, counts=False).vanished.append(summary.counter)
            left -= 1
        budget.spend(summary.size_bytes if doomed else 0)
    deleted = deletion.deleted + deletion.left - left
    if complete or not left:
        _end(turn, deletion, deleted)
        return None
    return replace(deletion, left=left, start=at, deleted=deleted)


def _end(turn: Turn, deletion: Deletion, deleted: int) -> None:
    """Answer, and let a repeat get the same answer."""
    turn.stage.answer(deletion.reply_to, Done(deleted))
    turn.remember_operation(deletion.name, Done(deleted))
