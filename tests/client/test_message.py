"""Messages: what may be written, and that values keep their types on the way."""

import copy
import pickle
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.client import ServiceBusMessage, ServiceBusMessageBatch, ServiceBusReceivedMessage
from bendybus.client.core import lock_renewer
from bendybus.client.exceptions import MessageSizeExceededError, ServiceBusError
from bendybus.client.messages import encode, received_message, values
from bendybus.client.messages.received_message import Delivered
from bendybus.domain import limits
from bendybus.v1 import message_pb2


def received(message: ServiceBusMessage) -> ServiceBusReceivedMessage:
    """Return a message as it would be received."""
    columns = encode.columns_of(message)
    assert columns is not None
    batch = encode.batch_proto([columns])
    delivered = message_pb2.DeliveredBatch(
        messages=batch.messages,
        heads=batch.heads,
        formats=batch.formats,
        message_ids=batch.message_ids,
        partition_keys=batch.partition_keys,
        session_ids=batch.session_ids,
        time_to_live_ms=batch.time_to_live_ms,
    )
    [made] = received_message.make_all([(Delivered(delivered), 0, 1)])
    return made


@given(body=st.binary(max_size=70_000))
def test_the_short_way_of_encoding_is_what_protobuf_would_write(body: bytes) -> None:
    written = encode.encode(ServiceBusMessage(body))

    assert written == (b"", message_pb2.Message(data=[body]).SerializeToString())


@pytest.mark.parametrize("name", ["message_id", "session_id", "partition_key"])
def test_keys_have_at_most_128_characters(name: str) -> None:
    # Wrong types on purpose, or by name.
    message = ServiceBusMessage("x", **{name: "k" * limits.KEY_CHARS_MAX})  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=name):
        setattr(message, name, "k" * (limits.KEY_CHARS_MAX + 1))


def test_session_and_partition_key_must_agree() -> None:
    with pytest.raises(ValueError, match="partition_key"):
        ServiceBusMessage("x", session_id="a", partition_key="b")
    message = ServiceBusMessage("x", partition_key="b")
    with pytest.raises(ValueError, match="session_id"):
        message.session_id = "a"


def test_a_body_is_text_bytes_or_nothing() -> None:
    assert str(ServiceBusMessage("ü")) == "ü"
    assert ServiceBusMessage(None).body is None
    with pytest.raises(TypeError, match="int"):
        ServiceBusMessage(5)  # type: ignore[arg-type]  # wrong types on purpose, or by name


@pytest.mark.parametrize(
    ("value", "shown", "plain"),
    [
        (True, True, True),
        (5, 5, 5),
        (1.5, 1.5, 1.5),
        ("ü", "ü".encode(), "ü"),
        (b"\x00", b"\x00", b"\x00"),
        (uuid.UUID(int=7), uuid.UUID(int=7), uuid.UUID(int=7)),
        (datetime(2026, 1, 2, tzinfo=UTC), 1767312000000, datetime(2026, 1, 2, tzinfo=UTC)),
        (None, None, None),
        (("INT", 5), 5, 5),
        ({"TYPE": "UINT", "VALUE": 5}, 5, 5),
    ],
)
def test_property_values_arrive_and_can_be_sent_on(value: Any, shown: Any, plain: Any) -> None:
    first = received(ServiceBusMessage("x", application_properties={"k": value}))
    second = received(ServiceBusMessage("x", application_properties=first.application_properties))

    for message in (first, second):
        properties = message.application_properties
        assert properties is not None
        assert properties[b"k"] == properties["k"] == shown
        assert message.decoded_properties == {"k": plain}
    assert first._delivered.proto.messages[0] == second._delivered.proto.messages[0]


@pytest.mark.parametrize("kind", ["UBYTE", "USHORT", "UINT", "ULONG", "BYTE", "SHORT", "INT"])
def test_widths_are_kept_and_checked(kind: str) -> None:
    message = received(ServiceBusMessage("x", application_properties={"k": (kind, 100)}))

    wire = message_pb2.Message.FromString(message._whole())
    assert wire.application_properties["k"].WhichOneof("kind") == f"{kind.lower()}_value"
    with pytest.raises(ValueError, match="k"):
        received(ServiceBusMessage("x", application_properties={"k": (kind, 2**70)}))


@pytest.mark.parametrize("value", [2**63, [1], {"a": 1}, object()])
def test_values_that_cannot_travel_are_named(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="colour"):
        encode.encode(ServiceBusMessage("x", application_properties={"colour": value}))


def test_naive_moments_are_utc() -> None:
    naive, aware = datetime(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC)

    assert values.to_milliseconds(naive) == values.to_milliseconds(aware)


def test_a_batch_is_full_at_its_size() -> None:
    batch = ServiceBusMessageBatch(max_size_in_bytes=1_000)
    batch.add_message(ServiceBusMessage(b"x" * 400))
    before = batch.size_in_bytes

    with pytest.raises(MessageSizeExceededError):
        batch.add_message(ServiceBusMessage(b"x" * 600))

    assert len(batch) == 1
    assert batch.size_in_bytes == before


def test_units_with_and_without_extras_share_columns() -> None:
    first = encode.columns_of([ServiceBusMessage("a"), ServiceBusMessage("b", session_id="")])
    second = encode.columns_of(ServiceBusMessage("c", time_to_live=timedelta(0)))
    assert first is not None
    assert second is not None

    batch = encode.batch_proto([second, first])

    assert list(batch.session_ids) == ["", "", ""]
    assert list(batch.session_present) == [False, False, True]
    assert list(batch.time_to_live_ms) == [1, 0, 0]
    assert not batch.partition_keys
    assert len(set(batch.message_ids)) == 3


def test_a_message_is_read_from_bytes() -> None:
    written = message_pb2.Message(data=[b"x"], subject="s").SerializeToString()

    message = ServiceBusReceivedMessage.from_bytes(written)

    assert (str(message), message.subject, message.lock_token) == ("x", "s", None)
    with pytest.raises(ValueError, match="empty"):
        ServiceBusReceivedMessage.from_bytes(b"")
    with pytest.raises(ValueError, match=r"bendybus\.v1\.Message"):
        ServiceBusReceivedMessage.from_bytes(b"\xff\xff")


def test_amqp_sees_what_was_written() -> None:
    message = ServiceBusMessage(
        "x", message_id="m", session_id="s", time_to_live=timedelta(seconds=5), subject="t"
    )

    raw = message.raw_amqp_message

    assert raw.properties is not None
    assert raw.header is not None
    assert (raw.properties.message_id, raw.properties.group_id) == ("m", "s")
    assert raw.header.time_to_live == 5_000
    assert list(raw.body) == [b"x"]
    assert repr(message).startswith("ServiceBusMessage(body=b'x'")


@pytest.mark.parametrize(
    ("properties", "what"),
    [({"large": "x" * 33_000}, "large"), ({str(n): "x" * 30_000 for n in range(3)}, "together")],
)
def test_properties_have_the_limits_of_a_header(
    properties: dict[str | bytes, Any], what: str
) -> None:
    message = ServiceBusMessage("body", application_properties=properties)

    with pytest.raises(MessageSizeExceededError, match=what):
        encode.encode(message)


def test_a_large_body_is_no_large_header() -> None:
    message = ServiceBusMessage(b"x" * 200_000, application_properties={"small": 1})

    head, body = encode.encode(message)
    assert len(head) < 100
    assert len(body) > 200_000


@pytest.mark.parametrize("touched", [False, True])
@pytest.mark.parametrize(
    "copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy]
)
async def test_a_received_message_can_be_copied_and_its_copy_settled(
    sender: Any, receiver: Any, copied: Any, touched: bool
) -> None:
    await sender.send_messages(
        [ServiceBusMessage(str(n), subject="s", application_properties={"n": n}) for n in range(3)]
    )
    messages = await receiver.receive_messages(max_message_count=3)
    if touched:
        messages[1].application_properties["set"] = "later"

    made = copied(messages[1])

    assert (str(made), made.subject, made.application_properties["n"]) == ("1", "s", 1)
    assert made.sequence_number == messages[1].sequence_number
    assert made.lock_token == messages[1].lock_token
    assert made.locked_until_utc == messages[1].locked_until_utc
    assert ("set" in made.application_properties) is touched
    await receiver.complete_message(made)
    await receiver.complete_messages([messages[0], messages[2]])


def test_a_copy_of_a_message_that_was_not_read_is_read_when_it_is_needed() -> None:
    made = pickle.loads(pickle.dumps(received(ServiceBusMessage("x", message_id="m"))))

    assert (str(made), made.message_id) == ("x", "m")
    assert lock_renewer.lock_left_s(made) == 0
    with pytest.raises(AttributeError):
        _ = made._nothing


@pytest.mark.parametrize("key", ["k", b"k"])
def test_what_is_set_in_received_properties_reads_back(key: Any) -> None:
    message = received(ServiceBusMessage("x", application_properties={"k": 1, "other": 2}))
    properties = message.application_properties
    assert properties is not None

    properties[key] = "new"
    properties.update({"more": 3})

    assert message.application_properties is properties
    assert (properties["k"], properties[b"k"]) == ("new", "new")
    assert properties.pop("other") == 2
    assert sorted(properties) == [b"k", b"more"]
    assert received(message).decoded_properties == {"k": "new", "more": 3}


@pytest.mark.parametrize("columns", [{"heads": [b"\x22\xff"]}, {"changed_properties": [b"\xff"]}])
def test_a_message_that_cannot_be_read_says_which_one_it_is(columns: dict[str, Any]) -> None:
    batch = message_pb2.DeliveredBatch(
        messages=[b"\x0a\x01x"], formats=[1], sequence_numbers=[7], lock_tokens=b"t" * 16, **columns
    )
    [message] = received_message.make_all([(Delivered(batch), 0, 1)])

    for read in (str, lambda each: each.body, lambda each: each.raw_amqp_message.properties):
        with pytest.raises(ServiceBusError, match="Message 7: its sender wrote content"):
            str(read(message))
    assert repr(message) == "ServiceBusReceivedMessage(unreadable, sequence_number=7)"
    # It can be settled.
    assert message.lock_token is not None
