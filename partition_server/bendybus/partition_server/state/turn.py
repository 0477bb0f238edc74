"""What a rule works with in one stage of a turn."""

from collections.abc import Callable
from dataclasses import dataclass

from bendybus.partition_server.state import marks
from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.marks import Mark
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.store.errors import StoreError, Unwritable


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

    def attempt(self, work: str, entity: str, action: Callable[[], object]) -> Exception | None:
        """Do one of several pieces of work; in a careful turn, take back one that raises, note it
        and return why.
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
            if isinstance(error, StoreError) and not isinstance(error, Unwritable):
                raise
            self.take_back_to(mark)
            self.partition.faults.note(work, entity, error)
            return error
        self.keep(mark)
        return None

    def mark(self) -> Mark:
        """Return a mark: what is decided after it can be taken back alone; see `marks`."""
        return marks.mark(self.stage, self.partition.undo)

    def take_back_to(self, mark: Mark) -> None:
        """Undo what was decided since the mark."""
        marks.take_back(self.stage, mark, self.partition.undo)

    def keep(self, mark: Mark) -> None:
        """Let what was decided since the mark stay decided."""
        marks.keep(self.stage, mark)

    @property
    def budget(self) -> Budget:
        """What this turn may still do; asked for only by what can be divided over turns."""
        return self.sweep_budget or self.partition.budget()
