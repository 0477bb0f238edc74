"""Operations on messages that are named by sequence number: each in the partition of its number."""

from collections.abc import Sequence
from dataclasses import dataclass

from bendybus.domain import bounds, errors, sequence_number
from bendybus.frontend.core import fan_out
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import entity_refs


@dataclass(frozen=True, slots=True)
class Operation:
    """The messages, and the name under which the operation may be repeated; empty: it may not."""

    entity_path: str
    sequence_numbers: Sequence[int]
    operation_id: bytes = b""
    # Since the first try; 0: this is it.
    age_ms: int = 0


async def cancel_scheduled(front_end: FrontEnd, asked: Operation) -> None:
    """Delete scheduled messages. Raises the domain error."""
    ref, by_partition = _located(front_end, asked)
    await fan_out.gather(
        front_end.upstreams,
        by_partition,
        lambda calls, partition: calls.CancelScheduledMessages(
            partition_pb2.CancelScheduledMessagesRequest(
                partition=partition,
                entity=ref,
                sequence_numbers=by_partition[partition],
                operation_id=asked.operation_id,
                age_ms=asked.age_ms,
            ),
            timeout=front_end.settings.unary_timeout_s,
        ),
        what="sequence_numbers",
        changes=True,
    )


async def receive_deferred(
    front_end: FrontEnd, asked: Operation, mode: receiver_pb2.ReceiveMode
) -> list[message_pb2.DeliveredBatch]:
    """Lock deferred messages of one partition, or delete and return them. Raises the domain error.

    Not of several: locking in one and failing in another would leave locks behind.
    """
    ref, by_partition = _located(front_end, asked)
    if len(by_partition) > 1:
        name = front_end.directory.lookup(asked.entity_path)[0].name
        raise errors.InvalidOperation(
            f"queue {name!r}: the numbers are of partitions "
            f"{sorted(by_partition)}; one call receives deferred messages of one partition. "
            "Make a call for each.",
            metadata={"entity": name, "field": "sequence_numbers"},
        )
    answers = await fan_out.gather(
        front_end.upstreams,
        by_partition,
        lambda calls, partition: calls.ReceiveDeferred(
            partition_pb2.ReceiveDeferredRequest(
                partition=partition,
                entity=ref,
                receive_mode=mode,
                sequence_numbers=by_partition[partition],
                operation_id=asked.operation_id,
                age_ms=asked.age_ms,
            ),
            timeout=front_end.settings.unary_timeout_s,
        ),
        what="sequence_numbers",
        changes=True,
    )
    return [answer.batch for answer in answers.values()]


def _located(
    front_end: FrontEnd, asked: Operation
) -> tuple[partition_pb2.EntityRef, dict[int, list[int]]]:
    """Return the sub-queue and the numbers by partition."""
    entity, sub_queue = front_end.directory.lookup(asked.entity_path)
    bounds.check_numbers("sequence_numbers", asked.sequence_numbers)
    by_partition: dict[int, list[int]] = {}
    for number in asked.sequence_numbers:
        by_partition.setdefault(sequence_number.partition_of(number), []).append(number)
    ref = entity_refs.to_proto(entity, sub_queue)
    return ref, by_partition
