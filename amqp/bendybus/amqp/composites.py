"""Described lists as dataclasses whose fields say how they are encoded.

A field that is absent has its default. A field of the wrong type, or a mandatory one that is
missing, is a DecodeError that names it. Fields that follow the last known one are ignored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, TypeVar

from bendybus.amqp import encoding, values
from bendybus.amqp.errors import DecodeError
from bendybus.amqp.values import Array, Described, Symbol, Ubyte, Uint, Ulong, Ushort

_T = TypeVar("_T", bound="Composite")


@dataclass(frozen=True, slots=True)
class _Type:
    """How a field is checked when it is read, and what it is made when it is written."""

    name: str
    valid: Callable[[Any], bool]
    written: Callable[[Any], Any]


def _unsigned(name: str, bits: int, kind: Callable[[int], Any]) -> _Type:
    most = (1 << bits) - 1
    return _Type(name, lambda v: isinstance(v, int) and 0 <= v <= most and v is not True, kind)


def _same(value: Any) -> Any:
    return value


def _symbols(value: Any) -> Any:
    """Return symbols as the array that a field with several of them is."""
    return Array(values.SYMBOL32, [Symbol(each) for each in value]) if value else None


BOOLEAN: Final = _Type("boolean", lambda v: isinstance(v, bool), _same)
UBYTE: Final = _unsigned("ubyte", 8, Ubyte)
USHORT: Final = _unsigned("ushort", 16, Ushort)
UINT: Final = _unsigned("uint", 32, Uint)
ULONG: Final = _unsigned("ulong", 64, Ulong)
STRING: Final = _Type("string", lambda v: type(v) is str, _same)
SYMBOL: Final = _Type("symbol", lambda v: isinstance(v, str), Symbol)
BINARY: Final = _Type("binary", lambda v: type(v) is bytes, _same)
MAP: Final = _Type("map", lambda v: isinstance(v, dict), _same)
SYMBOLS: Final = _Type("symbols", lambda v: isinstance(v, (str, Array)), _symbols)
ANY: Final = _Type("any", lambda v: True, _same)


def field_of(kind: _Type, default: Any = None, *, mandatory: bool = False) -> Any:
    """Declare a field of a composite."""
    return field(default=default, metadata={"type": kind, "mandatory": mandatory})


class Composite:
    """A described list. Subclasses are dataclasses whose fields say how they are encoded."""

    __slots__ = ()
    CODE: ClassVar[int]
    _TYPES: ClassVar[tuple[tuple[str, _Type, Any, bool], ...]]

    @classmethod
    def from_list(cls: type[_T], items: Sequence[Any]) -> _T:
        """Return it, read from its fields. Raises DecodeError."""
        made: list[Any] = []
        for (name, kind, default, mandatory), item in zip(cls._TYPES, items, strict=False):
            if item is None:
                if mandatory:
                    raise DecodeError(f"{cls.__name__}.{name} must be set")
                item = default
            elif not kind.valid(item):
                raise DecodeError(f"{cls.__name__}.{name} must be of type {kind.name}")
            elif kind is SYMBOLS:
                item = _listed(cls, name, item)
            made.append(item)
        for name, _, _, mandatory in cls._TYPES[len(made) :]:
            if mandatory:
                raise DecodeError(f"{cls.__name__}.{name} must be set")
        return cls(*made)

    def to_described(self) -> Described:
        """Return it as the described list that is encoded."""
        items: list[Any] = []
        for name, kind, default, mandatory in self._TYPES:
            value = getattr(self, name)
            plain = value is None or (value == default and not mandatory)
            items.append(None if plain else as_written(kind.written(value)))
        while items and items[-1] is None:
            items.pop()
        return Described(Ulong(self.CODE), items)

    def encoded(self) -> bytes:
        """Return its encoding."""
        return encoding.encode(self.to_described())


def as_written(value: Any) -> Any:
    """Return a value of a field as it is encoded: composites as described lists."""
    return value.to_described() if isinstance(value, Composite) else value


def _listed(cls: type[Composite], name: str, item: Any) -> tuple[str, ...]:
    if isinstance(item, str):
        return (item,)
    if not all(isinstance(each, str) for each in item.items):
        raise DecodeError(f"{cls.__name__}.{name} must be of type symbols")
    return tuple(item.items)


_BY_CODE: Final[dict[int, type[Composite]]] = {}
_BY_SYMBOL: Final[dict[str, type[Composite]]] = {}


def described_as(code: int, symbol: str) -> Callable[[type[_T]], type[_T]]:
    """Make a class a composite with this descriptor."""

    def register(cls: type[_T]) -> type[_T]:
        cls.CODE = code
        cls._TYPES = tuple(
            (each.name, each.metadata["type"], each.default, each.metadata["mandatory"])
            for each in fields(cls)  # type: ignore[arg-type]
        )
        _BY_CODE[code] = cls
        _BY_SYMBOL[symbol] = cls
        return cls

    return register


def kind_of(descriptor: Any) -> type[Composite] | None:
    """Return the composite that a descriptor names; None: none of these."""
    if isinstance(descriptor, Symbol):
        return _BY_SYMBOL.get(descriptor)
    return _BY_CODE.get(descriptor) if type(descriptor) is Ulong else None


def composite(value: Any) -> Composite:
    """Return the composite that a decoded value is. Raises DecodeError."""
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
