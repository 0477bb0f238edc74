"""What an entity keeps of a write under an idempotencyKey, so that each row is stored once.

`claim`: how many tasks the write has.

    first task ──► claim: as many as the option says ──► rows        the option may be wrong
    driver, at the end ──► correct: as many as there were, if the claim is of this write

Rows are known by task, so those of another number of tasks would be stored again. Only the driver
knows how many there are, and only when they have ended.

`RepeatedBatch`: of a batch that an earlier run began, nothing is stored before all was compared.

    first run     claim ──► begun(task) ──► frames                       killed at any moment
    another run   claim: of another run ──► rows up to the fences are passed over, frames are held
                  ──► confirm(task) ──► all tasks that stored are confirmed ──► frames

Spark tells a writer in Python neither how many tasks there are, nor whether they are those of the
earlier run. If each task that stored something finds it again in its rows, what is stored is passed
over, and the other rows are not stored yet, however they are dealt. If one does not, or is not
there, the same rows may be in another task: the batch is refused.

`Fences`: how far the tasks came, shown, taken back, or taken as done. A batch whose rows differ
from those of an earlier attempt is refused, as some of them would be lost or stored twice; the
operator of the pipeline knows which, and decides.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from bendybus.spark.bus_errors import RETRYABLE
from bendybus.spark.errors import PipelineError, RowsChangedError
from bendybus.spark.sink import lane
from bendybus.spark.sink.lane import Attempt, Fence, Sender
from bendybus.spark.sink.messages import Target

_AT_ONCE: Final = 16
# A write of which nothing moves for so long is taken to be over.
_REST_S: Final = 5.0
T = TypeVar("T")
LOOK_S: Final = 0.2
_FITS: Final = 1
_CHANGED: Final = 2
# The note of the last task that may have stored something: its number, from 1.
BEGUN: Final = "begun"
_BETWEEN: Final = b" "


@dataclass(frozen=True, slots=True)
class Came:
    """How far a task came in a partition."""

    task: int
    partition: int
    fence: Fence


@dataclass(frozen=True, slots=True)
class Write:
    """A write whose fences are meant. `key`: of its attempts; see sink/writers.py.

    `tasks`: more are looked at if the entity knows of more.
    """

    key: str
    tasks: int


class Fences:
    """The fences of a write in one entity, as they are now."""

    def __init__(self, sender: Sender, write: Write) -> None:
        """Read them. Raises PipelineError, ServiceBusError."""
        self._sender = sender
        self._write = write
        self._target = sender.target()
        self._attempt = Attempt(write.key, 0, 1)
        self.tasks = max(write.tasks, self._tasks_known())
        self.came = self._read()

    @property
    def epoch(self) -> int:
        """The latest one, which may be unfinished. Raises PipelineError if nothing was written."""
        if not self.came:
            raise PipelineError(
                f"{self._target.path}: knows no task of this write; check the checkpoint or the "
                "key, --to and --tasks (it is forgotten 14 days after its last message)"
            )
        return max(each.fence.epoch for each in self.came)

    def stored_at_most(self) -> int:
        """Return how many messages of the latest epoch may be stored."""
        furthest: dict[int, int] = {}
        for each in self.came:
            if each.fence.epoch == self.epoch and each.fence.mark != lane.ADOPTED:
                furthest[each.task] = max(furthest.get(each.task, 0), each.fence.ordinal)
        return sum(furthest.values())

    def check_at_rest(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Raise PipelineError if the write goes on: what it stores meanwhile would be missed."""
        sleep(_REST_S)
        if self._read() != self.came:
            raise PipelineError(
                f"{self._target.path}: the write goes on, and moved within {_REST_S:g} s; "
                "stop its query before"
            )

    def reset(self) -> None:
        """Have the latest epoch written from its beginning, also what is stored."""
        epoch = self.epoch
        self._move(
            Fence(epoch),
            [(each.task, each.partition) for each in self.came if each.fence.epoch == epoch],
        )
        self._unclaim(epoch)

    def adopt(self) -> None:
        """Have the latest epoch taken as written: what is repeated of it stores nothing."""
        epoch = self.epoch
        self._move(
            Fence(epoch, lane.ADOPTED_ORDINAL, lane.ADOPTED),
            [
                (task, partition)
                for task in range(self.tasks)
                for partition in self._target.partitions
            ],
        )
        self._unclaim(epoch)

    def _tasks_known(self) -> int:
        """Return how many tasks the entity knows of: a batch write says it, queries number them."""
        path, partition = self._target.path, self._target.partitions[0]
        begun = self._sender.fence(partition, self._attempt.note_id(BEGUN, path))
        claimed = self._sender.fence(partition, self._attempt.claim_id(path))
        return max(begun.ordinal, _tasks_of(claimed))

    def _read(self) -> list[Came]:
        """Return how far each task came in each partition that knows it."""
        places = [
            (task, partition) for task in range(self.tasks) for partition in self._target.partitions
        ]
        sender = self._sender
        read = _each(lambda task, at: Came(task, at, sender.fence(at, self._id(task))), places)
        return [each for each in read if each.fence.epoch]

    def _move(self, fence: Fence, places: Sequence[tuple[int, int]]) -> None:
        _each(lambda task, at: self._sender.move(at, self._id(task), fence, replace=True), places)

    def _unclaim(self, epoch: int) -> None:
        """Let the next attempt say how many tasks there are."""
        claim_id, partition = self._attempt.claim_id(self._target.path), self._target.partitions[0]
        if self._sender.fence(partition, claim_id).epoch == epoch:
            self._sender.move(partition, claim_id, Fence(epoch), replace=True)

    def _id(self, task: int) -> bytes:
        return Attempt(self._write.key, task, 1).producer_id(self._target.path)


def _each(do: Callable[[int, int], T], places: Sequence[tuple[int, int]]) -> list[T]:
    """Do it for each task and partition, several at once."""
    with ThreadPoolExecutor(_AT_ONCE, "bendybus-fences") as pool:
        return list(pool.map(lambda place: do(*place), places))


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
        self._say(_FITS)

    def refuse(self) -> None:
        """Say that it is not, so that others do not wait; unless it was said that it is."""
        if not self._said:
            with contextlib.suppress(*RETRYABLE):
                self._say(_CHANGED)

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
        if said.ordinal == _CHANGED:
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


def claim(attempt: Attempt, sender: Sender, target: Target) -> None:
    """Have the entity keep how many tasks there are. Raises RowsChangedError for another number.

    STRICTLY BEFORE anything is stored in the entity.
    """
    producer_id, partition = attempt.claim_id(target.path), target.partitions[0]
    wanted = Fence(attempt.epoch, 1, _claim_mark(attempt, attempt.tasks))
    found = sender.fence(partition, producer_id)
    if found.epoch != attempt.epoch or not found.mark:
        # Without a mark, `pipeline fences` took the claim back.
        sender.move(partition, producer_id, wanted, replace=found.epoch == attempt.epoch)
        # Another task may have been first.
        found = sender.fence(partition, producer_id)
    known = _tasks_of(found)
    if known != attempt.tasks:
        raise RowsChangedError(
            f"option tasks: {target.path} knows this idempotencyKey from a write of {known} tasks "
            f"(got {attempt.tasks}), and rows would be stored twice; repeat it with as many, or "
            "use another key for another write"
        )


def correct_claim(attempt: Attempt, sender: Sender, tasks: int) -> bool:
    """Have the entity keep how many tasks this write had; return whether it does.

    Only if the claim is of this write, so that all that is stored under the key was dealt to so
    many tasks. STRICTLY AFTER its tasks have ended.
    """
    target = sender.target()
    producer_id, partition = attempt.claim_id(target.path), target.partitions[0]
    if sender.fence(partition, producer_id).mark != _claim_mark(attempt, attempt.tasks):
        return False
    fence = Fence(attempt.epoch, 1, _claim_mark(attempt, tasks))
    sender.move(partition, producer_id, fence, replace=True)
    return True


def _tasks_of(fence: Fence) -> int:
    """Return how many tasks a claim says; 0: it was taken back."""
    return int(fence.mark.split(_BETWEEN)[0] or 0)


def _claim_mark(attempt: Attempt, tasks: int) -> bytes:
    return str(tasks).encode() + _BETWEEN + attempt.write.encode()
