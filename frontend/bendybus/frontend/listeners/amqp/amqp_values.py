"""AMQP values ↔ values of the contract. Nothing is lost: what the contract has no field for
travels as its AMQP encoding (`Value.encoded_value`).
"""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from bendybus.amqp import decoding, encoding
from bendybus.amqp.errors import DecodeError
from bendybus.amqp.values import (
    Byte,
    Char,
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
from bendybus.v1.message_pb2 import Value

# Levels of lists and maps that become those of the contract; clients of the contract have the same.
NESTED_MAX: Final = 30


def fill(target: Value, value: Any, nested_max: int = NESTED_MAX) -> None:
    """Set a value of the contract to an AMQP value as it was decoded.

    `nested_max`: how deep lists and maps may be nested before they are encoded; 0: all are.
    """
    kind = type(value)
    field = _FIELDS.get(kind)
    if field is not None:
        setattr(target, field, value)
    elif value is None:
        target.null_value = True
    elif kind is UUID:
        target.uuid_value = value.bytes
    elif kind is list and nested_max:
        target.list_value.SetInParent()
        for item in value:
            fill(target.list_value.values.add(), item, nested_max - 1)
    elif kind is dict and nested_max and all(type(key) is str for key in value):
        target.map_value.SetInParent()
        for key, item in value.items():
            fill(target.map_value.entries[key], item, nested_max - 1)
    else:
        target.encoded_value = encoding.encode(value)


def from_value(value: Value) -> Any:
    """Return a value of the contract as an AMQP value. Never fails.

    A value out of the range of its type, which no client of Bendybus sends, gets a wider type.
    """
    kind = value.WhichOneof("kind")
    if kind is None:
        return None
    found = getattr(value, kind)
    convert = _CONVERT[kind]
    return found if convert is None else convert(found)


def _ranged(
    kind: Callable[[int], int], least: int, most: int, wider: Callable[[int], int]
) -> Callable[[int], int]:
    return lambda value: kind(value) if least <= value <= most else wider(value)


def _character(code: int) -> int:
    # Half of a surrogate pair is none.
    known = code <= decoding.CODE_POINT_MAX and code not in decoding.SURROGATES
    return Char(code) if known else Uint(code)


def symbol_or_text(text: str) -> str:
    """Return a symbol, or a string if a symbol cannot have its characters."""
    return Symbol(text) if text.isascii() else text


def _decoded(encoded: bytes) -> Any:
    try:
        return decoding.decode_whole(encoded)
    except DecodeError:
        return encoded


_FIELDS: Final[dict[type, str]] = {
    str: "string_value",
    bool: "bool_value",
    Int: "int_value",
    int: "long_value",
    float: "double_value",
    Float: "float_value",
    Ubyte: "ubyte_value",
    Ushort: "ushort_value",
    Uint: "uint_value",
    Ulong: "ulong_value",
    Byte: "byte_value",
    Short: "short_value",
    Char: "char_value",
    Timestamp: "timestamp_ms_value",
    bytes: "binary_value",
    Symbol: "symbol_value",
}
_CONVERT: Final[dict[str, Callable[[Any], Any] | None]] = {
    "null_value": lambda _: None,
    "bool_value": None,
    "ubyte_value": _ranged(Ubyte, 0, 2**8 - 1, Uint),
    "ushort_value": _ranged(Ushort, 0, 2**16 - 1, Uint),
    "uint_value": Uint,
    "ulong_value": Ulong,
    "byte_value": _ranged(Byte, -(2**7), 2**7 - 1, Int),
    "short_value": _ranged(Short, -(2**15), 2**15 - 1, Int),
    "int_value": Int,
    "long_value": None,
    "float_value": Float,
    "double_value": None,
    "char_value": _character,
    "timestamp_ms_value": Timestamp,
    "uuid_value": lambda raw: UUID(bytes=raw) if len(raw) == 16 else raw,
    "binary_value": None,
    "string_value": None,
    "symbol_value": symbol_or_text,
    "list_value": lambda value: [from_value(item) for item in value.values],
    "map_value": lambda value: {key: from_value(item) for key, item in value.entries.items()},
    "encoded_value": _decoded,
}
