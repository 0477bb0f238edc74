"""What one turn of a partition decides before it is committed.

Rules change the partition's figures at once and note in the stage how to take that back; what
readers and receivers see (windows, hot heads, answers) is changed only by `Partition.apply`,
STRICTLY AFTER the commit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from bendybus.domain import errors, sequence_number
from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import BusError
from bendybus.partition_server.state.answers import Delivered, Failed, SessionResult, Settled
from bendybus.partition_server.state.commands import Command, Now
from bendybus.partition_server.state.message_lock import Lock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.operation_memory import Operations
from bendybus.partition_server.state.settler_memory import Settlers
from bendybus.partition_server.store.copies import Copies
from bendybus.partition_server.store.records import (
    Changes,
    Figures,
    HistoryEntry,
    Move,
    Row,
    State,
)

# Of `SlotState.figures`.
_SIZE: Final = 4


class Answer(NamedTuple):
    """A value for a caller."""

    to: Any
    value: Any


@dataclass(slots=True)
class Touched:
    """A slot that this stage changes: what it was before."""

    queue: MessageQueue
    figures: Figures
    caught_up: bool
    # Something was moved here, whose payload is only in the file: the window reads it from there.
    cold: bool = False
    # What was appended, in order.
    fresh: list[Row] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """The size before."""
        return self.figures[_SIZE]


@dataclass(slots=True)
class Stage:
    """The decisions of one turn."""

    changes: Changes = field(default_factory=Changes)
    answers: list[Answer] = field(default_factory=list)
    # Reads and asks: looked at after the commit, so that they see what is committed.
    after: list[Command] = field(default_factory=list)
    touched: dict[int, Touched] = field(default_factory=dict)
    # Queues that may have messages for their asks once this is committed, by slot.
    served: dict[int, MessageQueue] = field(default_factory=dict)
    unlocked: list[tuple[MessageQueue, int, Lock]] = field(default_factory=list)
    returned: list[tuple[MessageQueue, int, Lock]] = field(default_factory=list)
    # ACTIVE rows that were not locked and are gone.
    vanished: list[tuple[MessageQueue, int]] = field(default_factory=list)
    keys: dict[tuple[int, str], int] = field(default_factory=dict)
    # What is done STRICTLY AFTER the commit; and what undoes, when it fails, what rules changed at
    # once. What is in the partition's log is undone by itself, see `undo_log`.
    on_commit: list[Callable[[], None]] = field(default_factory=list)
    on_failure: list[Callable[[], None]] = field(default_factory=list)
    # The batch delete that this stage is a step of, as it was before.
    deletion: Any = None
    # Settlements that this stage is a step of, each as it was before and as it goes on; see
    # `unfinished`. Those that it ends are answered by it.
    unsettled: list[tuple[Any, Any]] = field(default_factory=list)
    # Streams that end; forgotten when this is committed, or fails and is not decided again.
    ended: list[Any] = field(default_factory=list)
    # What receivers settled: (receiver, how, tokens), to be remembered; and outcomes of operations.
    settled: list[tuple[bytes, Disposition, bytes]] = field(default_factory=list)
    operations: list[tuple[bytes, Any]] = field(default_factory=list)
    # Marks that are neither kept nor taken back, in their order; see `marks`.
    marks: list[Any] = field(default_factory=list)

    def touch(self, queue: MessageQueue) -> Touched:
        """Return the note on a slot that is about to change, made at the first touch."""
        state = queue.state
        touched = self.touched.get(state.slot)
        if touched is None:
            touched = Touched(queue, state.figures(), queue.ready.at_end())
            self.touched[state.slot] = touched
            self.changes.slots[state.slot] = state
        return touched

    def answer(self, to: Any, value: Any) -> None:
        """Answer after the commit."""
        self.answers.append(Answer(to, value))

    def append_row(self, queue: MessageQueue, row: Row) -> None:
        """Add one row whose counter is the next one, counting it in its state."""
        touched = self.touch(queue)
        state, counter = queue.state, row.counter
        assert counter == state.counter + 1, (counter, state.counter)
        check_numbers(queue)
        state.counter = counter
        state.size_bytes += row.size()
        if row.state == 2:
            state.scheduled += 1
        else:
            state.active += 1
        self.changes.inserts.append(row)
        touched.fresh.append(row)

    def append_copy(self, touched: Touched, copies: Copies, row: Row, stored: Row) -> None:
        """Add a copy of a published message to a queue that was touched: `row` for its window,
        `stored` for the file.
        """
        state = touched.queue.state
        if state.counter >= sequence_number.COUNTER_MAX:
            check_numbers(touched.queue)
        state.counter += 1
        state.size_bytes += copies.size_bytes
        state.active += 1
        self.changes.inserts.append(stored)
        touched.fresh.append(row)

    def move(self, queue: MessageQueue, from_id: int, row: Row, content_bytes: int) -> None:
        """Make a message, removed from its place, the next one of a queue, with its payload."""
        touched = self.touch(queue)
        state = queue.state
        check_numbers(queue)
        assert row.counter == state.counter + 1, (row.counter, state.counter)
        state.counter = row.counter
        state.size_bytes += row.size() + content_bytes
        state.active += 1
        self.changes.moves.append(Move(from_id, row))
        touched.fresh.append(row)
        touched.cold = True

    def remove_row(self, queue: MessageQueue, row: Row) -> None:
        """Delete a row that is not locked."""
        self.remove(queue, row.id, row.state, row.size())
        if row.state == State.ACTIVE:
            self.vanished.append((queue, row.counter))

    def remove(self, queue: MessageQueue, id_: int, state: int, size_bytes: int) -> None:
        """Delete a message and uncount it in its state."""
        self.uncount(queue, state, size_bytes)
        self.changes.deletes.append(id_)

    def uncount(self, queue: MessageQueue, state: int, size_bytes: int) -> None:
        """Uncount a message that leaves its place, deleted or moved."""
        self.touch(queue)
        figures = queue.state
        figures.size_bytes -= size_bytes
        if state == 0:
            figures.active -= 1
        elif state == 1:
            figures.deferred -= 1
        else:
            figures.scheduled -= 1

    def lose(self, queue: MessageQueue, counter: int) -> None:
        """Note that a message is removed that no receiver settled; it was touched by that."""
        queue.state.lost = max(queue.state.lost, counter)

    def remove_many(
        self, queue: MessageQueue, ids: list[int], deferred: int, size_bytes: int
    ) -> None:
        """Delete messages that were locked, of which `deferred` were DEFERRED."""
        self.touch(queue)
        figures = queue.state
        figures.size_bytes -= size_bytes
        figures.active -= len(ids) - deferred
        figures.deferred -= deferred
        self.changes.deletes += ids

    def unlock(self, queue: MessageQueue, counter: int) -> Lock:
        """Take a lock away; it comes back if the commit fails."""
        lock = queue.locks[counter]
        # STRICTLY BEFORE it goes: what is not noted does not come back.
        self.unlocked.append((queue, counter, lock))
        del queue.locks[counter]
        return lock

    def deliver(self, lock: Lock) -> None:
        """Note a lock that is about to be delivered: it is as it was if that is taken back."""
        self.on_failure.append(partial(setattr, lock, "delivered", lock.delivered))

    def remember_operation(self, name: bytes, outcome: Any) -> None:
        """Note the outcome of an operation, for repeats of it, if it has a name."""
        if name:
            self.operations.append((name, outcome))

    def be_remembered(self, settlers: Settlers, operations: Operations, now: Now) -> None:
        """Let repeats find what is done. STRICTLY AFTER the commit."""
        for settler_id, disposition, tokens in self.settled:
            settlers.remember(settler_id, disposition, tokens, now.mono_ms)
        for name, outcome in self.operations:
            operations.remember(name, outcome, now)

    def remember_key(self, entry: HistoryEntry) -> None:
        """Note a key of duplicate detection; it counts to the quota."""
        self.keys[entry.slot, entry.key] = entry.counter
        self.changes.history.append(entry)

    def roll_back(self) -> None:
        """Undo what was decided: figures and locks are as before."""
        for touched in self.touched.values():
            touched.queue.state.restore(touched.figures)
        for queue, counter, lock in self.unlocked:
            queue.locks[counter] = lock
            queue.watch_lock(lock.until_mono_ms, [(counter, lock.generation)])
        for undo in reversed(self.on_failure):
            undo()


def check_numbers(queue: MessageQueue, count: int = 1) -> None:
    """Raise QuotaExceeded unless a queue can give so many numbers more: an id has no room for them.

    Asked wherever one is given.
    """
    if queue.state.counter + count > sequence_number.COUNTER_MAX:
        entity = queue.entity
        raise errors.QuotaExceeded(
            f"{entity.title}: sequence numbers exhausted in this partition. Create a new "
            f"{entity.kind}.",
            metadata={"entity": entity.name},
        )


def failure_of(value: Any, error: BusError) -> Any:
    """Return what to say instead of `value` when the commit behind it failed."""
    if isinstance(value, Settled):
        before = [failure for failure in value.failures if failure[0] < value.begun]
        failures = [*before, *((i, error) for i in range(value.begun, value.count))]
        return Settled(value.settle_id, value.count, failures)
    if isinstance(value, Delivered):
        return Delivered(value.deliver_id, error=error)
    if isinstance(value, SessionResult):
        return SessionResult(value.request_id, error=error)
    return value if isinstance(value, Failed) else Failed(error)
