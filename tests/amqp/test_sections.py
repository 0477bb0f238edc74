"""Messages come back from their bytes; sections in any other order than the one are refused."""

import itertools
import pickle
import re
import uuid
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bendybus.amqp import encoding, sections
from bendybus.amqp.errors import DecodeError, FieldError
from bendybus.amqp.sections import Header, Message, Properties
from bendybus.amqp.values import (
    Decimal32,
    Described,
    Int,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
)
from tests.amqp.any_values import ITEMS, MAPS, SYMBOLS, TEXTS, VALUES, integers, same

UINTS: Final = integers(Uint, 32, False)
TIMES: Final = integers(Timestamp, 64, True)
MESSAGE_IDS: Final = st.one_of(
    TEXTS, st.uuids(), integers(Ulong, 64, False), st.binary(max_size=300)
)
HEADERS: Final = st.builds(
    Header,
    durable=st.none() | st.booleans(),
    priority=st.none() | integers(Ubyte, 8, False),
    ttl=st.none() | UINTS,
    first_acquirer=st.none() | st.booleans(),
    delivery_count=st.none() | UINTS,
)
PROPERTIES: Final = st.builds(
    Properties,
    message_id=st.none() | MESSAGE_IDS,
    user_id=st.none() | st.binary(max_size=300),
    to=st.none() | TEXTS | VALUES,
    subject=st.none() | TEXTS,
    reply_to=st.none() | TEXTS,
    correlation_id=st.none() | MESSAGE_IDS,
    content_type=st.none() | SYMBOLS,
    content_encoding=st.none() | SYMBOLS,
    absolute_expiry_time=st.none() | TIMES,
    creation_time=st.none() | TIMES,
    group_id=st.none() | TEXTS,
    group_sequence=st.none() | UINTS,
    reply_to_group_id=st.none() | TEXTS,
)
DATA: Final = st.lists(st.binary(max_size=4) | ITEMS[0xB0], min_size=1, max_size=3).map(tuple)
SEQUENCES: Final = st.lists(st.lists(VALUES, max_size=2), min_size=1, max_size=2).map(tuple)
BODIES: Final = st.one_of(
    st.just({}),
    DATA.map(lambda found: {"data": found}),
    SEQUENCES.map(lambda found: {"sequences": found}),
    VALUES.map(lambda found: {"value": found, "has_value": True}),
)


@settings(max_examples=40, derandomize=True)
@given(
    st.none() | HEADERS, st.none() | MAPS, st.none() | MAPS, st.none() | PROPERTIES,
    st.none() | MAPS, BODIES, st.none() | MAPS,
)  # fmt: skip
def test_a_message_of_any_sections_comes_back_as_it_was(
    header: Any, delivery: Any, annotations: Any, properties: Any, application: Any, body: Any,
    footer: Any,
) -> None:  # fmt: skip
    message = Message(header, delivery, annotations, properties, application, footer=footer, **body)

    assert same(sections.decode(sections.encode(message)), message)


# The order of the specification as a regular expression over these letters.
SECTIONS: Final = {
    "h": sections.encode(Message(header=Header(durable=True))),
    "d": sections.encode(Message(delivery_annotations={Symbol("x"): Int(1)})),
    "m": sections.encode(Message(message_annotations={Symbol("x"): Int(2)})),
    "p": sections.encode(Message(properties=Properties(subject="s"))),
    "a": sections.encode(Message(application_properties={"x": Int(3)})),
    "b": sections.encode(Message(data=(b"x",))),
    "s": sections.encode(Message(sequences=([Int(4)],))),
    "v": sections.encode(Message(value=Int(5), has_value=True)),
    "f": sections.encode(Message(footer={Symbol("x"): Int(6)})),
}
# The footer may also come before the body.
BODY: Final = "((b+|s+|v)?f?|f(b+|s+|v))"
ORDER: Final = re.compile(f"h?d?m?p?a?{BODY}|h?m?p?a?{BODY}d")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_sections_have_one_order_but_for_late_delivery_annotations(count: int) -> None:
    for letters in itertools.product(SECTIONS, repeat=count):
        payload = b"".join(SECTIONS[letter] for letter in letters)
        allowed = ORDER.fullmatch("".join(letters)) is not None

        if allowed:
            sections.decode(payload)
        else:
            with pytest.raises(DecodeError):
                sections.decode(payload)


def test_all_sections_together_come_back() -> None:
    payload = b"".join(SECTIONS[letter] for letter in "hdmpabbbf")

    message = sections.decode(payload)

    assert message.data == (b"x", b"x", b"x")
    assert sections.encode(message) == payload
    late = b"".join(SECTIONS[letter] for letter in "hmpabbbfd")
    assert sections.decode(late) == message
    with pytest.raises(DecodeError, match="may not follow"):
        sections.decode(late + SECTIONS["d"])
    with pytest.raises(DecodeError, match="one section of delivery_annotations"):
        sections.decode(b"".join(SECTIONS[letter] for letter in "dmpabfd"))


@pytest.mark.parametrize("body", ["b", "bbb", "s", "ss", "v"])
def test_the_footer_may_come_before_the_body(body: str) -> None:
    """So rhea writes it, and with it the SDK for JavaScript."""
    around = ["hpa", "f"]
    before = b"".join(SECTIONS[letter] for letter in "".join((*around, body)))
    behind = b"".join(SECTIONS[letter] for letter in "".join((around[0], body, around[1])))

    assert sections.decode(before) == sections.decode(behind)


@pytest.mark.parametrize(
    "letters", ["fbf", "fvv", "fbv", "fbs", "fbp", "ffb", "fdbb", "fh", "bfb", "vfv"]
)
def test_nothing_but_one_body_comes_after_a_footer(letters: str) -> None:
    with pytest.raises(DecodeError):
        sections.decode(b"".join(SECTIONS[letter] for letter in letters))


@pytest.mark.parametrize(
    ("name", "letter"),
    [
        ("amqp:header:list", "h"), ("amqp:delivery-annotations:map", "d"),
        ("amqp:message-annotations:map", "m"), ("amqp:properties:list", "p"),
        ("amqp:application-properties:map", "a"), ("amqp:data:binary", "b"),
        ("amqp:amqp-sequence:list", "s"), ("amqp:amqp-value:*", "v"), ("amqp:footer:map", "f"),
    ],
)  # fmt: skip
def test_a_section_may_be_named_by_its_symbol_or_a_wide_number(name: str, letter: str) -> None:
    plain = SECTIONS[letter]
    by_symbol = b"\x00" + encoding.encode(Symbol(name)) + plain[3:]
    wide = b"\x00\x80" + bytes(7) + plain[2:]

    assert sections.decode(by_symbol) == sections.decode(plain) == sections.decode(wide)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x00", b"\x00\x53", b"\x00\x53\x75", b"\x00\x53\x75\xa0", b"\x00\x53\x75\xa0\x01",
        b"\x00\x53\x75\xb0\x00\x00\x00", b"\x00\x53\x75\xb0\x00\x00\x00\x01", b"\x40",
        b"\x00\x53\x75\xa1\x01a", b"\x00\x53\x75\x40", b"\x00\x53\x6f\x45", b"\x00\x53\x79\x45",
        b"\x00\x52\x77\x40", b"\x00\xa3\x01a\x40", b"\x00\x40\x40", b"\x00\x53\x70\x40",
        b"\x00\x53\x70\xc1\x01\x00", b"\x00\x53\x72\x45", b"\x00\x53\x72\x40", b"\x00\x53\x76\x40",
        b"\x00\x53\x73\x40", b"\x00\x53\x24\x45", b"\x53\x77\x40",
    ],
    ids=bytes.hex,
)  # fmt: skip
def test_bytes_that_are_no_message_are_refused(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        sections.decode(payload)
    with pytest.raises(DecodeError):
        sections.batched(payload)


def test_no_bytes_are_a_message_without_sections_and_no_batch() -> None:
    assert sections.decode(b"") == Message()
    assert sections.encode(Message()) == b""
    with pytest.raises(DecodeError, match="at least one message"):
        sections.batched(b"")


@pytest.mark.parametrize(
    ("section", "fields"),
    [
        (0x70, [1]), (0x70, [None, 4]), (0x70, [None, Uint(4)]), (0x70, [None, None, Ulong(1)]),
        (0x70, [None, None, None, Ubyte(1)]), (0x70, [None] * 4 + [False]), (0x70, [None] * 6),
        (0x73, [1]), (0x73, [[]]), (0x73, [Symbol("id")]), (0x73, [Decimal32(b"abcd")]),
        (0x73, [None, "u"]), (0x73, [None, Decimal32(b"abcd")]), (0x73, [None] * 3 + [Symbol("s")]),
        (0x73, [None] * 5 + [Timestamp(1)]), (0x73, [None] * 6 + [b"t"]),
        (0x73, [None] * 6 + ["é"]), (0x73, [None] * 7 + [1]), (0x73, [None] * 8 + [1]),
        (0x73, [None] * 9 + [Ulong(1)]),
        (0x73, [None] * 10 + [1]), (0x73, [None] * 11 + [1]), (0x73, [None] * 12 + [True]),
        (0x73, [None] * 14),
    ],
)  # fmt: skip
def test_fields_of_another_type_are_refused(section: int, fields: list[Any]) -> None:
    with pytest.raises(DecodeError, match=r"^(header|properties)\b"):
        sections.decode(encoding.encode(Described(Ulong(section), fields)))


@pytest.mark.parametrize(
    ("section", "fields", "sentence"),
    [
        (0x70, [1], "header.durable: must be a boolean"),
        (0x70, [None, 4], "header.priority: must be a ubyte"),
        (0x70, [None] * 4 + [1], "header.delivery-count: must be a uint"),
        (0x73, [1], "properties.message-id: must be a string, a ulong, a UUID or binary"),
        (0x73, [None, "u"], "properties.user-id: must be binary"),
        (0x73, [None] * 8 + [1], "properties.absolute-expiry-time: must be a timestamp"),
        (0x73, [None] * 6 + [b"t"],
         "properties.content-type: must be a symbol, or a string of ASCII characters"),
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_named(section: int, fields: list[Any], sentence: str) -> None:
    with pytest.raises(FieldError) as caught:
        sections.decode(encoding.encode(Described(Ulong(section), fields)))

    assert str(caught.value) == sentence
    assert str(pickle.loads(pickle.dumps(caught.value))) == sentence


def test_a_content_type_may_come_as_a_string() -> None:
    payload = encoding.encode(Described(Ulong(0x73), [None] * 6 + ["text/plain", "gzip"]))

    properties = sections.decode(payload).properties

    assert properties == Properties(content_type="text/plain", content_encoding="gzip")
    assert sections.encode(Message(properties=properties)) == (
        sections.encode(
            Message(properties=Properties(content_type=Symbol("text/plain"),
                                          content_encoding=Symbol("gzip")))
        )
    )  # fmt: skip


def test_plain_numbers_are_written_as_their_fields_are() -> None:
    payload = sections.encode(
        Message(
            header=Header(priority=5, ttl=60_000, delivery_count=1),
            properties=Properties(creation_time=7, absolute_expiry_time=8, group_sequence=9),
        )
    )

    message = sections.decode(payload)

    assert same(message.header, Header(None, Ubyte(5), Uint(60_000), None, Uint(1)))
    assert message.properties is not None
    assert same(message.properties.creation_time, Timestamp(7))
    assert same(message.properties.absolute_expiry_time, Timestamp(8))
    assert same(message.properties.group_sequence, Uint(9))


@pytest.mark.parametrize(
    "message",
    [
        Message(header=Header(durable=1)),  # type: ignore[arg-type]
        Message(header=Header(priority=True)), Message(header=Header(ttl=Ulong(1))),
        Message(properties=Properties(message_id=1)), Message(properties=Properties(user_id=5)),  # type: ignore[arg-type]
        Message(properties=Properties(subject=b"s")), Message(data=("text",)),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_not_written(message: Message) -> None:
    with pytest.raises(TypeError):
        sections.encode(message)


def test_a_number_past_its_field_is_not_written() -> None:
    with pytest.raises(ValueError, match="out of range"):
        sections.encode(Message(header=Header(priority=256)))


def test_a_message_of_two_bodies_is_not_written() -> None:
    for message in (
        Message(data=(b"",), has_value=True),
        Message(data=(b"",), sequences=([],)),
        Message(sequences=([],), has_value=True),
    ):
        with pytest.raises(ValueError, match="one body"):
            sections.encode(message)


def test_a_message_has_at_most_so_many_sections() -> None:
    piece = SECTIONS["b"]

    assert len(sections.decode(piece * sections.SECTIONS_MAX).data) == sections.SECTIONS_MAX
    with pytest.raises(DecodeError, match="10000 sections"):
        sections.decode(piece * (sections.SECTIONS_MAX + 1))


def test_a_batch_is_the_messages_in_its_data_sections() -> None:
    messages = [sections.encode(Message(data=(bytes(size),))) for size in (0, 1, 255, 256, 70_000)]
    around = Message(
        Header(True), {Symbol("a"): [1]}, {Symbol("b"): {"c": "d"}}, Properties(uuid.UUID(int=1)),
        {"e": "f"}, data=messages, footer={Symbol("g"): None},
    )  # fmt: skip

    assert sections.batched(sections.encode(around)) == messages
    assert sections.batched(sections.encode(Message(data=messages[:1]))) == messages[:1]


@pytest.mark.parametrize(
    "letters", ["h", "hmp", "v", "s", "bv", "bs", "fv", "bfb", "bh", "mm", "pm"]
)
def test_a_batch_of_anything_but_data_is_refused(letters: str) -> None:
    with pytest.raises(DecodeError):
        sections.batched(b"".join(SECTIONS[letter] for letter in letters))


def test_a_batch_has_at_most_so_many_messages() -> None:
    piece = SECTIONS["b"]

    assert len(sections.batched(piece * sections.SECTIONS_MAX)) == sections.SECTIONS_MAX
    with pytest.raises(DecodeError, match="10000 messages"):
        sections.batched(piece * (sections.SECTIONS_MAX + 1))
