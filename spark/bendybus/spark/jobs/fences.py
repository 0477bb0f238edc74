"""How far the tasks of a write came in an entity: shown, taken back, or taken as done.

A batch whose rows are others than in an earlier attempt is refused, as some of them would be lost
or stored twice. Who knows which, decides.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from bendybus.spark.errors import PipelineError
from bendybus.spark.sink import claim, lane
from bendybus.spark.sink.attempt import Attempt, Sender
from bendybus.spark.sink.lane import Fence
from bendybus.spark.sink.repeated_batch import BEGUN

_AT_ONCE: Final = 16
# A write of which nothing moves for so long is taken to be over.
REST_S: Final = 5.0
T = TypeVar("T")


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
        sleep(REST_S)
        if self._read() != self.came:
            raise PipelineError(
                f"{self._target.path}: the write goes on, and moved within {REST_S:g} s; "
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
        return max(begun.ordinal, claim.tasks_of(claimed))

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
