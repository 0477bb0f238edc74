"""Apache Qpid Proton reads what we write, and we read what it writes: an oracle of its own.

Values are put into Proton and taken out one by one, not through its dicts, which merge equal keys.
Left out is what Proton 0.40 cannot do:

* Its decoder refuses descriptors that are lists, maps or arrays.
* It takes what follows a described value whose value is described for a part of it.
* Of a body in several sections, `proton.Message` gives the last one.
"""

import dataclasses
import uuid
from typing import Any, Final

import proton
import pytest
from hypothesis import given, settings

from bendybus.amqp import decoding, encoding, sections, values
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
from tests.amqp.any_values import PLAIN_VALUES, same

Data = proton.Data
# By type: what puts it into Proton's data.
PUT: Final[dict[type, Any]] = {
    bool: Data.put_bool, Ubyte: Data.put_ubyte, Ushort: Data.put_ushort, Uint: Data.put_uint,
    Ulong: Data.put_ulong, Byte: Data.put_byte, Short: Data.put_short, Int: Data.put_int,
    int: Data.put_long, Float: Data.put_float, float: Data.put_double,
    Timestamp: Data.put_timestamp, uuid.UUID: Data.put_uuid, bytes: Data.put_binary,
    str: Data.put_string, Symbol: Data.put_symbol, Decimal128: Data.put_decimal128,
    Char: lambda data, value: data.put_char(chr(value)),
    Decimal32: lambda data, value: data.put_decimal32(int.from_bytes(value)),
    Decimal64: lambda data, value: data.put_decimal64(int.from_bytes(value)),
}  # fmt: skip
# By Proton's type: what gets it out, and ours.
TAKE: Final[dict[int, Any]] = {
    Data.BOOL: (Data.get_bool, bool), Data.UBYTE: (Data.get_ubyte, Ubyte),
    Data.USHORT: (Data.get_ushort, Ushort), Data.UINT: (Data.get_uint, Uint),
    Data.ULONG: (Data.get_ulong, Ulong), Data.BYTE: (Data.get_byte, Byte),
    Data.SHORT: (Data.get_short, Short), Data.INT: (Data.get_int, Int),
    Data.LONG: (Data.get_long, int), Data.FLOAT: (Data.get_float, Float),
    Data.DOUBLE: (Data.get_double, float), Data.TIMESTAMP: (Data.get_timestamp, Timestamp),
    Data.UUID: (Data.get_uuid, lambda value: value), Data.BINARY: (Data.get_binary, bytes),
    Data.STRING: (Data.get_string, str), Data.SYMBOL: (Data.get_symbol, Symbol),
    Data.CHAR: (Data.get_char, lambda value: Char(ord(value))),
    Data.DECIMAL32: (Data.get_decimal32, lambda value: Decimal32(value.to_bytes(4))),
    Data.DECIMAL64: (Data.get_decimal64, lambda value: Decimal64(value.to_bytes(8))),
    Data.DECIMAL128: (Data.get_decimal128, Decimal128),
}  # fmt: skip
# Proton's type of items of an array, by our constructor.
ITEM_TYPES: Final = {
    values.NULL: Data.NULL, values.BOOLEAN: Data.BOOL, values.UBYTE: Data.UBYTE,
    values.USHORT: Data.USHORT, values.UINT: Data.UINT, values.ULONG: Data.ULONG,
    values.BYTE: Data.BYTE, values.SHORT: Data.SHORT, values.INT: Data.INT,
    values.LONG: Data.LONG, values.FLOAT: Data.FLOAT, values.DOUBLE: Data.DOUBLE,
    values.CHAR: Data.CHAR, values.TIMESTAMP: Data.TIMESTAMP, values.DECIMAL32: Data.DECIMAL32,
    values.DECIMAL64: Data.DECIMAL64, values.DECIMAL128: Data.DECIMAL128, values.UUID: Data.UUID,
    values.BINARY32: Data.BINARY, values.STRING32: Data.STRING, values.SYMBOL32: Data.SYMBOL,
    values.LIST32: Data.LIST, values.MAP32: Data.MAP, values.ARRAY32: Data.ARRAY,
}  # fmt: skip
CODES: Final = {kind: code for code, kind in ITEM_TYPES.items()}


def put(data: proton.Data, value: Any) -> None:
    """Put a value of ours into Proton's data."""
    if value is None:
        data.put_null()
    elif isinstance(value, list):
        data.put_list()
        _put_inside(data, value)
    elif isinstance(value, dict | Pairs):
        pairs = value.items() if isinstance(value, dict) else value
        data.put_map()
        _put_inside(data, [each for pair in pairs for each in pair])
    elif isinstance(value, Described):
        data.put_described()
        _put_inside(data, [value.descriptor, value.value])
    elif isinstance(value, Array):
        data.put_array(value.described, ITEM_TYPES[value.code])
        _put_inside(data, [value.descriptor] * value.described + value.items)
    else:
        PUT[type(value)](data, value)


def _put_inside(data: proton.Data, items: list[Any]) -> None:
    data.enter()
    for item in items:
        put(data, item)
    data.exit()


def take(data: proton.Data) -> Any:
    """Return the value at which Proton's data is, as one of ours."""
    kind = data.type() or Data.NULL
    if kind == Data.NULL:
        return None
    if kind == Data.LIST:
        return _take_inside(data)
    if kind == Data.MAP:
        return values.map_of_list(_take_inside(data))
    if kind == Data.DESCRIBED:
        return Described(*_take_inside(data))
    if kind == Data.ARRAY:
        _, described, item_kind = data.get_array()
        items = _take_inside(data)
        descriptor = items.pop(0) if described else None
        return Array(CODES[item_kind], items, descriptor, described)
    get, ours = TAKE[kind]
    return ours(get(data))


def _take_inside(data: proton.Data) -> list[Any]:
    items = []
    data.enter()
    while data.next() is not None:
        items.append(take(data))
    data.exit()
    return items


def protons_bytes(value: Any) -> bytes:
    data = Data()
    put(data, value)
    return bytes(data.encode())


def protons_value(encoded: bytes) -> Any:
    data = Data()
    assert data.decode(encoded) == len(encoded)
    data.rewind()
    assert data.next() is not None
    return take(data)


CODEC = settings(max_examples=100, derandomize=True)


@CODEC
@given(PLAIN_VALUES)
def test_proton_reads_what_we_write(value: Any) -> None:
    assert same(protons_value(encoding.encode(value)), value)


@CODEC
@given(PLAIN_VALUES)
def test_we_read_what_proton_writes(value: Any) -> None:
    assert same(decoding.decode_whole(protons_bytes(value)), value)


@pytest.mark.parametrize("descriptor", [[1], {"a": 1}, Array(values.INT, [Int(1)])], ids=repr)
def test_proton_still_refuses_compound_descriptors(descriptor: Any) -> None:
    with pytest.raises(proton.DataException):
        protons_value(encoding.encode(Described(descriptor, 1)))


def test_proton_still_loses_where_a_value_described_twice_ends() -> None:
    data = Data()

    data.decode(encoding.encode([Described(1, Described(2, 3)), 4]))
    data.rewind()
    data.next()
    data.enter()

    assert data.get_list() == 0
    assert data.next() == Data.DESCRIBED
    assert _take_inside(data) == [1, Described(2, 3), 4]


ID: Final = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
OURS: Final = Message(
    header=Header(True, Ubyte(7), Uint(60_000), True, Uint(3)),
    delivery_annotations={Symbol("x-opt-d"): Int(1)},
    message_annotations={Symbol("x-opt-m"): Timestamp(1_700_000_000_000), Symbol("x-l"): [1, "é"]},
    properties=Properties(
        ID, b"user", "to/queue", "subject", "reply/queue", "correlation",
        Symbol("text/plain"), Symbol("gzip"), Timestamp(1_700_000_001_000),
        Timestamp(1_700_000_000_000), "group", Uint(9), "reply-group",
    ),
    application_properties={"a": Int(1), "b": "text", "c": ID, "d": b"\xff", "e": 1.5, "f": None},
)  # fmt: skip
PROTONS: Final[dict[str, Any]] = {
    "durable": True, "priority": 7, "ttl": 60.0, "first_acquirer": True, "delivery_count": 3,
    "instructions": {proton.symbol("x-opt-d"): proton.int32(1)},
    "annotations": {
        proton.symbol("x-opt-m"): proton.timestamp(1_700_000_000_000),
        proton.symbol("x-l"): [1, "é"],
    },
    "id": ID, "user_id": b"user", "address": "to/queue", "subject": "subject",
    "reply_to": "reply/queue", "correlation_id": "correlation", "content_type": "text/plain",
    "content_encoding": "gzip", "expiry_time": 1_700_000_001.0, "creation_time": 1_700_000_000.0,
    "group_id": "group", "group_sequence": 9, "reply_to_group_id": "reply-group",
    "properties": {"a": proton.int32(1), "b": "text", "c": ID, "d": b"\xff", "e": 1.5, "f": None},
}  # fmt: skip
BODIES: Final = [
    ({}, None, False),
    ({"data": (b"",)}, b"", True),
    ({"data": (b"\x00" * 70_000,)}, b"\x00" * 70_000, True),
    ({"sequences": ([1, "two", None],)}, [1, "two", None], True),
    ({"value": "text", "has_value": True}, "text", False),
    ({"value": {"a": [True]}, "has_value": True}, {"a": [True]}, False),
]


@pytest.mark.parametrize(("ours", "protons", "inferred"), BODIES)
def test_proton_reads_a_message_that_we_write(ours: Any, protons: Any, inferred: bool) -> None:
    message = proton.Message()

    message.decode(sections.encode(dataclasses.replace(OURS, **ours)))

    assert {name: getattr(message, name) for name in PROTONS} == PROTONS
    body = bytes(message.body) if isinstance(message.body, memoryview) else message.body
    assert body == protons
    assert message.inferred == inferred


@pytest.mark.parametrize(("ours", "protons", "inferred"), BODIES)
def test_we_read_a_message_that_proton_writes(ours: Any, protons: Any, inferred: bool) -> None:
    message = proton.Message(protons, inferred=inferred, **PROTONS)

    assert same(sections.decode(bytes(message.encode())), dataclasses.replace(OURS, **ours))


@pytest.mark.parametrize("ident", ["", "é" * 200, ID, Ulong(0), Ulong((1 << 64) - 1), b"", b"id"])
def test_a_message_id_of_any_type_is_the_same_one_for_proton(ident: Any) -> None:
    protons = proton.Message(id=proton.ulong(ident) if isinstance(ident, Ulong) else ident)
    theirs = proton.Message()

    theirs.decode(sections.encode(Message(properties=Properties(message_id=ident))))
    ours = sections.decode(bytes(protons.encode())).properties

    assert theirs.id == ident
    assert ours is not None
    assert same(ours.message_id, ident)
