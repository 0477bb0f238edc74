"""Whatever value a message has: what `receive -o json` prints of it is sent again as the same."""

import math
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.cli.bus import messages, send_messages
from bendybus.cli.output import json_lines, printing
from bendybus.cli.output.json_lines import Fields
from bendybus.client import ServiceBusMessage
from bendybus.client.amqp import AmqpAnnotatedMessage
from bendybus.client.messages import raw_amqp_message, values
from bendybus.v1 import message_pb2
from tests.cli.test_messages import received

pytestmark = pytest.mark.requirement("R598")

TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
# NaN is one value, as in AMQP: JSON has a word for it, and none for its further bits.
DOUBLES = st.floats(allow_nan=False) | st.just(math.nan)
SINGLES = st.floats(width=32, allow_nan=False) | st.just(math.nan)
# Most are those of a typed value; as in a received map.
KEYS = st.one_of(st.sampled_from(["TYPE", "VALUE"]), TEXTS)
TYPE_TEXTS = st.sampled_from(["INT", "int", "STRING", "TIMESTAMP", "MAP", "UUID", "sedan"])
SIMPLE = st.one_of(
    TEXTS,
    TYPE_TEXTS,
    st.none(),
    st.booleans(),
    st.integers(values.INT64_MIN, values.INT64_MAX),
    st.integers(values.INT64_MIN, values.INT64_MAX).map(values.Timestamp),
    st.integers(0, 2**64 - 1).map(values.ULong),
    st.integers(-(2**31), 2**31 - 1).map(values.Int),
    DOUBLES,
    SINGLES.map(values.Float32),
    st.characters(codec="utf-8").map(values.Char),
    st.text(st.characters(codec="ascii"), max_size=6).map(
        lambda text: values.Symbol(text.encode())
    ),
    st.binary(max_size=6),
    st.binary(max_size=6).map(values.Encoded),
    st.integers(0, 2**128 - 1).map(lambda number: uuid.UUID(int=number)),
)


def maps(entries: st.SearchStrategy[Any]) -> st.SearchStrategy[values.Map]:
    """Return a strategy for maps, of which many look like a typed value."""
    typed = st.fixed_dictionaries({"TYPE": st.one_of(TYPE_TEXTS, entries), "VALUE": entries})
    return st.one_of(typed, st.dictionaries(KEYS, entries, max_size=3)).map(values.Map)


VALUES = st.recursive(SIMPLE, lambda inner: st.one_of(st.lists(inner, max_size=3), maps(inner)))


def own(message: ServiceBusMessage, **sections: Any) -> ServiceBusMessage:
    """Return a message with sections that only AMQP has."""
    raw_amqp_message.set_own_fields(message, sections)
    return message


MESSAGES = st.one_of(
    VALUES.map(lambda value: AmqpAnnotatedMessage(value_body=value)),
    st.lists(st.lists(VALUES, max_size=2), min_size=1, max_size=2).map(
        lambda lists: AmqpAnnotatedMessage(sequence_body=lists)
    ),
    maps(VALUES).map(lambda found: own(ServiceBusMessage("b"), annotations=found)),
    maps(VALUES).map(lambda found: own(ServiceBusMessage("b"), footer=found)),
    maps(SIMPLE).map(lambda found: ServiceBusMessage("b", application_properties=found)),
)


def nested(depth: int) -> Any:
    """Return a map that is nested as deep."""
    found: Any = 1
    for _ in range(depth):
        found = values.Map({"TYPE": "MAP", "VALUE": found})
    return found


def sent_again(message: Any) -> tuple[bytes, bytes]:
    """Return the wire form of a message, and of its printed form sent again."""
    first = received(7, message)
    printed = printing.json_text(messages.shown(first))
    again = received(8, send_messages.message_of(json_lines.parse(printed, 1, Fields())))
    return travels(first._whole()), travels(again._whole())


def travels(data: bytes) -> bytes:
    """Return a message with its maps in one order; as bytes, since NaN equals nothing."""
    return message_pb2.Message.FromString(data).SerializeToString(deterministic=True)


@given(MESSAGES)
def test_what_is_printed_of_any_value_is_sent_as_the_same(message: Any) -> None:
    first, again = sent_again(message)

    assert again == first


@pytest.mark.parametrize(
    "looks",
    [
        {"TYPE": "INT", "VALUE": 3},
        {"TYPE": "STRING", "VALUE": "x"},
        {"TYPE": "TIMESTAMP", "VALUE": 5},
        {"TYPE": "int", "VALUE": 3},
        {"TYPE": "sedan", "VALUE": 3},
        {"TYPE": "MAP", "VALUE": values.Map({"TYPE": "INT", "VALUE": 3})},
        {"TYPE": "MAP", "VALUE": 3},
    ],
)
def test_a_map_that_looks_like_a_typed_value_is_sent_as_a_map(looks: dict[str, Any]) -> None:
    found = values.Map(looks)

    for message in (
        AmqpAnnotatedMessage(value_body=found),
        AmqpAnnotatedMessage(value_body=[found, {"a": found}]),
        AmqpAnnotatedMessage(sequence_body=[[found], [1, found]]),
        own(ServiceBusMessage("b"), annotations={"a": found}, footer={"a": [found]}),
        own(ServiceBusMessage("b"), annotations=found, footer=found),
    ):
        first, again = sent_again(message)

        assert again == first


def test_names_of_properties_are_no_typed_value() -> None:
    message = ServiceBusMessage("b", application_properties={"TYPE": "INT", "VALUE": 3})

    first, again = sent_again(message)

    assert messages.shown(received(7, message))["application_properties"] == {
        "TYPE": "INT",
        "VALUE": 3,
    }
    assert again == first


def test_values_are_printed_and_sent_as_deep_as_they_may_be() -> None:
    first, again = sent_again(AmqpAnnotatedMessage(value_body=nested(values.NESTED_MAX)))

    assert again == first
