"""Frames of the send stream to a partition: values ↔ the internal contract."""

from collections.abc import Sequence
from typing import NamedTuple

from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2
from bendybus.wire import statuses

Frame = partition_pb2.SendFramesRequest


class Answer(NamedTuple):
    """What a partition answered to a frame. `error`: it refused the whole frame."""

    frame_id: int
    numbers: Sequence[int]
    duplicates: Sequence[bool]
    # Index of the unit in the frame, and why it was not stored.
    failures: Sequence[tuple[int, BusError]]
    error: BusError | None


def request(
    *,
    partition: int,
    frame_id: int,
    entity: Entity,
    messages: message_pb2.MessageBatch,
    group_sizes: Sequence[int],
    producer_id: bytes,
    producer_sequence: int,
    spans: Sequence[int],
    age_ms: int,
    deadline_monotonic_ms: int,
    measured: bool = False,
) -> Frame:
    """Return the frame that asks a partition to store messages.

    `spans`: start and length of each run of messages in the frame of the first try.
    `deadline_monotonic_ms`: on the partition's clock, after which it refuses; 0: none.
    """
    frame = Frame(
        partition=partition,
        frame_id=frame_id,
        entity=partition_pb2.EntityRef(uid=entity.uid, generation=entity.generation),
        group_sizes=group_sizes,
        producer_id=producer_id,
        producer_sequence=producer_sequence,
        spans=spans,
        age_ms=age_ms,
        deadline_monotonic_ms=deadline_monotonic_ms,
        measured=measured,
    )
    # Given to the constructor it would be serialised and parsed.
    frame.batch.CopyFrom(messages)
    # Fields that are nested as deep as this process can read are one level deeper in a frame of
    # several: the partition could not read it, and the stream that all clients share would end.
    frame.batch.DiscardUnknownFields()
    return frame


def answer(response: partition_pb2.SendFramesResponse) -> Answer:
    """Return what a partition answered."""
    return Answer(
        response.frame_id,
        response.sequence_numbers,
        response.duplicates,
        [(failure.group, statuses.from_error(failure.error)) for failure in response.failures],
        statuses.from_error(response.error) if response.HasField("error") else None,
    )
