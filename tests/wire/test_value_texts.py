"""Every value that a bus accepts has a text: a reader would fail on it again and again."""

import json
import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.client.messages import values
from bendybus.partition_server.offline import export
from bendybus.spark import property_texts
from bendybus.v1.message_pb2 import Value
from bendybus.wire import value_texts

pytestmark = pytest.mark.requirement("R589")
INT64 = st.integers(values.INT64_MIN, values.INT64_MAX)
VALUES = st.one_of(
    st.builds(lambda ms: Value(timestamp_ms_value=ms), INT64),
    st.builds(lambda code: Value(char_value=code), st.integers(0, 2**32 - 1)),
    st.builds(lambda data: Value(uuid_value=data), st.binary(max_size=40)),
    st.builds(lambda found: Value(double_value=found), st.floats()),
    st.builds(lambda found: Value(float_value=found), st.floats(width=32)),
    st.builds(lambda found: Value(ulong_value=found), st.integers(0, 2**64 - 1)),
    st.builds(lambda data: Value(encoded_value=data), st.binary(max_size=40)),
    st.builds(lambda data: Value(binary_value=data), st.binary(max_size=40)),
    st.builds(lambda text: Value(string_value=text), st.text(st.characters(codec="utf-8"))),
)


@given(VALUES)
def test_spark_and_an_export_read_every_value(value: Value) -> None:
    text = property_texts.text_of(value)
    assert text is not None
    text.encode()
    json.dumps(export._plain(value), allow_nan=False).encode()
    values.from_value(value)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00Z"),
        (-62_135_596_800_001, "-62135596800001"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999000Z"),
        (253_402_300_800_000, "253402300800000"),
        (8_640_000_000_000_000, "8640000000000000"),
    ],
)
def test_a_moment_without_a_date_is_its_milliseconds(ms: int, text: str) -> None:
    assert value_texts.of_moment(ms) == text


@pytest.mark.parametrize(
    ("code", "text"),
    [(65, "A"), (0x1F68C, "\U0001f68c"), (0xD800, "U+D800"), (0x110000, "U+110000")],
)
def test_what_is_no_character_is_named_by_its_number(code: int, text: str) -> None:
    assert value_texts.of_character(code) == text


def test_a_uuid_of_another_length_is_its_bytes() -> None:
    assert value_texts.of_uuid(bytes(16)) == str(uuid.UUID(int=0))
    assert value_texts.of_uuid(b"\x01\xff") == "01ff"


def test_the_last_moment_stays_in_its_year() -> None:
    last = datetime.max.replace(tzinfo=UTC)

    assert value_texts.of_moment(values.to_milliseconds(last)).startswith("9999-12-31")
