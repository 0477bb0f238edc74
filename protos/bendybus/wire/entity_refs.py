"""Which queue a call of the internal contract is about, towards peers of any version."""

from bendybus.domain.entity import Entity
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.sub_queue import SubQueue
from bendybus.internal.v1 import partition_pb2

_NUMBERS: dict[SubQueue, partition_pb2.SubQueue] = {
    SubQueue.MAIN: partition_pb2.SUB_QUEUE_MAIN,
    SubQueue.DEAD_LETTER: partition_pb2.SUB_QUEUE_DEAD_LETTER,
    SubQueue.TRANSFER: partition_pb2.SUB_QUEUE_TRANSFER,
    SubQueue.TRANSFER_DEAD_LETTER: partition_pb2.SUB_QUEUE_TRANSFER_DEAD_LETTER,
}


def to_proto(entity: Entity, sub_queue: SubQueue) -> partition_pb2.EntityRef:
    """Return the reference; a partition of 0.3 reads the dead-letter sub-queue from its flag."""
    return partition_pb2.EntityRef(
        uid=entity.uid,
        generation=entity.generation,
        dead_letter=sub_queue is SubQueue.DEAD_LETTER,
        sub_queue=_NUMBERS[sub_queue],
    )


def number_of(sub_queue: SubQueue) -> partition_pb2.SubQueue:
    """Return the name of a sub-queue on the contract."""
    return _NUMBERS[sub_queue]


def sub_queue_of(proto: partition_pb2.EntityRef) -> SubQueue:
    """Return the sub-queue that is meant; a front end of 0.3 sets the flag only.

    Raises InvalidArgument for one that this version does not know.
    """
    if not proto.sub_queue:
        return SubQueue.DEAD_LETTER if proto.dead_letter else SubQueue.MAIN
    try:
        return SubQueue(proto.sub_queue)
    except ValueError:
        raise InvalidArgument(
            "sub_queue", f"unknown sub-queue: {proto.sub_queue}; a later version may know it."
        ) from None
