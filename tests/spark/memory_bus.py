"""An entity in memory, as the planners and readers of the Spark room see the bus."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from bendybus.client.exceptions import (
    DrainLeaseLostError,
    InvalidOperationError,
    MessagingEntityDrainedError,
    PartitionUnavailableError,
)
from bendybus.spark.bus import Page
from bendybus.spark.option_table import Use
from bendybus.spark.options import ReadOptions, of_read
from bendybus.spark.source.ranges import Extent
from bendybus.v1 import message_pb2
from tests import sequence_numbers

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def stream_options(**given: str) -> ReadOptions:
    """Return the options of a streaming read of `orders`."""
    return of_read({"queue": "orders", **given}, Use.STREAM_READ)


def batch_options(**given: str) -> ReadOptions:
    """Return the options of a batch read of `orders`."""
    return of_read({"queue": "orders", **given}, Use.BATCH_READ)


class Clock:
    """Time that passes when it is slept."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class MemoryPartition:
    """One partition: the bodies of its messages by number."""

    index: int
    incarnation: str = "a"
    tail: int = 0
    low: int = 0
    messages: dict[int, str] = field(default_factory=dict)
    locked: int = 0
    away: bool = False
    # The queue is plain.
    plain: bool = False

    def number(self, counter: int) -> int:
        """Return the whole number of a counter."""
        return counter if self.plain else sequence_numbers.of(self.index, counter)

    def extent(self) -> Extent:
        """Return where it begins and ends."""
        if self.away:
            return Extent(self.index, unavailable="the partition does not answer.")
        return Extent(
            self.index,
            self.incarnation,
            self.number(self.low),
            self.number(self.tail),
            self.number(min(self.messages)) if self.messages else 0,
            len(self.messages),
            100 * len(self.messages),
        )


class MemoryBus:
    """A queue of some partitions. Message n was enqueued n seconds after EPOCH."""

    def __init__(self, *counts: int) -> None:
        self.partitions = [MemoryPartition(index) for index in range(len(counts))]
        self.leases: list[MemoryLease] = []
        self.looks = 0
        # Called by what settles, before it does.
        self.settling: Callable[[int], None] = lambda partition: None
        # Called when a lease was released.
        self.releasing: Callable[[], None] = lambda: None
        for index, count in enumerate(counts):
            self.send(index, count)

    def send(self, index: int, count: int = 1) -> None:
        """Enqueue messages."""
        partition = self.partitions[index]
        for _ in range(count):
            partition.tail += 1
            partition.messages[partition.tail] = f"{index}-{partition.tail}"

    def expire(self, index: int, counter: int) -> None:
        """Let a message be gone before it was received."""
        partition = self.partitions[index]
        partition.messages.pop(counter, None)
        partition.low = max(partition.low, counter)

    def left(self) -> int:
        """Return how many messages there are."""
        return sum(len(partition.messages) for partition in self.partitions)

    def extents(self) -> list[Extent]:
        self.looks += 1
        return [partition.extent() for partition in self.partitions]

    def number_at(self, partition: int, time: datetime) -> int:
        seconds = (time - EPOCH) / timedelta(seconds=1)
        found = self.partitions[partition]
        return found.number(min(found.tail, max(0, int(seconds) - 1)))

    def page(self, partition: int, after: int, upto: int, *, bodies: bool, most: int = 2) -> Page:
        found = self.partitions[partition]
        if found.away:
            raise PartitionUnavailableError(message="the partition does not answer.")
        numbers = [
            found.number(counter)
            for counter in sorted(found.messages)
            if after < found.number(counter) <= upto
        ]
        chosen = numbers[:most]
        batch = message_pb2.DeliveredBatch(partition=partition, sequence_numbers=chosen)
        complete = len(chosen) == len(numbers)
        following = upto if complete else chosen[-1]
        return Page(batch, following, complete, found.incarnation, found.number(found.low))

    def lease(self, owner: str, duration_s: float) -> "MemoryLease":
        held = self.leases[-1] if self.leases else None
        if held is not None and held.owner != owner and not held.released:
            raise MessagingEntityDrainedError(message=f"orders is drained by {held.owner!r}.")
        self.leases.append(MemoryLease(self, owner, len(self.leases) + 1))
        return self.leases[-1]

    def partition_of(self, key: str) -> int:
        return len(key) % len(self.partitions)


class MemoryLease:
    """A lease of the whole queue. It lasts until a later one."""

    def __init__(self, bus: MemoryBus, owner: str, epoch: int) -> None:
        self._bus = bus
        self.owner = owner
        self.epoch = epoch
        self.released = False
        self.renewals = 0
        self._look()

    def renew(self) -> None:
        self.renewals += 1
        if self._bus.leases[-1] is not self:
            raise DrainLeaseLostError(message=f"the lease (epoch {self.epoch}) is lost.")
        self._look()

    def release(self) -> None:
        self.released = True
        self._bus.releasing()

    def settle_up_to(self, partition: int, number: int, *, incarnation: str) -> int:
        self._bus.settling(partition)
        if self._bus.leases[-1] is not self:
            raise DrainLeaseLostError(message=f"the lease (epoch {self.epoch}) is lost.")
        found = self._bus.partitions[partition]
        if found.away:
            raise PartitionUnavailableError(message="the partition does not answer.")
        if incarnation != found.incarnation:
            raise InvalidOperationError(message="the sequence numbers were reset.")
        settled = [each for each in found.messages if found.number(each) <= number]
        for each in settled:
            del found.messages[each]
        return len(settled)

    def _look(self) -> None:
        waiting: list[Any] = [
            SimpleNamespace(
                partition=each.index,
                locked_message_count=each.locked,
                error=PartitionUnavailableError(message="it does not answer.")
                if each.away
                else None,
            )
            for each in self._bus.partitions
            if each.away or each.locked
        ]
        self.waiting: Sequence[Any] = waiting
        self.ready = frozenset(
            each.index for each in self._bus.partitions if not each.away and not each.locked
        )
