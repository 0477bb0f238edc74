"""What one turn of a partition decides before it is committed.

Rules change the partition's figures at once and what others read at the commit; both through the
journal, which takes back what is not committed. Rules only append to what a stage holds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, Final, NamedTuple

from bendybus.domain import errors, sequence_number
from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import BusError
from bendybus.partition_server.state.answers import Delivered, Failed, SessionResult, Settled
from bendybus.partition_server.state.commands import Command, Now
from bendybus.partition_server.state.due_times import DueTimes
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.message_lock import Lock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.store.records import (
    Changes,
    Copies,
    Figures,
    HistoryEntry,
    Move,
    Row,
    State,
    row_id,
)


class Answer(NamedTuple):
    """A value for a caller."""

    to: Caller
    # One of `answers`.
    value: Any


_Before = tuple[Figures, tuple[bool, bool, int], tuple[int, int, int, int, int]]


@dataclass(slots=True)
class Touched:
    """A queue that a stage changes; at the commit, its window learns of it."""

    queue: MessageQueue
    # Before the stage: its size, and whether its window reached its end.
    size_bytes: int
    caught_up: bool
    # Its figures are to be written.
    counted: bool = False
    # Something was moved here, whose payload is only in the file: the window reads it from there.
    cold: bool = False
    # What was appended, in order; locks that are taken away; those of them whose messages can be
    # received again; ACTIVE rows that were not locked and are gone.
    fresh: list[Row] = field(default_factory=list)
    unlocked: list[tuple[int, Lock]] = field(default_factory=list)
    returned: list[tuple[int, Lock]] = field(default_factory=list)
    vanished: list[int] = field(default_factory=list)
    # Copies of published messages that were appended, in order: made when they are read.
    copied: list[Iterator[Row]] = field(default_factory=list)
    # The journal's length when this was noted last.
    noted: int = 0

    def before(self) -> _Before:
        """Return what restores it as it is now."""
        moved = len(self.unlocked), len(self.returned), len(self.vanished)
        lengths = (len(self.fresh), *moved, len(self.copied))
        return self.queue.state.figures(), (self.counted, self.cold, self.noted), lengths

    def restore(
        self,
        figures: Figures,
        values: tuple[bool, bool, int] = (False, False, 0),
        lengths: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0),
    ) -> None:
        """Take back what came since `before`."""
        queue = self.queue
        queue.state.restore(figures)
        self.counted, self.cold, self.noted = values
        fresh, unlocked, returned, vanished, copied = lengths
        for counter, lock in reversed(self.unlocked[unlocked:]):
            queue.locks[counter] = lock
            queue.watch_lock(lock.until_mono_ms, [(counter, lock.generation)])
        del self.fresh[fresh:], self.unlocked[unlocked:]
        del self.returned[returned:], self.vanished[vanished:], self.copied[copied:]


@dataclass(slots=True)
class Stage:
    """The decisions of one turn."""

    journal: Journal
    due: DueTimes
    changes: Changes = field(default_factory=Changes)
    answers: list[Answer] = field(default_factory=list)
    # Reads and asks: looked at after the commit, so that they see what is committed.
    after: list[Command] = field(default_factory=list)
    touched: dict[int, Touched] = field(default_factory=dict)
    # Queues that may have messages for their asks once this is committed, by slot.
    served: dict[int, MessageQueue] = field(default_factory=dict)
    keys: dict[tuple[int, str], int] = field(default_factory=dict)
    # What this is a step of, which a commit that fails ends: what that does. Returns an answer
    # where the stage has none.
    steps: list[Callable[[BusError, Now], Answer | None]] = field(default_factory=list)
    # Streams that end; forgotten when this is committed, or fails and is not decided again.
    ended: list[Caller] = field(default_factory=list)
    # What receivers settled, for repeats in the same stage: (receiver, how, tokens).
    settled: list[tuple[bytes, Disposition, bytes]] = field(default_factory=list)
    # The last mark.
    marked: int = 0

    def mark(self) -> int:
        """Return a mark, the length of the journal: what follows it can be taken back alone."""
        mark = self.marked = len(self.journal)
        lengths = [len(each) for each in self._growing()]
        self.journal.note(_kept, lengths, [getattr(self.changes, n) for n in _CHANGES_VALUES])
        return mark

    def take_back_to(self, mark: int) -> None:
        """Undo what was decided since the mark; the stage is as it was then."""
        lengths, values = self.journal.before(mark)
        self.journal.unwind(mark)
        for grown, length in zip(self._growing(), lengths, strict=True):
            if isinstance(grown, list):
                assert len(grown) >= length, "something from before the mark was taken out"
                del grown[length:]
            else:
                while len(grown) > length:
                    grown.popitem()
        for name, value in zip(_CHANGES_VALUES, values, strict=True):
            setattr(self.changes, name, value)

    def _growing(self) -> list[Any]:
        """Return what rules only append to, or only add keys to."""
        own, changes = [getattr(self, name) for name in _GROWING], self.changes
        return own + [getattr(changes, name) for name in _CHANGES_GROWING]

    def touch(self, queue: MessageQueue, *, counts: bool = True) -> Touched:
        """Return the note on a queue that is about to change: its figures (`counts`), or only what
        its window learns of at the commit.
        """
        slot, journal = queue.slot, self.journal
        touched = self.touched.get(slot)
        if touched is None:
            state = queue.state
            touched = Touched(queue, state.size_bytes, queue.ready.at_end())
            self.touched[slot] = touched
            figures = (state.figures(),)
            touched.noted = journal.enter(touched.restore, figures, self._show, (touched,))
        elif touched.noted <= self.marked:
            touched.noted = journal.note(touched.restore, *touched.before())
        if counts and not touched.counted:
            touched.counted = True
            self.changes.slots[slot] = queue.state
        return touched

    def _show(self, touched: Touched) -> None:
        """Let a window have what is committed."""
        queue, due = touched.queue, self.due
        caught_up = touched.caught_up and not touched.cold
        if touched.vanished:
            queue.ready.forget(touched.vanished)
        if touched.fresh:
            for row in touched.fresh:
                if row.expires_ms is not None or row.scheduled_ms:
                    due.appended(row)
            queue.ready.push_hot(touched.fresh, caught_up)
        if touched.copied:
            # Of two ways, in the order of the file.
            caught_up = caught_up and not touched.fresh
            queue.ready.push_hot(chain.from_iterable(touched.copied), caught_up)
        for counter, lock in touched.returned:
            queue.ready.give_back(counter, lock)
        self.served[queue.slot] = queue

    def answer(self, to: Caller, value: object) -> None:
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

    def insert_row(self, queue: MessageQueue, row: Row) -> None:
        """Add a scheduled row under a number that was given before: no window reads it there."""
        assert row.state == State.SCHEDULED, row.state
        self.touch(queue)
        queue.state.size_bytes += row.size()
        queue.state.scheduled += 1
        self.changes.inserts.append(row)
        self.journal.later(self.due.appended, row)

    def append_copies(
        self, copies: Copies, queues: Sequence[MessageQueue], enqueued_ms: int
    ) -> None:
        """Add copies of published messages to queues, behind what each has."""
        count = len(copies)
        for queue in queues:
            check_numbers(queue, count)
        self.changes.copies.append(copies)
        if copies.expires_ms is not None:
            self.journal.later(self.due.expires_at, copies.expires_ms)
        for queue in queues:
            touched, state = self.touch(queue), queue.state
            state.last_enqueued_ms = max(state.last_enqueued_ms, enqueued_ms)
            place = row_id(state.slot, state.counter + 1), state.last_enqueued_ms
            state.counter += count
            state.size_bytes += copies.size_bytes
            state.active += count
            copies.places.append(place)
            touched.copied.append(copies.rows(*place))

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
            self.touch(queue, counts=False).vanished.append(row.counter)

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

    def remove_many(self, touched: Touched, ids: list[int], deferred: int, size_bytes: int) -> None:
        """Delete messages that were locked, of which `deferred` were DEFERRED."""
        figures = touched.queue.state
        figures.size_bytes -= size_bytes
        figures.active -= len(ids) - deferred
        figures.deferred -= deferred
        self.changes.deletes += ids

    def unlock(self, queue: MessageQueue, counter: int) -> Lock:
        """Take a lock away."""
        lock = queue.locks[counter]
        self.touch(queue, counts=False).unlocked.append((counter, lock))
        del queue.locks[counter]
        return lock

    def remember_key(self, entry: HistoryEntry) -> None:
        """Note a key of duplicate detection; it counts to the quota."""
        self.keys[entry.slot, entry.key] = entry.counter
        self.changes.history.append(entry)


def _kept(*_: object) -> None:
    """Undo nothing: a mark is no change."""


def _growing(kind: type[Stage | Changes]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.default_factory in (list, dict))


_GROWING: Final = _growing(Stage)
_CHANGES_GROWING: Final = _growing(Changes)
_CHANGES_VALUES: Final = tuple(
    each.name for each in fields(Changes) if each.name not in _CHANGES_GROWING
)


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


def failure_of(value: object, error: BusError) -> object:
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
