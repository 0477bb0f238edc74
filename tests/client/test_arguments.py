"""What an application passes is refused at the call, by name; nobody else is harmed by it."""

import functools
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, arguments
from bendybus.client.amqp import AmqpAnnotatedMessage
from bendybus.client.core import partitions
from bendybus.client.exceptions import InvalidArgumentError
from bendybus.client.messages import encode, values
from bendybus.v1.message_pb2 import Value
from tests.client.conftest import Either
from tests.client.fake_front_end import FakeFrontEnd

POISON = "bad \ud800 text"
TEXTS = (
    "message_id",
    "session_id",
    "partition_key",
    "content_type",
    "correlation_id",
    "subject",
    "to",
    "reply_to",
    "reply_to_session_id",
)
SENDS: dict[str, Callable[[], Any]] = {
    # Wrong types on purpose.
    **{name: functools.partial(ServiceBusMessage, "b", **{name: POISON}) for name in TEXTS},  # type: ignore[arg-type]
    "body": lambda: ServiceBusMessage(POISON),
    "application_properties['k']": lambda: ServiceBusMessage(
        "b", application_properties={"k": POISON}
    ),
    "application_properties: a key": lambda: ServiceBusMessage(
        "b", application_properties={POISON: 1}
    ),
    "application_properties": lambda: ServiceBusMessage("b", application_properties={b"\xff": 1}),
}


@pytest.mark.parametrize("name", SENDS)
async def test_a_text_that_cannot_travel_is_refused_at_the_call(sender: Any, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name.split("[")[0]) as caught:
        await sender.send_messages(SENDS[name]())

    assert caught.value.metadata["field"] == name
    # The connection is as good as before.
    await sender.send_messages(ServiceBusMessage("next"), timeout=5)


@pytest.mark.parametrize(
    ("method", "options", "name"),
    [
        ("dead_letter_message", {"reason": POISON}, "reason"),
        ("dead_letter_message", {"error_description": POISON}, "error_description"),
        ("abandon_message", {"properties_to_modify": {"k": POISON}}, "properties_to_modify"),
        ("defer_message", {"properties_to_modify": {POISON: 1}}, "properties_to_modify"),
    ],
)
async def test_a_settlement_with_a_bad_text_is_refused_and_others_go_on(
    sender: Any, receiver: Any, method: str, options: dict[str, Any], name: str
) -> None:
    await sender.send_messages(ServiceBusMessage("b"))
    [message] = await receiver.receive_messages()

    with pytest.raises(InvalidArgumentError, match=name):
        await getattr(receiver, method)(message, **options)

    await receiver.complete_message(message)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"max_wait_time": math.nan}, "max_wait_time"),
        ({"max_wait_time": "5"}, "max_wait_time"),
        ({"max_wait_time": -1}, "max_wait_time"),
        ({"max_message_count": 0}, "max_message_count"),
        ({"max_message_count": 2**40}, "max_message_count"),
        ({"max_message_count": 1.5}, "max_message_count"),
    ],
)
async def test_a_receive_with_a_bad_number_is_refused_and_others_go_on(
    sender: Any, receiver: Any, options: dict[str, Any], name: str
) -> None:
    await sender.send_messages(ServiceBusMessage("b"))

    with pytest.raises((InvalidArgumentError, TypeError), match=name):
        await receiver.receive_messages(**options)

    assert len(await receiver.receive_messages(max_wait_time=math.inf)) == 1


@pytest.mark.parametrize("bad", [POISON, "q" * 300, 5])
def test_a_queue_and_a_receiver_have_names_that_can_travel(fake: FakeFrontEnd, bad: Any) -> None:
    with ServiceBusClient.from_connection_string(fake.connection_string) as client:
        with pytest.raises((InvalidArgumentError, TypeError), match="queue_name"):
            client.get_queue_sender(bad)
        with pytest.raises((InvalidArgumentError, TypeError), match="client_identifier"):
            client.get_queue_receiver("q", client_identifier=bad)


async def test_names_of_administration_calls_are_checked(administration: Either) -> None:
    for method in ("create_queue", "get_queue", "delete_queue"):
        with pytest.raises(InvalidArgumentError, match="queue_name"):
            await getattr(administration, method)(POISON)
    with pytest.raises(InvalidArgumentError, match="user_metadata"):
        await administration.create_queue("new", user_metadata=POISON)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_of_another_type_is_named(name: str) -> None:
    if name == "message_id":
        # As in the original: anything that has a text.
        # Wrong types on purpose.
        assert ServiceBusMessage("b", message_id=5).message_id == "5"  # type: ignore[arg-type]
        return
    with pytest.raises(TypeError, match=f"{name}: must be str"):
        ServiceBusMessage("b", **{name: 5})  # type: ignore[arg-type]  # wrong types on purpose
    message = ServiceBusMessage("b")
    with pytest.raises(TypeError, match=f"{name}: must be str"):
        setattr(message, name, b"5")


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("application_properties", 5),
        ("time_to_live", "soon"),
        ("time_to_live", 1e300),
        ("time_to_live", -1),
        ("scheduled_enqueue_time_utc", 5),
    ],
)
def test_other_values_of_another_type_are_named(name: str, bad: Any) -> None:
    with pytest.raises((TypeError, InvalidArgumentError), match=name):
        ServiceBusMessage("b", **{name: bad})


async def test_moments_and_numbers_of_other_calls_are_checked(sender: Any, receiver: Any) -> None:
    with pytest.raises(TypeError, match="schedule_time_utc"):
        await sender.schedule_messages(ServiceBusMessage("b"), 5)
    for bad in ("5", ["5"], 2**63, -1, None):
        with pytest.raises((TypeError, InvalidArgumentError), match="sequence_numbers"):
            await sender.cancel_scheduled_messages(bad)
        with pytest.raises((TypeError, InvalidArgumentError), match="sequence_numbers"):
            await receiver.receive_deferred_messages(bad)
    for method in ("peek_messages", "delete_messages"):
        with pytest.raises(InvalidArgumentError, match="max_message_count"):
            await getattr(receiver, method)(2**40)
    with pytest.raises(InvalidArgumentError, match="sequence_number"):
        await receiver.peek_messages(1, sequence_number=2**63)
    with pytest.raises(TypeError, match="before_enqueued_time_utc"):
        await receiver.delete_messages(1, before_enqueued_time_utc=5)
    with pytest.raises(TypeError, match="timeout"):
        await sender.send_messages(ServiceBusMessage("b"), timeout="5")


@pytest.mark.parametrize(
    "value",
    [
        ("CHAR", -1),
        ("CHAR", 2**31),
        ("UUID", b"short"),
        ("TIMESTAMP", 2**80),
        ("STRING", 7),
        ("NOTHING", 1),
        datetime,
    ],
)
def test_a_property_that_could_not_be_read_is_not_sent(value: Any) -> None:
    message = ServiceBusMessage("b", application_properties={"colour": value})

    with pytest.raises((TypeError, InvalidArgumentError), match=r"\['colour'\]"):
        encode.encode(message)


def test_a_body_is_nested_only_as_deep_as_it_can_be_read() -> None:
    fits: Any = 1
    for _ in range(values.NESTED_MAX):
        fits = {"k": fits}
    read = values.from_value(type(values.to_value(fits)).FromString(
        values.to_value(fits).SerializeToString()
    ))  # fmt: skip

    assert read[b"k"]
    with pytest.raises(InvalidArgumentError, match="body"):
        encode.encode(encode.as_message(AmqpAnnotatedMessage(value_body=[fits])))


@pytest.mark.requirement("R598")
def test_a_map_is_a_map_whatever_its_keys_are() -> None:
    looks = {"TYPE": "INT", "VALUE": 3}

    assert values.to_value(looks) == Value(int_value=3)
    assert values.from_value(values.to_value(values.Map(looks))) == {b"TYPE": b"INT", b"VALUE": 3}


@pytest.mark.parametrize(("kind", "value"), [("INT", "x"), ("UUID", "x"), ("CHAR", "xy")])
def test_a_typed_value_of_another_type_is_named_with_both(kind: str, value: Any) -> None:
    message = ServiceBusMessage("b", application_properties={"colour": (kind, value)})

    with pytest.raises(TypeError, match=rf"\['colour'\]: must be .*type {kind} \(got '{value}'\)"):
        encode.encode(message)


def test_what_no_sender_of_ours_writes_can_still_be_read() -> None:
    strange = Value(char_value=2**31), Value(uuid_value=b"x")

    assert [values.from_value(each) for each in strange] == [2**31, b"x"]
    assert values.plain(values.Timestamp(2**62)) == 2**62


def test_a_moment_is_a_datetime() -> None:
    now = datetime.now(UTC)

    assert arguments.moment("x", now) is now


@pytest.mark.parametrize(
    "send",
    [
        lambda: encode.columns_of(ServiceBusMessage("b", application_properties={"k": object()})),
        lambda: values.to_value([{"k": object()}]),
    ],
)
def test_a_value_of_no_type_of_amqp_is_a_plain_type_error(send: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=r"\['k'\]: must be one of AMQP's simple types") as raised:
        send()

    assert raised.type is TypeError


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("producer_id", "query-1, task-00"),
        ("mark", "done"),
        ("ordinals", [-1]),
        ("ordinals", [1, 2**64]),
        ("ordinals", ["1"]),
    ],
)
def test_what_cannot_be_in_a_fenced_send_is_named(field: str, wrong: Any) -> None:
    given: dict[str, Any] = {"producer_id": b"query-1, task-00", "mark": b"", "ordinals": [1]}
    given["replace"] = False
    with pytest.raises((TypeError, ValueError), match=field):
        partitions.send_request("orders", 0, [], epoch=1, **{**given, field: wrong})
