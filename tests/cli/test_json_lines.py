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

    outgoing = json_lines.parse(line, 1, Fields(key="carrier", session="carrier", id="flight"))

    assert outgoing.body == line
    assert outgoing.properties == {
        "partition_key": "UA",
        "session_id": "UA",
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


@pytest.mark.parametrize(
    "body",
    [
        "1.10",
        "1e400",
        "-0",
        "null",
        '{"price": 12345678901234567890.10, "a": 1, "a": 2}',
        '{ "a" : [1 , {"}": "\\"]", "\\\\": "\\ud800"}] }',
        '{"a":NaN}',
        "[ ]",
        f'{{"n": {"9" * 5_000}}}',
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        '{{"body": {}}}',
        '\ufeff{{"subject" : "s\\\\" ,"b\\u006fdy":{} , "footer":{{"body":[1, "x"]}} }}',
        '{{"body":"first","body":{},"message_id":"m"}}',
    ],
)
def test_a_body_that_is_no_text_is_sent_as_it_stands(around: str, body: str) -> None:
    assert json_lines.parse(around.format(body), 1, NONE).body == body


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        # Python itself cannot read these, and the client does not nest so deep.
        (f'"footer": {"[" * 5_000}{"]" * 5_000}', "the object is nested too deep to be read as"),
        (f'"application_properties": {{"a": {"[" * 500}{"]" * 500}}}', "nested at most 30 deep"),
        (f'"body_type": "value", "body": {"[" * 500}{"]" * 500}', "body: lists and maps must be"),
        (f'"application_properties": {{"a": {"9" * 5_000}}}', "9… (5000 digits) does not fit into"),
        (f'"priority": {"9" * 5_000}', "priority must be a whole number, not 99999"),
        (f'"subject": {"9" * 5_000}', "subject must be text, not 999"),
        # Only the client refuses these, and it does not know the line.
        ('"application_properties": {"a": 9223372036854775808}', "['a']: 9223372036854775808 does"),
        ('"application_properties": {"a": [1]}', "['a'] must be one value, not a list or an ob"),
        (
            '"application_properties": {"a": {"TYPE": "INT", "VALUE": "x"}}',
            "application_properties['a']: must be a value of AMQP's type INT (got 'x').",
        ),
        ('"body": "\\ud800"', "body: has half of a pair of surrogates, such as \\ud800, which"),
        ('"subject": "\\udfff"', "subject: has half of a pair of surrogates"),
        ('"footer": {"a": [{"\\ud800": 1}]}', "footer['a']: a key: has half of a pair of surr"),
        (
            '"body_type": "sequence", "body": [[1, 9223372036854775808]]',
            "does not fit into 64 bits",
        ),
        ('"priority": 300', "priority: must be between 0 and 255 (got 300)."),
        ('"session_id": "a", "partition_key": "b"', "partition_key: must equal session_id"),
        ('"time_to_live": -1', "time_to_live: must not be negative"),
        (
            '"time_to_live": NaN',
            "time_to_live: must be seconds or an ISO-8601 duration such as PT3",
        ),
        (
            '"time_to_live": true',
            "time_to_live: must be seconds or an ISO-8601 duration such as PT",
        ),
        (
            '"time_to_live": "²"',
            "time_to_live: must be seconds or an ISO-8601 duration such as PT3",
        ),
    ],
)
def test_what_cannot_be_sent_is_told_with_its_line(given: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        json_lines.parse(f'{{"body": "b", {given}}}', 7, NONE)

    assert str(caught.value).startswith("Line 7: ")
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_key_that_is_too_long_is_told_with_its_line() -> None:
    with pytest.raises(UsageError, match="Line 7: message_id: must be at most 128 characters"):
        json_lines.parse(f'{{"n": {"9" * 5_000}}}', 7, Fields(id="n"))


@pytest.mark.parametrize("deep", [f"{'[' * 5_000}{']' * 5_000}", f'{{"a": {"[" * 5_000}'])
def test_what_is_no_message_is_a_body_however_deep_it_is(deep: str) -> None:
    assert json_lines.parse(deep, 1, NONE) == Outgoing(deep)


@pytest.mark.parametrize("text", ["²", "1.²", float("nan"), float("inf"), True])
def test_what_is_no_number_of_seconds_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="--ttl: must be seconds or an ISO-8601 duration"):
        json_lines.duration("--ttl", text)
