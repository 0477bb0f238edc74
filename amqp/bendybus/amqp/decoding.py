"""Reads AMQP values from bytes. Raises DecodeError, and nothing else, whatever the bytes are.

    value      constructor data
    described  0x00 descriptor-value value
    list, map  size count item…      size counts the bytes after itself
    array      size count constructor data…

Nothing is allocated by an announced size or count: both must fit what is there.
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
# Items that take no bytes, such as nulls in an array.
EMPTY_ITEMS_MAX: Final = 65_536

_U16: Final = struct.Struct(">H").unpack_from
_U32: Final = struct.Struct(">I").unpack_from
_U64: Final = struct.Struct(">Q").unpack_from
_I8: Final = struct.Struct(">b").unpack_from
_I16: Final = struct.Struct(">h").unpack_from
_I32: Final = struct.Struct(">i").unpack_from
_I64: Final = struct.Struct(">q").unpack_from
_F32: Final = struct.Struct(">f").unpack_from
_F64: Final = struct.Struct(">d").unpack_from

# Takes bytes, where its data begins, and how deep it is nested; returns the value, and its end.
_Reader = Callable[[bytes, int, int], tuple[Any, int]]


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Return the value that begins at `at`, and where the next one does."""
    try:
        return _READERS[data[at]](data, at + 1, 0)
    except KeyError as error:
        raise DecodeError(f"byte {at}: 0x{error.args[0]:02x} is not a constructor") from None
    except (IndexError, struct.error):
        raise DecodeError(f"byte {at}: the value is longer than its {len(data)} bytes") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"byte {at}: text is not {error.encoding}") from None


def decode_whole(data: bytes) -> Any:
    """Return the one value that `data` is."""
    value, end = decode(data)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes follow the value")
    return value


def skip(data: bytes, at: int) -> int:
    """Return where the value that begins at `at` ends, without decoding what is in it."""
    try:
        return _skipped(data, at, 0)
    except (IndexError, struct.error):
        raise DecodeError(f"byte {at}: the value is longer than its {len(data)} bytes") from None


def _skipped(data: bytes, at: int, depth: int) -> int:
    code = data[at]
    if code == values.DESCRIBED:
        if depth >= NESTING_MAX:
            raise _too_deep()
        return _skipped(data, _skipped(data, at + 1, depth + 1), depth + 1)
    width = code >> 4
    if width in _FIXED_WIDTHS:
        end = at + 1 + _FIXED_WIDTHS[width]
    elif width & 1 == 0:
        end = at + 2 + data[at + 1]
    else:
        end = at + 5 + _U32(data, at + 1)[0]
    if (width not in _FIXED_WIDTHS and width < 0xA) or end > len(data):
        raise IndexError
    return end


# By the upper half of a constructor.
_FIXED_WIDTHS: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}


def _too_deep() -> DecodeError:
    return DecodeError(f"values are nested more than {NESTING_MAX} deep")


def _read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    return _READERS[data[at]](data, at + 1, depth)


def _boolean(data: bytes, at: int, depth: int) -> tuple[bool, int]:
    found = data[at]
    if found > 1:
        raise DecodeError(f"byte {at}: a boolean is 0 or 1")
    return found == 1, at + 1


def _fixed(
    unpack: Callable[[bytes, int], tuple[Any, ...]], width: int, kind: Callable[[Any], Any]
) -> _Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        return kind(unpack(data, at)[0]), at + width

    return read


def _raw(kind: Callable[[bytes], Any], width: int) -> _Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        return kind(_slice(data, at, at + width)), at + width

    return read


def _slice(data: bytes, at: int, end: int) -> bytes:
    if end > len(data):
        raise IndexError
    return data[at:end]


def _binary8(data: bytes, at: int, depth: int) -> tuple[bytes, int]:
    end = at + 1 + data[at]
    return _slice(data, at + 1, end), end


def _binary32(data: bytes, at: int, depth: int) -> tuple[bytes, int]:
    end = at + 4 + _U32(data, at)[0]
    return _slice(data, at + 4, end), end


def _string8(data: bytes, at: int, depth: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    return _slice(data, at + 1, end).decode(), end


def _string32(data: bytes, at: int, depth: int) -> tuple[str, int]:
    end = at + 4 + _U32(data, at)[0]
    return _slice(data, at + 4, end).decode(), end


def _symbol8(data: bytes, at: int, depth: int) -> tuple[Symbol, int]:
    end = at + 1 + data[at]
    return Symbol(_slice(data, at + 1, end).decode("ascii")), end


def _symbol32(data: bytes, at: int, depth: int) -> tuple[Symbol, int]:
    end = at + 4 + _U32(data, at)[0]
    return Symbol(_slice(data, at + 4, end).decode("ascii")), end


def _body(data: bytes, at: int, wide: bool) -> tuple[int, int, int]:
    """Return where the items of a list, map or array begin, their end, and how many there are."""
    if wide:
        end, count, start = at + 4 + _U32(data, at)[0], _U32(data, at + 4)[0], at + 8
    else:
        end, count, start = at + 1 + data[at], data[at + 1], at + 2
    if end > len(data) or start > end:
        raise IndexError
    return start, end, count


def _items(data: bytes, at: int, wide: bool, depth: int) -> tuple[list[Any], int]:
    start, end, count = _body(data, at, wide)
    if depth >= NESTING_MAX:
        raise _too_deep()
    if count > end - start:
        raise DecodeError(f"byte {at}: {count} items do not fit into {end - start} bytes")
    readers, items, depth = _READERS, [], depth + 1
    at = start
    for _ in range(count):
        item, at = readers[data[at]](data, at + 1, depth)
        items.append(item)
    if at != end:
        raise DecodeError(f"byte {start}: the items take {at - start} bytes, not {end - start}")
    return items, end


def _list8(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    return _items(data, at, False, depth)


def _list32(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    return _items(data, at, True, depth)


def _map8(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    return _as_map(*_items(data, at, False, depth))


def _map32(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    return _as_map(*_items(data, at, True, depth))


def _as_map(items: list[Any], end: int) -> tuple[Any, int]:
    if len(items) % 2:
        raise DecodeError("a map must have a value for each key")
    return values.map_of(zip(items[::2], items[1::2], strict=True)), end


def _array8(data: bytes, at: int, depth: int) -> tuple[Array, int]:
    return _array(data, at, False, depth)


def _array32(data: bytes, at: int, depth: int) -> tuple[Array, int]:
    return _array(data, at, True, depth)


def _array(data: bytes, at: int, wide: bool, depth: int) -> tuple[Array, int]:
    start, end, count = _body(data, at, wide)
    if depth >= NESTING_MAX:
        raise _too_deep()
    at, descriptor = start, None
    described = data[at] == values.DESCRIBED
    if described:
        descriptor, at = _read(data, at + 1, depth + 1)
        if data[at] == values.DESCRIBED:
            raise DecodeError(f"byte {at}: items of an array have at most one descriptor")
    code = data[at]
    at += 1
    if (
        code == values.NULL
        or code in (values.TRUE, values.FALSE, values.UINT0)
        or code in (values.ULONG0, values.LIST0)
    ):
        most = EMPTY_ITEMS_MAX
    else:
        most = end - at
    if count > most:
        raise DecodeError(f"byte {start}: {count} items do not fit into {end - at} bytes")
    reader, items = _READERS[code], []
    for _ in range(count):
        item, at = reader(data, at, depth + 1)
        items.append(item)
    if at != end:
        raise DecodeError(f"byte {start}: the items take {at - start} bytes, not {end - start}")
    return Array(WIDEST.get(code, code), items, descriptor, described), end


def _described(data: bytes, at: int, depth: int) -> tuple[Described, int]:
    if depth >= NESTING_MAX:
        raise _too_deep()
    descriptor, at = _read(data, at, depth + 1)
    value, at = _read(data, at, depth + 1)
    return Described(descriptor, value), at


def _constant(value: Any) -> _Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        return value, at

    return read


def _u8(kind: Callable[[int], Any]) -> _Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        return kind(data[at]), at + 1

    return read


def _empty_list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
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

_READERS: Final[dict[int, _Reader]] = {
    values.DESCRIBED: _described,
    values.NULL: _constant(None),
    values.TRUE: _constant(True),
    values.FALSE: _constant(False),
    values.UINT0: _constant(Uint(0)),
    values.ULONG0: _constant(Ulong(0)),
    values.LIST0: _empty_list,
    values.UBYTE: _u8(Ubyte),
    values.BYTE: _fixed(_I8, 1, Byte),
    values.SMALL_UINT: _u8(Uint),
    values.SMALL_ULONG: _u8(Ulong),
    values.SMALL_INT: _fixed(_I8, 1, Int),
    values.SMALL_LONG: _fixed(_I8, 1, int),
    values.BOOLEAN: _boolean,
    values.USHORT: _fixed(_U16, 2, Ushort),
    values.SHORT: _fixed(_I16, 2, Short),
    values.UINT: _fixed(_U32, 4, Uint),
    values.INT: _fixed(_I32, 4, Int),
    values.FLOAT: _fixed(_F32, 4, Float),
    values.CHAR: _fixed(_U32, 4, Char),
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
