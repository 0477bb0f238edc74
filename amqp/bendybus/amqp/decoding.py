"""Reads AMQP values from bytes. Raises DecodeError, and nothing else, whatever the bytes are.

    value      constructor data
    described  0x00 descriptor-value value
    list, map  size count item…      size counts the bytes after itself
    array      size count constructor data…

An announced size or count allocates nothing: both must fit the bytes that are present.
"""

import struct
import uuid
from collections.abc import Callable
from typing import Any, Final

from bendybus.amqp import values
from bendybus.amqp.errors import DecodeError
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

# Lists, maps, arrays and described values inside each other.
NESTING_MAX: Final = 64
# Array items without bytes of their own, such as nulls, in a whole message.
EMPTY_ITEMS_MAX: Final = 1_024
# Items of lists, maps and arrays in a whole message: they are what decoding takes time for, up to
# 2 µs each, and while it takes it nothing else is read.
ITEMS_MAX: Final = 200_000
SURROGATES: Final = range(0xD800, 0xE000)
CODE_POINT_MAX: Final = 0x10FFFF

_U16: Final = struct.Struct(">H").unpack_from
_U32: Final = struct.Struct(">I").unpack_from
_U32_U32: Final = struct.Struct(">II").unpack_from
_U64: Final = struct.Struct(">Q").unpack_from
_I8: Final = struct.Struct(">b").unpack_from
_I16: Final = struct.Struct(">h").unpack_from
_I32: Final = struct.Struct(">i").unpack_from
_I64: Final = struct.Struct(">q").unpack_from
_F32: Final = struct.Struct(">f").unpack_from
_F64: Final = struct.Struct(">d").unpack_from

# What is left of the limits: levels of nesting, array items without bytes, items of all kinds.
Limits = list[int]
# Takes bytes, the start of the data, and the limits left; returns the value and its end.
_Reader = Callable[[bytes, int, Limits], tuple[Any, int]]


def limits() -> Limits:
    """Return what one message may use; values that are read with the same share it."""
    return [NESTING_MAX, EMPTY_ITEMS_MAX, ITEMS_MAX]


def decode(data: bytes, at: int = 0, left: Limits | None = None) -> tuple[Any, int]:
    """Return the value that begins at `at`, and where the next one does."""
    try:
        return _READERS[data[at]](data, at + 1, limits() if left is None else left)
    except (IndexError, struct.error):
        raise _too_long(data, at) from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"byte {at}: the value has text that is not {error.encoding}") from None


def decode_whole(data: bytes) -> Any:
    """Return the one value that `data` is."""
    value, end = decode(data)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes follow the value")
    return value


def skip(data: bytes, at: int) -> int:
    """Return where the value that begins at `at` ends, without decoding what is in it."""
    start, values_left = at, 1
    try:
        while values_left:
            code = data[at]
            at += 1
            if code == values.DESCRIBED:
                values_left += 1
                continue
            width = _WIDTHS.get(code >> 4)
            if width is None:
                raise _unknown(code, at - 1)
            if code >= values.BINARY8:
                width += data[at] if width == 1 else _U32(data, at)[0]
            at += width
            values_left -= 1
    except (IndexError, struct.error):
        raise _too_long(data, start) from None
    if at > len(data):
        raise _too_long(data, start)
    return at


# Bytes of data, or of the size before them, by the upper half of a constructor.
_WIDTHS: Final = {
    0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16,
    0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4,
}  # fmt: skip


def _too_long(data: bytes, at: int) -> DecodeError:
    return DecodeError(f"byte {at}: the value is longer than its {len(data)} bytes")


def _too_deep() -> DecodeError:
    return DecodeError(f"values are nested more than {NESTING_MAX} deep")


def _count(items: int, left: Limits) -> None:
    left[2] -= items
    if left[2] < 0:
        raise DecodeError(f"lists, maps and arrays have more than {ITEMS_MAX} items")


def _unknown(code: int, at: int) -> DecodeError:
    return DecodeError(f"byte {at}: 0x{code:02x} is not a constructor")


def _no_constructor(data: bytes, at: int, left: Limits) -> tuple[Any, int]:
    raise _unknown(data[at - 1], at - 1)


def _read(data: bytes, at: int, left: Limits) -> tuple[Any, int]:
    return _READERS[data[at]](data, at + 1, left)


def _boolean(data: bytes, at: int, left: Limits) -> tuple[bool, int]:
    found = data[at]
    if found > 1:
        raise DecodeError(f"byte {at}: a boolean must be 0 or 1 (got {found})")
    return found == 1, at + 1


def _char(data: bytes, at: int, left: Limits) -> tuple[Char, int]:
    found = _U32(data, at)[0]
    if found > CODE_POINT_MAX or found in SURROGATES:
        raise DecodeError(f"byte {at}: 0x{found:x} is not a Unicode character")
    return Char(found), at + 4


def _fixed(
    unpack: Callable[[bytes, int], tuple[Any, ...]], width: int, kind: Callable[[Any], Any]
) -> _Reader:
    def read(data: bytes, at: int, left: Limits) -> tuple[Any, int]:
        return kind(unpack(data, at)[0]), at + width

    def read_as_it_is(data: bytes, at: int, left: Limits) -> tuple[Any, int]:
        return unpack(data, at)[0], at + width

    return read_as_it_is if kind in (int, float) else read


def _raw(kind: Callable[[bytes], Any], width: int) -> _Reader:
    def read(data: bytes, at: int, left: Limits) -> tuple[Any, int]:
        return kind(_slice(data, at, at + width)), at + width

    return read


def _slice(data: bytes, at: int, end: int) -> bytes:
    if end > len(data):
        raise IndexError
    return data[at:end]


def _binary8(data: bytes, at: int, left: Limits) -> tuple[bytes, int]:
    end = at + 1 + data[at]
    return _slice(data, at + 1, end), end


def _binary32(data: bytes, at: int, left: Limits) -> tuple[bytes, int]:
    end = at + 4 + _U32(data, at)[0]
    return _slice(data, at + 4, end), end


def _string8(data: bytes, at: int, left: Limits) -> tuple[str, int]:
    end = at + 1 + data[at]
    return _slice(data, at + 1, end).decode(), end


def _string32(data: bytes, at: int, left: Limits) -> tuple[str, int]:
    end = at + 4 + _U32(data, at)[0]
    return _slice(data, at + 4, end).decode(), end


def _symbol8(data: bytes, at: int, left: Limits) -> tuple[Symbol, int]:
    end = at + 1 + data[at]
    return Symbol(_slice(data, at + 1, end), "ascii"), end


def _symbol32(data: bytes, at: int, left: Limits) -> tuple[Symbol, int]:
    end = at + 4 + _U32(data, at)[0]
    return Symbol(_slice(data, at + 4, end), "ascii"), end


def _items(data: bytes, start: int, end: int, count: int, left: Limits) -> tuple[list[Any], int]:
    """Return the items of a list or map, which are the bytes from `start` to `end`."""
    if not start <= end <= len(data):
        raise IndexError
    if count > end - start:
        raise DecodeError(f"byte {start}: {count} items do not fit into {end - start} bytes")
    if left[0] == 0:
        raise _too_deep()
    left[0] -= 1
    _count(count, left)
    constants, narrow, readers = _CONSTANTS, _NARROW, _READERS
    items: list[Any] = []
    append, at = items.append, start
    for _ in range(count):
        code = data[at]
        item = constants[code]
        # The most frequent types are read inline: a call would cost more than the reading.
        if item is not _VARIES:
            at += 1
        elif (made_of := narrow[code]) is None:
            item, at = readers[code](data, at + 1, left)
        else:
            start = at + 2
            at = start + data[at + 1]
            if at > end:
                raise IndexError
            item = made_of(data[start:at])
        append(item)
    if at != end:
        raise DecodeError(f"byte {at}: the items of a list or map do not end where it does, {end}")
    left[0] += 1
    return items, end


def _list8(data: bytes, at: int, left: Limits) -> tuple[list[Any], int]:
    return _items(data, at + 2, at + 1 + data[at], data[at + 1], left)


def _list32(data: bytes, at: int, left: Limits) -> tuple[list[Any], int]:
    size, count = _U32_U32(data, at)
    return _items(data, at + 8, at + 4 + size, count, left)


def _map8(data: bytes, at: int, left: Limits) -> tuple[Any, int]:
    return _as_map(*_items(data, at + 2, at + 1 + data[at], data[at + 1], left))


def _map32(data: bytes, at: int, left: Limits) -> tuple[Any, int]:
    size, count = _U32_U32(data, at)
    return _as_map(*_items(data, at + 8, at + 4 + size, count, left))


def _as_map(items: list[Any], end: int) -> tuple[Any, int]:
    if len(items) % 2:
        raise DecodeError("a map must have a value for each key")
    return values.map_of_list(items), end


def _array8(data: bytes, at: int, left: Limits) -> tuple[Array, int]:
    return _array(data, at + 2, at + 1 + data[at], data[at + 1], left)


def _array32(data: bytes, at: int, left: Limits) -> tuple[Array, int]:
    size, count = _U32_U32(data, at)
    return _array(data, at + 8, at + 4 + size, count, left)


def _array(data: bytes, start: int, end: int, count: int, left: Limits) -> tuple[Array, int]:
    if not start <= end <= len(data):
        raise IndexError
    if start == end and count == 0:
        # azure-servicebus writes this, against the specification.
        return Array(values.NULL, []), end
    if left[0] == 0:
        raise _too_deep()
    left[0] -= 1
    at, descriptor = start, None
    described = data[at] == values.DESCRIBED
    if described:
        descriptor, at = _read(data, at + 1, left)
        if data[at] == values.DESCRIBED:
            raise DecodeError(f"byte {at}: items of an array have at most one descriptor")
    code = data[at]
    at += 1
    if code >> 4 == values.NULL >> 4:
        left[1] -= count
        if left[1] < 0:
            raise DecodeError(f"arrays have more than {EMPTY_ITEMS_MAX} items without bytes")
    elif count > end - at:
        raise DecodeError(f"byte {start}: {count} items do not fit into {end - at} bytes")
    _count(count, left)
    reader, items = _READERS[code], []
    for _ in range(count):
        item, at = reader(data, at, left)
        items.append(item)
    if at != end:
        raise DecodeError(f"byte {start}: the items take {at - start} bytes, not {end - start}")
    if reader is _no_constructor:
        raise _unknown(code, at - 1)
    left[0] += 1
    return Array(WIDEST.get(code, code), items, descriptor, described), end


_ULONGS: Final[tuple[Any, ...]] = tuple(map(Ulong, range(256)))


def _described(data: bytes, at: int, left: Limits) -> tuple[Described, int]:
    if left[0] == 0:
        raise _too_deep()
    left[0] -= 1
    if data[at] == values.SMALL_ULONG:
        descriptor, at = _ULONGS[data[at + 1]], at + 2
    else:
        descriptor, at = _read(data, at, left)
    value, at = _read(data, at, left)
    left[0] += 1
    return Described(descriptor, value), at


def _constant(value: Any) -> _Reader:
    def read(data: bytes, at: int, left: Limits) -> tuple[Any, int]:
        return value, at

    return read


def _small(numbers: tuple[Any, ...]) -> _Reader:
    def read(data: bytes, at: int, left: Limits) -> tuple[Any, int]:
        return numbers[data[at]], at + 1

    return read


def _empty_list(data: bytes, at: int, left: Limits) -> tuple[list[Any], int]:
    return [], at


# The widest constructor of a type, for the narrower ones of it.
WIDEST: Final = {
    values.TRUE: values.BOOLEAN,
    values.FALSE: values.BOOLEAN,
    values.UINT0: values.UINT,
    values.SMALL_UINT: values.UINT,
    values.ULONG0: values.ULONG,
    values.SMALL_ULONG: values.ULONG,
    values.SMALL_INT: values.INT,
    values.SMALL_LONG: values.LONG,
    values.BINARY8: values.BINARY32,
    values.STRING8: values.STRING32,
    values.SYMBOL8: values.SYMBOL32,
    values.LIST0: values.LIST32,
    values.LIST8: values.LIST32,
    values.MAP8: values.MAP32,
    values.ARRAY8: values.ARRAY32,
}

_BY_CODE: Final[dict[int, _Reader]] = {
    values.DESCRIBED: _described,
    values.NULL: _constant(None),
    values.TRUE: _constant(True),
    values.FALSE: _constant(False),
    values.UINT0: _constant(Uint(0)),
    values.ULONG0: _constant(Ulong(0)),
    values.LIST0: _empty_list,
    values.UBYTE: _small(tuple(map(Ubyte, range(256)))),
    values.BYTE: _fixed(_I8, 1, Byte),
    values.SMALL_UINT: _small(tuple(map(Uint, range(256)))),
    values.SMALL_ULONG: _small(_ULONGS),
    values.SMALL_INT: _fixed(_I8, 1, Int),
    values.SMALL_LONG: _fixed(_I8, 1, int),
    values.BOOLEAN: _boolean,
    values.USHORT: _fixed(_U16, 2, Ushort),
    values.SHORT: _fixed(_I16, 2, Short),
    values.UINT: _fixed(_U32, 4, Uint),
    values.INT: _fixed(_I32, 4, Int),
    values.FLOAT: _fixed(_F32, 4, Float),
    values.CHAR: _char,
    values.DECIMAL32: _raw(Decimal32, 4),
    values.ULONG: _fixed(_U64, 8, Ulong),
    values.LONG: _fixed(_I64, 8, int),
    values.DOUBLE: _fixed(_F64, 8, float),
    values.TIMESTAMP: _fixed(_I64, 8, Timestamp),
    values.DECIMAL64: _raw(Decimal64, 8),
    values.DECIMAL128: _raw(Decimal128, 16),
    values.UUID: _raw(lambda raw: uuid.UUID(bytes=raw), 16),
    values.BINARY8: _binary8,
    values.STRING8: _string8,
    values.SYMBOL8: _symbol8,
    values.BINARY32: _binary32,
    values.STRING32: _string32,
    values.SYMBOL32: _symbol32,
    values.LIST8: _list8,
    values.MAP8: _map8,
    values.LIST32: _list32,
    values.MAP32: _map32,
    values.ARRAY8: _array8,
    values.ARRAY32: _array32,
}
_READERS: Final = tuple(_BY_CODE.get(code, _no_constructor) for code in range(256))
# For constructors that are followed by data, and for lists, which are mutable.
_VARIES: Final = object()
_CONSTANTS: Final[list[Any]] = [_VARIES] * 256
_CONSTANTS[values.NULL] = None
_CONSTANTS[values.TRUE] = True
_CONSTANTS[values.FALSE] = False
_CONSTANTS[values.UINT0] = Uint(0)
_CONSTANTS[values.ULONG0] = Ulong(0)
# What makes a value of data with a size of one byte before it.
_NARROW: Final[list[Callable[[bytes], Any] | None]] = [None] * 256
_NARROW[values.BINARY8] = bytes
_NARROW[values.STRING8] = bytes.decode
_NARROW[values.SYMBOL8] = lambda data: Symbol(data, "ascii")
