"""Python values ↔ values of the wire, with the widths of AMQP's simple types.

What is received reads as azure-servicebus gives it: text as bytes, timestamps as milliseconds,
integers as int. Each is of a subclass here that remembers its type, so that a received value can
be sent on as it came.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Value, ValueList, ValueMap

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


class Text(bytes):
    """Text that was received: its UTF-8 bytes."""

    __slots__ = ()


class Symbol(bytes):
    """A symbol: ASCII text of a limited set."""

    __slots__ = ()


class Char(str):
    """A single code point."""

    __slots__ = ()


class Float32(float):
    """A float of 32 bits."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970-01-01T00:00:00Z."""

    __slots__ = ()


class UByte(int):
    """An unsigned integer of 8 bits."""

    __slots__ = ()


class UShort(int):
    """An unsigned integer of 16 bits."""

    __slots__ = ()


class UInt(int):
    """An unsigned integer of 32 bits."""

    __slots__ = ()


class ULong(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class Byte(int):
    """A signed integer of 8 bits."""

    __slots__ = ()


class Short(int):
    """A signed integer of 16 bits."""

    __slots__ = ()


class Int(int):
    """A signed integer of 32 bits."""

    __slots__ = ()


class ApplicationProperties(dict[Any, Any]):
    """Received properties: keys are bytes, as in the original, but text finds them as well."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_key_bytes(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(_key_bytes(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, given as bytes or text."""
        return super().get(_key_bytes(key), default)


def to_map(properties: Mapping[Any, Any]) -> ValueMap:
    """Return properties for the wire. Raises TypeError or ValueError that names the property."""
    made = ValueMap()
    fill_map(made.entries, properties)
    return made


def fill_map(entries: Any, properties: Mapping[Any, Any], *, nested: bool = False) -> None:
    """Put `properties` into a map field of the wire."""
    for key, value in properties.items():
        name = key.decode() if isinstance(key, bytes) else key
        if not isinstance(name, str):
            raise TypeError(f"application_properties: the key {key!r} is neither str nor bytes.")
        try:
            _set(entries[name], value, nested=nested)
        except (TypeError, ValueError, OverflowError) as exc:
            raise type(exc)(f"application_properties[{name!r}]: {exc}") from None


def to_value(value: Any) -> Value:
    """Return any value, lists and maps included, for the wire."""
    made = Value()
    _set(made, value, nested=True)
    return made


def from_map(entries: Mapping[str, Value]) -> ApplicationProperties:
    """Return received properties as azure-servicebus shows them."""
    made = ApplicationProperties()
    for name, value in entries.items():
        made[name.encode()] = from_value(value)
    return made


def from_value(value: Value) -> Any:
    """Return a received value as azure-servicebus shows it."""
    kind = value.WhichOneof("kind")
    return None if kind is None else _DECODERS[kind](getattr(value, kind))


def plain(value: Any) -> Any:
    """Return a received value as a Python program would have written it: text is str."""
    if isinstance(value, (Text, Symbol)):
        return value.decode()
    if isinstance(value, Timestamp):
        return datetime.fromtimestamp(value / 1_000, UTC)
    if isinstance(value, dict):
        return {plain(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value


def to_milliseconds(moment: datetime) -> int:
    """Return a moment since the epoch; a naive one is UTC, as in azure-servicebus."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000)


def _key_bytes(key: Any) -> Any:
    return key.encode() if isinstance(key, str) else key


def _set(target: Value, value: Any, *, nested: bool) -> None:
    found = _ENCODERS.get(type(value))
    if found is not None:
        field, convert = found
        setattr(target, field, value if convert is None else convert(value))
        return
    if isinstance(value, tuple) and len(value) == 2:
        _set_typed(target, *value)
    elif isinstance(value, dict) and value.keys() == {"TYPE", "VALUE"}:
        _set_typed(target, value["TYPE"], value["VALUE"])
    elif nested and isinstance(value, Mapping):
        target.map_value.SetInParent()
        fill_map(target.map_value.entries, value, nested=True)
    elif nested and isinstance(value, Iterable):
        target.list_value.SetInParent()
        for entry in value:
            _set(target.list_value.values.add(), entry, nested=True)
    else:
        _set_by_base(target, value)


def _set_by_base(target: Value, value: Any) -> None:
    for kind, (field, convert) in _ENCODERS.items():
        if isinstance(value, kind):
            setattr(target, field, value if convert is None else convert(value))
            return
    raise TypeError(f"{type(value).__name__} is none of AMQP's simple types.")


def _set_typed(target: Value, kind: Any, value: Any) -> None:
    field = _TYPED.get(str(getattr(kind, "value", kind)).upper())
    if field is None:
        raise TypeError(f"{kind!r} is no AMQP type.")
    if field == "timestamp_ms_value" and isinstance(value, datetime):
        value = to_milliseconds(value)
    elif field == "uuid_value" and isinstance(value, uuid.UUID):
        value = value.bytes
    elif field == "char_value" and isinstance(value, str):
        value = ord(value)
    limits = _RANGES.get(field)
    if limits is not None and not limits[0] <= value <= limits[1]:
        raise ValueError(f"{value} does not fit into {kind}.")
    setattr(target, field, value)


def _int64(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"{value} does not fit into 64 bits.")
    return value


_TYPED: Final[dict[str, str]] = {
    "NULL": "null_value",
    "BOOL": "bool_value",
    "UBYTE": "ubyte_value",
    "USHORT": "ushort_value",
    "UINT": "uint_value",
    "ULONG": "ulong_value",
    "BYTE": "byte_value",
    "SHORT": "short_value",
    "INT": "int_value",
    "LONG": "long_value",
    "FLOAT": "float_value",
    "DOUBLE": "double_value",
    "CHAR": "char_value",
    "TIMESTAMP": "timestamp_ms_value",
    "UUID": "uuid_value",
    "BINARY": "binary_value",
    "STRING": "string_value",
    "SYMBOL": "symbol_value",
}
_RANGES: Final = {
    "ubyte_value": (0, 2**8 - 1),
    "ushort_value": (0, 2**16 - 1),
    "uint_value": (0, 2**32 - 1),
    "ulong_value": (0, 2**64 - 1),
    "byte_value": (-(2**7), 2**7 - 1),
    "short_value": (-(2**15), 2**15 - 1),
    "int_value": (-(2**31), 2**31 - 1),
    "long_value": (INT64_MIN, INT64_MAX),
}
# Subclasses first: the order matters where a type is not found as it is.
_ENCODERS: Final[dict[type, tuple[str, Callable[[Any], Any] | None]]] = {
    str: ("string_value", None),
    bool: ("bool_value", None),
    Timestamp: ("timestamp_ms_value", None),
    UByte: ("ubyte_value", None),
    UShort: ("ushort_value", None),
    UInt: ("uint_value", None),
    ULong: ("ulong_value", None),
    Byte: ("byte_value", None),
    Short: ("short_value", None),
    Int: ("int_value", None),
    int: ("long_value", _int64),
    Float32: ("float_value", None),
    float: ("double_value", None),
    Text: ("string_value", bytes.decode),
    Symbol: ("symbol_value", bytes.decode),
    Char: ("char_value", ord),
    bytes: ("binary_value", None),
    bytearray: ("binary_value", bytes),
    uuid.UUID: ("uuid_value", lambda value: value.bytes),
    datetime: ("timestamp_ms_value", to_milliseconds),
    type(None): ("null_value", lambda _: True),
}
_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "null_value": lambda _: None,
    "bool_value": bool,
    "ubyte_value": UByte,
    "ushort_value": UShort,
    "uint_value": UInt,
    "ulong_value": ULong,
    "byte_value": Byte,
    "short_value": Short,
    "int_value": Int,
    "long_value": int,
    "float_value": Float32,
    "double_value": float,
    "char_value": lambda value: Char(chr(value)),
    "timestamp_ms_value": Timestamp,
    "uuid_value": lambda value: uuid.UUID(bytes=value),
    "binary_value": bytes,
    "string_value": lambda value: Text(value.encode()),
    "symbol_value": lambda value: Symbol(value.encode()),
    "list_value": lambda value: [from_value(entry) for entry in value.values],
    "map_value": lambda value: from_map(value.entries),
}


def to_sequences(sequences: Iterable[Iterable[Any]]) -> list[ValueList]:
    """Return the sequences of a body for the wire."""
    return [
        message_pb2.ValueList(values=[to_value(entry) for entry in sequence])
        for sequence in sequences
    ]
