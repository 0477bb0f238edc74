"""What a rule works with in one stage of a turn."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from bendybus.domain.steps import Steps
from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.publications import Held
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.state.topics import NotMatched
from bendybus.partition_server.store.errors import StoreError, Unwritable

T = TypeVar("T")


@dataclass(slots=True)
class Turn:
    """The partition's state, the stage that is being decided, and the time."""

    partition: PartitionState
    stage: Stage
    now: Now
    # The wall clock is in doubt: nothing expires.
    expiry_held: bool
    # Of a sweep; commands share one for the whole turn.
    sweep_budget: Budget | None = None
    # A sweep raised: it is decided again, each piece of its work in a mark of its own.
    careful: bool = False
    # It decided what the store cannot write: each piece is tried there.
    checked: bool = False
    # What is being decided stores messages in a topic; see `rules.publications`.
    held: Held[object] | None = None

    def attempt(
        self, work: str, entity: str, action: Callable[[], object], *, number: int | None = None
    ) -> Exception | None:
        """Do one of several pieces of work; in a careful turn, take back one that raises, note it
        and return why. `number`: of the message that the work is about, for the log.
        """
        if not self.careful:
            action()
            return None
        mark = self.mark()
        try:
            action()
            if self.checked:
                self.partition.store.commit(self.stage.changes, keep=False)
        except Exception as error:
            if isinstance(error, NotMatched) or (
                isinstance(error, StoreError) and not isinstance(error, Unwritable)
            ):
                # Whoever tried the work takes it back, with this mark.
                raise
            self.take_back_to(mark)
            if number is not None:
                error.add_note(f"sequence number {number}")
            self.partition.faults.note(work, entity, error)
            return error
        return None

    def matched(self, topic: MessageQueue, name: Hashable, begin: Callable[[], Steps[T]]) -> T:
        """Return what a message, or a group, makes of the rules of a topic; see `Matchings.next`.

        Raises NotMatched when that takes another turn.
        """
        held, slot = self.held, topic.slot
        assert held is not None, "what publishes can be held"
        if held.slot != slot and (
            self.partition.publications.waits(slot) or self.budget.matching_spent()
        ):
            raise NotMatched(slot)
        version = self.partition.topics.of(topic.entity).version
        return held.matchings.next((slot, version), name, begin, self.budget)

    def mark(self) -> int:
        """Return a mark: what is decided after it can be taken back alone."""
        return self.stage.mark()

    def take_back_to(self, mark: int) -> None:
        """Undo what was decided since the mark."""
        self.stage.take_back_to(mark)

    def remember_operation(self, name: bytes, outcome: object) -> None:
        """Note the outcome of an operation, for repeats of it, if it has a name."""
        if name:
            operations = self.partition.operations
            self.stage.journal.later(operations.remember, name, outcome, self.now)

    @property
    def budget(self) -> Budget:
        """What this turn may still do; asked for only by what can be divided over turns."""
        return self.sweep_budget or self.partition.budget()
