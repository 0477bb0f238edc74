"""The memory of a message is computed before it is parsed."""

import time

import pytest

from bendybus.v1 import message_pb2, sender_pb2
from bendybus.wire import expansion
from bendybus.wire.expansion import TooLarge, Walk

MB = 1024 * 1024
DESCRIPTOR = sender_pb2.SendRequest.DESCRIPTOR


def test_a_large_body_costs_nothing_and_passes() -> None:
    message = message_pb2.Message(data=[bytes(100 * MB)])
    data = sender_pb2.SendRequest(
        entity_path="orders", messages=[sender_pb2.OutgoingMessage(message=message)]
    ).SerializeToString()
    began, walk = time.process_time(), Walk(data, DESCRIPTOR)

    assert walk.go_on(10)

    assert time.process_time() - began < 0.1
    assert len(data) < walk.held_bytes < len(data) + 2_000


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x12\x00" * (10 * MB), id="empty messages"),
        pytest.param(b"\xfa\x07\x00" * (5 * MB), id="unknown fields"),
        pytest.param(b"\x10\x01" * (5 * MB), id="fields of another kind"),
        pytest.param(
            sender_pb2.SendRequest(
                messages=[sender_pb2.OutgoingMessage(message_id="a message's name")] * 300_000
            ).SerializeToString(),
            id="many good ones",
        ),
    ],
)
def test_what_takes_too_much_is_refused_soon(data: bytes) -> None:
    began = time.process_time()

    with pytest.raises(TooLarge, match="its elements take more than 16 MB"):
        Walk(data, DESCRIPTOR).go_on()

    assert time.process_time() - began < 5.0


def test_elements_inside_a_message_count() -> None:
    inner = b"\x0a\x00" * (2 * MB)
    message = b"\x0a" + varint(len(inner)) + inner
    data = b"\x12" + varint(len(message)) + message

    with pytest.raises(TooLarge, match="its elements take more"):
        Walk(data, DESCRIPTOR).go_on()


@pytest.mark.parametrize(
    "tail", [b"\x12\xff\xff\xff\x7f", b"\x12", b"\x17", b"\x0d", b"\xff" * 12, b"\x12\x03\x0a\x02"]
)
def test_what_is_malformed_is_refused(tail: bytes) -> None:
    body = b"\x0a" + varint(2 * MB) + bytes(2 * MB)

    with pytest.raises(TooLarge, match="malformed"):
        Walk(body + tail, DESCRIPTOR).go_on()


def test_nesting_has_a_bound() -> None:
    data = b""
    for _ in range(40):
        data = b"\x9a\x01" + varint(len(data)) + data
        data = b"\x0a" + varint(len(data)) + data

    with pytest.raises(TooLarge, match="malformed"):
        Walk(data, message_pb2.ValueList.DESCRIPTOR).go_on()


def test_numbers_in_one_piece_count_each() -> None:
    batch = message_pb2.MessageBatch(time_to_live_ms=[1] * (2 * MB))
    data = sender_pb2.SendStreamRequest(batch=batch).SerializeToString()

    with pytest.raises(TooLarge, match="its elements take more"):
        Walk(data, sender_pb2.SendStreamRequest.DESCRIPTOR).go_on()


def test_a_walk_goes_on_where_it_stopped() -> None:
    message = message_pb2.Message(content_type="text", data=[b"a", b"b"])
    data = sender_pb2.SendRequest(
        messages=[sender_pb2.OutgoingMessage(message=message)] * 5
    ).SerializeToString()
    whole, bit_by_bit = Walk(data, DESCRIPTOR), Walk(data, DESCRIPTOR)

    assert whole.go_on()
    while not bit_by_bit.go_on(1):
        pass

    assert whole.held_bytes == bit_by_bit.held_bytes
    assert whole.held_bytes <= expansion.by_length(len(data), DESCRIPTOR)


@pytest.mark.parametrize("count", [1, 20, 500])
def test_a_frame_of_a_client_is_counted_as_little_more_than_its_bytes(count: int) -> None:
    batch = message_pb2.MessageBatch(messages=[bytes(256)] * count, message_ids=["name"] * count)
    frame = sender_pb2.SendStreamRequest(entity_path="orders", batch=batch)
    data = frame.SerializeToString()

    elements = expansion.of_parsed(frame)

    assert elements is not None
    assert elements < 0.5 * len(data)
    assert elements <= Walk(data, frame.DESCRIPTOR).held_bytes * 2


def varint(number: int) -> bytes:
    """Return a number as it is serialised."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])
