"""AMQP values ↔ JSON. Pure.

Text, whole numbers, floats, booleans, lists and maps are what they are in JSON. Every other type is
an object of two keys, `{"TYPE": "UUID", "VALUE": "…"}`, as the client takes it in a property:

    BINARY             base64
    UUID               its text
    TIMESTAMP          milliseconds since 1970-01-01T00:00:00Z
    UBYTE … INT        a whole number; ULONG too
    FLOAT, DOUBLE      a number, the first of 32 bits; or the text NaN, Infinity or -Infinity, which
                       JSON does not have (NaN is one value: its sign and payload are not kept)
    CHAR, SYMBOL       text
    ENCODED            base64: the AMQP encoding of what only AMQP has, such as an array
    MAP                an object: a map that has these two keys itself
"""

import base64
import binascii
import math
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bendybus.client.messages import values

_WIDTHS: Final = (
    values.UByte,
    values.UShort,
    values.UInt,
    values.ULong,
    values.Byte,
    values.Short,
    values.Int,
)


_TYPED: Final = {"TYPE", "VALUE"}
_NAMES: Final = values.TYPE_NAMES | {"ENCODED", "MAP"}
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class LongInteger:
    """An integer of more digits than Python reads: no value of AMQP."""

    digits: str

    def __repr__(self) -> str:
        return f"{self.digits[:20]}… ({len(self.digits)} digits)"


def to_json(value: Any) -> Any:
    """Return a received value as JSON has it."""
    if isinstance(value, values.Text):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        entries = {key_text(key): to_json(entry) for key, entry in value.items()}
        return {"TYPE": "MAP", "VALUE": entries} if entries.keys() == _TYPED else entries
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    for kind, name, convert in _TYPES:
        if isinstance(value, kind):
            return {"TYPE": name, "VALUE": convert(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"TYPE": "DOUBLE", "VALUE": _number(value)}
    return value


def key_text(key: Any) -> str:
    """Return the key of a property or a map as text; received ones are bytes."""
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)


def properties_to_json(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return received properties, annotations or a footer: an object, whatever their names are."""
    return {key_text(key): to_json(entry) for key, entry in given.items()}


def from_json(value: Any, depth: int = 1) -> Any:
    """Return the value to send. Raises ValueError for an invalid one."""
    if isinstance(value, dict | list) and depth > values.NESTED_MAX:
        raise ValueError(f"lists and maps must be nested at most {values.NESTED_MAX} deep")
    if isinstance(value, dict):
        if value.keys() != _TYPED:
            return _map(value, depth)
        return _typed(str(value["TYPE"]).upper(), value["VALUE"], depth)
    if isinstance(value, list):
        return [from_json(entry, depth + 1) for entry in value]
    if isinstance(value, LongInteger):
        raise ValueError(f"{value!r} does not fit into 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        name = _number(value)
        raise ValueError(
            f"{name} is no number of JSON, or too large for one of 64 bits; "
            f'for {name} itself write {{"TYPE": "DOUBLE", "VALUE": "{name}"}}'
        )
    return value


def _map(value: Mapping[str, Any], depth: int) -> values.Map:
    # Not a dict: the client would take one with the keys TYPE and VALUE for a typed value.
    return values.Map((key, from_json(entry, depth + 1)) for key, entry in value.items())


def _typed(name: str, value: Any, depth: int) -> Any:
    if name == "MAP":
        if not isinstance(value, dict):
            raise ValueError(f"invalid MAP: {value!r:.100}")
        return _map(value, depth)
    if name not in _NAMES:
        raise ValueError(
            f"{name[:20]!r} is no TYPE; known: {', '.join(sorted(_NAMES))}; a map that has the "
            'keys TYPE and VALUE itself is {"TYPE": "MAP", "VALUE": {"TYPE": …, "VALUE": …}}'
        )
    if name in ("FLOAT", "DOUBLE"):
        return (name, _typed_number(name, value))
    try:
        if name == "BINARY":
            return base64.b64decode(value, validate=True)
        if name == "ENCODED":
            return values.Encoded(base64.b64decode(value, validate=True))
        if name == "UUID":
            return uuid.UUID(value)
    except (ValueError, TypeError, AttributeError, binascii.Error):
        raise ValueError(f"invalid {name}: {value!r:.100}") from None
    return (name, value if isinstance(value, dict | list) else from_json(value))


def _typed_number(name: str, value: Any) -> Any:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    try:
        # A number that does not fit would become infinite.
        struct.pack("<f" if name == "FLOAT" else "<d", value)
        if math.isfinite(value):
            return value
    except (struct.error, OverflowError):
        pass
    raise ValueError(f"invalid {name}: {value!r:.100}")


def _number(value: float) -> float | str:
    """Return a number as JSON has it, or the name of one that it has not."""
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


# The order matters: subclasses of int, str and bytes before what they are.
_TYPES: Final[tuple[tuple[type, str, Callable[[Any], Any]], ...]] = (
    (values.Timestamp, "TIMESTAMP", int),
    *((kind, kind.__name__.upper(), int) for kind in _WIDTHS),
    (values.Float32, "FLOAT", _number),
    (values.Char, "CHAR", str),
    (values.Symbol, "SYMBOL", key_text),
    (uuid.UUID, "UUID", str),
    (datetime, "TIMESTAMP", values.to_milliseconds),
    (values.Encoded, "ENCODED", _base64),
    (bytes, "BINARY", _base64),
)
