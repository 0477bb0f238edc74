# Generated from aio/partitions.py by `make sync`: edit that file.
"""Data pipelines, of the synchronous surface: reading and sending partition by partition."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from bendybus.client import arguments
from bendybus.client.core import partitions
from bendybus.client.core.channel import AnswerT, Method, RequestT
from bendybus.client.core.clients import EntityClient
from bendybus.client.core.partitions import (
    EntityPartitions,
    FencedSend,
    MessagePage,
    PartitionWait,
    ProducerFence,
)
from bendybus.client.messages import enums
from bendybus.client.messages.enums import ServiceBusMessageState, ServiceBusSubQueue
from bendybus.client.sync import calls
from bendybus.domain import limits

_NUMBERS_A_CALL: Final = limits.RANGE_NUMBERS_MAX


class _PipelineClient(EntityClient):
    """What browser and sender have in common."""

    def __enter__(self) -> Self:
        self._check_live()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it; leases that it took end by time."""
        self._closed = True
        if self._owns_connection:
            calls.close(self._shared)

    def _call(
        self, method: "Method[RequestT, AnswerT]", request: RequestT, timeout: float | None
    ) -> AnswerT:
        self._check_live()
        return calls.call(
            self._shared.get(),
            method,
            request,
            arguments.timeout(timeout),
        )


class PartitionBrowser(_PipelineClient):
    """Reads a queue, a subscription or its dead letters partition by partition, without locks.

    For data pipelines, which keep the position of each partition themselves. Every call may be
    repeated, and is, with the retry options of the client, within its `timeout` (seconds, 60 if
    None).
    """

    def __init__(
        self,
        fully_qualified_namespace: str,
        credential: Any,
        *,
        queue_name: str | None = None,
        topic_name: str | None = None,
        subscription_name: str | None = None,
        sub_queue: ServiceBusSubQueue | str | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a browser with its own connection; those of a ServiceBusClient share one.

        `fully_qualified_namespace` and `credential`: as for ServiceBusClient. `queue_name`, or
        `topic_name` and `subscription_name`: the entity. `sub_queue`: DEAD_LETTER for its
        dead-letter queue.
        """
        super().__init__(
            fully_qualified_namespace,
            credential,
            queue_name=queue_name,
            topic_name=topic_name,
            subscription_name=subscription_name,
            kind="PartitionBrowser",
            options=kwargs,
        )
        self.entity_path = enums.sub_queue_path(self.entity_name, sub_queue)

    def describe_partitions(self, *, timeout: float | None = None) -> EntityPartitions:
        """Return where each partition begins and ends.

        A partition that does not answer has an `error`; if none answers, its error is raised.
        `timeout`: seconds, 60 if None.
        """
        answer = self._call(
            lambda stubs: stubs.pipeline.DescribePartitions,
            partitions.describe_request(self.entity_path),
            timeout,
        )
        return partitions.described(answer)

    def browse(
        self,
        partition: int,
        *,
        after: int = 0,
        upto: int = 0,
        max_messages: int = 1_000,
        max_bytes: int = 0,
        states: Iterable[ServiceBusMessageState] = (),
        bodies: bool = True,
        timeout: float | None = None,
    ) -> MessagePage:
        """Return messages of one `partition`, oldest first: a page of the range (after, upto].

        `after` and `upto`: sequence numbers; 0 is the beginning, and the stable tail. Fewer than
        `max_messages` (5,000 at most) and `max_bytes` (1 MiB at most, and if 0) may be returned,
        also none: go on after `next_after` until the page is `complete`. `states`: ACTIVE if empty.
        `bodies=False` leaves bodies out. `timeout`: seconds, 60 if None.
        """
        request = partitions.browse_request(
            self.entity_path, partition, after, upto, max_messages, max_bytes
        )
        request.states.extend(partitions.state_numbers(states))
        request.without_bodies = not bodies
        return partitions.page(
            self._call(lambda stubs: stubs.pipeline.BrowsePartition, request, timeout)
        )

    def sequence_number_at(
        self, partition: int, enqueued_time_utc: datetime, *, timeout: float | None = None
    ) -> int:
        """Return the number after which all messages were enqueued at a time or later.

        `partition`, `enqueued_time_utc`: where, and the time. `timeout`: seconds, 60 if None. Of
        dead letters, whose times do not rise: before the first one from that time or later.
        """
        request = partitions.number_request(self.entity_path, partition, enqueued_time_utc)
        answer = self._call(lambda stubs: stubs.pipeline.GetSequenceNumberAt, request, timeout)
        return answer.after

    def acquire_drain_lease(
        self, owner: str, *, duration: float = 60.0, timeout: float | None = None
    ) -> "DrainLease":
        """Take the drain lease: as long as it lasts, only its holder removes messages.

        `owner`: names the holder, which takes over its own lease from an earlier run at once; the
        lease of another owner is waited for, up to the `timeout` (seconds, 60 if None). `duration`:
        seconds, 5 to 600, from each renewal on.
        Raises MessagingEntityDrainedError if another owner still has the lease after the timeout.
        """
        lease = DrainLease(self, owner, duration)
        lease._acquire(0, timeout)
        return lease


class DrainLease:
    """The right to remove messages of an entity, alone, until the lease is over.

    `epoch` rises with every lease of the entity. `ready`: the partitions that may be read;
    `waiting`: the others, and why. Renew the lease, also to let others become ready.
    """

    def __init__(
        self, browser: PartitionBrowser, owner: str, duration: float, *, epoch: int = 0
    ) -> None:
        """Make a lease of `owner`, for a `duration` from each renewal on, of a `browser`'s entity.

        `epoch`: of a lease that was acquired elsewhere, such as by the driver of a pipeline; 0: the
        browser acquires it.
        """
        self._browser = browser
        self.owner = arguments.text("owner", owner, limits.DRAIN_OWNER_CHARS_MAX)
        self.duration = arguments.seconds("duration", duration)
        self.epoch = arguments.count("epoch", epoch, least=0, most=arguments.INT64_MAX)
        self.ready: frozenset[int] = frozenset()
        self.waiting: Sequence[PartitionWait] = ()

    def renew(self, *, timeout: float | None = None) -> None:
        """Let the lease last for its duration from now on. Raises DrainLeaseLostError.

        `timeout`: seconds, 60 if None.
        """
        self._acquire(self.epoch, timeout)

    def release(self, *, timeout: float | None = None) -> None:
        """End the lease now; where a partition does not answer, it ends by time.

        `timeout`: seconds, 60 if None.
        """
        request = partitions.release_request(self._browser.entity_path, self.owner, self.epoch)
        self._browser._call(lambda stubs: stubs.pipeline.ReleaseDrainLease, request, timeout)

    def settle_up_to(
        self,
        partition: int,
        sequence_number: int,
        *,
        incarnation: str = "",
        timeout: float | None = None,
    ) -> int:
        """Delete all active messages of a `partition` up to `sequence_number`. Returns how many.

        `incarnation`: of the page or description that the number is of; where numbers have started
        over since, InvalidOperationError is raised, and nothing is deleted. `timeout`: of each of
        the calls that it takes. Raises DrainLeaseLostError.
        """
        deleted = 0
        while True:
            request = partitions.settle_request(
                self._browser.entity_path, partition, self.epoch, incarnation, sequence_number
            )
            answer = self._browser._call(lambda stubs: stubs.pipeline.SettleRange, request, timeout)
            deleted += answer.deleted
            if not answer.more:
                return deleted

    def settle(
        self,
        partition: int,
        sequence_numbers: Iterable[int],
        *,
        incarnation: str = "",
        timeout: float | None = None,
    ) -> int:
        """Delete active messages of a `partition` by `sequence_numbers`. Returns how many it had.

        `incarnation`: as for `settle_up_to`. `timeout`: of each call for 1,000 of them. Raises
        DrainLeaseLostError.
        """
        numbers = sorted(arguments.numbers("sequence_numbers", list(sequence_numbers)))
        deleted = 0
        for start in range(0, len(numbers), _NUMBERS_A_CALL):
            request = partitions.settle_request(
                self._browser.entity_path, partition, self.epoch, incarnation
            )
            request.numbers.values.extend(numbers[start : start + _NUMBERS_A_CALL])
            more = True
            while more:
                answer = self._browser._call(
                    lambda stubs: stubs.pipeline.SettleRange, request, timeout
                )
                deleted += answer.deleted
                more = answer.more
        return deleted

    def _acquire(self, epoch: int, timeout: float | None) -> None:
        request = partitions.acquire_request(
            self._browser.entity_path, self.owner, self.duration, epoch
        )
        answer = self._browser._call(
            lambda stubs: stubs.pipeline.AcquireDrainLease, request, timeout
        )
        self.epoch = answer.epoch
        self.ready = frozenset(answer.ready)
        self.waiting = partitions.waits(answer)


class PartitionSender(_PipelineClient):
    """Sends to one partition of a queue or topic at a time; what is repeated is stored once.

    For data pipelines. A producer numbers its messages within an epoch: the partition remembers how
    far each producer came, for 14 days. Every call may be repeated, and is, with the retry options
    of the client, within its `timeout` (seconds, 60 if None).
    """

    def __init__(
        self,
        fully_qualified_namespace: str,
        credential: Any,
        *,
        queue_name: str | None = None,
        topic_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a sender with its own connection; those of a ServiceBusClient share one.

        `fully_qualified_namespace` and `credential`: as for ServiceBusClient. `queue_name` or
        `topic_name`: the entity.
        """
        super().__init__(
            fully_qualified_namespace,
            credential,
            queue_name=queue_name,
            topic_name=topic_name,
            kind="PartitionSender",
            options=kwargs,
        )

    def describe_partitions(self, *, timeout: float | None = None) -> EntityPartitions:
        """Return the partitions; a key's messages belong to `partition_of` it.

        `timeout`: seconds, 60 if None.
        """
        request = partitions.describe_request(self.entity_name)
        return partitions.described(
            self._call(lambda stubs: stubs.pipeline.DescribePartitions, request, timeout)
        )

    def send(
        self,
        partition: int,
        messages: Any,
        *,
        producer_id: bytes,
        epoch: int,
        ordinals: Iterable[int],
        mark: bytes = b"",
        replace: bool = False,
        timeout: float | None = None,
    ) -> FencedSend:
        """Store messages in one `partition`: all that is not stored yet, or nothing.

        `messages`: as for `send_messages`, 1 MiB at most, or an encoded MessageBatch. Each with a
        key must belong to the partition. `producer_id`: 16 bytes, the same in every attempt.
        `epoch`: 1 and up. `ordinals`: one per message, rising, 1 and up. `mark`: at most 64 bytes,
        kept with the last ordinal. Without messages, one ordinal moves how far the producer came
        and stores nothing; within the epoch that it is in, only with `replace`. `timeout`: seconds,
        60 if None. Raises ProducerFencedError for an epoch before the last one.
        """
        request = partitions.send_request(
            self.entity_name,
            partition,
            messages,
            producer_id,
            epoch,
            list(ordinals),
            mark,
            replace,
        )
        answer = self._call(lambda stubs: stubs.pipeline.SendFenced, request, timeout)
        return FencedSend(answer.stored, answer.repeated_messages, answer.duplicates)

    def fence(
        self, partition: int, producer_id: bytes, *, timeout: float | None = None
    ) -> ProducerFence:
        """Return how far a producer came in a `partition`.

        `producer_id`: as for `send`. `timeout`: seconds, 60 if None.
        """
        request = partitions.fence_request(self.entity_name, partition, producer_id)
        answer = self._call(lambda stubs: stubs.pipeline.GetProducerFence, request, timeout)
        return ProducerFence(answer.epoch, answer.ordinal, answer.mark)
