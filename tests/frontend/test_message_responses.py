"""Delivered messages as responses of HTTP: what is written, and what no header can carry."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain.errors import InvalidOperation
from bendybus.frontend.core import columns
from bendybus.frontend.listeners.web import message_responses
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Value

pytestmark = pytest.mark.requirement("R652")
DATE = "Fri, 04 Dec 2026 10:00:00 GMT"
DATE_MS = 1_796_378_400_000


def delivered(
    message: message_pb2.Message | None = None, **columns_: Any
) -> columns.DeliveredBatch:
    """Return a message that is delivered."""
    made = message_pb2.DeliveredBatch(
        messages=[(message or message_pb2.Message(data=[b"x"])).SerializeToString()],
        sequence_numbers=[7],
        enqueued_time_ms=[DATE_MS],
    )
    for name, value in columns_.items():
        getattr(made, name).append(value)
    return made


def answered(made: columns.DeliveredBatch) -> tuple[dict[str, str], dict[str, Any], bytes]:
    """Return the headers, the broker properties and the body of its response."""
    made_of = message_responses.parts(made)
    response = message_responses.response(
        made, made_of, "q/messages", status=201, origin="http://host:1"
    )
    headers = dict(response.headers)
    assert isinstance(response.body, bytes)
    return headers, json.loads(headers["BrokerProperties"]), response.body


def test_a_locked_message_says_where_its_lock_is() -> None:
    made = delivered(message_ids="one", delivery_counts=2, dead_letter_reasons="bad")
    made.lock_tokens, made.locked_until_ms = bytes(range(16)), DATE_MS

    headers, broker, body = answered(made)

    assert body == b"x"
    assert headers["Location"] == f"http://host:1/q/messages/7/{broker['LockToken']}"
    assert broker["DeliveryCount"] == 3
    assert broker["LockedUntilUtc"] == broker["EnqueuedTimeUtc"] == DATE
    assert headers["DeadLetterReason"] == '"bad"'
    assert "OmittedProperties" not in broker


NASTY = 'a\r\nEvil: "1"\x00\x7f\u2028€\U0001f600'


def test_no_value_can_add_a_header() -> None:
    message = message_pb2.Message(
        data=[b"x"], content_type=NASTY, subject=NASTY, to=NASTY, correlation_id=NASTY
    )
    for name in (NASTY, "Content-Length", "Transfer-Encoding", "brokerproperties", "location"):
        message.application_properties[name].string_value = NASTY
    message.application_properties["fine"].string_value = NASTY
    made = delivered(message, message_ids=NASTY, session_ids=NASTY, partition_keys=NASTY)

    headers, broker, _ = answered(made)

    assert set(map(str.lower, headers)) == {"brokerproperties", "fine"}
    assert all(text.isascii() and text.isprintable() for text in headers.values())
    assert broker["Label"] == broker["ContentType"] == broker["SessionId"] == NASTY
    assert json.loads(headers["fine"]) == NASTY
    assert broker["UserProperties"] == dict.fromkeys(
        (NASTY, "Content-Length", "Transfer-Encoding", "brokerproperties", "location"), NASTY
    )


@pytest.mark.parametrize("content_type", ["a\r\nEvil: 1", "a\tb", "a\x00", "ä", "x" * 9_000])
def test_a_content_type_that_is_fit_for_no_header_is_beside_it(content_type: str) -> None:
    made = delivered(message_pb2.Message(data=[b"x"], content_type=content_type))

    headers, broker, _ = answered(made)

    assert "Content-Type" not in headers
    assert broker.get("ContentType", content_type) == content_type
    assert ("ContentType" in broker) != ("ContentType" in broker.get("OmittedProperties", ()))


def test_what_is_too_large_for_headers_is_named_and_the_rest_is_there() -> None:
    message = message_pb2.Message(data=[b"x"], subject="\u20ac" * 5_000, to="there")
    own = message.application_properties
    own["large"].string_value = "\x01" * 5_000
    own["larger"].binary_value = b"x" * 30_000
    own["odd name"].string_value = "y" * 7_000
    own["small"].bool_value = True
    for number in range(10):
        own[f"n{number}"].string_value = "z" * 3_000

    headers, broker, _ = answered(delivered(message))

    assert {"Label", "large", "larger", "odd name"} <= set(broker["OmittedProperties"])
    assert broker["To"] == "there"
    assert headers["small"] == "true"
    assert all(len(text) <= 8_000 for text in headers.values())


def test_names_that_differ_in_case_do_not_become_one_header() -> None:
    message = message_pb2.Message(data=[b"x"])
    message.application_properties["color"].string_value = "red"
    message.application_properties["COLOR"].string_value = "green"

    headers, broker, _ = answered(delivered(message))

    found = [value for name, value in headers.items() if name.lower() == "color"]
    assert len(found) == 1
    assert sorted([json.loads(found[0]), *broker["UserProperties"].values()]) == ["green", "red"]


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (message_pb2.Message(data=[b"a", b"\xff"]), b"a\xff"),
        (message_pb2.Message(), b""),
        (message_pb2.Message(value=Value(string_value="ü")), "ü".encode()),
        (message_pb2.Message(value=Value(binary_value=b"\xff")), b"\xff"),
        (message_pb2.Message(value=Value(long_value=5)), b"5"),
        (message_pb2.Message(value=Value(null_value=True)), b"null"),
        (message_pb2.Message(value=Value(char_value=97)), b'"a"'),
        (
            message_pb2.Message(
                sequences=[message_pb2.ValueList(values=[Value(timestamp_ms_value=DATE_MS)])]
            ),
            json.dumps([DATE]).encode(),
        ),
    ],
)
def test_a_body_that_is_no_data_is_text_or_json(message: message_pb2.Message, body: bytes) -> None:
    assert answered(delivered(message))[2] == body


def test_what_cannot_be_decoded_is_the_body() -> None:
    made = message_pb2.DeliveredBatch(messages=[b"\xff\xff"], sequence_numbers=[1])

    assert answered(made)[2] == b"\xff\xff"


@given(st.sampled_from([each.name for each in Value.DESCRIPTOR.fields]), st.data())
def test_every_value_has_a_header_or_a_place_beside_it(kind: str, data: st.DataObject) -> None:
    message = message_pb2.Message(data=[b"x"])
    value = message.application_properties["p"]
    field = Value.DESCRIPTOR.fields_by_name[kind]
    if field.message_type is not None:
        getattr(value, kind).SetInParent()
    elif kind in ("bool_value", "null_value"):
        setattr(value, kind, data.draw(st.booleans()))
    elif field.type in (field.TYPE_BYTES,):
        setattr(value, kind, data.draw(st.binary(max_size=20)))
    elif field.type in (field.TYPE_STRING,):
        setattr(value, kind, data.draw(st.text(max_size=20)))
    elif field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        setattr(value, kind, data.draw(st.floats(width=32)))
    else:
        setattr(value, kind, data.draw(st.sampled_from([0, 1, 55_296, 2**31 - 1])))

    headers, broker, _ = answered(delivered(message))

    assert ("p" in headers) != ("p" in broker.get("UserProperties", {}))


LARGE = 1_000_000


@pytest.mark.parametrize(
    "message",
    [
        message_pb2.Message(),
        message_pb2.Message(data=[b""]),
        message_pb2.Message(data=[b"x" * LARGE]),
        message_pb2.Message(data=[b"x" * LARGE], subject="s"),
        message_pb2.Message(data=[b"", b"x" * LARGE, b"y"]),
        message_pb2.Message(value=Value(string_value="x" * LARGE)),
        message_pb2.Message(value=Value(symbol_value="x" * LARGE), subject="s"),
        message_pb2.Message(value=Value(binary_value=b"\xff" * LARGE)),
        message_pb2.Message(value=Value(string_value="")),
    ],
)
def test_data_texts_and_bytes_are_not_decoded(message: message_pb2.Message) -> None:
    made_of = message_responses.parts(delivered(message))

    value = message.value
    assert made_of.body == (
        b"".join(message.data)
        or value.binary_value
        or (value.string_value or value.symbol_value).encode()
    )
    assert message_pb2.Message.FromString(made_of.encoded).subject == message.subject
    assert made_of.is_small


@pytest.mark.parametrize(
    "message",
    [
        message_pb2.Message(data=[b"x"], subject="s" * LARGE),
        message_pb2.Message(data=[b""] * LARGE),
        message_pb2.Message(
            value=Value(list_value=message_pb2.ValueList(values=[Value()] * LARGE))
        ),
        message_pb2.Message(sequences=[message_pb2.ValueList(values=[Value()] * LARGE)]),
    ],
)
def test_what_would_take_much_memory_to_decode_is_refused(message: message_pb2.Message) -> None:
    with pytest.raises(InvalidOperation, match="message 7 cannot be received over HTTP"):
        message_responses.parts(delivered(message))


def test_properties_of_a_dead_letter_count_too() -> None:
    assert not message_responses.parts(delivered(changed_properties=bytes(10_000))).is_small
    made = delivered(changed_properties=bytes(message_responses.DECODED_BYTES_MAX + 1))

    with pytest.raises(InvalidOperation):
        message_responses.parts(made)


def test_bodies_that_are_malformed_are_what_they_are() -> None:
    for body in b"\n", b"\n\xff", b"\n" + b"\xff" * 20, b"\x12\x05", b"\x12\x02\x8a\x01":
        made = delivered()
        made.messages[0] = body
        assert answered(made)[2] == body


@given(st.binary(max_size=60))
def test_no_body_keeps_a_message_from_being_received(body: bytes) -> None:
    made = delivered()
    made.messages[0] = body

    answered(made)


def test_the_body_of_a_later_format_is_what_it_is() -> None:
    made = delivered(formats=99, heads=b"head")
    made.messages[0] = b"body" * LARGE

    assert answered(made)[2] == b"head" + b"body" * LARGE


@given(st.text(max_size=9), st.text(max_size=9) | st.integers() | st.none())
def test_the_size_of_a_property_is_that_of_its_json(name: str, value: Any) -> None:
    assert message_responses._size(name, value) == len(json.dumps({name: value}))


def test_a_session_with_an_empty_name_is_one() -> None:
    _, broker, _ = answered(delivered(session_ids=""))

    assert broker["SessionId"] == ""


def test_all_headers_together_are_bounded() -> None:
    message = message_pb2.Message(data=[b"x"])
    for number in range(30):
        message.application_properties[f"n{number}"].string_value = "z" * 3_000

    headers, broker, _ = answered(delivered(message))

    assert sum(len(name) + len(text) for name, text in headers.items()) < 60_000
    assert broker["OmittedProperties"]
