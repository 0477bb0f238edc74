"""What the bus holds is delivered over AMQP, however odd: other programs store it over gRPC."""

from typing import Any

import pytest

from bendybus.amqp import decoding, encoding, sections, values
from bendybus.amqp.sections import Properties
from bendybus.amqp.values import Symbol, Ubyte, Uint
from bendybus.frontend.listeners.amqp import outgoing_messages
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import DeliveredBatch, MessageBatch, Value
from tests.frontend import amqp_examples


def encoded(batch: MessageBatch) -> bytes:
    return outgoing_messages.Delivery(amqp_examples.delivered(batch)).encode(0)


def read_loosely(payload: bytes) -> dict[int, Any]:
    """Return sections by their numbers, whatever the types of their fields."""
    found, at = {}, 0
    while at < len(payload):
        section, at = decoding.decode(payload, at)
        found[int(section.descriptor)] = section.value
    return found


@pytest.mark.parametrize(
    ("delivery", "data"),
    [
        (DeliveredBatch(messages=[b"\xff"], heads=[b"\xfe"], formats=[1]), b"\xfe\xff"),
        (DeliveredBatch(messages=[b"\xff"]), b"\xff"),
        (DeliveredBatch(messages=[b"new"], formats=[9]), b"new"),
        (DeliveredBatch(messages=[b""]), b""),
    ],
)
def test_what_cannot_be_read_is_delivered_as_its_bytes(
    delivery: DeliveredBatch, data: bytes
) -> None:
    assert sections.decode(outgoing_messages.Delivery(delivery).encode(0)).data == (data,)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Value(ubyte_value=256), Uint(256)),
        (Value(short_value=-40_000), values.Int(-40_000)),
        (Value(uuid_value=b"short"), b"short"),
        (Value(symbol_value="é"), "é"),
        (Value(char_value=2**32 - 1), Uint(2**32 - 1)),
        (Value(char_value=0xD800), Uint(0xD800)),
        (Value(char_value=0x10FFFF), values.Char(0x10FFFF)),
        (Value(encoded_value=b"\x73\x00\x00\xd8\x00"), b"\x73\x00\x00\xd8\x00"),
        (Value(encoded_value=b"\xff"), b"\xff"),
        (Value(), None),
    ],
)
def test_values_that_no_client_of_bendybus_sends_are_received_all_the_same(
    value: Value, expected: Any
) -> None:
    head = message_pb2.Message(
        priority=1_000, content_type="é", amqp_escapes=b"\xff", annotations={"é": value}
    )
    head.application_properties["p"].CopyFrom(value)
    batch = MessageBatch(messages=[b""], heads=[head.SerializeToString()], formats=[1])

    found = read_loosely(encoded(batch))

    kept = found[sections.APPLICATION_PROPERTIES]["p"]
    assert (type(kept), kept) == (type(expected), expected)
    assert found[sections.MESSAGE_ANNOTATIONS]["é"] == expected
    assert found[sections.HEADER][1] == Ubyte(255)
    assert found[sections.PROPERTIES][6] == "é"


@pytest.mark.parametrize("name", ["message-id", "correlation-id", "user-id", "subject"])
def test_a_property_of_a_type_that_receivers_refuse_is_received_as_its_text(name: str) -> None:
    escapes = encoding.encode({Symbol(name): [1], Symbol("to"): [2]})
    head = message_pb2.Message(amqp_escapes=escapes)
    batch = MessageBatch(messages=[b""], heads=[head.SerializeToString()], formats=[1])

    assert sections.decode(encoded(batch)).properties == Properties(to=[2])
