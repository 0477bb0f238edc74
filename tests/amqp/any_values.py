"""Strategies for all AMQP values, and a comparison that includes their types at every level."""

import dataclasses
import struct
import uuid
from typing import Any, Final

from hypothesis import strategies as st

from bendybus.amqp import values
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


def same(one: Any, other: Any) -> bool:
    """Return whether these are one value of AMQP: 1, True and Int(1) are three, NaN is one."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)


# Where an encoding gets wider, and just beside it.
BORDERS: Final = (0, 1, 127, 128, 254, 255, 256, 257)


def integers(kind: type[int], bits: int, signed: bool) -> st.SearchStrategy[Any]:
    """Return integers of a width, often at its borders and at those of narrower encodings."""
    least = -(1 << bits - 1) if signed else 0
    most = (1 << bits - int(signed)) - 1
    borders = [n for each in BORDERS for n in (each, -each, -each - 1) if least <= n <= most]
    return st.one_of(
        st.integers(least, most), st.sampled_from([*borders, least, most])
    ).map(kind)  # fmt: skip


def lengths(piece: Any) -> st.SearchStrategy[Any]:
    """Return repetitions of a piece of text or of bytes, about as long as a narrow form can be."""
    return st.integers(253, 258).map(lambda count: piece * count)


ASCII: Final = st.characters(max_codepoint=127)
TEXTS: Final = st.text(max_size=12) | lengths("a") | lengths("é").map(lambda text: text[:129])
SYMBOLS: Final = (st.text(ASCII, max_size=12) | lengths("s")).map(Symbol)
BINARIES: Final = st.binary(max_size=12) | lengths(b"\xff")
FLOATS: Final = st.floats(width=32, allow_nan=False).map(Float)
DOUBLES: Final = st.floats()
CHARS: Final = st.characters().map(lambda text: Char(ord(text)))

# By the widest constructor: what an array can hold.
ITEMS: Final[dict[int, st.SearchStrategy[Any]]] = {
    values.NULL: st.none(),
    values.BOOLEAN: st.booleans(),
    values.UBYTE: integers(Ubyte, 8, False),
    values.USHORT: integers(Ushort, 16, False),
    values.UINT: integers(Uint, 32, False),
    values.ULONG: integers(Ulong, 64, False),
    values.BYTE: integers(Byte, 8, True),
    values.SHORT: integers(Short, 16, True),
    values.INT: integers(Int, 32, True),
    values.LONG: integers(int, 64, True),
    values.TIMESTAMP: integers(Timestamp, 64, True),
    values.FLOAT: FLOATS | st.just(Float("nan")),
    values.DOUBLE: DOUBLES,
    values.CHAR: CHARS,
    values.DECIMAL32: st.binary(min_size=4, max_size=4).map(Decimal32),
    values.DECIMAL64: st.binary(min_size=8, max_size=8).map(Decimal64),
    values.DECIMAL128: st.binary(min_size=16, max_size=16).map(Decimal128),
    values.UUID: st.binary(min_size=16, max_size=16).map(lambda raw: uuid.UUID(bytes=raw)),
    values.BINARY32: BINARIES,
    values.STRING32: TEXTS,
    values.SYMBOL32: SYMBOLS,
}
SCALARS: Final = st.one_of(*ITEMS.values())
DESCRIPTORS: Final = ITEMS[values.ULONG] | SYMBOLS
# Equal for Python, and four keys for AMQP; and keys that a dict cannot find again, or have.
ODD_KEYS: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [1, True, Int(1), Ulong(1), 0.0, -0.0, float("nan"), "a", Symbol("a"), None, [], {}]
)


def maps(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return maps with keys of all kinds, as the decoder would give them."""
    keys = st.one_of(TEXTS, SYMBOLS, SCALARS, ODD_KEYS)
    return st.lists(st.tuples(keys, inner), max_size=5).map(values.map_of)


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Array]:
    """Return arrays of every constructor: of scalars, lists, maps and arrays; described or not."""
    kinds = {
        **ITEMS,
        values.LIST32: st.lists(inner, max_size=3),
        values.MAP32: maps(inner),
        values.ARRAY32: st.deferred(lambda: arrays(inner)),
    }

    def of(code: int) -> st.SearchStrategy[Array]:
        items = st.lists(kinds[code], max_size=4)
        plain = items.map(lambda found: Array(code, found))
        described = st.tuples(items, DESCRIPTORS)
        return plain | described.map(lambda pair: Array(code, pair[0], pair[1], True))

    return st.sampled_from(sorted(kinds)).flatmap(of)


def described(descriptor: st.SearchStrategy[Any], inner: st.SearchStrategy[Any]) -> Any:
    return st.tuples(descriptor, inner).map(lambda pair: Described(*pair))


def undescribed(value: Any) -> Any:
    """Return what a value is without descriptors."""
    return undescribed(value.value) if type(value) is Described else value


def plain_compounds(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return what has values in it."""
    once = described(SCALARS, inner.map(undescribed))
    return st.one_of(st.lists(inner, max_size=5), maps(inner), arrays(inner), once)


def compounds(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return what has values in it, descriptors of any type too."""
    return plain_compounds(inner) | described(inner, inner)


# Described values in these have descriptors that are scalars, and are not described twice.
PLAIN_VALUES: Final = st.recursive(SCALARS, plain_compounds, max_leaves=8)
VALUES: Final = st.recursive(SCALARS, compounds, max_leaves=8)
MAPS: Final = maps(VALUES)
# Maps of symbols, which fields of performatives are.
FIELDS: Final = st.dictionaries(SYMBOLS, VALUES, max_size=3)
