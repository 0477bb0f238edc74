"""AMQP's types as Python values, so that each value is encoded again as the type it came with.

    null       None            long        int              string    str
    boolean    bool            timestamp   Timestamp (ms)   symbol    Symbol
    ubyte …    Ubyte …         float       Float            binary    bytes
    double     float           char        Char             list      list
    uuid       uuid.UUID       decimal32…  Decimal32 …      map       dict, or Pairs
    array      Array           described   Described

Source: AMQP 1.0, part 1, "Types".
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final


class Ubyte(int):
    """An unsigned integer of 8 bits."""

    __slots__ = ()


class Ushort(int):
    """An unsigned integer of 16 bits."""

    __slots__ = ()


class Uint(int):
    """An unsigned integer of 32 bits."""

    __slots__ = ()


class Ulong(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class Byte(int):
    """A signed integer of 8 bits."""

    __slots__ = ()


class Short(int):
    """A signed integer of 16 bits."""

    __slots__ = ()


class Int(int):
    """A signed integer of 32 bits. A plain int is a long: one of 64 bits."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970-01-01T00:00:00Z."""

    __slots__ = ()


class Char(int):
    """A Unicode code point."""

    __slots__ = ()


class Float(float):
    """A float of 32 bits. A plain float is a double."""

    __slots__ = ()


class Symbol(str):
    """ASCII text that names something."""

    __slots__ = ()


class Decimal32(bytes):
    """A decimal of 32 bits, as it is encoded."""

    __slots__ = ()


class Decimal64(bytes):
    """A decimal of 64 bits, as it is encoded."""

    __slots__ = ()


class Decimal128(bytes):
    """A decimal of 128 bits, as it is encoded."""

    __slots__ = ()


class EncodedValue(bytes):
    """The encoding of any value, to be written as it is. Never the result of decoding."""

    __slots__ = ()


class Pairs(tuple[tuple[Any, Any], ...]):
    """A map that cannot be a dict, as (key, value) in order.

    Some key is not text, binary, an integer, a boolean, a timestamp, a character or a UUID; or two
    keys are equal in Python (1 and True); or there are over 64 keys, and not all text or binary.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor that says what it means."""

    descriptor: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Array:
    """Values of one type. `code`: its constructor, the widest of the type; NULL: possibly none."""

    code: int
    items: list[Any]
    # Of the type, where it is described; and whether it is.
    descriptor: Any = None
    described: bool = False


# Types of keys in a dict. Python randomises the hashes of these …
_TEXT_KEYS: Final = frozenset((str, Symbol, bytes))
# … but senders can choose these so that many hashes are equal, which takes quadratic time.
_KEYS: Final = _TEXT_KEYS | {
    bool, int, Ubyte, Ushort, Uint, Ulong, Byte, Short, Int, Timestamp, Char, uuid.UUID,
}  # fmt: skip
_CHOSEN_HASHES_MAX: Final = 64


def map_of(pairs: Iterable[tuple[Any, Any]]) -> "dict[Any, Any] | Pairs":
    """Return the map of these keys and values: a dict if its keys let it be one, else Pairs."""
    return map_of_list([each for pair in pairs for each in pair])


def map_of_list(items: Sequence[Any]) -> "dict[Any, Any] | Pairs":
    """Return the map of keys and values in turn, as `map_of` does of pairs."""
    keys = items[::2]
    if _TEXT_KEYS.issuperset(map(type, keys)) or (
        len(keys) <= _CHOSEN_HASHES_MAX and _KEYS.issuperset(map(type, keys))
    ):
        made: dict[Any, Any] = {}
        rest = iter(items)
        for key in rest:
            made[key] = next(rest)
        if len(made) == len(keys):
            return made
    return Pairs(zip(keys, items[1::2], strict=True))


# Format codes, by what follows them. Named as in the specification's table of encodings.
NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
UINT0: Final = 0x43
ULONG0: Final = 0x44
LIST0: Final = 0x45
UBYTE: Final = 0x50
BYTE: Final = 0x51
SMALL_UINT: Final = 0x52
SMALL_ULONG: Final = 0x53
SMALL_INT: Final = 0x54
SMALL_LONG: Final = 0x55
BOOLEAN: Final = 0x56
USHORT: Final = 0x60
SHORT: Final = 0x61
UINT: Final = 0x70
INT: Final = 0x71
FLOAT: Final = 0x72
CHAR: Final = 0x73
DECIMAL32: Final = 0x74
ULONG: Final = 0x80
LONG: Final = 0x81
DOUBLE: Final = 0x82
TIMESTAMP: Final = 0x83
DECIMAL64: Final = 0x84
DECIMAL128: Final = 0x94
UUID: Final = 0x98
BINARY8: Final = 0xA0
STRING8: Final = 0xA1
SYMBOL8: Final = 0xA3
BINARY32: Final = 0xB0
STRING32: Final = 0xB1
SYMBOL32: Final = 0xB3
LIST8: Final = 0xC0
MAP8: Final = 0xC1
LIST32: Final = 0xD0
MAP32: Final = 0xD1
ARRAY8: Final = 0xE0
ARRAY32: Final = 0xF0
# A descriptor and a value follow.
DESCRIBED: Final = 0x00
