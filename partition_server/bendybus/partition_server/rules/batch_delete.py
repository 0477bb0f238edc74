"""Batch deletes: without looking, within the budget of a turn, however much lies between."""

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from bendybus.domain import bounds, errors, limits
from bendybus.domain.errors import BusError
from bendybus.partition_server.rules.receive import Keeper
from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.state.commands import DeleteMessages, Done, Failed, Now
from bendybus.partition_server.state.operation_memory import Operations
from bendybus.partition_server.state.stage import Answer, Stage
from bendybus.partition_server.store.records import COUNTER_MASK, State

# Batch deletes of one partition that are under way.
DELETIONS_MAX: Final = 1_000


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


class Deletions:
    """The batch deletes of a partition that did not fit into one turn, in turn."""

    def __init__(self) -> None:
        self._waiting: deque[Deletion] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def callers(self) -> list[Any]:
        """Return who waits for the end of a batch delete."""
        return [deletion.reply_to for deletion in self._waiting]

    def begin(
        self, keeper: Keeper, command: DeleteMessages, stage: Stage, now: Now, budget: Budget
    ) -> None:
        """Do the first step of a batch delete, or answer why it is refused."""
        try:
            if self._repeats(keeper, command, stage, now):
                return
            if len(self._waiting) >= DELETIONS_MAX:
                raise errors.ServerBusy(
                    f"partition {keeper.partition} has {DELETIONS_MAX} batch deletes under way. "
                    "Wait for one to end.",
                    retry_after_ms=1_000,
                )
            deletion = _begin(keeper, command, now)
        except BusError as error:
            stage.answer(command.reply_to, Failed(error))
        else:
            self._step(keeper, deletion, stage, budget)

    def _repeats(self, keeper: Keeper, command: DeleteMessages, stage: Stage, now: Now) -> bool:
        """Answer the repeat of a batch delete that is done, or let it wait for one under way."""
        done = keeper.operations.outcome_of(command.operation_id, command.age_ms, now)
        if done is not None:
            stage.answer(command.reply_to, done)
            return True
        for index, deletion in enumerate(self._waiting):
            if command.operation_id and deletion.operation_id == command.operation_id:
                # Whoever repeats it does not wait for the first answer any more.
                self._waiting[index] = replace(deletion, reply_to=command.reply_to)
                return True
        if command.only_known:
            stage.answer(command.reply_to, Done(0))
        return command.only_known

    def go_on(self, keeper: Keeper, stage: Stage, budget: Budget) -> None:
        """Do a step of the batch delete whose turn it is."""
        self._step(keeper, self._waiting[0], stage, budget)

    def failed(self, operations: Operations, stage: Stage, error: BusError, now: Now) -> None:
        """Tell the caller, once, that a step could not be written; it ends there."""
        if stage.deletion is not None:
            self._replace(stage.deletion, None)
            stage.answers[:] = [Answer(stage.deletion.reply_to, Failed(error))]
            stage.deletion.stopped(operations, now)

    def _step(self, keeper: Keeper, deletion: Deletion, stage: Stage, budget: Budget) -> None:
        stage.deletion = deletion
        rest = _go_on(keeper, deletion, stage, budget)
        stage.on_commit.append(partial(self._replace, deletion, rest))

    def _replace(self, deletion: Deletion, rest: Deletion | None) -> None:
        if self._waiting and self._waiting[0] is deletion:
            self._waiting.popleft()
        if rest is not None:
            self._waiting.append(rest)


def _begin(keeper: Keeper, command: DeleteMessages, now: Now) -> Deletion:
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


def _go_on(keeper: Keeper, deletion: Deletion, stage: Stage, budget: Budget) -> Deletion | None:
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
