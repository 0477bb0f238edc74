"""What reading needs of the bus: a seam over the public client, for one entity.

`Bus` is what the planners and readers work with; `connected` gives the real one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from bendybus.client import (
    PartitionBrowser,
    ServiceBusClient,
    ServiceBusMessageState,
    ServiceBusSubQueue,
)
from bendybus.client.exceptions import ServiceBusError
from bendybus.spark import connections
from bendybus.spark.bus_errors import one_line
from bendybus.spark.options import Entity, ReadOptions
from bendybus.spark.source.ranges import Extent


@dataclass(frozen=True, slots=True)
class Page:
    """Messages of one partition in columns, and where the next page goes on."""

    batch: Any
    next_after: int
    complete: bool
    incarnation: str
    low_watermark: int


class Lease(Protocol):
    """The right to remove messages, alone."""

    @property
    def epoch(self) -> int:
        """Rises with every lease of the entity."""

    @property
    def ready(self) -> frozenset[int]:
        """Partitions that may be read."""

    @property
    def waiting(self) -> Sequence[Any]:
        """The others, with `partition`, `locked_message_count` and `error`."""

    def renew(self) -> None:
        """Extend it, and look again which partitions are ready."""

    def release(self) -> None:
        """End it."""

    def settle_up_to(self, partition: int, number: int, *, incarnation: str) -> int:
        """Delete active messages up to a number of an incarnation; return how many."""


class Bus(Protocol):
    """One entity of the bus."""

    def extents(self) -> list[Extent]:
        """Return where each partition begins and ends."""

    def number_at(self, partition: int, time: datetime) -> int:
        """Return the number after which everything was enqueued at a time or later."""

    def page(self, partition: int, after: int, upto: int, *, bodies: bool) -> Page:
        """Return messages of a range."""

    def lease(self, owner: str, duration_s: float) -> Lease:
        """Take the drain lease."""

    def partition_of(self, key: str) -> int:
        """Return the partition of a key."""


class ConnectedBus:
    """The real one. Makes its client when it is first needed in a process."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._partition_of: Any = None
        self._made: Any = None

    def extents(self) -> list[Extent]:
        """Return where each partition begins and ends."""
        found = self._browser().describe_partitions(timeout=self._options.timeout_s)
        self._partition_of = found.partition_of
        return [_extent(each) for each in found.partitions]

    def number_at(self, partition: int, time: datetime) -> int:
        """Return the number after which everything was enqueued at a time or later."""
        browser = self._browser()
        found: int = browser.sequence_number_at(partition, time, timeout=self._options.timeout_s)
        return found

    def page(self, partition: int, after: int, upto: int, *, bodies: bool) -> Page:
        """Return messages of a range."""
        options = self._options
        found = self._browser().browse(
            partition,
            after=after,
            upto=upto,
            max_messages=options.fetch_messages,
            max_bytes=options.fetch_bytes,
            states=[ServiceBusMessageState[state.upper()] for state in options.states],
            bodies=bodies,
            timeout=options.timeout_s,
        )
        return Page(
            found.batch, found.next_after, found.complete, found.incarnation, found.low_watermark
        )

    def lease(self, owner: str, duration_s: float) -> Lease:
        """Take the drain lease."""
        browser, timeout_s = self._browser(), self._options.timeout_s
        found: Lease = browser.acquire_drain_lease(owner, duration=duration_s, timeout=timeout_s)
        return found

    def partition_of(self, key: str) -> int:
        """Return the partition of a key."""
        if self._partition_of is None:
            self.extents()
        found: int = self._partition_of(key)
        return found

    def __reduce__(self) -> Any:
        # Spark pickles what reads; connections are made where they are used.
        return ConnectedBus, (self._options,)

    def _browser(self) -> Any:
        if self._made is None:
            self._made = self._new_browser()
        return self._made

    def _new_browser(self) -> Any:
        options = self._options
        return browser_of(connections.client(options.connection), options.entity)


def browser_of(client: ServiceBusClient, entity: Entity) -> PartitionBrowser:
    """Return what reads an entity by number."""
    sub_queue = ServiceBusSubQueue(entity.sub_queue) if entity.sub_queue else None
    if entity.subscription:
        return client.get_partition_browser(
            topic_name=entity.name, subscription_name=entity.subscription, sub_queue=sub_queue
        )
    return client.get_partition_browser(queue_name=entity.name, sub_queue=sub_queue)


def _extent(found: Any) -> Extent:
    error: ServiceBusError | None = found.error
    if error is not None:
        return Extent(found.partition, unavailable=one_line(error.message))
    return Extent(
        found.partition,
        found.incarnation,
        found.low_watermark,
        found.stable_tail,
        found.first_number,
        found.active_message_count,
        found.size_in_bytes,
    )
