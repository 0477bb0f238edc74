"""Python values ↔ values of the contract, with the widths of AMQP's simple types.

Received values have the types of azure-servicebus: text is bytes, timestamps are milliseconds,
integers are int. Each is of a subclass that keeps its AMQP type, so that a received value is sent
again unchanged.
"""

import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from bendybus.client import arguments
from bendybus.client.exceptions import InvalidArgumentError
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Value, ValueList, ValueMap

APPLICATION_PROPERTIES: Final = "application_properties"
# Of lists and maps: protobuf reads messages nested at most 100 deep, and a map takes three levels.
NESTED_MAX: Final = 30
# The last millisecond of the year 9999.
_LAST_MS: Final = 253_402_300_799_999
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


class Encoded(bytes):
    """A value that only AMQP has, such as an array or a decimal: its AMQP encoding."""

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


class Map(dict[Any, Any]):
    """A map whatever its keys are; a plain dict with the keys TYPE and VALUE is a typed value."""


class ApplicationProperties(dict[Any, Any]):
    """Received properties: keys are bytes, as in the original, but text finds them as well."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_key_bytes(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_key_bytes(key), value)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(_key_bytes(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(_key_bytes(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, given as bytes or text."""
        return super().get(_key_bytes(key), default)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a key, given as bytes or text, and return its value or `default`."""
        return super().pop(_key_bytes(key), *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, given as bytes or text; `default` becomes it if missing."""
        return super().setdefault(_key_bytes(key), default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several keys, given as bytes or text."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    # mypy: wider than dict.__or__, which takes a dict only.
    def __ior__(self, other: Any) -> "ApplicationProperties":  # type: ignore[misc]
        self.update(other)
        return self


def to_map(properties: Mapping[Any, Any], what: str = APPLICATION_PROPERTIES) -> ValueMap:
    """Return properties as a ValueMap. Raises TypeError or ValueError that names the property."""
    if not isinstance(properties, Mapping):
        raise TypeError(f"{what}: must be a dict (got {type(properties).__name__})")
    made = ValueMap()
    fill_map(made.entries, properties, what)
    return made


def fill_map(
    entries: Mapping[str, Value],
    properties: Mapping[Any, Any],
    what: str = APPLICATION_PROPERTIES,
    *,
    nested: int = 0,
) -> None:
    """Put `properties` into a map field. `nested`: lists and maps are allowed as values."""
    for key, value in properties.items():
        name = _key_text(key, what)
        _set_named(entries[name], value, f"{what}[{name!r}]", nested)


def to_value(value: Any) -> Value:
    """Return a value of a body, lists and maps included, as a Value."""
    made = Value()
    try:
        _set_named(made, value, "body", 1)
    except _Named as exc:
        raise TypeError(str(exc)) from None
    return made


def from_map(entries: Mapping[str, Value]) -> ApplicationProperties:
    """Return received properties with the types of azure-servicebus."""
    made = ApplicationProperties()
    for name, value in entries.items():
        made[name.encode()] = from_value(value)
    return made


def from_value(value: Value) -> Any:
    """Return a received value with the type of azure-servicebus."""
    kind = value.WhichOneof("kind")
    return None if kind is None else _DECODERS[kind](getattr(value, kind))


def plain(value: Any) -> Any:
    """Return a received value with the type that a Python program sends: text is str."""
    if isinstance(value, (Text, Symbol)):
        return value.decode()
    if isinstance(value, Timestamp):
        return _plain_moment(value)
    if isinstance(value, dict):
        return {plain(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value


def _plain_moment(value: Timestamp) -> datetime | int:
    try:
        return datetime.fromtimestamp(value / 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return int(value)


def to_milliseconds(moment: datetime) -> int:
    """Return milliseconds since the epoch; a naive datetime is UTC, as in azure-servicebus."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    # The last moment that there is would be rounded to one that is not.
    return min(round(aware.timestamp() * 1_000), _LAST_MS)


def _key_bytes(key: object) -> object:
    return key.encode() if isinstance(key, str) else key


def _key_text(key: object, what: str) -> str:
    if isinstance(key, bytes):
        try:
            return key.decode()
        except UnicodeDecodeError:
            raise arguments.invalid(what, f"a key must be UTF-8 text (got {key!r})") from None
    if not isinstance(key, str):
        raise TypeError(f"{what}: a key must be str or bytes (got {type(key).__name__})")
    return arguments.text(f"{what}: a key", key)


def _set_named(target: Value, value: Any, what: str, nested: int) -> None:
    """Set a value; errors name `what`."""
    try:
        _set(target, value, what, nested=nested)
    except InvalidArgumentError:
        raise
    except _Named as exc:
        if nested:
            raise
        raise TypeError(str(exc)) from None
    except UnicodeError:
        raise arguments.invalid(what, f"must be valid Unicode (got {ascii(value)[:100]})") from None
    except TypeError as exc:
        raise (_Named if nested else TypeError)(f"{what}: {exc}") from None
    except (ValueError, OverflowError) as exc:
        raise arguments.invalid(what, str(exc)) from None


def _set(target: Value, value: Any, what: str, *, nested: int) -> None:
    found = _ENCODERS.get(type(value))
    if found is not None:
        field, convert = found
        setattr(target, field, value if convert is None else convert(value))
        return
    if (
        isinstance(value, tuple)
        and len(value) == 2
        and (not nested or _type_name(value[0]) in _TYPED)
    ):
        _set_typed(target, *value)
    elif (
        isinstance(value, dict) and not isinstance(value, Map) and value.keys() == {"TYPE", "VALUE"}
    ):
        _set_typed(target, value["TYPE"], value["VALUE"])
    elif nested > NESTED_MAX and isinstance(value, Iterable):
        raise ValueError(f"lists and maps must be nested at most {NESTED_MAX} deep")
    elif nested and isinstance(value, Mapping):
        target.map_value.SetInParent()
        fill_map(target.map_value.entries, value, what, nested=nested + 1)
    elif nested and isinstance(value, Iterable) and not isinstance(value, _SIMPLE):
        target.list_value.SetInParent()
        for entry in value:
            _set_named(target.list_value.values.add(), entry, what, nested + 1)
    else:
        _set_by_base(target, value)


class _Named(TypeError):
    """Raised with a message that names the value already."""


def _set_by_base(target: Value, value: Any) -> None:
    for kind, (field, convert) in _ENCODERS.items():
        if isinstance(value, kind):
            setattr(target, field, value if convert is None else convert(value))
            return
    raise TypeError(f"must be one of AMQP's simple types (got {type(value).__name__})")


def _type_name(kind: object) -> str:
    return str(getattr(kind, "value", kind)).upper()


def _set_typed(target: Value, kind: object, value: Any) -> None:
    name = _type_name(kind)
    field = _TYPED.get(name)
    if field is None:
        raise TypeError(f"must be an AMQP type with a value (got {kind!r})")
    try:
        setattr(target, field, _of_type(name, field, value))
    except (AttributeError, TypeError):
        raise TypeError(f"must be a value of AMQP's type {name} (got {value!r:.100})") from None


def _of_type(name: str, field: str, value: Any) -> Any:
    """Return the form in which the contract carries a value of a type."""
    if field == "timestamp_ms_value" and isinstance(value, datetime):
        value = to_milliseconds(value)
    elif field == "uuid_value":
        value = uuid.UUID(bytes=value).bytes if isinstance(value, bytes) else value.bytes
    elif field == "char_value" and isinstance(value, str):
        value = ord(value)
    elif field == "null_value":
        value = True
    elif field == "symbol_value" and isinstance(value, bytes):
        value = value.decode()
    limits = _RANGES.get(field)
    if limits is not None and not limits[0] <= value <= limits[1]:
        raise ValueError(f"{value} does not fit into {name}")
    return value


def _int64(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"{value} does not fit into 64 bits")
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
TYPE_NAMES: Final = frozenset(_TYPED)
_RANGES: Final = {
    "ubyte_value": (0, 2**8 - 1),
    "ushort_value": (0, 2**16 - 1),
    "uint_value": (0, 2**32 - 1),
    "ulong_value": (0, 2**64 - 1),
    "byte_value": (-(2**7), 2**7 - 1),
    "short_value": (-(2**15), 2**15 - 1),
    "int_value": (-(2**31), 2**31 - 1),
    "long_value": (INT64_MIN, INT64_MAX),
    "timestamp_ms_value": (INT64_MIN, INT64_MAX),
    "char_value": (0, sys.maxunicode),
}
# Iterable, but single values.
_SIMPLE: Final = (str, bytes, bytearray)
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
    Encoded: ("encoded_value", None),
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
    # No client of Bendybus sends this; the raw value keeps the message readable.
    "char_value": lambda value: Char(chr(value)) if value <= sys.maxunicode else value,
    "timestamp_ms_value": Timestamp,
    "uuid_value": lambda value: uuid.UUID(bytes=value) if len(value) == 16 else value,
    "binary_value": bytes,
    "string_value": lambda value: Text(value.encode()),
    "symbol_value": lambda value: Symbol(value.encode()),
    "list_value": lambda value: [from_value(entry) for entry in value.values],
    "map_value": lambda value: from_map(value.entries),
    "encoded_value": Encoded,
}


def to_sequences(sequences: Iterable[Iterable[Any]]) -> list[ValueList]:
    """Return the sequences of a body as ValueLists."""
    return [
        message_pb2.ValueList(values=[to_value(entry) for entry in sequence])
        for sequence in sequences
    ]
