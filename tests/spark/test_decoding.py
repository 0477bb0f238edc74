"""Pages become columns, whatever form their messages were stored in."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage
from bendybus.client.messages import encode
from bendybus.domain import limits, message_format
from bendybus.spark import columns, property_texts
from bendybus.spark.source import decoding
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Message, Value, ValueList, ValueMap

pytestmark = pytest.mark.requirement("R290")


def page(*messages: ServiceBusMessage, whole: bool = False, **cells: Any) -> decoding.Columns:
    """Return messages as a partition hands them out."""
    batch = message_pb2.DeliveredBatch(
        partition=3,
        sequence_numbers=range(1, len(messages) + 1),
        enqueued_time_ms=[1_000 * n for n in range(1, len(messages) + 1)],
        **cells,
    )
    parts = [encode.encode(message) for message in messages]
    if whole:
        batch.messages.extend(head + body for head, body in parts)
    else:
        batch.messages.extend(body for _, body in parts)
        batch.heads.extend(head for head, _ in parts)
        batch.formats.extend([message_format.SPLIT] * len(parts))
    return decoding.Columns(batch, "orders")


@pytest.mark.parametrize("whole", [False, True])
def test_body_and_properties_are_read_of_a_message_in_parts_or_whole(whole: bool) -> None:
    message = ServiceBusMessage(
        "text",
        subject="s",
        content_type="text/plain",
        correlation_id="c",
        to="t",
        reply_to="r",
        application_properties={"n": 5, "yes": True},
    )

    found = page(message, ServiceBusMessage(b"\xff"), whole=whole)

    assert found.column("body") == [b"text", b"\xff"]
    assert found.column("subject") == ["s", None]
    assert found.column("content_type") == ["text/plain", None]
    assert found.column("correlation_id") == ["c", None]
    assert (found.column("to"), found.column("reply_to")) == (["t", None], ["r", None])
    assert [dict(each) if each else each for each in found.column("properties")] == [
        {"n": "5", "yes": "true"},
        None,
    ]


def test_a_page_may_have_messages_of_both_forms() -> None:
    head, body = encode.encode(ServiceBusMessage("new", subject="split"))
    old = b"".join(encode.encode(ServiceBusMessage("old", subject="whole")))
    batch = message_pb2.DeliveredBatch(
        sequence_numbers=[1, 2],
        messages=[old, body],
        heads=[b"", head],
        formats=[message_format.WHOLE, message_format.SPLIT],
    )

    found = decoding.Columns(batch, "orders")

    assert found.column("subject") == ["whole", "split"]
    assert found.column("body") == [b"old", b"new"]
    assert found.column("head")[1] == head


@pytest.mark.requirement("R599")
def test_the_last_moment_of_the_bus_is_a_datetime_in_every_zone() -> None:
    found = page(ServiceBusMessage("a"), scheduled_enqueue_time_ms=[253_402_300_799_999])

    assert found.column("scheduled_at") == [253_402_128_000_000_000]


@pytest.mark.requirement("R599")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_has_not_is_text_in_a_body(value: float) -> None:
    one = Value(double_value=value)
    listed = Message(value=Value(list_value=ValueList(values=[one, Value(float_value=value)])))
    batch = message_pb2.DeliveredBatch(
        sequence_numbers=[1, 2],
        messages=[Message(value=one).SerializeToString(), listed.SerializeToString()],
    )

    bodies = decoding.Columns(batch, "orders").column("body")

    assert [json.loads(body) for body in bodies] == [str(value), [str(value)] * 2]


def test_what_the_bus_knows_of_a_message_is_in_its_columns() -> None:
    found = page(
        ServiceBusMessage("a"),
        ServiceBusMessage("b"),
        message_ids=["i", ""],
        session_ids=["", "s"],
        session_present=[False, True],
        partition_keys=["k", ""],
        time_to_live_ms=[0, 500],
        scheduled_enqueue_time_ms=[7, 0],
        delivery_counts=[0, 2],
        states=[message_pb2.MESSAGE_STATE_DEFERRED, message_pb2.MESSAGE_STATE_ACTIVE],
        dead_letter_reasons=["", "why"],
        enqueued_sequence_numbers=[0, 9],
    )

    assert found.column("message_id") == ["i", None]
    assert found.column("session_id") == [None, "s"]
    assert found.column("partition_key") == ["k", None]
    assert found.column("enqueued_at") == [1_000_000, 2_000_000]
    assert found.column("expires_at") == [None, 2_500_000]
    assert found.column("scheduled_at") == [7_000, None]
    assert found.column("delivery_count") == [0, 2]
    assert found.column("state") == ["deferred", "active"]
    assert found.column("dead_letter_reason") == [None, "why"]
    assert found.column("enqueued_sequence_number") == [None, 9]
    assert found.constant("partition") == 3
    assert found.constant("entity") == "orders"


def test_properties_that_were_changed_later_win() -> None:
    changed = ValueMap(entries={"a": Value(string_value="new")}).SerializeToString()
    message = ServiceBusMessage("x", application_properties={"a": "old", "b": "kept"})

    found = page(message, changed_properties=[changed])

    assert dict(found.column("properties")[0] or ()) == {"a": "new", "b": "kept"}


@pytest.mark.requirement("R521")
def test_properties_are_those_that_a_receiver_would_get() -> None:
    changed = ValueMap(entries={"a": Value(string_value="new")}).SerializeToString()
    message = ServiceBusMessage("x", application_properties={"a": "old", "DeadLetterReason": "own"})

    found = page(
        message,
        ServiceBusMessage("y"),
        changed_properties=[changed, b""],
        dead_letter_reasons=["Bad", ""],
        dead_letter_error_descriptions=["", "why"],
    )

    assert [dict(each or ()) for each in found.column("properties")] == [
        {"a": "new", "DeadLetterReason": "Bad"},
        {"DeadLetterErrorDescription": "why"},
    ]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (Message(data=[b"a", b"b"]), b"ab"),
        (Message(value=Value(string_value="t")), b"t"),
        (Message(value=Value(binary_value=b"\x01")), b"\x01"),
        (Message(value=Value(null_value=True)), None),
        (Message(value=Value(int_value=5)), b"5"),
        (
            Message(value=Value(map_value=ValueMap(entries={"k": Value(bool_value=True)}))),
            b'{"k":true}',
        ),
        (
            Message(sequences=[ValueList(values=[Value(long_value=1), Value(string_value="x")])]),
            b'[1,"x"]',
        ),
    ],
)
def test_a_body_that_is_a_value_is_text_or_json(body: Message, shown: bytes | None) -> None:
    batch = message_pb2.DeliveredBatch(sequence_numbers=[1], messages=[body.SerializeToString()])

    assert decoding.Columns(batch, "q").column("body") == [shown]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Value(long_value=-5), "-5"),
        (Value(bool_value=False), "false"),
        (Value(timestamp_ms_value=1_500), "1970-01-01T00:00:01.500000Z"),
        (Value(uuid_value=bytes(15) + b"\x01"), "00000000-0000-0000-0000-000000000001"),
        (Value(binary_value=b"\x01\xff"), "01ff"),
        (Value(encoded_value=b"\x01\xff"), "01ff"),
        (Value(char_value=65), "A"),
        (Value(null_value=True), None),
        (Value(double_value=0.5), "0.5"),
    ],
)
def test_a_property_is_shown_as_text(value: Value, text: str | None) -> None:
    assert property_texts.text_of(value) == text


def test_a_head_is_the_same_whatever_form_its_message_has() -> None:
    message = ServiceBusMessage("text", subject="s", application_properties={"n": 5})

    assert page(message).column("head") == page(message, whole=True).column("head")


def test_a_column_that_no_message_has_is_known_without_decoding() -> None:
    found = page(ServiceBusMessage("a"), ServiceBusMessage("b", subject="s"))

    assert found.is_null("message_id")
    assert not found.is_null("subject")
    assert not found.is_null("body")


@pytest.mark.parametrize("name", columns.ALL)
def test_every_column_has_a_value_for_each_message(name: str) -> None:
    found = page(ServiceBusMessage("a"), ServiceBusMessage("b"))

    assert len(found.column(name)) == 2


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_no_message_is_read_as_bytes_and_the_others_as_they_are(whole: bool) -> None:
    broken = b"\xff\xff no message"
    found = page(ServiceBusMessage("a", subject="s"), ServiceBusMessage("b"), whole=whole)
    found._batch.messages[1] = broken
    if not whole:
        found._batch.heads[1] = broken

    assert found.column("body") == [b"a", broken]
    assert found.column("subject") == ["s", None]
    assert found.column("properties") == [None, None]
    assert found.column("message_id")
    assert len(found.column("head")) == 2


def test_what_ends_later_than_any_datetime_does_not_end() -> None:
    begun_ms, latest_ms = 1_000, int(datetime(9999, 12, 29, tzinfo=UTC).timestamp()) * 1_000
    lives = [latest_ms, latest_ms + 3 * 86_400_000, limits.TIME_TO_LIVE_MS_MAX]

    found = page(*[ServiceBusMessage("x")] * 3, time_to_live_ms=lives)

    assert found.column("expires_at") == [(begun_ms + latest_ms) * 1_000, None, None]
