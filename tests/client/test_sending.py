"""What a caller may send, and what a sender refuses. Through both surfaces."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bendybus import client as sync_client
from bendybus.client import ServiceBusClient, ServiceBusMessage, exceptions
from bendybus.client.amqp import AmqpAnnotatedMessage
from tests.client import memory_queue
from tests.client.fake_front_end import FakeFrontEnd


async def test_a_sent_message_is_received_as_it_was_written(sender: Any, receiver: Any) -> None:
    sent = ServiceBusMessage(
        "hello",
        message_id="m-1",
        partition_key="key",
        subject="greeting",
        content_type="text/plain",
        correlation_id="c",
        to="t",
        reply_to="r",
        reply_to_session_id="rs",
        time_to_live=timedelta(hours=1),
        application_properties={"number": 5, "text": "five", b"raw": b"\x00"},
    )

    await sender.send_messages(sent)
    [received] = await receiver.receive_messages()

    assert str(received) == "hello"
    assert b"".join(received.body) == b"hello"
    assert (received.message_id, received.partition_key) == ("m-1", "key")
    assert (received.subject, received.content_type) == ("greeting", "text/plain")
    assert (received.correlation_id, received.to, received.reply_to) == ("c", "t", "r")
    assert received.reply_to_session_id == "rs"
    assert received.time_to_live == timedelta(hours=1)
    assert received.application_properties == {b"number": 5, b"text": b"five", b"raw": b"\x00"}
    assert received.decoded_properties == {"number": 5, "text": "five", "raw": b"\x00"}
    assert received.partition == memory_queue.PARTITION
    assert received.sequence_number == memory_queue.FIRST_NUMBER
    assert received.delivery_count == 0
    assert received.expires_at_utc == received.enqueued_time_utc + timedelta(hours=1)
    assert received.locked_until_utc > datetime.now(UTC)


async def test_a_list_is_one_atomic_unit(sender: Any, fake: FakeFrontEnd) -> None:
    await sender.send_messages([ServiceBusMessage(str(index)) for index in range(5)])

    [frame] = fake.frames
    assert len(frame[4]) == 5
    assert frame[3] in ([], [5])


async def test_messages_mappings_amqp_messages_and_batches_can_be_sent(
    client: Any, sender: Any, fake: FakeFrontEnd
) -> None:
    batch = await sender.create_message_batch()
    batch.add_message(ServiceBusMessage("in a batch"))

    await sender.send_messages({"body": "mapping", "message_id": "map"})
    await sender.send_messages(AmqpAnnotatedMessage(value_body={"a": [1, "x"]}))
    await sender.send_messages(AmqpAnnotatedMessage(sequence_body=[[1, 2], ["x"]]))
    await sender.send_messages(AmqpAnnotatedMessage(data_body=[b"a", b"b"]))
    await sender.send_messages(batch)
    await sender.send_messages([])

    assert len(fake.queues["q"].messages) == 5
    assert fake.frames[0][4] == ["map"]


async def test_amqp_bodies_arrive_in_their_form(sender: Any, receiver: Any) -> None:
    await sender.send_messages(AmqpAnnotatedMessage(value_body={"a": [1, "x"]}))
    await sender.send_messages(AmqpAnnotatedMessage(sequence_body=[[1, 2], [b"x"]]))
    await sender.send_messages(AmqpAnnotatedMessage(data_body=[b"a", b"b"]))

    received: list[Any] = []
    while len(received) < 3:
        received += await receiver.receive_messages(3)

    value, sequence, data = received
    assert value.body == {b"a": [1, b"x"]}
    assert list(sequence.body) == [[1, 2], [b"x"]]
    assert list(data.body) == [b"a", b"b"]
    assert [one.body_type.value for one in received] == ["value", "sequence", "data"]


async def test_the_client_gives_ids_to_messages_without_one(
    sender: Any, fake: FakeFrontEnd
) -> None:
    message = ServiceBusMessage("x")

    await sender.send_messages(message)
    await sender.send_messages(message)

    assert message.message_id is None
    ids = [frame[4][0] for frame in fake.frames]
    assert all(ids)
    assert len(set(ids)) == 2


async def test_messages_are_scheduled_and_cancelled_by_their_numbers(
    sender: Any, receiver: Any, fake: FakeFrontEnd
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)

    numbers = await sender.schedule_messages(
        [ServiceBusMessage("a"), ServiceBusMessage("b")], later
    )
    [shown] = await receiver.peek_messages()
    await sender.cancel_scheduled_messages(numbers[0])

    assert numbers == [memory_queue.FIRST_NUMBER, memory_queue.FIRST_NUMBER + 1]
    assert abs(shown.scheduled_enqueue_time_utc - later) < timedelta(milliseconds=1)
    assert shown.state is sync_client.ServiceBusMessageState.SCHEDULED
    assert list(fake.queues["q"].messages) == [numbers[1]]
    with pytest.raises(exceptions.MessageNotFoundError):
        await sender.cancel_scheduled_messages(numbers)


async def test_a_cancellation_whose_answers_are_lost_is_of_unknown_outcome(
    sender: Any, fake: FakeFrontEnd
) -> None:
    fake.lose_cancels = 99

    with pytest.raises(exceptions.OutcomeUnknownError):
        await sender.cancel_scheduled_messages(5)


async def test_a_closed_sender_refuses(sender: Any) -> None:
    await sender.close()

    with pytest.raises(ValueError, match="closed"):
        await sender.send_messages(ServiceBusMessage("a"))


async def test_bad_timeouts_are_refused(sender: Any) -> None:
    with pytest.raises(ValueError, match="timeout"):
        await sender.send_messages(ServiceBusMessage("a"), timeout=0)


async def test_what_is_no_message_is_refused(sender: Any) -> None:
    with pytest.raises(TypeError, match="int"):
        await sender.send_messages(5)
    with pytest.raises(TypeError, match="str"):
        await sender.send_messages(["text"])


def test_threads_share_a_sender(sync: ServiceBusClient, fake: FakeFrontEnd) -> None:
    sender = sync.get_queue_sender("q")

    def send() -> None:
        for _ in range(50):
            sender.send_messages(ServiceBusMessage(b"x"))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(fake.queues["q"].messages) == 400
    assert len(fake.frames) < 400
