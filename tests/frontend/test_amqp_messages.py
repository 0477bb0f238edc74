"""AMQP messages: which column gets what, its bounds, and what is refused with a sentence."""

import re
import uuid
from typing import Any

import pytest

from bendybus.amqp import sections, values
from bendybus.amqp.sections import Header, Message, Properties
from bendybus.amqp.values import Array, Described, Symbol, Timestamp, Uint, Ulong
from bendybus.client.messages import encode
from bendybus.client.messages.message import ServiceBusMessage
from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument, MessageSizeExceeded
from bendybus.domain.filters.values import Composite
from bendybus.frontend.core import columns
from bendybus.frontend.listeners.amqp import amqp_values, incoming_messages, outgoing_messages
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import MessageBatch, Value
from bendybus.wire import message_properties
from bendybus.wire.message_properties import Parts, View
from tests.frontend import amqp_examples
from tests.frontend.amqp_examples import ENQUEUED_MS

ID = uuid.UUID("AABBCCDD-0000-4000-8000-000000000001")
ONE_DAY_MS = limits.DAY_MS
UINT_MAX = 2**32 - 1


def sent(**parts: Any) -> MessageBatch:
    parts = parts if parts.keys() & {"sequences", "has_value"} else {"data": (b"body",), **parts}
    return amqp_examples.of_delivery(amqp_examples.payload(Message(**parts)))


def received(batch: MessageBatch, **given: Any) -> Message:
    delivery = amqp_examples.delivered(batch, **given)
    return sections.decode(outgoing_messages.Delivery(delivery).encode(0))


def head_of(batch: MessageBatch) -> message_pb2.Message:
    return message_pb2.Message.FromString(batch.heads[0])


def view_of(batch: MessageBatch) -> View:
    parts = Parts(
        batch.messages[0],
        batch.formats[0] if batch.formats else 0,
        batch.heads[0] if batch.heads else b"",
        message_id=batch.message_ids[0] if batch.message_ids else "",
    )
    return View(parts, uuid.uuid4)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("id", "id"),
        (ID, "aabbccdd-0000-4000-8000-000000000001"),
        (Ulong(2**64 - 1), "18446744073709551615"),
        (b"\x00\xff", "00ff"),
        (b"\x00", "00"),
        # As the SDK sends on an id that it received as a string.
        (b"order-\xc3\xa9", "order-é"),
    ],
)
def test_an_id_has_one_text_for_filters_and_is_received_as_it_was(given: Any, text: str) -> None:
    batch = sent(properties=Properties(message_id=given, correlation_id=given))

    assert list(batch.message_ids) == [text]
    assert view_of(batch).system("MessageId") == text
    assert view_of(batch).system("CorrelationId") == text
    found = received(batch).properties
    assert found is not None
    assert (type(found.message_id), found.message_id) == (type(given), given)


def test_an_id_that_a_rule_changed_is_received_as_changed() -> None:
    batch = sent(properties=Properties(message_id=ID, correlation_id=ID, to="t"))
    head = head_of(batch)
    head.correlation_id = "changed"
    batch.heads[0], batch.message_ids[0] = head.SerializeToString(), "other"

    found = received(batch).properties

    assert found is not None
    assert (found.message_id, found.correlation_id, found.to) == ("other", "changed", "t")


@pytest.mark.parametrize("given", [[1], {"a": 1}, Described(Ulong(1), 2)])
@pytest.mark.parametrize("name", ["message-id", "correlation-id"])
def test_an_id_without_a_text_is_refused(name: str, given: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        sent(properties=Properties(**{name.replace("-", "_"): given}))

    assert caught.value.message == f"{name}: must be a string, a ulong, a UUID or binary."
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"header": Header(priority=Uint(4))}, "priority: must be a ubyte."),
        ({"properties": Properties(subject=Symbol("s"))}, "subject: must be a string."),
        ({"properties": Properties(user_id="u")}, "user-id: must be binary."),  # type: ignore[arg-type]
        ({"properties": Properties(creation_time=1)}, "creation-time: must be a timestamp."),
        (
            {"properties": Properties(content_type="é")},
            "content-type: must be a symbol, or a string of ASCII characters.",
        ),
    ],
)
def test_a_field_of_another_type_is_refused(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        sent(**parts)

    assert caught.value.message == sentence


def test_a_message_without_sections_has_a_null_body() -> None:
    found = received(amqp_examples.of_delivery(b""))

    assert (found.has_value, found.value) == (True, None)


@pytest.mark.parametrize("properties", [None, Properties(subject="s")])
def test_a_message_without_an_id_gets_one_of_its_own(properties: Properties | None) -> None:
    batches = [sent(properties=properties) for _ in range(2)]

    found = [received(batch).properties for batch in batches]
    ids = [each.message_id for each in found if each is not None]
    assert [id_ for batch in batches for id_ in batch.message_ids] == ids
    assert len(set(ids)) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", str(each)) for each in ids)


def test_an_id_that_came_stays_also_an_empty_one() -> None:
    for given in ("x", ""):
        found = received(sent(properties=Properties(message_id=given))).properties
        assert found is not None
        assert found.message_id == given


@pytest.mark.parametrize("field", ["message_id", "group_id", "partition_key"])
@pytest.mark.parametrize(("length", "fits"), [(128, True), (129, False)])
def test_the_core_checks_the_length_of_ids_and_keys(field: str, length: int, fits: bool) -> None:
    text: Any = "é" * length
    if field == "partition_key":
        batch = sent(message_annotations={Symbol("x-opt-partition-key"): text})
    else:
        batch = sent(properties=Properties(**{field: text}))

    assert bool(columns.faults(batch)) is not fits


def test_an_empty_session_is_a_session_like_any_other() -> None:
    made = incoming_messages.Columns()
    for session in ("", None, "s"):
        properties = Properties(group_id=session, message_id="m")
        made.add(amqp_examples.payload(Message(properties=properties, data=(b"",))))
    batch = made.batch(lambda: "id")

    assert list(batch.session_ids) == ["", "", "s"]
    assert list(batch.session_present) == [True, False, True]
    delivery = outgoing_messages.Delivery(amqp_examples.delivered(batch))
    found = [sections.decode(delivery.encode(index)).properties for index in range(3)]
    assert [each and each.group_id for each in found] == ["", None, "s"]


@pytest.mark.parametrize(
    ("header_ttl", "created", "expires", "expected"),
    [
        (None, None, None, 0),
        (0, None, None, 1),
        (5, None, None, 5),
        (5, 0, ONE_DAY_MS, 5),
        (None, 1, 1 + ONE_DAY_MS, ONE_DAY_MS),
        (None, 5, 5, 0),
        (None, 6, 5, 0),
        (None, None, 5, 0),
        (UINT_MAX, None, None, UINT_MAX),
        (UINT_MAX, 0, 100 * ONE_DAY_MS, 100 * ONE_DAY_MS),
        (UINT_MAX, 0, 5, UINT_MAX),
        (None, -(2**63), 2**63 - 1, limits.TIME_TO_LIVE_MS_MAX),
    ],
)
def test_time_to_live(
    header_ttl: int | None, created: int | None, expires: int | None, expected: int
) -> None:
    batch = sent(
        header=Header(ttl=None if header_ttl is None else Uint(header_ttl)),
        properties=Properties(
            creation_time=None if created is None else Timestamp(created),
            absolute_expiry_time=None if expires is None else Timestamp(expires),
        ),
    )

    assert list(batch.time_to_live_ms) == ([expected] if expected else [])
    assert not columns.faults(batch)


@pytest.mark.parametrize(
    ("ttl_ms", "expires_ms"),
    [
        (1, ENQUEUED_MS + 1),
        (100 * ONE_DAY_MS, ENQUEUED_MS + 100 * ONE_DAY_MS),
        (limits.TIME_TO_LIVE_MS_MAX, 253_402_300_799_999),
    ],
)
def test_a_time_to_live_is_received_as_header_and_times(ttl_ms: int, expires_ms: int) -> None:
    found = received(MessageBatch(messages=[b""], time_to_live_ms=[ttl_ms]))

    assert found.header is not None
    assert found.properties is not None
    assert found.header.ttl == min(ttl_ms, UINT_MAX)
    assert found.properties.creation_time == ENQUEUED_MS
    assert found.properties.absolute_expiry_time == expires_ms


def test_an_empty_partition_key_is_none_and_is_received_all_the_same() -> None:
    batch = sent(message_annotations={Symbol("x-opt-partition-key"): ""})

    assert list(batch.partition_keys) == []
    found = received(batch).message_annotations
    assert isinstance(found, dict)
    assert found["x-opt-partition-key"] == ""


@pytest.mark.parametrize("key", ["x-opt-partition-key", Symbol("x-opt-partition-key")])
@pytest.mark.parametrize("value", ["k", Symbol("k"), b"k"])
def test_partition_key_and_schedule_are_columns(key: str, value: Any) -> None:
    batch = sent(
        message_annotations=values.map_of(
            [
                (key, value),
                (Symbol("x-opt-scheduled-enqueue-time"), Timestamp(9)),
                (Symbol("x-opt-via-partition-key"), "via"),
            ]
        )
    )

    assert (list(batch.partition_keys), list(batch.scheduled_enqueue_time_ms)) == (["k"], [9])
    assert list(head_of(batch).annotations) == ["x-opt-via-partition-key"]
    found = received(batch).message_annotations
    assert isinstance(found, dict)
    assert found["x-opt-partition-key"] == "k"
    assert type(found["x-opt-scheduled-enqueue-time"]) is Timestamp
    assert found["x-opt-scheduled-enqueue-time"] == 9
    assert found["x-opt-via-partition-key"] == "via"


@pytest.mark.parametrize(("time", "column"), [(-1, 0), (0, 0), (2**63 - 1, 2**63 - 1)])
def test_a_schedule_is_now_or_a_time_that_the_core_checks(time: int, column: int) -> None:
    batch = sent(message_annotations={Symbol("x-opt-scheduled-enqueue-time"): Timestamp(time)})

    assert list(batch.scheduled_enqueue_time_ms) == ([column] if column else [])
    assert bool(columns.faults(batch)) is bool(column)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-opt-partition-key", 5),
        ("x-opt-partition-key", b"\xff"),
        ("x-opt-scheduled-enqueue-time", "noon"),
        ("x-opt-scheduled-enqueue-time", True),
    ],
)
def test_an_annotation_of_another_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}: must be a"):
        sent(message_annotations={Symbol(name): value})


def test_a_property_that_only_amqp_has_is_a_composite_to_filters() -> None:
    array = Array(values.LONG, [1, 2])

    batch = sent(application_properties={"array": array, "list": [1], "plain": "p"})

    assert dict(view_of(batch).user) == {"array": Composite(), "list": Composite(), "plain": "p"}


def test_a_body_is_as_large_as_the_client_of_the_contract_would_make_it() -> None:
    columns_ = encode.Columns()
    columns_.add(ServiceBusMessage(b"body", application_properties={"p": 1}))

    batch = sent(application_properties={"p": 1})

    assert list(batch.messages) == columns_.messages
    assert list(batch.heads) == columns_.heads


@pytest.mark.parametrize("payload", [b"\x00", b"\x00Su\xa0\xff", b"\x00\x53\x10\x45", b"\xff" * 9])
@pytest.mark.parametrize("form", [0, sections.BATCH_FORMAT])
def test_what_is_not_amqp_is_refused(payload: bytes, form: int) -> None:
    with pytest.raises(InvalidArgument, match=r"message: cannot be decoded as AMQP 1\.0: "):
        amqp_examples.of_delivery(payload, form)


def test_text_that_is_not_unicode_is_refused() -> None:
    # Half of a surrogate pair, as three bytes.
    name = b"\xa1\x03\xed\xa0\x80"
    payload = b"\x00\x53\x73\xc0" + bytes((len(name) + 1, 1)) + name + b"\x00\x53\x75\xa0\x00"

    with pytest.raises(InvalidArgument, match="text that is not utf-8"):
        amqp_examples.of_delivery(payload)


def test_a_refused_message_is_not_added() -> None:
    made = incoming_messages.Columns()
    made.add(amqp_examples.payload(Message(data=(b"a",))))

    with pytest.raises(InvalidArgument):
        made.add(b"\x00")

    assert len(made) == 1
    assert len(made.batch(lambda: "id").messages) == 1


@pytest.mark.parametrize(
    ("section", "given"),
    [
        ("application_properties", {"big": "x" * limits.PROPERTY_BYTES_MAX}),
        ("message_annotations", {Symbol("big"): b"x" * limits.PROPERTY_BYTES_MAX}),
        ("application_properties", {f"p{i}": "x" * 7_000 for i in range(10)}),
        ("footer", {Symbol("big"): "x" * limits.HEADER_BYTES_MAX}),
        ("application_properties", {1: "x" * limits.HEADER_BYTES_MAX}),
    ],
)
def test_properties_that_are_too_large_are_refused(section: str, given: Any) -> None:
    with pytest.raises(MessageSizeExceeded, match="put large values into the body"):
        sent(**{section: given})


def test_properties_up_to_the_limit_are_taken() -> None:
    assert sent(application_properties={"a": "x" * 32_000, "b": "x" * 32_000})


def test_changed_properties_are_those_of_a_settlement() -> None:
    found = incoming_messages.changed_properties({Symbol("a"): 1, "b": [2]})

    columns.check_properties(found)
    assert found.entries["a"].long_value == 1
    assert amqp_values.from_value(found.entries["b"]) == [2]
    assert not incoming_messages.changed_properties(None).entries
    with pytest.raises(InvalidArgument, match="a name must be a symbol or a string"):
        incoming_messages.changed_properties({Ulong(1): 1})


def test_changed_properties_win() -> None:
    changed = incoming_messages.changed_properties({"p": "new", "q": 2}).SerializeToString()
    batch = sent(application_properties={"p": "old", "r": 3})

    found = received(batch, changed_properties=[changed], dead_letter_reasons=["why"])

    assert found.application_properties == {"p": "new", "q": 2, "r": 3, "DeadLetterReason": "why"}


def test_a_message_without_a_lock_has_no_lock_annotations() -> None:
    found = received(sent(), locked=False)

    assert found.delivery_annotations == {}
    assert found.message_annotations is not None
    assert "x-opt-locked-until" not in dict(found.message_annotations)


def test_a_list_is_nested_as_deep_as_clients_allow_and_encoded_below() -> None:
    deep: Any = []
    for _ in range(40):
        deep = [deep]
    value = Value()

    amqp_values.fill(value, deep)

    assert amqp_values.from_value(value) == deep
    for _ in range(amqp_values.NESTED_MAX):
        (value,) = value.list_value.values
    assert value.WhichOneof("kind") == "encoded_value"
    assert message_properties.from_value(value) == Composite()
