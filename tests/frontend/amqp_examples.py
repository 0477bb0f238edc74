"""Strategies for AMQP messages of every kind, and a comparison that includes types."""

import math
import struct
import sys
import uuid
from typing import Any

from hypothesis import strategies as st

from bendybus.amqp import encoding, sections, values
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
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from bendybus.frontend.listeners.amqp import incoming_messages
from bendybus.frontend.listeners.amqp.listener import message_ids
from bendybus.v1.message_pb2 import DeliveredBatch, MessageBatch

NUMBER = 3 << 48 | 5
ENQUEUED_MS = 1_700_000_000_000
LOCKED_UNTIL_MS = ENQUEUED_MS + 60_000
TOKEN = bytes(range(16))


def _integers(kind: type[int], bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(least, most).map(kind)


UUIDS = st.uuids()
TEXTS = st.text(max_size=6)
SYMBOLS = st.text(st.characters(max_codepoint=127), max_size=6).map(Symbol)
BINARIES = st.binary(max_size=6)
ULONGS = _integers(Ulong, 64, signed=False)
TIMESTAMPS = _integers(Timestamp, 64, signed=True)
DECIMALS = (
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
)
# By the constructor that an array of them has.
BY_CODE: dict[int, st.SearchStrategy[Any]] = {
    values.NULL: st.none(),
    values.BOOLEAN: st.booleans(),
    values.UBYTE: _integers(Ubyte, 8, signed=False),
    values.USHORT: _integers(Ushort, 16, signed=False),
    values.UINT: _integers(Uint, 32, signed=False),
    values.ULONG: ULONGS,
    values.BYTE: _integers(Byte, 8, signed=True),
    values.SHORT: _integers(Short, 16, signed=True),
    values.INT: _integers(Int, 32, signed=True),
    values.LONG: _integers(int, 64, signed=True),
    values.FLOAT: st.floats(width=32).map(Float),
    values.DOUBLE: st.floats(),
    values.CHAR: st.one_of(st.integers(0, 0xD7FF), st.integers(0xE000, sys.maxunicode)).map(Char),
    values.TIMESTAMP: TIMESTAMPS,
    values.DECIMAL32: DECIMALS[0],
    values.DECIMAL64: DECIMALS[1],
    values.DECIMAL128: DECIMALS[2],
    values.UUID: UUIDS,
    values.BINARY32: BINARIES,
    values.STRING32: TEXTS,
    values.SYMBOL32: SYMBOLS,
}
SIMPLE = st.one_of(*BY_CODE.values())


def _maps(keys: st.SearchStrategy[Any], items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(keys, items), max_size=4).map(values.map_of)


def _compound(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(children, max_size=3),
        _maps(TEXTS, children),
        _maps(children, children),
        st.builds(Described, st.one_of(SYMBOLS, ULONGS), children),
        _arrays(),
    )


@st.composite
def _arrays(draw: st.DrawFn) -> Array:
    code = draw(st.sampled_from(sorted(BY_CODE)))
    described = draw(st.booleans())
    descriptor = draw(st.one_of(SYMBOLS, ULONGS)) if described else None
    return Array(code, draw(st.lists(BY_CODE[code], max_size=3)), descriptor, described)


VALUES = st.recursive(SIMPLE, _compound, max_leaves=6)
KEYS = st.one_of(SYMBOLS, TEXTS, VALUES)
IDS = st.one_of(TEXTS, BINARIES, UUIDS, ULONGS)
# As a string, too, as some peers write a symbol.
_MAYBE_SYMBOLS = st.none() | SYMBOLS | SYMBOLS.map(str)

HEADERS = st.none() | st.builds(
    Header,
    durable=st.none() | st.booleans(),
    priority=st.none() | BY_CODE[values.UBYTE],
    ttl=st.none() | BY_CODE[values.UINT],
    first_acquirer=st.none() | st.booleans(),
    delivery_count=st.none() | BY_CODE[values.UINT],
)
PROPERTIES = st.none() | st.builds(
    Properties,
    message_id=st.none() | IDS,
    user_id=st.none() | BINARIES,
    to=st.none() | TEXTS | VALUES,
    subject=st.none() | TEXTS,
    reply_to=st.none() | TEXTS | VALUES,
    correlation_id=st.none() | IDS,
    content_type=_MAYBE_SYMBOLS,
    content_encoding=_MAYBE_SYMBOLS,
    absolute_expiry_time=st.none() | TIMESTAMPS,
    creation_time=st.none() | TIMESTAMPS,
    group_id=st.none() | TEXTS,
    group_sequence=st.none() | BY_CODE[values.UINT],
    reply_to_group_id=st.none() | TEXTS,
)
_BODIES = st.one_of(
    st.lists(BINARIES, min_size=1, max_size=3).map(lambda data: {"data": tuple(data)}),
    st.lists(st.lists(VALUES, max_size=3), min_size=1, max_size=2).map(
        lambda rows: {"sequences": tuple(rows)}
    ),
    VALUES.map(lambda value: {"value": value, "has_value": True}),
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Draw an AMQP message: any section, with keys and values of any type."""
    return Message(
        header=draw(HEADERS),
        delivery_annotations=draw(st.none() | _maps(SYMBOLS, SIMPLE)),
        message_annotations=draw(st.none() | _maps(KEYS, VALUES)),
        properties=draw(PROPERTIES),
        application_properties=draw(st.none() | _maps(KEYS, VALUES)),
        footer=draw(st.none() | _maps(KEYS, VALUES)),
        **draw(_BODIES),
    )


def payload(message: Message) -> bytes:
    """Return the bytes of a message, with every value of the type that it has."""
    out = bytearray()
    _write(sections.HEADER, _fields(message.header), out)
    _write(sections.DELIVERY_ANNOTATIONS, message.delivery_annotations, out)
    _write(sections.MESSAGE_ANNOTATIONS, message.message_annotations, out)
    _write(sections.PROPERTIES, _fields(message.properties), out)
    _write(sections.APPLICATION_PROPERTIES, message.application_properties, out)
    for piece in message.data:
        _write(sections.DATA, piece, out)
    for sequence in message.sequences:
        _write(sections.SEQUENCE, list(sequence), out)
    if message.has_value:
        encoding.write(Described(Ulong(sections.VALUE), message.value), out)
    _write(sections.FOOTER, message.footer, out)
    return bytes(out)


def _fields(section: Header | Properties | None) -> list[Any] | None:
    if section is None:
        return None
    return [getattr(section, name) for name in type(section).__slots__]


def _write(code: int, value: Any, out: bytearray) -> None:
    if value is not None:
        encoding.write(Described(Ulong(code), value), out)


def exact(value: Any) -> Any:
    """Return what is equal for values that are, their types included. Maps have no order."""
    if isinstance(value, float):
        packed = "NaN" if math.isnan(value) else struct.pack(">d", value)
        return type(value).__name__, packed
    if isinstance(value, list):
        return "list", tuple(map(exact, value))
    if isinstance(value, dict | values.Pairs):
        pairs = value.items() if isinstance(value, dict) else value
        return "map", tuple(sorted(((exact(key), exact(item)) for key, item in pairs), key=repr))
    if isinstance(value, Described):
        return "described", exact(value.descriptor), exact(value.value)
    if isinstance(value, Array):
        items = tuple(map(exact, value.items))
        return "array", value.code, items, exact(value.descriptor), value.described
    if isinstance(value, uuid.UUID):
        return "UUID", value.bytes
    return type(value).__name__, value


def delivered(batch: MessageBatch, *, locked: bool = True, **columns: Any) -> DeliveredBatch:
    """Return the messages of a batch as they are delivered, over the wire and back."""
    sent = MessageBatch.FromString(batch.SerializeToString())
    count = len(sent.messages)
    made = DeliveredBatch(
        partition=NUMBER >> 48,
        sequence_numbers=range(NUMBER, NUMBER + count),
        enqueued_time_ms=[ENQUEUED_MS] * count,
        lock_tokens=TOKEN * count if locked else b"",
        locked_until_ms=LOCKED_UNTIL_MS if locked else 0,
    )
    for field, value in sent.ListFields():
        getattr(made, field.name).extend(value)
    for name, value in columns.items():
        getattr(made, name).extend(value)
    return DeliveredBatch.FromString(made.SerializeToString())


def of_delivery(payload: bytes, form: int = 0) -> MessageBatch:
    """Return the columns of what one delivery carries: a message, or those of a batch."""
    made = incoming_messages.Columns()
    made.add_delivery(payload, form)
    return made.batch(message_ids())
