"""Writes AMQP values as bytes, in the shortest encoding of their type."""

import struct
import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from bendybus.amqp import decoding, values
from bendybus.amqp.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    EncodedValue,
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

_Writer = Callable[[Any, bytearray], None]
_Packer = Callable[..., bytes]
_U8_U32: Final[_Packer] = struct.Struct(">BI").pack
_U8_U64: Final[_Packer] = struct.Struct(">BQ").pack
_U8_I64: Final[_Packer] = struct.Struct(">Bq").pack
_U8_I32: Final[_Packer] = struct.Struct(">Bi").pack
_U8_I8: Final[_Packer] = struct.Struct(">Bb").pack
_WIDE: Final[_Packer] = struct.Struct(">BII").pack
_U32: Final[_Packer] = struct.Struct(">I").pack
_U32_U32: Final[_Packer] = struct.Struct(">II").pack


def encode(value: Any) -> bytes:
    """Return the encoding of a value. Raises TypeError, or ValueError if it is out of range."""
    out = bytearray()
    write(value, out)
    return bytes(out)


def write(value: Any, out: bytearray) -> None:
    """Append the encoding of a value. Raises TypeError, or ValueError if it is out of range."""
    try:
        _WRITERS[type(value)](value, out)
    except KeyError as error:
        raise TypeError(f"AMQP has no type for {error.args[0].__name__}") from None
    except (struct.error, OverflowError) as error:
        raise ValueError(f"{value!r:.80} is out of range: {error}") from None
    except RecursionError:
        raise ValueError("the value is nested too deep") from None


def write_list(items: Iterable[Any], out: bytearray) -> None:
    """Append a list."""
    _list(list(items), out)


def _compound(narrow: int, wide: int, body: bytes | bytearray, count: int, out: bytearray) -> None:
    size = len(body)
    if size < 255 and count < 256:
        out += bytes((narrow, size + 1, count))
    else:
        out += _WIDE(wide, size + 4, count)
    out += body


def _list(items: list[Any], out: bytearray) -> None:
    if not items:
        out.append(values.LIST0)
        return
    body, writers = bytearray(), _WRITERS
    for item in items:
        writers[type(item)](item, body)
    _compound(values.LIST8, values.LIST32, body, len(items), out)


def _map(entries: dict[Any, Any], out: bytearray) -> None:
    _pairs(entries.items(), out)


def _pairs(pairs: Collection[tuple[Any, Any]], out: bytearray) -> None:
    body, writers = bytearray(), _WRITERS
    for key, value in pairs:
        writers[type(key)](key, body)
        writers[type(value)](value, body)
    _compound(values.MAP8, values.MAP32, body, 2 * len(pairs), out)


def _array(array: Array, out: bytearray) -> None:
    body = bytearray()
    if array.described:
        body.append(values.DESCRIBED)
        _WRITERS[type(array.descriptor)](array.descriptor, body)
    body.append(array.code)
    data = _ARRAY_DATA.get(array.code)
    if data is None:
        raise ValueError(f"0x{array.code:02x} is not a constructor of items of an array")
    kinds, write_item = data
    for item in array.items:
        if type(item) not in kinds:
            raise TypeError(f"{item!r:.80} is not an item of an array of 0x{array.code:02x}")
        write_item(item, body)
    _compound(values.ARRAY8, values.ARRAY32, body, len(array.items), out)


def _described(described: Described, out: bytearray) -> None:
    out.append(values.DESCRIBED)
    descriptor, value = described.descriptor, described.value
    _WRITERS[type(descriptor)](descriptor, out)
    _WRITERS[type(value)](value, out)


def _encoded(value: EncodedValue, out: bytearray) -> None:
    out += value


def _null(_: None, out: bytearray) -> None:
    out.append(values.NULL)


def _boolean(value: bool, out: bytearray) -> None:
    out.append(values.TRUE if value else values.FALSE)


def _uint(value: int, out: bytearray) -> None:
    if 0 <= value < 256:
        out += _UINTS[value]
    else:
        out += _U8_U32(values.UINT, value)


def _ulong(value: int, out: bytearray) -> None:
    if 0 <= value < 256:
        out += _ULONGS[value]
    else:
        out += _U8_U64(values.ULONG, value)


def _int(value: int, out: bytearray) -> None:
    if -128 <= value < 128:
        out += _INTS[value]
    else:
        out += _U8_I32(values.INT, value)


def _long(value: int, out: bytearray) -> None:
    if -128 <= value < 128:
        out += _LONGS[value]
    else:
        out += _U8_I64(values.LONG, value)


def _narrow(code: int) -> list[bytes]:
    """Return a constructor with each byte after it."""
    return [bytes((code, byte)) for byte in range(256)]


_UINTS: Final = [bytes((values.UINT0,)), *_narrow(values.SMALL_UINT)[1:]]
_ULONGS: Final = [bytes((values.ULONG0,)), *_narrow(values.SMALL_ULONG)[1:]]
# Of negative numbers, the last of these.
_INTS: Final = _narrow(values.SMALL_INT)
_LONGS: Final = _narrow(values.SMALL_LONG)
# With the size of what follows.
_BINARIES: Final = _narrow(values.BINARY8)
_STRINGS: Final = _narrow(values.STRING8)
_SYMBOLS: Final = _narrow(values.SYMBOL8)


def _fixed(code: int, form: str) -> _Writer:
    pack = struct.Struct(f">B{form}").pack

    def write_fixed(value: Any, out: bytearray) -> None:
        out += pack(code, value)

    return write_fixed


def _raw(code: int, width: int) -> _Writer:
    def write_raw(value: bytes, out: bytearray) -> None:
        _check_width(value, width)
        out.append(code)
        out += value

    return write_raw


def _check_width(value: bytes, width: int) -> None:
    if len(value) != width:
        raise ValueError(f"{value!r} must have {width} bytes")


def _char(value: int, out: bytearray) -> None:
    out.append(values.CHAR)
    _char_data(value, out)


def _uuid(value: uuid.UUID, out: bytearray) -> None:
    out.append(values.UUID)
    out += value.bytes


def _variable(narrow: list[bytes], wide: int, data: bytes, out: bytearray) -> None:
    size = len(data)
    out += narrow[size] if size < 256 else _U8_U32(wide, size)
    out += data


def _binary(value: bytes, out: bytearray) -> None:
    _variable(_BINARIES, values.BINARY32, value, out)


def _string(value: str, out: bytearray) -> None:
    _variable(_STRINGS, values.STRING32, value.encode(), out)


def _symbol(value: str, out: bytearray) -> None:
    _variable(_SYMBOLS, values.SYMBOL32, value.encode("ascii"), out)


_WRITERS: Final[dict[type, _Writer]] = {
    type(None): _null,
    bool: _boolean,
    Ubyte: _fixed(values.UBYTE, "B"),
    Ushort: _fixed(values.USHORT, "H"),
    Uint: _uint,
    Ulong: _ulong,
    Byte: _fixed(values.BYTE, "b"),
    Short: _fixed(values.SHORT, "h"),
    Int: _int,
    int: _long,
    Timestamp: _fixed(values.TIMESTAMP, "q"),
    Char: _char,
    Float: _fixed(values.FLOAT, "f"),
    float: _fixed(values.DOUBLE, "d"),
    Decimal32: _raw(values.DECIMAL32, 4),
    Decimal64: _raw(values.DECIMAL64, 8),
    Decimal128: _raw(values.DECIMAL128, 16),
    uuid.UUID: _uuid,
    bytes: _binary,
    str: _string,
    Symbol: _symbol,
    list: _list,
    dict: _map,
    Pairs: _pairs,
    Array: _array,
    Described: _described,
    EncodedValue: _encoded,
}


# Data of items of an array: without a constructor of their own, always in the widest form.


def _data(form: str) -> _Writer:
    pack = struct.Struct(f">{form}").pack

    def write_data(value: Any, out: bytearray) -> None:
        out += pack(value)

    return write_data


def _char_data(value: int, out: bytearray) -> None:
    if not 0 <= value <= decoding.CODE_POINT_MAX or value in decoding.SURROGATES:
        raise ValueError(f"0x{value:x} is not a Unicode character")
    out += _U32(value)


def _no_data(_: Any, out: bytearray) -> None:
    pass


def _raw_data(width: int) -> _Writer:
    def write_raw(value: bytes, out: bytearray) -> None:
        _check_width(value, width)
        out += value

    return write_raw


def _binary_data(value: bytes, out: bytearray) -> None:
    out += _U32(len(value))
    out += value


def _wide_data(writer: _Writer) -> _Writer:
    """Return the writer of a compound item, in its wide form."""

    def write_wide(value: Any, out: bytearray) -> None:
        made = bytearray()
        writer(value, made)
        code = made[0]
        if code == values.LIST0:
            out += _U32_U32(4, 0)
        elif code in (values.LIST8, values.MAP8, values.ARRAY8):
            out += _U32_U32(made[1] + 3, made[2])
            out += made[3:]
        else:
            out += made[1:]

    return write_wide


# By constructor: the types of items, and what writes one.
_ARRAY_DATA: Final[dict[int, tuple[tuple[type, ...], _Writer]]] = {
    values.NULL: ((type(None),), _no_data),
    values.BOOLEAN: ((bool,), _data("?")),
    values.UBYTE: ((Ubyte, int), _data("B")),
    values.USHORT: ((Ushort, int), _data("H")),
    values.UINT: ((Uint, int), _data("I")),
    values.ULONG: ((Ulong, int), _data("Q")),
    values.BYTE: ((Byte, int), _data("b")),
    values.SHORT: ((Short, int), _data("h")),
    values.INT: ((Int, int), _data("i")),
    values.LONG: ((int,), _data("q")),
    values.FLOAT: ((Float, float), _data("f")),
    values.DOUBLE: ((float,), _data("d")),
    values.CHAR: ((Char, int), _char_data),
    values.TIMESTAMP: ((Timestamp, int), _data("q")),
    values.DECIMAL32: ((Decimal32,), _raw_data(4)),
    values.DECIMAL64: ((Decimal64,), _raw_data(8)),
    values.DECIMAL128: ((Decimal128,), _raw_data(16)),
    values.UUID: ((uuid.UUID,), lambda value, out: out.extend(value.bytes)),
    values.BINARY32: ((bytes,), _binary_data),
    values.STRING32: ((str,), lambda value, out: _binary_data(value.encode(), out)),
    values.SYMBOL32: ((Symbol, str), lambda value, out: _binary_data(value.encode("ascii"), out)),
    values.LIST32: ((list,), _wide_data(_list)),
    values.MAP32: (
        (dict, Pairs),
        _wide_data(lambda value, out: (_pairs if type(value) is Pairs else _map)(value, out)),
    ),
    values.ARRAY32: ((Array,), _wide_data(_array)),
}
