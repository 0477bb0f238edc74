"""Bytes written down by hand from the specification's encodings, with what they mean.

No program made them, so the codec and the oracles cannot be wrong together.
"""

import uuid
from typing import Any, Final

import pytest

from bendybus.amqp import composites, decoding, encoding, sections, values
from bendybus.amqp.composites import Composite
from bendybus.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Open,
    Rejected,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from bendybus.amqp.sections import Header, Message, Properties
from bendybus.amqp.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Pairs,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from tests.amqp.any_values import same

# As we write them: the shortest encoding of the type.
SHORTEST: Final[list[tuple[str, Any]]] = [
    ("40", None), ("41", True), ("42", False),
    ("50 ff", Ubyte(255)), ("60 ff fe", Ushort(0xFFFE)),
    ("43", Uint(0)), ("52 ff", Uint(255)), ("70 00 00 01 00", Uint(256)),
    ("70 ff ff ff ff", Uint(0xFFFFFFFF)),
    ("44", Ulong(0)), ("53 ff", Ulong(255)), ("80 00 00 00 00 00 00 01 00", Ulong(256)),
    ("80 ff ff ff ff ff ff ff ff", Ulong((1 << 64) - 1)),
    ("51 80", Byte(-128)), ("61 80 00", Short(-32_768)), ("61 00 01", Short(1)),
    ("54 00", Int(0)), ("54 80", Int(-128)), ("54 7f", Int(127)), ("71 00 00 00 80", Int(128)),
    ("71 ff ff ff 7f", Int(-129)), ("71 80 00 00 00", Int(-(1 << 31))),
    ("55 00", 0), ("55 80", -128), ("55 7f", 127), ("81 00 00 00 00 00 00 00 80", 128),
    ("81 ff ff ff ff ff ff ff 7f", -129), ("81 80 00 00 00 00 00 00 00", -(1 << 63)),
    ("72 3f c0 00 00", Float(1.5)), ("72 ff 80 00 00", Float("-inf")),
    ("82 3f f8 00 00 00 00 00 00", 1.5), ("82 80 00 00 00 00 00 00 00", -0.0),
    ("82 7f f8 00 00 00 00 00 00", float("nan")),
    ("73 00 00 00 41", Char(0x41)), ("73 00 01 f6 00", Char(0x1F600)),
    ("83 00 00 01 8b cf e5 68 00", Timestamp(1_700_000_000_000)),
    ("83 ff ff ff ff ff ff ff ff", Timestamp(-1)),
    ("74 22 50 00 01", Decimal32(b"\x22\x50\x00\x01")),
    ("84 01 02 03 04 05 06 07 08", Decimal64(bytes(range(1, 9)))),
    ("94" + "00" * 15 + "01", Decimal128(bytes(15) + b"\x01")),
    ("98 f8 1d 4f ae 7d ec 11 d0 a7 65 00 a0 c9 1e 6b f6",
     uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")),
    ("a0 00", b""), ("a0 03 00 01 ff", b"\x00\x01\xff"),
    ("a0 ff" + "61" * 255, b"a" * 255), ("b0 00 00 01 00" + "61" * 256, b"a" * 256),
    ("a1 00", ""), ("a1 05 68 c3 a9 6c 6f", "hélo"), ("a1 04 f0 9f 98 80", "\U0001f600"),
    ("a1 ff" + "61" * 255, "a" * 255), ("b1 00 00 01 00" + "61" * 256, "a" * 256),
    ("a3 04 61 6d 71 70", Symbol("amqp")), ("b3 00 00 01 00" + "61" * 256, Symbol("a" * 256)),
    ("45", []), ("c0 03 02 40 41", [None, True]), ("c0 05 01 c0 02 01 40", [[None]]),
    ("c0 ff fe" + "40" * 254, [None] * 254),
    ("d0 00 00 01 03 00 00 00 ff" + "40" * 255, [None] * 255),
    ("c1 01 00", {}), ("c1 06 02 a1 01 61 54 01", {"a": Int(1)}),
    ("c1 06 04 55 01 40 41 40", Pairs(((1, None), (True, None)))),
    ("e0 05 03 50 01 02 03", Array(values.UBYTE, [Ubyte(1), Ubyte(2), Ubyte(3)])),
    ("e0 02 00 40", Array(values.NULL, [])), ("e0 04 02 56 01 00", Array(values.BOOLEAN,
     [True, False])),
    ("e0 0b 01 b3 00 00 00 05 50 4c 41 49 4e", Array(values.SYMBOL32, [Symbol("PLAIN")])),
    ("e0 0a 01 d0 00 00 00 04 00 00 00 00", Array(values.LIST32, [[]])),
    ("e0 06 01 00 53 24 50 07", Array(values.UBYTE, [Ubyte(7)], Ulong(0x24), True)),
    ("f0 00 00 01 05 00 00 01 00 51" + "ff" * 256, Array(values.BYTE, [Byte(-1)] * 256)),
    ("00 53 24 45", Described(Ulong(0x24), [])),
    ("00 a3 01 61 00 40 41", Described(Symbol("a"), Described(None, True))),
]  # fmt: skip
# As others may write them.
LONGER: Final[list[tuple[str, Any]]] = [
    ("56 01", True), ("56 00", False), ("70 00 00 00 00", Uint(0)), ("52 00", Uint(0)),
    ("80 00 00 00 00 00 00 00 00", Ulong(0)), ("53 00", Ulong(0)), ("71 ff ff ff ff", Int(-1)),
    ("81 00 00 00 00 00 00 00 01", 1), ("b0 00 00 00 01 61", b"a"), ("b1 00 00 00 00", ""),
    ("b3 00 00 00 01 61", Symbol("a")), ("c0 01 00", []), ("d0 00 00 00 04 00 00 00 00", []),
    ("d0 00 00 00 05 00 00 00 01 40", [None]), ("d1 00 00 00 04 00 00 00 00", {}),
    ("d1 00 00 00 09 00 00 00 02 a1 01 61 54 01", {"a": Int(1)}),
    ("e0 02 03 41", Array(values.BOOLEAN, [True, True, True])),
    ("e0 02 02 43", Array(values.UINT, [Uint(0), Uint(0)])),
    ("e0 02 02 45", Array(values.LIST32, [[], []])),
    ("e0 04 02 52 00 ff", Array(values.UINT, [Uint(0), Uint(255)])),
    ("e0 08 01 a3 05 50 4c 41 49 4e", Array(values.SYMBOL32, [Symbol("PLAIN")])),
    ("e0 05 01 c0 02 01 40", Array(values.LIST32, [[None]])),
    ("e0 09 02 e0 03 01 50 07 02 00 50",
     Array(values.ARRAY32, [Array(values.UBYTE, [Ubyte(7)]), Array(values.UBYTE, [])])),
    ("f0 00 00 00 09 00 00 00 02 60 00 01 00 02", Array(values.USHORT, [Ushort(1), Ushort(2)])),
    ("00 80 00 00 00 00 00 00 00 24 c0 01 00", Described(Ulong(0x24), [])),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SHORTEST, ids=lambda each: f"{each!r:.40}")
def test_a_value_is_written_in_the_shortest_form(text: str, value: Any) -> None:
    data = bytes.fromhex(text)

    assert encoding.encode(value) == data
    assert same(decoding.decode_whole(data), value)
    assert decoding.skip(data, 0) == len(data)


@pytest.mark.parametrize(("text", "value"), LONGER, ids=lambda each: f"{each!r:.40}")
def test_a_value_in_a_longer_form_is_the_same_one(text: str, value: Any) -> None:
    data = bytes.fromhex(text)

    assert same(decoding.decode_whole(data), value)
    assert decoding.skip(data, 0) == len(data)


def test_the_book_of_the_specification_is_read() -> None:
    # Part 1.1.2 and figure 1.2: title, authors, and no ISBN.
    data = (
        b"\x00\xa3\x11example:book:list\xc0\x40\x03\xa1\x15AMQP for & by Dummies"
        b"\xe0\x25\x02\xa1\x0eRob J. Godfrey\x13Rafael H. Schloming\x40"
    )

    assert decoding.decode_whole(data) == Described(
        Symbol("example:book:list"),
        [
            "AMQP for & by Dummies",
            Array(values.STRING32, ["Rob J. Godfrey", "Rafael H. Schloming"]),
            None,
        ],
    )


GONE: Final = Described(Ulong(0x1D), [Symbol("amqp:not-found"), "gone"])
# Frame bodies as they are in the shortest form.
FRAMES: Final[list[tuple[str, Composite]]] = [
    ("005310 c0 0b 03  a1026d65 40 7000010000", Open("me", max_frame_size=65_536)),
    ("005310 c0 18 06  a1026d65 40 40 6000ff 700000ea60 e00701b30000000161",
     Open("me", channel_max=255, idle_time_out=60_000, outgoing_locales=("a",))),
    ("005311 c0 0a 04  40 43 5264 700000012c", Begin(None, 0, 100, 300)),
    ("005311 c0 09 05  600001 43 43 43 5207", Begin(1, 0, 0, 0, 7)),
    ("005312 c0 1e 0a  a10171 43 42 5000 40 005328c00401a10161 005329c00401a10162 40 40 43",
     Attach("q", 0, False, 0, source=Described(Ulong(0x28), ["a"]),
            target=Described(Ulong(0x29), ["b"]), initial_delivery_count=0)),
    ("005313 c0 0d 09  43 5264 43 5264 43 43 520a 40 41",
     Flow(0, 100, 0, 100, 0, 0, 10, drain=True)),
    ("005314 c0 09 05  43 5201 a00178 43 42", Transfer(0, 1, b"x", 0, False)),
    ("005314 c0 07 06  43 40 40 40 40 41", Transfer(0, more=True)),
    ("005315 c0 09 05  41 43 40 41 00532445",
     Disposition(True, 0, settled=True, state=Described(Ulong(0x24), []))),
    ("005316 c0 1f 03  43 41 00531dc01702 a30e616d71703a6e6f742d666f756e64 a104676f6e65",
     Detach(0, True, GONE)),
    ("005317 45", End()),
    ("005318 45", Close()),
    ("005325 45", Rejected()),
    ("005327 c0 03 02  41 42", Modified(True, False)),
    ("005334 c0 08 02  a00101 00532445",
     TransactionalState(b"\x01", Described(Ulong(0x24), []))),
    ("005340 c0 0e 01  e00b01b300000005504c41494e", SaslMechanisms(("PLAIN",))),
    ("005341 c0 0e 02  a305504c41494e a00400750070", SaslInit("PLAIN", b"\0u\0p")),
    ("005344 c0 03 01  5000", SaslOutcome(0)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "made"), FRAMES, ids=lambda each: f"{each!r:.40}")
def test_a_frame_body_is_read_and_written(text: str, made: Composite) -> None:
    data = bytes.fromhex(text)

    assert composites.composite(decoding.decode_whole(data)) == made
    assert made.encoded() == data


def test_composites_in_fields_are_written_as_the_lists_that_they_are() -> None:
    by_hand = {type(made): bytes.fromhex(text) for text, made in FRAMES}

    assert by_hand[Attach] == (
        Attach("q", 0, False, 0, source=Source("a"), target=Target("b"), initial_delivery_count=0)
    ).encoded()  # fmt: skip
    assert by_hand[Disposition] == Disposition(True, 0, settled=True, state=Accepted()).encoded()
    # Errors are written whole: with a null for the info that there is none of.
    whole = "005316 c0 20 03  43 41 00531dc01803 a30e616d71703a6e6f742d666f756e64 a104676f6e65 40"
    assert Detach(0, True, Error("amqp:not-found", "gone")).encoded() == bytes.fromhex(whole)


# Sections of one message, in order.
SECTIONS: Final = (
    "005370 c0 02 01  41",
    "005371 c1 01 00",
    "005372 c1 1a 02  a315782d6f70742d73657175656e63652d6e756d626572 5505",
    "005373 c0 0d 07  a1026d31 40 40 40 40 40 a30161",
    "005374 c1 07 02  a1016b a10176",
    "005375 a0 02     6869",
    "005375 b0 00000001 21",
    "005378 c1 01 00",
)
MESSAGE: Final = Message(
    header=Header(durable=True),
    delivery_annotations={},
    message_annotations={Symbol("x-opt-sequence-number"): 5},
    properties=Properties(message_id="m1", content_type=Symbol("a")),
    application_properties={"k": "v"},
    data=(b"hi", b"!"),
    footer={},
)


def test_a_message_is_read() -> None:
    data = bytes.fromhex("".join(SECTIONS))

    assert same(sections.decode(data), MESSAGE)
    assert sections.batched(data) == [b"hi", b"!"]


def test_a_message_is_written_in_the_shortest_form() -> None:
    short = [*SECTIONS[:6], "005375 a0 01 21", SECTIONS[7]]

    assert sections.encode(MESSAGE) == bytes.fromhex("".join(short))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("005377 40", Message(has_value=True)),
        ("005377 a10161", Message(value="a", has_value=True)),
        ("005376 c0 03 02 40 41  005376 45", Message(sequences=([None, True], []))),
        ("005370 45  005373 45", Message(Header(), properties=Properties())),
        ("005370 c0 0b 05  42 5004 43 40 7000000100",
         Message(Header(False, 4, 0, None, 256))),
    ],
)  # fmt: skip
def test_bodies_and_headers_are_read_and_written(text: str, message: Message) -> None:
    data = bytes.fromhex(text)

    assert sections.decode(data) == message
    assert sections.encode(message) == data
