"""Stored messages as filters see them, and the copies that actions make."""

import datetime
import uuid
from typing import Any

import pytest

from bendybus.client.messages import encode, values
from bendybus.client.messages.amqp import AmqpAnnotatedMessage, AmqpMessageHeader
from bendybus.client.messages.message import ServiceBusMessage
from bendybus.domain import message_format
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import rule, syntax
from bendybus.domain.filters.rule import CorrelationFilter, Rule, SqlFilter, SqlRuleAction
from bendybus.domain.filters.values import Composite, FilterError, Timestamp
from bendybus.v1.message_pb2 import Message, Value, ValueMap
from bendybus.wire import message_properties
from bendybus.wire.message_properties import Parts, View

ID = uuid.UUID("00000000-0000-4000-8000-000000000001")


def parts_of(message: ServiceBusMessage, form: int = message_format.SPLIT, **columns: Any) -> Parts:
    head, body = encode.encode(message)
    if form == message_format.WHOLE:
        return Parts(head + body, form, **columns)
    return Parts(body, form, head, **columns)


def view_of(parts: Parts) -> View:
    return View(parts, lambda: ID)


ORDER = ServiceBusMessage(
    b"the body",
    subject="order",
    correlation_id="c",
    to="t",
    reply_to="r",
    reply_to_session_id="rs",
    content_type="text/plain",
    application_properties={"Color": "red", "size": values.UByte(7), "weight": 2.5, "gone": 1},
)
COLUMNS: dict[str, Any] = {
    "message_id": "m",
    "partition_key": "k",
    "session_id": "s",
    "time_to_live_ms": 5,
    "scheduled_ms": 6,
    "enqueued_ms": 7,
    "expires_ms": 8,
    "sequence_number": 9,
    "enqueued_sequence_number": 10,
    "delivery_count": 0,
    "dead_letter_source": "q",
}


@pytest.mark.requirement("R60", "R68")
@pytest.mark.parametrize("form", [message_format.WHOLE, message_format.SPLIT])
def test_every_system_property_is_read_from_head_or_columns(form: int) -> None:
    parts = parts_of(ORDER, form, **COLUMNS)
    view = view_of(parts)

    found = {name: view.system(name) for name in syntax.ALL}

    assert found == {
        "MessageId": "m",
        "SessionId": "s",
        "PartitionKey": "k",
        "CorrelationId": "c",
        "Label": "order",
        "To": "t",
        "ReplyTo": "r",
        "ReplyToSessionId": "rs",
        "ContentType": "text/plain",
        "TimeToLive": 5,
        "ScheduledEnqueueTimeUtc": Timestamp(6),
        "EnqueuedTimeUtc": Timestamp(7),
        "ExpiresAtUtc": Timestamp(8),
        "SequenceNumber": 9,
        "EnqueuedSequenceNumber": 10,
        "DeliveryCount": 0,
        "Size": len(parts.head) + len(parts.payload),
        "DeadLetterSource": "q",
    }


def test_what_is_not_set_is_none() -> None:
    view = view_of(Parts(b""))

    found = {name for name in syntax.ALL if view.system(name) is not None}

    assert found == {"DeliveryCount", "Size"}
    assert view_of(Parts(b"", session_id="")).system("SessionId") == ""
    assert view_of(Parts(b"", sequence_number=4)).system("EnqueuedSequenceNumber") == 4
    assert view.user == {}


@pytest.mark.requirement("R63")
def test_every_type_of_the_contract_has_a_value_for_filters() -> None:
    moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    integers = (
        values.UByte, values.UShort, values.UInt, values.ULong, values.Byte, values.Short,
        values.Int, int,
    )  # fmt: skip
    typed: dict[str | bytes, Any] = {kind.__name__.lower(): kind(7) for kind in integers}
    message = ServiceBusMessage(
        b"",
        application_properties={
            **typed,
            "null": None,
            "bool": True,
            "float": values.Float32(0.5),
            "double": 0.25,
            "char": values.Char("é"),
            "timestamp": moment,
            "uuid": ID,
            "binary": b"\x00",
            "string": "text",
            "symbol": values.Symbol(b"sym"),
        },
    )

    assert dict(view_of(parts_of(message)).user) == {
        **dict.fromkeys(typed, 7),
        "null": None,
        "bool": True,
        "float": 0.5,
        "double": 0.25,
        "char": "é",
        "timestamp": Timestamp(int(moment.timestamp() * 1_000)),
        "uuid": ID,
        "binary": b"\x00",
        "string": "text",
        "symbol": "sym",
    }


def test_odd_values_that_no_client_of_ours_sends_are_harmless() -> None:
    head = Message()
    head.application_properties["list"].list_value.SetInParent()
    head.application_properties["map"].map_value.SetInParent()
    head.application_properties["char"].char_value = 0x110000
    head.application_properties["uuid"].uuid_value = b"short"
    head.application_properties["empty"].SetInParent()
    head.application_properties["only-amqp"].encoded_value = b"\xe0\x02\x00\x56"
    view = view_of(Parts(b"", message_format.SPLIT, head.SerializeToString()))

    assert dict(view.user) == {
        "list": Composite(),
        "map": Composite(),
        "char": Composite(),
        "uuid": b"short",
        "empty": None,
        "only-amqp": Composite(),
    }
    failing = rule.compiled(Rule("r", action=SqlRuleAction("SET a = list")), partitioned=True)
    with pytest.raises(FilterError, match="a cannot be set to a list or map"):
        failing.changes(view)


def test_changed_properties_win_over_those_of_the_head() -> None:
    changed = ValueMap(entries={"Color": Value(string_value="blue"), "new": Value(bool_value=True)})
    parts = parts_of(ORDER)._replace(changed_properties=changed.SerializeToString())

    assert view_of(parts).user["color"] == "blue"
    assert view_of(parts).user["new"] is True


@pytest.mark.parametrize(
    "parts",
    [
        Parts(b"\xff"),
        Parts(b"", message_format.SPLIT, b"\xff"),
        Parts(b"", message_format.SPLIT, b"", changed_properties=b"\xff"),
    ],
)
def test_what_cannot_be_decoded_is_an_error_of_the_message(parts: Parts) -> None:
    with pytest.raises(InvalidArgument, match=r"(messages|heads|changed_properties): "):
        view_of(parts).user["x"]


def acted(parts: Parts, text: str) -> Parts:
    compiled = rule.compiled(Rule("r1", action=SqlRuleAction(text)), partitioned=False)
    return message_properties.changed(parts, compiled.changes(view_of(parts)))


def entries(parts: Parts) -> dict[str, Value]:
    assert parts.format == message_format.SPLIT
    return dict(Message.FromString(parts.head).application_properties)


@pytest.mark.requirement("R66", "R69")
@pytest.mark.parametrize("form", [message_format.WHOLE, message_format.SPLIT])
def test_an_action_changes_head_and_columns_and_leaves_the_body(form: int) -> None:
    parts = parts_of(ORDER, form, **COLUMNS)

    copy = acted(
        parts,
        "SET COLOR = 'blue' SET total = size * weight REMOVE gone "
        "SET sys.Label = 'x' SET sys.To = NULL SET sys.MessageId = 'n' SET sys.SessionId = NULL "
        "SET sys.TimeToLive = 60000",
    )

    assert entries(copy) == {
        "Color": Value(string_value="blue"),
        "size": Value(ubyte_value=7),
        "weight": Value(double_value=2.5),
        "total": Value(double_value=17.5),
        "RuleName": Value(string_value="r1"),
    }
    view = view_of(copy)
    assert (view.system("Label"), view.system("To")) == ("x", None)
    assert view.system("CorrelationId") == "c"
    assert copy.payload == encode.encode(ORDER)[1]
    assert (copy.message_id, copy.session_id, copy.partition_key) == ("n", None, "k")
    assert (copy.time_to_live_ms, copy.enqueued_ms) == (60_000, 7)


def test_every_body_survives_the_split_of_a_whole_message() -> None:
    footer = {"f": 1}
    for arguments in ({"data_body": [b"a", b"b"]}, {"value_body": {"x": [1]}}, {
        "sequence_body": [[1], ["x"]]
    }):  # fmt: skip
        message = encode.as_message(
            AmqpAnnotatedMessage(
                **arguments,
                footer=footer,
                header=AmqpMessageHeader(priority=3),
                annotations={"note": 1},
                application_properties={"a": 1},
            )
        )
        whole = parts_of(message, message_format.WHOLE)

        copy = acted(whole, "SET a = 2")

        expected = Message.FromString(whole.payload)
        expected.application_properties["a"].long_value = 2
        expected.application_properties["RuleName"].string_value = "r1"
        assert Message.FromString(copy.head + copy.payload) == expected
        assert copy.payload == encode.encode(message)[1]


@pytest.mark.requirement("R66")
@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (Value(ubyte_value=1), "a + 1", Value(ubyte_value=2)),
        (Value(ubyte_value=1), "256", Value(long_value=256)),
        (Value(ulong_value=1), "-1", Value(long_value=-1)),
        (Value(float_value=0.5), "2", Value(float_value=2)),
        (Value(float_value=0.5), "0.1", Value(double_value=0.1)),
        (Value(double_value=0.5), "2", Value(double_value=2)),
        (Value(int_value=5), "0.5", Value(double_value=0.5)),
        (Value(symbol_value="s"), "'t'", Value(symbol_value="t")),
        (Value(string_value="s"), "5", Value(string_value="5")),
        (Value(symbol_value="s"), "5", Value(symbol_value="5")),
        (Value(symbol_value="s"), "'é'", Value(string_value="é")),
        (Value(char_value=65), "'B'", Value(char_value=66)),
        (Value(char_value=65), "'BC'", Value(string_value="BC")),
        (Value(char_value=65), "5", Value(char_value=53)),
        (Value(float_value=0.5), "0.25", Value(float_value=0.25)),
        (Value(float_value=0.5), "'0.25'", Value(float_value=0.25)),
        (Value(int_value=5), "'12'", Value(int_value=12)),
        (Value(int_value=5), "'3000000000'", Value(long_value=3_000_000_000)),
        (Value(int_value=5), "12.0", Value(int_value=12)),
        (Value(ubyte_value=5), "'x'", Value(string_value="x")),
        (Value(bool_value=False), "'TRUE'", Value(bool_value=True)),
        (Value(long_value=5), "TRUE", Value(long_value=1)),
        (Value(long_value=5), "NULL", Value(null_value=True)),
        (Value(long_value=5), "newid()", Value(uuid_value=ID.bytes)),
        (Value(timestamp_ms_value=5), "A", Value(timestamp_ms_value=5)),
        (Value(ulong_value=2**64 - 1), "a", Value(ulong_value=2**64 - 1)),
        (Value(binary_value=b"x"), "a", Value(binary_value=b"x")),
    ],
)
def test_a_value_takes_the_type_of_the_one_it_replaces_where_it_fits(
    before: Value, text: str, after: Value
) -> None:
    head = Message(application_properties={"a": before})
    parts = Parts(b"", message_format.SPLIT, head.SerializeToString())

    assert entries(acted(parts, f"SET A = {text}"))["a"] == after


def test_a_new_property_has_the_widest_type_of_its_kind() -> None:
    head = Message(application_properties={"a": Value(ubyte_value=1)})
    parts = Parts(b"", message_format.SPLIT, head.SerializeToString())

    copy = entries(acted(parts, "SET b = a SET c = 2.5 SET d = 'x' SET e = newid()"))

    assert copy["b"] == Value(long_value=1)
    assert copy["c"] == Value(double_value=2.5)
    assert copy["d"] == Value(string_value="x")
    assert copy["e"] == Value(uuid_value=ID.bytes)


def test_of_names_that_differ_in_case_one_is_left_after_a_change() -> None:
    head = Message(application_properties={"b": Value(long_value=1), "B": Value(long_value=2)})
    parts = Parts(b"", message_format.SPLIT, head.SerializeToString())

    assert entries(acted(parts, "SET b = b + 1")) == {
        "B": Value(long_value=3),
        "RuleName": Value(string_value="r1"),
    }
    assert set(entries(acted(parts, "REMOVE b"))) == {"RuleName"}


def test_changed_properties_are_part_of_the_copy() -> None:
    changed = ValueMap(entries={"Color": Value(string_value="blue")})
    parts = parts_of(ORDER)._replace(changed_properties=changed.SerializeToString())

    copy = acted(parts, "SET a = color")

    assert copy.changed_properties is None
    assert entries(copy)["a"] == Value(string_value="blue")
    assert entries(copy)["Color"] == Value(string_value="blue")


def test_a_copy_whose_properties_are_too_large_is_a_filter_error() -> None:
    message = ServiceBusMessage(b"", application_properties={"a": "x" * 30_000, "b": "y" * 30_000})

    with pytest.raises(FilterError, match="at most 65536 are allowed"):
        acted(parts_of(message), "SET c = a")


def test_filters_read_a_stored_message() -> None:
    view = view_of(parts_of(ORDER, **COLUMNS))

    assert rule.compiled_filter(SqlFilter("size = 7 AND sys.Label LIKE 'o%'")).matches(view)
    assert rule.compiled_filter(
        CorrelationFilter(session_id="s", properties={"COLOR": "red"})
    ).matches(view)
    assert view.new_id() == ID
