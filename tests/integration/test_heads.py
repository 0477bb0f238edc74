"""A message with every property through real processes: head and body as they were sent."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from bendybus.client import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusSubQueue,
)
from bendybus.client.messages import encode

NewQueue = Callable[..., str]


def every_property() -> ServiceBusMessage:
    """Return a message with everything that AMQP's sections have."""
    message = ServiceBusMessage(
        b"\x00\xffbody",
        application_properties={"n": 7},
        message_id="m",
        subject="u",
        content_type="c",
        correlation_id="i",
        to="t",
        reply_to="r",
        reply_to_session_id="rs",
        partition_key="k",
        time_to_live=timedelta(minutes=5),
    )
    raw = message.raw_amqp_message
    raw.header = {"priority": 9, "time_to_live": 300_000}  # type: ignore[assignment]
    raw.properties.update(  # type: ignore[union-attr]
        user_id=b"\xff", content_encoding="gzip", group_sequence=3, creation_time=1
    )
    raw.annotations["own"] = [1, "two"]  # type: ignore[index]
    raw.footer = {"crc": 5}
    return message


@pytest.mark.parametrize("dead", [False, True])
def test_head_and_body_come_back_byte_for_byte(
    client: ServiceBusClient, new_queue: NewQueue, dead: bool
) -> None:
    name, message = new_queue(), every_property()
    head, body = encode.encode(message)
    with client.get_queue_sender(name) as sender:
        sender.send_messages([message, ServiceBusMessage("plain", partition_key="k")])

    with client.get_queue_receiver(name) as receiver:
        shown = {each.subject: each for each in receiver.peek_messages(10)}
        messages: list[ServiceBusReceivedMessage] = []
        while len(messages) < 2:
            messages += receiver.receive_messages(2, max_wait_time=2)
        if dead:
            for each in messages:
                receiver.dead_letter_message(each)
            with client.get_queue_receiver(
                name, sub_queue=ServiceBusSubQueue.DEAD_LETTER
            ) as letters:
                messages = []
                while len(messages) < 2:
                    messages += letters.receive_messages(2, max_wait_time=2)
    found = {each.subject: each for each in messages}

    for each in (shown["u"], found["u"]):
        columns = each._delivered
        assert columns.column("formats")[each._index] == 1
        assert columns.column("heads")[each._index] == head
        assert columns.column("messages")[each._index] == body
    raw = found["u"].raw_amqp_message
    assert raw.header.priority == 9  # type: ignore[union-attr]
    assert raw.properties.user_id == b"\xff"  # type: ignore[union-attr]
    assert raw.footer == {b"crc": 5}
    assert str(found[None]) == "plain"
