"""Writes the rows of one task: several partitions at once, one frame in flight in each.

Ordinals are the places of rows in the task's input, from 1, so every attempt gives a row the same
one. What an attempt repeats, its partition passes over.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.client.exceptions import InvalidOperationError, InvalidRequestError
from bendybus.spark.bus_errors import RETRYABLE
from bendybus.spark.errors import RowError, RowsChangedError
from bendybus.spark.sink import fences, messages
from bendybus.spark.sink.fences import RepeatedBatch
from bendybus.spark.sink.lane import Attempt, Fence, Frame, Lane, Sender, Sent
from bendybus.spark.sink.messages import Target

logger = logging.getLogger(__name__)
Row = Mapping[str, Any]
# Of one task: what is buffered, beside the frames in flight.
BUFFERED_BYTES_MAX: Final = 32_000_000
ENTITIES_MAX: Final = 1_000
THREADS_MAX: Final = 16
# How long a partition that gets no rows is waited for.
OTHER_FENCE_S: Final = 10.0
# How long tasks of a batch that is repeated wait for each other.
TIMEOUT_S: Final = 60.0


@dataclass(slots=True)
class Totals:
    """How many messages a task wrote."""

    rows: int = 0
    stored: int = 0
    repeated: int = 0
    duplicates: int = 0


class TaskWriter:
    """Writes the rows of one attempt. `sender_of`: the sender to an entity, by its path."""

    def __init__(
        self,
        attempt: Attempt,
        sender_of: Callable[[str], Sender],
        path: str = "",
        within_s: float = TIMEOUT_S,
    ) -> None:
        self._attempt = attempt
        self._within_s = within_s
        self._id_prefix = attempt.id_prefix()
        self._sender_of = sender_of
        self._path = path
        self._entities: dict[str, _Entity] = {}
        # By spelling.
        self._paths: dict[str, _Entity] = {}
        self._flights: dict[tuple[str, int], tuple[Lane, Frame, Future[Sent]]] = {}
        self._buffered_bytes = 0
        self._pool = ThreadPoolExecutor(THREADS_MAX, "bendybus-write")
        self.totals = Totals()

    def write(self, rows: Iterable[Row]) -> Totals:
        """Write all rows; return when all of them are stored. Raises PipelineError."""
        try:
            if self._path and self._attempt.run:
                # Also without rows: an earlier run may have had some.
                self._opened(self._path)
            for row in rows:
                self._add(row)
            for entity in self._entities.values():
                self._catch_up(entity, at_end=True)
            for lane_key, lane in self._lanes():
                self._send(lane_key, lane)
            for lane_key in list(self._flights):
                self._land(lane_key)
            for _, lane in self._lanes():
                lane.finish()
                self.totals.repeated += lane.passed_over
            self._check_others()
            return self.totals
        except RowsChangedError:
            for entity in self._entities.values():
                if entity.repeated is not None:
                    entity.repeated.refuse()
            raise
        finally:
            # What is on its way is passed over by the next attempt.
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _check_others(self) -> None:
        """Raise RowsChangedError if an earlier attempt wrote where this one has no rows."""
        others = [
            (entity, partition, self._pool.submit(entity.other_fence, partition))
            for entity in self._entities.values()
            for partition in entity.target.partitions
            if partition not in entity.lanes
        ]
        for entity, partition, coming in others:
            fence = coming.result()
            if fence is not None and fence.epoch == self._attempt.epoch:
                entity.open(partition, self._attempt.epoch, fence).finish()

    def _add(self, row: Row) -> None:
        self.totals.rows += 1
        ordinal = self.totals.rows
        try:
            entity = self._entity(row)
            message = messages.encode(row, f"{self._id_prefix}{ordinal}")
            partition = messages.partition_of(
                entity.target, message, self._attempt.task, ordinal - 1
            )
        except RowError as error:
            raise RowError(f"row {ordinal} of task {self._attempt.task}: {error}") from None
        lane_key = (entity.key, partition)
        lane = entity.lane(partition, self._attempt.epoch)
        if not lane.fits(message):
            self._send(lane_key, lane)
        if lane.offer(ordinal, message):
            self._buffered_bytes += message.size_bytes
        if lane.full:
            self._send(lane_key, lane)
        elif self._buffered_bytes >= BUFFERED_BYTES_MAX:
            for each_key, each in self._lanes():
                self._send(each_key, each)

    def _entity(self, row: Row) -> "_Entity":
        path = self._path or row.get("entity") or row.get("topic")
        if not path:
            raise RowError(
                "topic: must name a queue or topic, in a column topic or entity, or as an option "
                "of the write"
            )
        found = self._paths.get(path)
        if found is None:
            found = self._paths[path] = self._opened(path)
        return found

    def _opened(self, path: str) -> "_Entity":
        """Return the entity of a path that was not written to yet, in this spelling."""
        key = path.lower()
        found = self._entities.get(key)
        if found is None:
            if len(self._entities) >= ENTITIES_MAX:
                raise RowError(f"topic: a task writes to at most {ENTITIES_MAX} entities")
            sender = self._sender_of(path)
            found = _Entity(key, sender, sender.target(), self._attempt.producer_id(path))
            if self._attempt.tasks:
                fences.claim(self._attempt, sender, found.target)
            if self._attempt.run:
                self._begin(found)
            self._entities[key] = found
        return found

    def _begin(self, entity: "_Entity") -> None:
        """Note that this run writes a batch; see `RepeatedBatch` if it is not the first one."""
        batch = RepeatedBatch(entity.sender, entity.target, self._attempt, self._within_s)
        try:
            if batch.begun_by_another_run():
                entity.repeated = batch
                for partition in entity.target.partitions:
                    entity.lane(partition, self._attempt.epoch)
            batch.note_task()
        except InvalidRequestError as error:
            logger.warning(
                "%s: batches are not compared with earlier runs of their query, since the bus is "
                "of a version before 0.7.0: %s", entity.target.path, error.message,
            )  # fmt: skip

    def _catch_up(self, entity: "_Entity", *, at_end: bool = False) -> None:
        """Send what was held once all that earlier runs stored was found. Raises RowsChangedError.

        Only then: what this task has not stored yet, another one may have.
        """
        batch = entity.repeated
        if batch is None or not (at_end or all(each.caught_up for each in entity.lanes.values())):
            return
        for lane in entity.lanes.values():
            lane.finish()
        batch.confirm()
        if entity.held or any(lane.size_bytes for lane in entity.lanes.values()):
            batch.await_others()
        entity.repeated = None
        for partition, lane, frame in entity.held:
            self._submit((entity.key, partition), lane, frame)
        entity.held.clear()

    def _lanes(self) -> Iterator[tuple[tuple[str, int], Lane]]:
        for entity in self._entities.values():
            for partition, lane in entity.lanes.items():
                yield (entity.key, partition), lane

    def _send(self, lane_key: tuple[str, int], lane: Lane) -> None:
        """Send what a lane has, or hold it while the batch is being compared."""
        entity = self._entities[lane_key[0]]
        self._catch_up(entity)
        size_bytes = lane.size_bytes
        frame = lane.take()
        if frame is None:
            return
        self._buffered_bytes -= size_bytes
        if entity.repeated is None:
            self._submit(lane_key, lane, frame)
        else:
            entity.held.append((lane_key[1], lane, frame))

    def _submit(self, lane_key: tuple[str, int], lane: Lane, frame: Frame) -> None:
        """Send a frame, once the one before it has landed."""
        self._land(lane_key)
        entity, partition = self._entities[lane_key[0]], lane_key[1]
        flight = self._pool.submit(
            _deliver, entity.sender, partition, entity.producer_id, self._attempt.epoch, frame
        )
        self._flights[lane_key] = (lane, frame, flight)

    def _land(self, lane_key: tuple[str, int]) -> None:
        """Wait for the frame that is in flight."""
        found = self._flights.pop(lane_key, None)
        if found is None:
            return
        lane, frame, flight = found
        sent = flight.result()
        self.totals.stored += sent.stored
        self.totals.repeated += sent.repeated
        self.totals.duplicates += sent.duplicates
        if sent.repeated:
            entity = self._entities[lane_key[0]]
            lane.repeated(frame, entity.sender.fence(lane_key[1], entity.producer_id))


def _deliver(sender: Sender, partition: int, producer_id: bytes, epoch: int, frame: Frame) -> Sent:
    """Send a frame, in smaller ones if a topic would make too many copies of it at once."""
    try:
        return sender.send(partition, producer_id, epoch, frame)
    except InvalidOperationError:
        # Nothing of it is stored.
        if len(frame.messages) == 1:
            raise
    parts = [_deliver(sender, partition, producer_id, epoch, half) for half in frame.halves()]
    return Sent(
        sum(each.stored for each in parts),
        sum(each.repeated for each in parts),
        sum(each.duplicates for each in parts),
    )


@dataclass(slots=True)
class _Entity:
    """An entity that the task writes to, and its lanes by partition."""

    key: str
    sender: Sender
    target: Target
    producer_id: bytes
    lanes: dict[int, Lane] = field(default_factory=dict)
    # Of a batch that an earlier run began: until all of that was found, frames are held.
    repeated: RepeatedBatch | None = None
    held: list[tuple[int, Lane, Frame]] = field(default_factory=list)

    def lane(self, partition: int, epoch: int) -> Lane:
        """Return the lane of a partition; the first time, it is asked how far the task came."""
        found = self.lanes.get(partition)
        if found is None:
            found = self.open(partition, epoch, self.sender.fence(partition, self.producer_id))
        return found

    def open(self, partition: int, epoch: int, fence: Fence) -> Lane:
        """Return a new lane. Raises RowsChangedError."""
        made = Lane(f"{self.target.path}, partition {partition}", epoch, fence)
        self.lanes[partition] = made
        return made

    def other_fence(self, partition: int) -> Fence | None:
        """Return the fence of a partition that is not written to; None: it does not answer."""
        try:
            return self.sender.fence(partition, self.producer_id, within_s=OTHER_FENCE_S)
        except RETRYABLE as error:
            logger.warning("%s/%d: not asked how far: %s", self.target.path, partition, error)
            return None
