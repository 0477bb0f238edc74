"""Rows become messages: what a client reads of them, and the bytes that go on the wire."""

import hashlib
from typing import Any

import pytest

from bendybus.domain import message_format
from bendybus.spark.errors import RowError
from bendybus.spark.sink import messages
from bendybus.spark.source import decoding
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Message, Value

pytestmark = pytest.mark.requirement("R298")


def message(**row: Any) -> Message:
    """Return the message of a row, head and body joined."""
    found = messages.encode(row, "id")
    return Message.FromString(found.head + found.body)


def test_the_columns_of_a_row_are_the_properties_of_its_message() -> None:
    found = message(
        body="text",
        subject="s",
        content_type="c",
        correlation_id="r",
        to="t",
        reply_to="y",
        properties=[("k", "v"), ("none", None)],
    )

    assert list(found.data) == [b"text"]
    assert (found.subject, found.content_type, found.correlation_id) == ("s", "c", "r")
    assert (found.to, found.reply_to) == ("t", "y")
    assert found.application_properties["k"] == Value(string_value="v")
    assert found.application_properties["none"] == Value(null_value=True)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 70_000])
def test_a_body_of_any_size_is_read_back(size: int) -> None:
    assert list(message(body=b"x" * size).data) == [b"x" * size]


def test_a_null_body_is_the_value_null() -> None:
    assert message(body=None).value.null_value


def test_a_head_that_was_read_is_written_back_unless_columns_change_it() -> None:
    stored = Message(subject="s", reply_to_session_id="kept")
    stored.application_properties["n"].long_value = 5
    stored.application_properties["m"].long_value = 6
    head = stored.SerializeToString(deterministic=True)

    same = messages.encode({"body": b"", "head": head}, "id")
    changed = message(body=b"", head=head, subject="new", properties=[("n", "5"), ("m", "7")])

    assert same.head == head
    assert changed.reply_to_session_id == "kept"
    assert changed.subject == "new"
    assert changed.application_properties["n"] == Value(long_value=5)
    assert changed.application_properties["m"] == Value(string_value="7")


@pytest.mark.requirement("R590")
def test_a_column_that_is_null_takes_away_what_the_head_has() -> None:
    stored = Message(subject="s", correlation_id="c", reply_to_session_id="kept")
    stored.application_properties["n"].long_value = 5
    stored.application_properties["m"].long_value = 6
    head = stored.SerializeToString(deterministic=True)

    fewer = message(body=b"", head=head, subject=None, properties=[("n", "5")])
    none = message(body=b"", head=head, properties=None)

    assert fewer.subject == ""
    assert (fewer.correlation_id, fewer.reply_to_session_id) == ("c", "kept")
    assert dict(fewer.application_properties) == {"n": Value(long_value=5)}
    assert dict(none.application_properties) == {}
    assert (none.subject, none.correlation_id) == ("s", "c")


def test_a_batch_has_the_columns_that_some_message_needs_and_no_others() -> None:
    plain = messages.encode({"body": b"a"}, "1")
    full = messages.encode(
        {
            "body": b"b",
            "subject": "s",
            "session_id": "",
            "time_to_live_ms": 5,
            "scheduled_enqueue_time": 9,
        },
        "2",
    )

    simple, mixed = messages.batch_of([plain]), messages.batch_of([plain, full])

    assert simple == message_pb2.MessageBatch(messages=[plain.body], message_ids=["1"])
    assert list(mixed.formats) == [message_format.WHOLE, message_format.SPLIT]
    assert (list(mixed.session_ids), list(mixed.session_present)) == (["", ""], [False, True])
    assert list(mixed.time_to_live_ms) == [0, 5]
    assert list(mixed.scheduled_enqueue_time_ms) == [0, 9]


def test_what_was_read_is_written_with_the_same_bytes() -> None:
    first = messages.encode({"body": b"x", "subject": "s", "properties": [("k", "v")]}, "id")
    page = decoding.Columns(
        message_pb2.DeliveredBatch(
            sequence_numbers=[1],
            messages=[first.body],
            heads=[first.head],
            formats=[message_format.SPLIT],
        ),
        "q",
    )
    row = {name: page.column(name)[0] for name in ("body", "head", "subject", "properties")}

    assert messages.encode(row, "id") == first


def test_properties_that_are_too_large_are_refused() -> None:
    with pytest.raises(Exception, match="properties: must be at most 65536 bytes"):
        messages.encode({"body": b"", "properties": [("k", "v" * 70_000)]}, "id")


@pytest.mark.requirement("R297")
def test_a_digest_tells_every_difference() -> None:
    base: dict[str, Any] = {"body": b"x", "subject": "s", "partition_key": "k"}
    variants = [
        base,
        {**base, "body": b"y"},
        {**base, "subject": "t"},
        {**base, "partition_key": "l"},
        {**base, "message_id": "m"},
        {**base, "time_to_live_ms": 1},
        {**base, "scheduled_enqueue_time": 1},
        {**base, "session_id": "k"},
    ]

    def digest(*rows: dict[str, Any]) -> bytes:
        made = hashlib.blake2b()
        for row in rows:
            messages.encode(row, "id").feed(made)
        return made.digest()

    assert len({digest({"body": b"a"}, row) for row in variants}) == len(variants)
    assert digest({"body": b"ab"}, {"body": b"c"}) != digest({"body": b"a"}, {"body": b"bc"})


@pytest.mark.parametrize("more", [{}, {"subject": "s"}])
def test_a_head_that_is_none_is_refused(more: dict[str, str]) -> None:
    with pytest.raises(RowError, match="head: must be what a read returned in this column"):
        messages.encode({"body": "x", "head": b"\xff no head", **more}, "id")
