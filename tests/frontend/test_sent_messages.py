"""Messages in requests of HTTP: what is read of them, and what is refused."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import limits
from bendybus.domain.errors import BusError, InvalidArgument, MessageSizeExceeded
from bendybus.domain.steps import whole
from bendybus.frontend.core import columns
from bendybus.frontend.listeners.web import property_values, sent_messages
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Value

pytestmark = pytest.mark.requirement("R652")
DATE = "Fri, 04 Dec 2026 10:00:00 GMT"
DATE_MS = 1_796_378_400_000


def sent(broker: Any = None, body: bytes = b"", **headers: str) -> columns.MessageBatch:
    """Return the message of a request; a `broker` that is a text is sent as it is."""
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    if broker is not None:
        text = broker if isinstance(broker, str) else json.dumps(broker)
        given.append((b"BrokerProperties", text.encode()))
    return sent_messages.single(given, body)


def batch(messages: Any) -> columns.MessageBatch:
    """Return the messages of a batch."""
    text = messages if isinstance(messages, str) else json.dumps(messages)
    return whole(sent_messages.batch(text.encode()))


def head_of(made: columns.MessageBatch, index: int = 0) -> message_pb2.Message:
    """Return the properties of a message."""
    return message_pb2.Message.FromString(made.heads[index])


def test_broker_properties_become_those_of_the_message() -> None:
    made = sent(
        {
            "MessageId": "one",
            "SessionId": "",
            "PartitionKey": "key",
            "CorrelationId": "c",
            "Label": "l",
            "To": "t",
            "ReplyTo": "r",
            "ReplyToSessionId": "rs",
            "TimeToLive": 0.5,
            "ScheduledEnqueueTimeUtc": DATE,
            "ForcePersistence": True,
            "NotKnown": {"a": 1},
        },
        b"\x00body",
        Content_Type="text/plain",
    )

    head = head_of(made)
    assert list(made.message_ids) == ["one"]
    assert (list(made.session_ids), list(made.partition_keys)) == ([""], ["key"])
    assert (list(made.time_to_live_ms), list(made.scheduled_enqueue_time_ms)) == ([500], [DATE_MS])
    assert (head.correlation_id, head.subject, head.to, head.reply_to) == ("c", "l", "t", "r")
    assert (head.reply_to_session_id, head.content_type) == ("rs", "text/plain")
    assert message_pb2.Message.FromString(made.messages[0]).data == [b"\x00body"]


def test_a_message_without_an_id_gets_one() -> None:
    first, second = sent().message_ids[0], sent({"MessageId": None}).message_ids[0]

    assert first
    assert first != second


@pytest.mark.parametrize(
    ("given", "lasts_ms"),
    [
        ({"TimeToLive": 60}, 60_000),
        ({"TimeToLive": "60"}, 60_000),
        ({"TimeToLive": 0.0001}, 1),
        # The service writes this for a message without a time to live.
        ({"TimeToLive": 922337203685.47754}, limits.TIME_TO_LIVE_MS_MAX),
        ({"TimeToLiveTimeSpan": "00:00:40"}, 40_000),
        ({"TimeToLiveTimeSpan": "1.02:03:04.5"}, 93_784_500),
        ({"TimeToLive": None}, None),
    ],
)
def test_a_time_to_live(given: Any, lasts_ms: int | None) -> None:
    assert list(sent(given).time_to_live_ms) == ([] if lasts_ms is None else [lasts_ms])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"red"', Value(string_value="red")),
        ('"a \\"b\\" \\u20ac"', Value(string_value='a "b" €')),
        ('"€"', Value(string_value="€")),
        ('"a"b"', Value(string_value='a"b')),
        ('""', Value(string_value="")),
        ('"12"', Value(string_value="12")),
        (f'"{DATE}"', Value(timestamp_ms_value=DATE_MS)),
        ("12", Value(int_value=12)),
        ("-12", Value(int_value=-12)),
        (str(2**40), Value(long_value=2**40)),
        (str(2**64 - 1), Value(ulong_value=2**64 - 1)),
        ("0.5", Value(double_value=0.5)),
        ("1e3", Value(double_value=1e3)),
        ("true", Value(bool_value=True)),
        ("False", Value(bool_value=False)),
        ("red", None),
        ("012", None),
        ("1e999", None),
        (str(2**64), None),
        ("NaN", None),
        ('"', None),
        ("", None),
    ],
)
def test_a_header_is_a_property_by_the_form_of_its_value(text: str, value: Value | None) -> None:
    found = head_of(sent(Label="x", Color=text, Content_Type="a/b")).application_properties

    assert dict(found) == ({} if value is None else {"Color": value})


@pytest.mark.parametrize(
    "name",
    [
        "Content-Length",
        "host",
        "AUTHORIZATION",
        "X-Forwarded-Port",
        "x-ms-version",
        "Via",
        "Expect",
    ],
)
def test_headers_of_http_and_of_proxies_are_no_properties(name: str) -> None:
    made = sent_messages.single([(name.encode(), b"12"), (b"Content-Type", b"a")], b"")

    assert not head_of(made).application_properties


@pytest.mark.parametrize(
    ("broker", "names"),
    [
        ("{", "BrokerProperties"),
        ("[]", "BrokerProperties"),
        ('{"TimeToLive": NaN}', "BrokerProperties"),
        ("[" * 100_000, "BrokerProperties"),
        ({"MessageId": 5}, "MessageId"),
        ({"Label": "\ud800"}, "Label"),
        ({"TimeToLive": 0}, "TimeToLive"),
        ({"TimeToLive": -1}, "TimeToLive"),
        ({"TimeToLive": "soon"}, "TimeToLive"),
        ({"TimeToLive": True}, "TimeToLive"),
        ({"TimeToLiveTimeSpan": "40"}, "TimeToLiveTimeSpan"),
        ({"ScheduledEnqueueTimeUtc": "tomorrow"}, "ScheduledEnqueueTimeUtc"),
        ({"ScheduledEnqueueTimeUtc": 5}, "ScheduledEnqueueTimeUtc"),
        ({"UserProperties": [1]}, "UserProperties"),
        ({"UserProperties": {"a": [1]}}, "UserProperties['a']"),
        ({"UserProperties": {"a": 2**64}}, "UserProperties['a']"),
    ],
)
def test_what_is_wrong_is_named(broker: Any, names: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        sent(broker)

    assert refusal.value.message.startswith(names)


def test_properties_that_are_too_large_are_refused() -> None:
    with pytest.raises(MessageSizeExceeded):
        sent({"UserProperties": {"a": "x" * (limits.PROPERTY_BYTES_MAX + 1)}})
    with pytest.raises(MessageSizeExceeded):
        sent({"UserProperties": {str(n): "x" * 30_000 for n in range(3)}})


def test_a_batch_has_bodies_that_are_texts_and_properties_of_each_message() -> None:
    made = batch(
        [
            {"Body": "ü", "BrokerProperties": {"Label": "a", "TimeToLiveTimeSpan": "00:00:40"}},
            {"Body": "b", "UserProperties": {"n": 1, "t": DATE, "none": None}},
            {"body": ""},
        ]
    )

    bodies = [message_pb2.Message.FromString(each).data[0] for each in made.messages]
    assert bodies == ["ü".encode(), b"b", b""]
    assert list(made.time_to_live_ms) == [40_000, 0, 0]
    assert head_of(made).subject == "a"
    assert dict(head_of(made, 1).application_properties) == {
        "n": Value(int_value=1),
        "t": Value(string_value=DATE),
        "none": Value(null_value=True),
    }


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[", "[]", "[{},]", "[{}", "[{}] x", "[{} {}]", "[1]", '["a"]', "\x00"),
        *("[{}]", '[{"Bodies": "a"}]', '[{"Body": "?", "IsBodyBase64": true}]'),
        *('[{"Body": 5}]', '[{"Body": "\\ud800"}]', '[{"BrokerProperties": 5}]', "[" * 100_000),
        '[{"UserProperties": 5}]',
    ],
)
def test_what_is_no_batch_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        batch(text)


def test_names_in_a_batch_are_compared_without_case_and_bytes_come_as_base64() -> None:
    made = batch(
        [
            {"body": "a", "brokerProperties": {"LABEL": "l"}, "USERPROPERTIES": {"n": 1}},
            {"Body": "AP8=", "IsBodyBase64": True},
        ]
    )

    assert head_of(made).subject == "l"
    assert list(head_of(made).application_properties) == ["n"]
    assert message_pb2.Message.FromString(made.messages[1]).data == [b"\x00\xff"]


def test_headers_may_be_utf_8_or_latin_1() -> None:
    for encoding in ("utf-8", "latin-1"):
        given = [
            (b"BrokerProperties", '{"MessageId": "é1"}'.encode(encoding)),
            (b"Region", '"café"'.encode(encoding)),
        ]

        made = sent_messages.single(given, b"")

        assert list(made.message_ids) == ["é1"]
        assert head_of(made).application_properties["Region"].string_value == "café"


@pytest.mark.parametrize("name", ["BrokerProperties", "Color"])
def test_a_header_that_comes_twice_is_refused(name: str) -> None:
    value = b"{}" if name == "BrokerProperties" else b'"red"'

    with pytest.raises(InvalidArgument, match=name):
        sent_messages.single([(name.encode(), value)] * 2, b"")


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        (DATE, DATE_MS),
        ("Fri, 04 Dec 2026 11:00:00 +0100", DATE_MS),
        ("4 Dec 2026 10:00:00 UTC", DATE_MS),
        ("2026-12-04T10:00:00Z", DATE_MS),
        ("2026-12-04T10:00:00", DATE_MS),
        ("2026-12-04T11:00:00+01:00", DATE_MS),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("Fri, 04 Dec 2026 10:00 PM", ""),
        ("Fri, 04 Dec 2026 10:00:00 CET", ""),
        ("Fri, 04 Dec 0026 10:00:00", ""),
        ("Fri, 31 Feb 2026 10:00:00 GMT", ""),
    ],
)
def test_a_scheduled_time_is_read_strictly(text: str, time_ms: int | str | None) -> None:
    given = {"ScheduledEnqueueTimeUtc": text}
    if time_ms == "":
        with pytest.raises(InvalidArgument, match="ScheduledEnqueueTimeUtc"):
            sent(given)
        return

    assert list(sent(given).scheduled_enqueue_time_ms) == ([] if time_ms is None else [time_ms])


def test_the_smallest_and_largest_numbers_have_their_types() -> None:
    given = {"a": -(2**31), "b": -(2**31) - 1, "c": 2**63, "d": 2**64 - 1, "e": 2**31}

    found = head_of(sent({"UserProperties": given})).application_properties

    kinds = [found[name].WhichOneof("kind") for name in given]
    assert kinds == ["int_value", "long_value", "ulong_value", "ulong_value", "long_value"]


def test_the_content_type_of_the_header_wins() -> None:
    assert head_of(sent({"ContentType": "a/b"})).content_type == "a/b"
    assert head_of(sent({"ContentType": "a/b"}, Content_Type="c/d")).content_type == "c/d"


def test_a_batch_has_at_most_so_many() -> None:
    assert len(batch([{"Body": ""}] * limits.FRAME_MESSAGES_MAX).messages) == (
        limits.FRAME_MESSAGES_MAX
    )


def test_a_batch_of_too_many_is_refused_before_the_rest_is_read() -> None:
    with pytest.raises(MessageSizeExceeded):
        batch("[" + '{"Body":""},' * (limits.FRAME_MESSAGES_MAX + 1) + "nothing")


def test_a_batch_may_begin_with_a_mark_and_have_spaces_everywhere() -> None:
    made = whole(sent_messages.batch(b'\xef\xbb\xbf \n[ {\t"Body" :"" } ,\r\n{"Body": ""} ] \n'))

    assert len(made.messages) == 2


@given(
    st.one_of(
        st.text(st.characters(codec="utf-8")),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
    )
)
def test_what_a_header_says_is_read_from_it_again(value: Any) -> None:
    stored = property_values.of_json("p", value)

    text = property_values.header_of(stored)

    assert text is not None
    again = property_values.of_header(text)
    # A text that has the form of a date comes back as that time.
    assert again == stored or (
        again is not None and again.WhichOneof("kind") == "timestamp_ms_value"
    )


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(body: bytes) -> None:
    with contextlib.suppress(BusError):
        whole(sent_messages.batch(body))
    with contextlib.suppress(BusError):
        sent(body.decode("latin-1"))


@pytest.mark.parametrize(
    "text",
    [
        '[{"Ignored": [' + "0," * 200_000 + "0]}]",
        '[{"UserProperties": {' + ",".join(f'"{n}": 1' for n in range(90_000)) + "}}]",
        '[{"BrokerProperties": {"Other": [' + "[]," * 200_000 + "[]]}}]",
        '[{"Ignored": ' + "1" * 200_000 + "}]",
    ],
    ids=["ignored", "properties", "nested", "number"],
)
def test_a_batch_that_would_become_much_more_than_its_bytes_is_refused(text: str) -> None:
    with pytest.raises((InvalidArgument, MessageSizeExceeded)):
        batch(text)


def test_a_message_has_few_members_and_each_is_a_step() -> None:
    many = b'[{"Body":"x"' + b',"":0' * 100_000 + b"}]"
    with pytest.raises(InvalidArgument, match="more than 16 members"):
        whole(sent_messages.batch(many))

    some = b'[{"Body":"x"' + b',"":0' * 15 + b"}]"
    assert sum(1 for _ in sent_messages.batch(some)) == 17
    assert len(whole(sent_messages.batch(some)).messages) == 1


@pytest.mark.parametrize("where", ['"UserProperties"', '"BrokerProperties":{"UserProperties"'])
def test_the_properties_of_a_message_are_read_in_steps(where: str) -> None:
    properties = json.dumps({f"{n}": 1 for n in range(2_000)})
    end = "}" * where.count("{")
    text = f'[{{"Body":"x",{where}:{properties}{end}}}]'.encode()

    # Two members, one message, and its properties by 250.
    assert sum(1 for _ in sent_messages.batch(text)) == 2 + 1 + 8
    assert len(head_of(whole(sent_messages.batch(text))).application_properties) == 2_000


def test_long_values_that_are_allowed_are_read_whole() -> None:
    properties = {f"name-{n}": 1234567 for n in range(2_000)}
    given = [{"Body": "x" * 200_000, "UserProperties": properties, "Ignored": 12345.5}]

    made = batch(json.dumps(given) + " ")

    assert len(head_of(made).application_properties) == 2_000
    assert {each.int_value for each in head_of(made).application_properties.values()} == {1234567}
