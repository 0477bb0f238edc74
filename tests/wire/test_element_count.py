"""Requests are weighed before they are parsed."""

import time

import pytest

from bendybus.v1 import message_pb2, sender_pb2
from bendybus.wire import element_count
from bendybus.wire.element_count import TooManyElements

MB = 1024 * 1024
DESCRIPTOR = sender_pb2.SendRequest.DESCRIPTOR


def test_a_large_body_costs_nothing_and_passes() -> None:
    message = message_pb2.Message(data=[bytes(100 * MB)])
    data = sender_pb2.SendRequest(
        entity_path="orders", messages=[sender_pb2.OutgoingMessage(message=message)]
    ).SerializeToString()
    began = time.process_time()

    element_count.check(data, DESCRIPTOR)

    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x12\x00" * (10 * MB), id="empty messages"),
        pytest.param(b"\x0a\x00" * (10 * MB), id="the same text again and again"),
        pytest.param(b"\xfa\x07\x00" * (5 * MB), id="unknown fields"),
        pytest.param(b"\x18\x01" * (5 * MB), id="numbers"),
        pytest.param(
            sender_pb2.SendRequest(
                messages=[sender_pb2.OutgoingMessage(message_id="a message's name")] * 150_000
            ).SerializeToString(),
            id="many good ones",
        ),
    ],
)
def test_too_many_elements_are_refused_soon(data: bytes) -> None:
    began = time.process_time()

    with pytest.raises(TooManyElements, match="too many"):
        element_count.check(data, DESCRIPTOR)

    assert time.process_time() - began < 5.0


def test_elements_inside_a_message_count() -> None:
    inner = b"\x0a\x00" * (2 * MB)
    message = b"\x0a" + _varint(len(inner)) + inner
    data = b"\x12" + _varint(len(message)) + message

    with pytest.raises(TooManyElements, match="too many"):
        element_count.check(data, DESCRIPTOR)


@pytest.mark.parametrize("tail", [b"\x12\xff\xff\xff\x7f", b"\x12", b"\x17", b"\xff" * 12])
def test_what_is_malformed_is_refused(tail: bytes) -> None:
    body = b"\x0a" + _varint(2 * MB) + bytes(2 * MB)

    with pytest.raises(TooManyElements, match="malformed"):
        element_count.check(body + tail, DESCRIPTOR)


def test_numbers_in_one_piece_count_each() -> None:
    batch = message_pb2.MessageBatch(time_to_live_ms=[1] * (2 * MB))
    data = sender_pb2.SendStreamRequest(batch=batch).SerializeToString()

    with pytest.raises(TooManyElements, match="too many"):
        element_count.check(data, sender_pb2.SendStreamRequest.DESCRIPTOR)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])
