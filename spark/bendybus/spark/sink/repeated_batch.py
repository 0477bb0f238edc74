"""A batch of a query that an earlier run began: nothing is stored before all of it was compared.

    first run     claim ──► begun(task) ──► frames                       killed at any moment
    another run   claim: of another run ──► rows up to the fences are passed over, frames are held
                  ──► confirm(task) ──► all tasks that stored are confirmed ──► frames

Rows are known by task. Spark tells a writer in Python neither how many tasks there are, nor whether
they are those of the earlier run. If each task that stored something finds it again in its rows,
what is stored is passed over, and the other rows are not stored yet, however they are dealt. If one
does not, or is not there, the same rows may be in another task: the batch is refused.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Final

from bendybus.spark.bus_errors import RETRYABLE
from bendybus.spark.errors import RowsChangedError
from bendybus.spark.sink import lane
from bendybus.spark.sink.attempt import Attempt, Sender
from bendybus.spark.sink.lane import Fence
from bendybus.spark.sink.routing import Target

LOOK_S: Final = 0.2
FITS: Final = 1
CHANGED: Final = 2
# The note of the last task that may have stored something: its number, from 1.
BEGUN: Final = "begun"


class RepeatedBatch:
    """One batch in one entity, as a task of this run sees it."""

    def __init__(
        self,
        sender: Sender,
        target: Target,
        attempt: Attempt,
        within_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._sender = sender
        self._target = target
        self._attempt = attempt
        self._within_s = within_s
        self._clock = clock
        self._sleep = sleep
        self._run = attempt.run.encode()
        self._said = False

    def begun_by_another_run(self) -> bool:
        """Claim the batch for this run; return whether another one was first.

        Raises RowsChangedError if a later batch was begun already.
        """
        found = self._note("run")
        lane.check_epoch(self._target.path, self._attempt.epoch, found)
        if found.epoch != self._attempt.epoch:
            self._move("run", Fence(self._attempt.epoch, 1, self._run))
            # Another task may have been first, of whatever run.
            found = self._note("run")
        return found.mark != self._run

    def note_task(self) -> None:
        """Let other runs know that this task may have stored something.

        STRICTLY BEFORE it does.
        """
        # The highest number stays.
        self._move(BEGUN, Fence(self._attempt.epoch, self._attempt.task + 1))

    def confirm(self) -> None:
        """Say that what this task stored in earlier runs is in its rows."""
        self._say(FITS)

    def refuse(self) -> None:
        """Say that it is not, so that others do not wait; unless it was said that it is."""
        if not self._said:
            with contextlib.suppress(*RETRYABLE):
                self._say(CHANGED)

    def await_others(self) -> None:
        """Wait until the tasks that stored something are confirmed. Raises RowsChangedError."""
        until = self._clock() + self._within_s
        # One question a task; what each stored in every partition is asked of the others only.
        waiting = [task for task in self._begun() if not self._confirmed(task)]
        waiting = list(filter(self._has_stored, waiting))
        while True:
            waiting = [task for task in waiting if not self._confirmed(task)]
            if not waiting:
                return
            if self._clock() >= until:
                raise RowsChangedError(
                    f"{self._where()}: task {waiting[0]} of the earlier run is not there, or waits "
                    "for a core. If the number of tasks changed (shuffle partitions, files, "
                    "cores), start the query as it was; else with as many cores as before. "
                    "Nothing was stored; `bendybus pipeline fences` resets or adopts the batch."
                )
            self._sleep(LOOK_S)

    def _begun(self) -> list[int]:
        """Return the other tasks of earlier runs."""
        begun = self._note(BEGUN)
        count = begun.ordinal if begun.epoch == self._attempt.epoch else 0
        return [task for task in range(count) if task != self._attempt.task]

    def _has_stored(self, task: int) -> bool:
        """Whether a task stored something of the batch, or may have."""
        producer_id = self._attempt.producer_of(task, self._target.path)
        fences = (self._sender.fence(each, producer_id) for each in self._target.partitions)
        return any(map(self._is_stored, fences))

    def _is_stored(self, fence: Fence) -> bool:
        return (
            fence.epoch == self._attempt.epoch and fence.ordinal > 0 and fence.mark != lane.ADOPTED
        )

    def _confirmed(self, task: int) -> bool:
        """Whether a task of this run found its rows. Raises RowsChangedError if they are others."""
        said = self._note(f"confirmed\0{task}")
        if (said.epoch, said.mark) != (self._attempt.epoch, self._run):
            return False
        if said.ordinal == CHANGED:
            raise RowsChangedError(
                f"{self._where()}: the rows of task {task} are not those of the earlier run, so "
                "those of this task may be stored already. Nothing of it was stored."
            )
        return True

    def _say(self, what: int) -> None:
        self._said = True
        fence = Fence(self._attempt.epoch, what, self._run)
        self._move(f"confirmed\0{self._attempt.task}", fence, replace=True)

    def _where(self) -> str:
        return f"{self._target.path}: batch {self._attempt.epoch - 1} was begun by an earlier run"

    def _note(self, what: str) -> Fence:
        note_id = self._attempt.note_id(what, self._target.path)
        return self._sender.fence(self._target.partitions[0], note_id)

    def _move(self, what: str, fence: Fence, *, replace: bool = False) -> None:
        note_id = self._attempt.note_id(what, self._target.path)
        self._sender.move(self._target.partitions[0], note_id, fence, replace=replace)
