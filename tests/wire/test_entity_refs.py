"""References to queues."""

import pytest

from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.sub_queue import SubQueue
from bendybus.internal.v1 import partition_pb2
from bendybus.wire import entities

ENTITY = Entity("orders", "uid", 7, Origin.CLIENT, QueueDescription(), 4, 0, 0, 0)


@pytest.mark.parametrize("sub_queue", SubQueue)
def test_a_reference_is_read_as_it_was_written(sub_queue: SubQueue) -> None:
    proto = entities.ref_to_proto(ENTITY, sub_queue)

    assert (proto.uid, proto.generation) == ("uid", 7)
    assert entities.sub_queue_of(proto) is sub_queue


def test_a_sub_queue_of_a_later_version_is_refused_and_never_taken_for_another() -> None:
    proto = partition_pb2.EntityRef(uid="uid", generation=7)
    # An open enum: a later peer may send any number.
    proto.MergeFromString(bytes([4 << 3, 5]))

    with pytest.raises(InvalidArgument, match="sub_queue"):
        entities.sub_queue_of(proto)


def test_the_numbers_of_the_contract_are_those_of_the_domain() -> None:
    for sub_queue in SubQueue:
        assert partition_pb2.SubQueue.Value(f"SUB_QUEUE_{sub_queue.name}") == sub_queue
