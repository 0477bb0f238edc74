"""The AMQP view of a message: what is read and written there is the message's own, and is sent."""

import copy
import pickle
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage, ServiceBusReceivedMessage
from bendybus.client.amqp import AmqpAnnotatedMessage, AmqpMessageHeader, AmqpMessageProperties
from bendybus.client.exceptions import MessageSizeExceededError
from bendybus.client.messages import encode, raw_amqp_message
from bendybus.domain import limits
from bendybus.v1 import message_pb2
from tests.client.test_message import received

WHEN = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def full() -> ServiceBusMessage:
    """Return a message with every property that there is."""
    message = ServiceBusMessage(
        b"body",
        application_properties={"n": 7, "who": uuid.UUID(int=5)},
        message_id="m",
        session_id="s",
        partition_key="s",
        time_to_live=timedelta(minutes=5),
        content_type="text/plain",
        correlation_id="c",
        subject="u",
        to="t",
        reply_to="r",
        reply_to_session_id="rs",
    )
    raw = message.raw_amqp_message
    assert raw.header is not None
    assert raw.properties is not None
    raw.header.priority = 9
    raw.properties.user_id = b"\xffuser"
    raw.properties.content_encoding = "gzip"
    raw.properties.group_sequence = 3
    raw.properties.creation_time = 1_000
    raw.properties.absolute_expiry_time = 2_000
    raw.annotations = {**(raw.annotations or {}), "x-opt-own": 5, b"list": [1, "two"]}
    raw.footer = {"crc": ("UINT", 7)}
    raw_amqp_message.set_own_fields(message, {"amqp_escapes": b"\xc1\x01\x00"})
    return message


def everything(message: ServiceBusMessage) -> dict[str, Any]:
    """Return what AMQP sees of a message."""
    raw = message.raw_amqp_message
    assert raw.header is not None
    assert raw.properties is not None
    return {
        **dict(raw.header.items()),
        **dict(raw.properties.items()),
        "own": (raw.annotations or {}).get(b"x-opt-own"),
        "list": (raw.annotations or {}).get(b"list"),
        "footer": dict(raw.footer or {}),
        "amqp_escapes": raw_amqp_message.own_fields(message).get("amqp_escapes"),
        "application_properties": dict(raw.application_properties or {}),
        "body": list(raw.body),
    }


def test_every_property_arrives() -> None:
    found = everything(received(full()))

    assert found == {
        "delivery_count": 0,
        "time_to_live": 300_000,
        "durable": None,
        "first_acquirer": None,
        "priority": 9,
        "message_id": "m",
        "user_id": b"\xffuser",
        "to": "t",
        "subject": "u",
        "reply_to": "r",
        "correlation_id": "c",
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "creation_time": 1_000,
        "absolute_expiry_time": 2_000,
        "group_id": "s",
        "group_sequence": 3,
        "reply_to_group_id": "rs",
        "own": 5,
        "list": [1, b"two"],
        "footer": {b"crc": 7},
        "amqp_escapes": b"\xc1\x01\x00",
        "application_properties": {b"n": 7, b"who": uuid.UUID(int=5)},
        "body": [b"body"],
    }


@pytest.mark.parametrize(
    "forward",
    [
        lambda message: message,
        lambda message: encode.as_message(message.raw_amqp_message),
        copy.copy,
        copy.deepcopy,
        lambda message: pickle.loads(pickle.dumps(message)),
    ],
    ids=["itself", "raw", "copy", "deepcopy", "pickle"],
)
def test_a_received_message_is_sent_again_with_everything(forward: Any) -> None:
    first = received(full())

    again = received(forward(first))

    assert everything(again) == everything(first)
    assert not set(again.raw_amqp_message.annotations or {}) ^ set(
        first.raw_amqp_message.annotations or {}
    )


def test_properties_are_in_the_head_and_the_body_in_the_body() -> None:
    head, body = encode.encode(full())
    whole = message_pb2.Message.FromString(head + body)

    assert {field.name for field, _ in message_pb2.Message.FromString(body).ListFields()} == {
        "data",
        "footer",
    }
    assert not {field.name for field, _ in message_pb2.Message.FromString(head).ListFields()} & {
        "data",
        "value",
        "sequences",
        "footer",
    }
    from_bytes = ServiceBusReceivedMessage.from_bytes(whole.SerializeToString())
    assert from_bytes.raw_amqp_message.footer == {b"crc": 7}


def test_the_view_and_the_message_are_one() -> None:
    message = ServiceBusMessage("x")
    raw = message.raw_amqp_message
    assert raw.header is not None
    assert raw.properties is not None

    raw.properties.subject = "written"
    raw.properties["group_id"] = "s"
    raw.properties.update(content_type=b"text/plain")
    raw.header.time_to_live = 1_500
    raw.annotations["x-opt-scheduled-enqueue-time"] = WHEN  # type: ignore[index]
    raw.annotations.update({b"x-opt-partition-key": b"s"})  # type: ignore[union-attr]
    raw.application_properties = {"k": 1}

    assert (message.subject, message.session_id, message.content_type) == (
        "written",
        "s",
        "text/plain",
    )
    assert message.time_to_live == timedelta(seconds=1.5)
    assert message.scheduled_enqueue_time_utc == WHEN
    assert message.partition_key == "s"
    assert message.application_properties == {"k": 1}

    message.subject, message.time_to_live = "set", None
    message.partition_key = None

    assert raw.properties.subject == raw.properties["subject"] == "set"
    assert raw.properties.get("subject") == "set"
    assert raw.header.time_to_live is None
    assert b"x-opt-partition-key" not in (raw.annotations or {})


def test_whole_sections_can_be_set_and_cleared() -> None:
    message = full()
    raw = message.raw_amqp_message

    raw.properties = AmqpMessageProperties(subject="only", user_id="me")
    raw.header = None
    raw.annotations = None
    raw.footer = None

    assert message.message_id is None
    assert (message.subject, message.session_id) == ("only", None)
    assert raw.properties == AmqpMessageProperties(subject="only", user_id=b"me")
    assert raw.header == AmqpMessageHeader()
    assert message.time_to_live is None
    assert message.partition_key is None
    assert raw.annotations == {}


def test_annotations_can_be_taken_out() -> None:
    raw = full().raw_amqp_message

    assert raw.annotations is not None
    assert raw.annotations.pop("x-opt-own") == 5
    assert raw.annotations.pop("x-opt-own", None) is None
    del raw.annotations["list"]
    raw.annotations.setdefault("kept", 1)
    assert raw.annotations == {b"x-opt-partition-key": "s", b"kept": 1}
    taken = [raw.annotations.popitem(), raw.annotations.popitem()]
    assert sorted(taken) == [(b"kept", 1), (b"x-opt-partition-key", "s")]
    with pytest.raises(KeyError):
        raw.annotations.popitem()


def test_a_plain_amqp_message_is_sent_with_its_sections() -> None:
    made = AmqpAnnotatedMessage(
        data_body=b"x",
        header=AmqpMessageHeader(priority=1, time_to_live=9_000),
        properties=AmqpMessageProperties(user_id="me", group_id="s"),
        annotations={"a": 1, "x-opt-sequence-number": 99},
        footer={"f": True},
    )

    raw = received(encode.as_message(made)).raw_amqp_message

    assert raw.header is not None
    assert (raw.header.priority, raw.header.time_to_live) == (1, 9_000)
    assert raw.properties is not None
    assert (raw.properties.user_id, raw.properties.group_id) == (b"me", "s")
    assert raw.footer == {b"f": True}
    assert raw.annotations is not None
    assert raw.annotations["a"] == 1
    # The bus gives a number of its own.
    assert raw.annotations["x-opt-sequence-number"] is None


@pytest.mark.parametrize(
    ("section", "name", "value", "error"),
    [
        ("header", "priority", 256, ValueError),
        ("header", "priority", "high", TypeError),
        ("header", "time_to_live", 10**30, ValueError),
        ("properties", "user_id", 7, TypeError),
        ("properties", "content_encoding", b"\xff", ValueError),
        ("properties", "group_sequence", 2**32, ValueError),
        ("properties", "creation_time", 2**63, ValueError),
        ("properties", "message_id", "m" * 129, ValueError),
        ("properties", "no_such_field", 1, AttributeError),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(
    section: str, name: str, value: Any, error: type[Exception]
) -> None:
    raw = ServiceBusMessage("x").raw_amqp_message

    with pytest.raises(error, match=name):
        setattr(getattr(raw, section), name, value)


@pytest.mark.parametrize("name", ["annotations", "footer"])
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"k": object()}, TypeError),
        ({5: "key"}, TypeError),
        ({"k": [object()]}, TypeError),
        ({str(n): "x" * 30_000 for n in range(3)}, MessageSizeExceededError),
    ],
)
def test_bad_annotations_and_footers_are_refused(
    name: str, given: dict[Any, Any], error: type[Exception]
) -> None:
    message = ServiceBusMessage("x")
    setattr(message.raw_amqp_message, name, given)

    with pytest.raises(error):
        encode.encode(message)


def test_a_footer_counts_to_the_limit_of_a_header() -> None:
    message = ServiceBusMessage("x", application_properties={"k": "x" * 32_000})
    message.raw_amqp_message.footer = {"f": "x" * 32_000}
    encode.encode(message)

    message.raw_amqp_message.footer["g"] = "x" * (limits.HEADER_BYTES_MAX - 63_000)
    with pytest.raises(MessageSizeExceededError, match="all properties together"):
        encode.encode(message)


def test_looking_at_the_view_does_not_change_what_is_sent() -> None:
    message = ServiceBusMessage(b"x")
    raw = message.raw_amqp_message
    assert (raw.header, raw.footer, raw.delivery_annotations) is not None
    assert dict(raw.annotations or {}) == {}

    assert encode.encode(message) == encode.encode(ServiceBusMessage(b"x"))


async def test_a_front_end_gets_every_property(fake: Any, sender: Any, receiver: Any) -> None:
    await sender.send_messages([full(), ServiceBusMessage("plain")])

    stored = list(fake.queue("q").messages.values())
    assert [bool(each.head) for each in stored] == [True, False]
    assert [each.format for each in stored] == [1, 0]
    first, second = await receiver.receive_messages(max_message_count=2, max_wait_time=2)
    assert everything(first) == everything(received(full()))
    assert str(second) == "plain"


async def test_a_format_of_a_newer_version_is_an_error_in_a_sentence(
    fake: Any, sender: Any, receiver: Any
) -> None:
    await sender.send_messages(ServiceBusMessage("x"))
    for stored in fake.queue("q").messages.values():
        stored.format = 2

    [message] = await receiver.receive_messages(max_message_count=1, max_wait_time=2)

    with pytest.raises(Exception, match="format 2 is not supported by this client"):
        _ = message.subject
