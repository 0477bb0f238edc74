"""Described lists as dataclasses whose fields declare their encoding.

A field that is absent has its default. A field of the wrong type, or a mandatory one that is
missing, is a DecodeError that names it. Fields that follow the last known one are ignored.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, TypeVar

from bendybus.amqp import decoding, encoding, values
from bendybus.amqp.errors import DecodeError
from bendybus.amqp.values import Array, Described, Symbol, Ubyte, Uint, Ulong, Ushort

_T = TypeVar("_T", bound="Composite")


@dataclass(frozen=True, slots=True)
class _Type:
    """How a field is checked when it is decoded, and converted when it is encoded.

    `usual`: a type whose values are all valid, as they are.
    """

    name: str
    usual: type | None
    valid: Callable[[Any], bool]
    written: Callable[[Any], Any]


def _number(name: str, kind: type[int], most: int | None = None) -> _Type:
    def valid(value: Any) -> bool:
        return type(value) is kind and (most is None or value <= most)

    def written(value: Any) -> Any:
        return kind(value) if isinstance(value, int) and type(value) is not bool else value

    return _Type(name, kind if most is None else None, valid, written)


def _exactly(name: str, kind: type) -> _Type:
    return _Type(name, kind, lambda value: type(value) is kind, _as_is)


def _as_is(value: Any) -> Any:
    return value


def _is_symbol(value: Any) -> bool:
    # A symbol may come as a string, as some peers write it.
    return isinstance(value, str) and value.isascii()


def _are_symbols(value: Any) -> bool:
    if type(value) is Array:
        return not value.described and all(map(_is_symbol, value.items))
    return _is_symbol(value)


def _symbols(value: str | Iterable[str]) -> Array:
    """Return symbols as the array that a field with several of them is."""
    listed = (value,) if isinstance(value, str) else value
    return Array(values.SYMBOL32, [Symbol(each) for each in listed])


BOOLEAN: Final = _exactly("boolean", bool)
UBYTE: Final = _number("ubyte", Ubyte)
USHORT: Final = _number("ushort", Ushort)
UINT: Final = _number("uint", Uint)
ULONG: Final = _number("ulong", Ulong)
SENDER_SETTLE_MODE: Final = _number("sender-settle-mode", Ubyte, 2)
RECEIVER_SETTLE_MODE: Final = _number("receiver-settle-mode", Ubyte, 1)
STRING: Final = _exactly("string", str)
SYMBOL: Final = _Type(
    "symbol", Symbol, _is_symbol, lambda v: Symbol(v) if isinstance(v, str) else v
)
BINARY: Final = _exactly("binary", bytes)
MAP: Final = _exactly("map", dict)
SYMBOLS: Final = _Type("symbols", None, _are_symbols, _symbols)
ANY: Final = _Type("any", Described, lambda value: True, _as_is)


# In place of the default of a field that has none.
_MANDATORY: Final = object()


def field_of(kind: _Type, default: Any = None, *, mandatory: bool = False) -> Any:
    """Declare a field of a composite."""
    return field(default=default, metadata={"type": kind, "mandatory": mandatory})


class Composite:
    """A described list. Subclasses are dataclasses whose fields declare their encoding."""

    __slots__ = ()
    CODE: ClassVar[int]
    # Whether trailing fields that are not set are written as nulls.
    WRITTEN_WHOLE: ClassVar[bool] = False
    # By field, in order: its name, type and default, and whether it is mandatory.
    _TYPES: ClassVar[tuple[tuple[str, _Type, Any, bool], ...]]
    # The same for fast reading: the usual type, and the default, or _MANDATORY.
    _USUAL: ClassVar[tuple[tuple[type | None, Any], ...]]
    # After the last mandatory field.
    _MANDATORY_END: ClassVar[int]
    # Its descriptor, encoded.
    _HEAD: ClassVar[bytes]

    @classmethod
    def from_list(cls: type[_T], items: Sequence[Any]) -> _T:
        """Return it, read from its fields. Raises DecodeError."""
        made: list[Any] = []
        for (usual, default), item in zip(cls._USUAL, items, strict=False):
            if type(item) is usual:
                made.append(item)
            elif item is None and default is not _MANDATORY:
                made.append(default)
            else:
                made.append(_read_field(cls, len(made), item))
        for index in range(len(made), cls._MANDATORY_END):
            if cls._TYPES[index][3]:
                _read_field(cls, index, None)
        return cls(*made)

    def to_described(self) -> Described:
        """Return it as the described list that is encoded. Raises TypeError and ValueError."""
        return Described(Ulong(self.CODE), self._to_list())

    def encoded(self) -> bytes:
        """Return its encoding. Raises TypeError and ValueError."""
        out = bytearray(self._HEAD)
        encoding.write(self._to_list(), out)
        return bytes(out)

    def _to_list(self) -> list[Any]:
        items: list[Any] = []
        for name, kind, default, mandatory in self._TYPES:
            value = getattr(self, name)
            if value is None and mandatory:
                raise ValueError(f"{type(self).__name__}.{name} must be set")
            if value is None or (default is not None and value == default):
                items.append(None)
            elif type(value) is kind.usual:
                items.append(value)
            else:
                item = as_written(kind.written(value))
                if not kind.valid(item):
                    raise TypeError(f"{type(self).__name__}.{name} must be of type {kind.name}")
                items.append(item)
        while items and items[-1] is None and not self.WRITTEN_WHOLE:
            items.pop()
        return items


def _read_field(cls: type[Composite], index: int, item: Any) -> Any:
    name, kind, _, mandatory = cls._TYPES[index]
    if item is None and mandatory:
        raise DecodeError(f"{cls.__name__}.{name} must be set")
    if not kind.valid(item):
        raise DecodeError(f"{cls.__name__}.{name} must be of type {kind.name}")
    if kind is SYMBOLS:
        return (item,) if isinstance(item, str) else tuple(item.items)
    return item


def as_written(value: Any) -> Any:
    """Return a value of a field as it is encoded: composites as described lists."""
    return value.to_described() if isinstance(value, Composite) else value


_BY_CODE: Final[dict[int, type[Composite]]] = {}
# By descriptor in its usual encoding, a small ulong.
_BY_HEAD: Final[dict[bytes, type[Composite]]] = {}
_BY_SYMBOL: Final[dict[str, type[Composite]]] = {}


def described_as(code: int, symbol: str) -> Callable[[type[_T]], type[_T]]:
    """Make a class a composite with this descriptor."""

    def register(cls: type[_T]) -> type[_T]:
        cls.CODE = code
        cls._TYPES = tuple(
            (each.name, each.metadata["type"], each.default, each.metadata["mandatory"])
            for each in fields(cls)  # type: ignore[arg-type]
        )
        cls._USUAL = tuple(
            (kind.usual, _MANDATORY if mandatory else default)
            for _, kind, default, mandatory in cls._TYPES
        )
        cls._MANDATORY_END = max((n + 1 for n, each in enumerate(cls._TYPES) if each[3]), default=0)
        cls._HEAD = bytes((values.DESCRIBED, values.SMALL_ULONG, code))
        _BY_CODE[code] = cls
        _BY_HEAD[cls._HEAD] = cls
        _BY_SYMBOL[symbol] = cls
        return cls

    return register


def kind_of(descriptor: Any) -> type[Composite] | None:
    """Return the composite that a descriptor names; None: none of these."""
    if type(descriptor) is Ulong:
        return _BY_CODE.get(descriptor)
    return _BY_SYMBOL.get(descriptor) if type(descriptor) is Symbol else None


def decode(data: bytes) -> tuple[Composite, int]:
    """Return the composite that `data` begins with, and where it ends. Raises DecodeError."""
    kind = _BY_HEAD.get(data[:3])
    if kind is None:
        value, end = decoding.decode(data)
        return composite(value), end
    left = decoding.limits()
    # The descriptor is a level too.
    left[0] -= 1
    items, end = decoding.decode(data, 3, left)
    if type(items) is not list:
        raise DecodeError("a described list is expected")
    return kind.from_list(items), end


def composite(value: Any) -> Composite:
    """Return the composite that a decoded value is. Raises DecodeError.

    It finds the classes of modules that have been imported, such as `performatives`.
    """
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError("a described list is expected")
    kind = kind_of(value.descriptor)
    if kind is None:
        raise DecodeError(f"unknown descriptor {value.descriptor!r:.80}")
    return kind.from_list(value.value)


def known(value: Any) -> Any:
    """Return the composite that a decoded value is; the value itself if it is none of these."""
    if not isinstance(value, Described) or not isinstance(value.value, list):
        return value
    kind = kind_of(value.descriptor)
    return value if kind is None else kind.from_list(value.value)
