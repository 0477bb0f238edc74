"""Sending to one partition at a time, each message once, of the asynchronous surface."""

from collections.abc import Iterable
from types import TracebackType
from typing import Any

from bendybus.client import arguments
from bendybus.client.aio import calls
from bendybus.client.core import partitions
from bendybus.client.core.entity_client import EntityClient
from bendybus.client.core.partitions import EntityPartitions, FencedSend, ProducerFence


class PartitionSender(EntityClient):
    """Sends to one partition of a queue or topic at a time; what is repeated is stored once.

    For data pipelines. A producer numbers its messages within an epoch: the partition remembers how
    far each producer came, for 14 days. Every call may be repeated, and is, with the retry options
    of the client, within its `timeout` (seconds, 60 if None).
    """

    _of_loop = True  # async only

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

    async def __aenter__(self) -> "PartitionSender":
        self._check_live()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def describe_partitions(self, *, timeout: float | None = None) -> EntityPartitions:
        """Return the partitions; a key's messages belong to `partition_of` it.

        `timeout`: seconds, 60 if None.
        """
        request = partitions.describe_request(self.entity_name)
        return partitions.described(await self._call("DescribePartitions", request, timeout))

    async def send(
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
        answer = await self._call("SendFenced", request, timeout)
        return FencedSend(answer.stored, answer.repeated_messages, answer.duplicates)

    async def fence(
        self, partition: int, producer_id: bytes, *, timeout: float | None = None
    ) -> ProducerFence:
        """Return how far a producer came in a `partition`.

        `producer_id`: as for `send`. `timeout`: seconds, 60 if None.
        """
        request = partitions.fence_request(self.entity_name, partition, producer_id)
        answer = await self._call("GetProducerFence", request, timeout)
        return ProducerFence(answer.epoch, answer.ordinal, answer.mark)

    async def close(self) -> None:
        """Close the sender."""
        self._closed = True
        if self._owns_connection:
            await calls.close(self._shared)

    async def _call(self, method: str, request: Any, timeout: float | None) -> Any:
        self._check_live()
        return await calls.call(
            self._shared.get(),
            lambda stubs: getattr(stubs.pipeline, method),
            request,
            arguments.timeout(timeout),
        )
