"""Entities of the earlier premium form: two partitions, in a namespace that has four."""

import datetime as dt

import grpc
import pytest

from bendybus.client import ServiceBusMessage, ServiceBusReceivedMessage
from bendybus.domain import partitioning
from bendybus.v1 import management_pb2 as pb
from bendybus.v1 import management_pb2_grpc
from tests import sequence_numbers
from tests.integration.processes import Bus

COUNT = 40


def create(bus: Bus, name: str) -> pb.Queue:
    """Create a migrated queue."""
    with grpc.insecure_channel(bus.front_end_address) as channel:
        stub = management_pb2_grpc.ManagementServiceStub(channel)
        answer = stub.CreateQueue(
            pb.CreateQueueRequest(
                name=name, migrated=True, description=pb.QueueDescription(max_delivery_count=3)
            ),
            timeout=30,
        )
    return answer.queue


def partition(message: ServiceBusReceivedMessage) -> int:
    """Return the partition that stored a message."""
    assert message.sequence_number is not None
    return sequence_numbers.partition_of(message.sequence_number)


@pytest.mark.requirement("R202")
def test_a_migrated_queue_works_whole_in_its_two_partitions(bus: Bus) -> None:
    made = create(bus, "migrated")
    assert made.partition_count == 2

    with (
        bus.client() as client,
        client.get_queue_sender("migrated") as sender,
        client.get_queue_receiver("migrated") as receiver,
    ):
        for number in range(COUNT):
            key = f"k{number}" if number % 2 else None
            sender.send_messages(ServiceBusMessage(str(number), partition_key=key))
        due = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
        [scheduled] = sender.schedule_messages(ServiceBusMessage("later"), due)
        peeked = receiver.peek_messages(COUNT + 10, sequence_number=0)
        received: list[ServiceBusReceivedMessage] = []
        while len(received) < COUNT:
            messages = receiver.receive_messages(COUNT, max_wait_time=10)
            assert messages, "all that was sent is received"
            for message in messages:
                receiver.complete_message(message)
            received += messages
        sender.cancel_scheduled_messages([scheduled])

    assert {partition(message) for message in received} == {0, 1}
    assert sequence_numbers.partition_of(scheduled) in (0, 1)
    for message in received:
        if message.partition_key:
            assert partition(message) == partitioning.partition_of(message.partition_key, 2)
    assert {str(message) for message in received} == {str(n) for n in range(COUNT)}
    assert peeked


@pytest.mark.requirement("R202")
def test_a_migrated_queue_reports_two_partitions_and_can_be_changed_but_for_them(bus: Bus) -> None:
    create(bus, "migrated-too")

    with bus.administration() as administration:
        queue = administration.get_queue("migrated-too")
        queue.max_delivery_count = 7
        administration.update_queue(queue)
        changed = administration.get_queue("migrated-too")
        runtime = administration.get_queue_runtime_properties("migrated-too")
        administration.delete_queue("migrated-too")

    assert changed.max_delivery_count == 7
    assert runtime.active_message_count == 0
