"""Entities in memory, as the sink writes to them: with fences, like the partitions of a bus."""

from dataclasses import dataclass, field
from typing import Any

from bendybus.client.exceptions import (
    InvalidOperationError,
    PartitionUnavailableError,
    ProducerFencedError,
)
from bendybus.domain import partitioning
from bendybus.spark.sink.lane import Attempt, Fence, Frame, Sent
from bendybus.spark.sink.messages import Encoded, Target
from bendybus.spark.sink.task_writer import TaskWriter, Totals


@dataclass
class MemoryEntity:
    """One queue. `breaks_after`: how many frames it stores before answers are lost."""

    path: str = "orders"
    count: int = 4
    detects_duplicates: bool = False
    requires_session: bool = False
    message_bytes_max: int = 1_000_000
    stored: dict[int, list[Encoded]] = field(default_factory=dict)
    fences: dict[tuple[int, bytes], Fence] = field(default_factory=dict)
    frames: int = 0
    # How often it was asked how far a producer came.
    asked: int = 0
    breaks_after: int | None = None
    # Of a frame, as a topic with many subscriptions takes it.
    messages_max: int = 1_000_000
    away: set[int] = field(default_factory=set)

    def target(self) -> Target:
        return Target(
            self.path,
            tuple(range(self.count)),
            lambda key: partitioning.partition_of(key, self.count),
            self.detects_duplicates,
            self.requires_session,
            self.message_bytes_max,
        )

    def fence(self, partition: int, producer_id: bytes, within_s: float | None = None) -> Fence:
        self._check(partition)
        self.asked += 1
        return self.fences.get((partition, producer_id), Fence())

    def move(
        self, partition: int, producer_id: bytes, fence: Fence, *, replace: bool = False
    ) -> None:
        known = self.fence(partition, producer_id)
        if known.epoch > fence.epoch:
            raise ProducerFencedError(message="the producer has begun a later epoch.")
        if replace or (known.epoch, known.ordinal) < (fence.epoch, fence.ordinal):
            self.fences[partition, producer_id] = fence

    def send(self, partition: int, producer_id: bytes, epoch: int, frame: Frame) -> Sent:
        self._check(partition)
        if len(frame.messages) > self.messages_max:
            raise InvalidOperationError(message="the batch makes too many copies.")
        fence = self.fence(partition, producer_id)
        if fence.epoch > epoch:
            raise ProducerFencedError(message="the producer has begun a later epoch.")
        passed = fence.ordinal if fence.epoch == epoch else 0
        new = [
            message
            for message, ordinal in zip(frame.messages, frame.ordinals, strict=True)
            if ordinal > passed
        ]
        if new:
            self.stored.setdefault(partition, []).extend(new)
            last = Fence(epoch, frame.ordinals[-1], frame.mark)
            self.fences[partition, producer_id] = last
        self.frames += 1
        if self.breaks_after is not None and self.frames > self.breaks_after:
            raise PartitionUnavailableError(message="the partition does not answer.")
        return Sent(len(new), len(frame.messages) - len(new), 0)

    def bodies(self) -> list[str]:
        """Return what is stored, in order within each partition."""
        return [
            message.body[2:].decode()
            for _, messages in sorted(self.stored.items())
            for message in messages
        ]

    def _check(self, partition: int) -> None:
        if partition in self.away:
            raise PartitionUnavailableError(message="the partition does not answer.")


def rows(*bodies: str, **cells: Any) -> list[dict[str, Any]]:
    """Return rows with these bodies."""
    return [{"body": body, **cells} for body in bodies]


def write(
    entity: MemoryEntity,
    given: list[dict[str, Any]],
    *,
    epoch: int = 1,
    task: int = 0,
    key: str = "query",
    tasks: int = 0,
    run: str = "",
    of_write: str = "",
    within_s: float = 0.0,
) -> Totals:
    """Make one attempt at a task."""
    attempt = Attempt(key, task, epoch, tasks, run, of_write)
    writer = TaskWriter(attempt, lambda path: entity, entity.path, within_s)
    return writer.write(given)
