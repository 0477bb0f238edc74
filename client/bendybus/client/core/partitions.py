"""Partitions of an entity one by one: what browsers and senders ask for, and what they return."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bendybus.client import arguments
from bendybus.client.exceptions import ServiceBusError, from_bus_error
from bendybus.client.messages import encode, received_message, values
from bendybus.client.messages.enums import ServiceBusMessageState
from bendybus.client.messages.received_message import Delivered, ServiceBusReceivedMessage
from bendybus.domain import limits, partitioning
from bendybus.domain.message_state import MessageState
from bendybus.v1 import message_pb2, pipeline_pb2
from bendybus.wire import statuses


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """Where one `partition` of an entity begins and ends; numbers are whole sequence numbers.

    `incarnation`: another one means that numbers start over, as the entity was made again, or its
    file restored. `low_watermark`: what was not received up to this number is gone for good: it
    expired, or was batch-deleted. `stable_tail`: nothing becomes visible at or below this number
    any more. `first_number`: the oldest message; 0: there is none. `active_message_count` and
    `size_in_bytes`: what it holds. `error`: why it did not answer; then the rest is empty.
    """

    partition: int
    incarnation: str
    low_watermark: int
    stable_tail: int
    first_number: int
    active_message_count: int
    size_in_bytes: int
    error: ServiceBusError | None = None


@dataclass(frozen=True, slots=True)
class EntityPartitions:
    """An entity and its `partitions`, in their order.

    `entity_uid` stays the same until the entity is deleted. `max_message_size`: bytes.
    `detects_duplicates`: the id of a message without another key is its key. `requires_session`:
    it takes only messages of sessions.
    """

    entity_uid: str
    partitions: Sequence[PartitionRange]
    max_message_size: int
    detects_duplicates: bool
    requires_session: bool

    def partition_of(self, key: str) -> int:
        """Return the partition of a `key`: a session id, else a partition key."""
        if len(self.partitions) == 1:
            return self.partitions[0].partition
        return partitioning.partition_of(key, len(self.partitions))


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages of a range of one partition, oldest first.

    `batch`: in columns, as they are on the wire, for readers that want no object for each.
    `next_after`: where the next page goes on. `complete`: there is nothing more in the range.
    `incarnation`, `low_watermark`, `stable_tail`: as in PartitionRange, when the page was read.
    """

    batch: message_pb2.DeliveredBatch
    next_after: int
    complete: bool
    incarnation: str
    low_watermark: int
    stable_tail: int

    @property
    def messages(self) -> list[ServiceBusReceivedMessage]:
        """The messages, as `peek_messages` gives them."""
        count = len(self.batch.messages)
        return received_message.make_all([(Delivered(self.batch), 0, count)], peeked=True)


@dataclass(frozen=True, slots=True)
class PartitionWait:
    """Why a `partition` is not ready to be drained.

    `locked_message_count`: receivers have that many messages locked. `error`: why the partition did
    not answer, if so.
    """

    partition: int
    locked_message_count: int
    error: ServiceBusError | None = None


@dataclass(frozen=True, slots=True)
class FencedSend:
    """What became of messages that were sent with a fence.

    `stored`: now; `repeated`: by an earlier attempt; `duplicates`: found by the entity's duplicate
    detection, and not stored.
    """

    stored: int
    repeated: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class ProducerFence:
    """How far a producer came in a partition: the `ordinal` of its last message in its `epoch`.

    `mark`: what was kept with it. Epoch 0: the partition knows nothing of the producer.
    """

    epoch: int
    ordinal: int
    mark: bytes


def described(answer: pipeline_pb2.DescribePartitionsResponse) -> EntityPartitions:
    """Return what the bus says of an entity's partitions."""
    return EntityPartitions(
        answer.entity_uid,
        [
            PartitionRange(
                each.partition,
                each.incarnation,
                each.low_watermark,
                each.stable_tail,
                each.first_number,
                each.active_message_count,
                each.size_in_bytes,
                _error(each),
            )
            for each in answer.partitions
        ],
        answer.max_message_size,
        answer.detects_duplicates,
        answer.requires_session,
    )


def page(answer: pipeline_pb2.BrowsePartitionResponse) -> MessagePage:
    """Return a page of messages."""
    return MessagePage(
        answer.batch,
        answer.next_after,
        answer.complete,
        answer.incarnation,
        answer.low_watermark,
        answer.stable_tail,
    )


def waits(answer: pipeline_pb2.AcquireDrainLeaseResponse) -> list[PartitionWait]:
    """Return the partitions that are not ready to be drained."""
    return [
        PartitionWait(each.partition, each.locked_message_count, _error(each))
        for each in answer.waiting
    ]


# Requests


def describe_request(path: str) -> pipeline_pb2.DescribePartitionsRequest:
    """Return the request for an entity's partitions."""
    return pipeline_pb2.DescribePartitionsRequest(entity_path=path)


def browse_request(
    path: str, partition: int, after: int, upto: int, max_messages: int, max_bytes: int
) -> pipeline_pb2.BrowsePartitionRequest:
    """Return the request for a page. Raises ValueError, TypeError."""
    most = arguments.INT64_MAX
    return pipeline_pb2.BrowsePartitionRequest(
        entity_path=path,
        partition=arguments.count("partition", partition, least=0),
        after=arguments.count("after", after, least=0, most=most),
        upto=arguments.count("upto", upto, least=0, most=most),
        max_messages=arguments.count("max_messages", max_messages),
        max_bytes=arguments.count("max_bytes", max_bytes, least=0),
    )


def state_numbers(states: Iterable[ServiceBusMessageState]) -> list[Any]:
    """Return the numbers that states have in the contract."""
    return [MessageState[ServiceBusMessageState(state).name] for state in states]


def number_request(
    path: str, partition: int, enqueued_time_utc: datetime
) -> pipeline_pb2.GetSequenceNumberAtRequest:
    """Return the request for the number at a time."""
    moment = arguments.moment("enqueued_time_utc", enqueued_time_utc)
    return pipeline_pb2.GetSequenceNumberAtRequest(
        entity_path=path,
        partition=arguments.count("partition", partition, least=0),
        enqueued_time_ms=max(0, values.to_milliseconds(moment)),
    )


def acquire_request(
    path: str, owner: str, duration_s: float, epoch: int
) -> pipeline_pb2.AcquireDrainLeaseRequest:
    """Return the request that takes (epoch 0) or renews a lease."""
    return pipeline_pb2.AcquireDrainLeaseRequest(
        entity_path=path, owner=owner, duration_ms=round(duration_s * 1_000), epoch=epoch
    )


def release_request(path: str, owner: str, epoch: int) -> pipeline_pb2.ReleaseDrainLeaseRequest:
    """Return the request that ends a lease."""
    return pipeline_pb2.ReleaseDrainLeaseRequest(entity_path=path, owner=owner, epoch=epoch)


def settle_request(
    path: str, partition: int, epoch: int, incarnation: str, upto: int | None = None
) -> pipeline_pb2.SettleRangeRequest:
    """Return the request that deletes messages under a lease."""
    made = pipeline_pb2.SettleRangeRequest(
        entity_path=path,
        partition=arguments.count("partition", partition, least=0),
        epoch=epoch,
        incarnation=arguments.text("incarnation", incarnation, limits.INCARNATION_CHARS_MAX),
    )
    if upto is not None:
        most = arguments.INT64_MAX
        made.upto = arguments.count("sequence_number", upto, least=0, most=most)
    return made


def send_request(
    path: str,
    partition: int,
    messages: Any,
    producer_id: bytes,
    epoch: int,
    ordinals: list[int],
    mark: bytes,
    replace: bool,
) -> pipeline_pb2.SendFencedRequest:
    """Return the request that stores messages. Raises ValueError, TypeError."""
    for bound in (min, max):
        # One by one they would take longer than all the rest.
        arguments.numbers("ordinals", bound(ordinals, default=0))
    made = pipeline_pb2.SendFencedRequest(
        entity_path=path,
        partition=arguments.count("partition", partition, least=0),
        producer_id=arguments.data("producer_id", producer_id),
        epoch=arguments.count("epoch", epoch, most=arguments.INT64_MAX),
        ordinals=ordinals,
        mark=arguments.data("mark", mark),
        replace=replace,
    )
    if isinstance(messages, message_pb2.MessageBatch):
        made.batch.CopyFrom(messages)
        return made
    columns = encode.columns_of(messages)
    if columns is not None:
        made.batch.CopyFrom(encode.batch_proto([columns]))
    return made


def fence_request(
    path: str, partition: int, producer_id: bytes
) -> pipeline_pb2.GetProducerFenceRequest:
    """Return the request for how far a producer came."""
    return pipeline_pb2.GetProducerFenceRequest(
        entity_path=path,
        partition=arguments.count("partition", partition, least=0),
        producer_id=arguments.data("producer_id", producer_id),
    )


def _error(
    answer: pipeline_pb2.PartitionRange | pipeline_pb2.PartitionWait,
) -> ServiceBusError | None:
    if not answer.HasField("error"):
        return None
    return from_bus_error(statuses.from_error(answer.error))
