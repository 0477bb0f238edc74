"""Batch deletes that did not fit into one turn, in turn; the rule is `rules.batch_delete`."""

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from bendybus.domain.errors import BusError
from bendybus.partition_server.state.answers import Done, Failed
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.operation_memory import Operations
from bendybus.partition_server.state.shares import Shares
from bendybus.partition_server.state.stage import Answer, Stage
from bendybus.partition_server.store.records import State

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
    states: frozenset[State]
    start: int = 0
    deleted: int = 0
    # See `operation_memory.name_of`.
    name: bytes = b""

    def stopped(self, operations: Operations, now: Now) -> None:
        """Let a repeat get what was deleted until a step failed: it must not delete more."""
        if self.name and self.deleted:
            operations.remember(self.name, Done(self.deleted), now)


class Deletions:
    """The batch deletes that wait for their next step."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._waiting: deque[Deletion] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def has_room(self, uid: str) -> bool:
        """Whether another batch delete of an entity may begin."""
        places: Shares[str] = Shares()
        for deletion in self._waiting:
            places.add(deletion.uid, 1)
        return places.has_room(uid, 1, DELETIONS_MAX)

    def first(self) -> Deletion:
        """Return the one whose turn it is."""
        return self._waiting[0]

    def callers(self) -> list[Any]:
        """Return who waits for the end of a batch delete."""
        return [deletion.reply_to for deletion in self._waiting]

    def take_over(self, name: bytes, reply_to: Any) -> bool:
        """Answer a repeat at the end of what is under way; return False if nothing is."""
        for index, deletion in enumerate(self._waiting):
            if name and deletion.name == name:
                # The caller that repeats it does not wait for the first answer any more.
                self._waiting[index] = replace(deletion, reply_to=reply_to)
                return True
        return False

    def step(self, stage: Stage, before: Deletion, after: Deletion | None) -> None:
        """Note that a stage is a step of a batch delete; None: its last one, which answers."""
        stage.steps.append(partial(self._failed, before, after))
        stage.journal.later(self._replace, before, after)

    def _failed(
        self, before: Deletion, after: Deletion | None, error: BusError, now: Now
    ) -> Answer | None:
        """Forget a batch delete whose step could not be written."""
        self._replace(before, None)
        before.stopped(self._operations, now)
        return None if after is None else Answer(before.reply_to, Failed(error))

    def _replace(self, before: Deletion, after: Deletion | None) -> None:
        if self._waiting and self._waiting[0] is before:
            self._waiting.popleft()
        if after is not None:
            self._waiting.append(after)
