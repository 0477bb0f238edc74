"""JSON lines become messages."""

import pytest

from bendybus.cli.errors import UsageError
from bendybus.cli.output import json_lines
from bendybus.cli.output.json_lines import Fields, Outgoing

NONE = Fields()


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("plain text", "plain text"),
        ('{"carrier": "UA"}', '{"carrier": "UA"}'),
        ('{"body": "hello"}', "hello"),
        ('{"body": {"a": 1}}', '{"a": 1}'),
        ("[1, 2]", "[1, 2]"),
        ("17", "17"),
    ],
)
def test_a_line_is_a_body_unless_it_is_an_object_with_body(line: str, body: str) -> None:
    assert json_lines.parse(line, 1, NONE) == Outgoing(body)


def test_beside_the_body_stand_the_properties() -> None:
    line = '{"body": "b", "message_id": "m", "application_properties": {"n": 1}}'

    outgoing = json_lines.parse(line, 1, NONE)

    assert outgoing.properties == {"message_id": "m", "application_properties": {"n": 1}}


def test_fields_of_the_body_become_keys() -> None:
    line = '{"carrier": "UA", "flight": 1545, "tail": "N1"}'

    outgoing = json_lines.parse(line, 1, Fields(key="carrier", session="tail", id="flight"))

    assert outgoing.body == line
    assert outgoing.properties == {
        "partition_key": "UA",
        "session_id": "N1",
        "message_id": "1545",
    }


@pytest.mark.parametrize(
    ("line", "fields", "sentence"),
    [
        ('{"a": 1}', Fields(key="b"), "Line 7: there is no field 'b' to take a key from."),
        ("text", Fields(id="b"), "Line 7: the body must be a JSON object, to take a key from 'b'."),
        (
            '{"b": {}}',
            Fields(id="b"),
            "Line 7: the field 'b' must be a text or a number to be a key.",
        ),
        ('{"body": 1, "colour": 2}', NONE, "Line 7: 'colour' is not a known property. Known: b"),
        ('{"body": 1, "subject": 2}', NONE, "Line 7: subject must be text, not 2."),
        ('{"body": 1, "priority": "2"}', NONE, "Line 7: priority must be a whole number, not '2'."),
        ('{"body": 1, "footer": 2}', NONE, "Line 7: footer must be an object."),
        ('{"body": 1, "user_id": 2}', NONE, "Line 7: user_id must be text or BINARY."),
        (
            '{"body": 1, "annotations": {"a": {"TYPE": "UUID", "VALUE": "x"}}}',
            NONE,
            "Line 7: annotations: invalid UUID: 'x'.",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(line: str, fields: Fields, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        json_lines.parse(line, 7, fields)

    assert sentence in str(caught.value)


def test_what_only_the_bus_decides_is_ignored() -> None:
    line = '{"sequence_number": 5, "partition": 0, "delivery_count": 2, "body_base64": "/w=="}'

    assert json_lines.parse(line, 1, NONE) == Outgoing(b"\xff")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"body_base64": "?"}', "Line 7: body_base64 is not valid base64."),
        ('{"body": 1, "body_type": "x"}', "Line 7: body_type must be data, value or sequence"),
        ('{"body": 1, "time_to_live": "soon"}', "Line 7: time_to_live: must be seconds or an"),
        ('{"body": 1, "scheduled_enqueue_time_utc": 5}', "Line 7: scheduled_enqueue_time_utc: "),
        ('{"body": 1, "application_properties": {"u": {"TYPE": "UUID", "VALUE": 1}}}', "UUID"),
    ],
)
def test_values_that_mean_nothing_are_told_with_their_line(line: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        json_lines.parse(line, 7, NONE)

    assert sentence in str(caught.value)


def test_a_body_that_is_no_text_is_shown_in_base64() -> None:
    assert json_lines.body(b"\xff") == {"body_base64": "/w=="}
    assert json_lines.body("ä".encode()) == {"body": "ä"}
