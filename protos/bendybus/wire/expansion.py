"""The memory that a serialised message needs when parsed, computed before parsing. Pure.

An empty element has two bytes and becomes up to 200 when it is parsed: 3 MB of them are 300 MB.
Two bounds, the cheap one first:

    by_length    bytes, times the most that one byte of this type may become
    Walk         element by element, exact; contents are skipped, so that large bodies cost nothing

Costs are derived from descriptors, so that each field of the contract has one. They are those of
upb, the implementation in C, measured; the largest array doubled last, and so counts three times.
A count of tags in C would be no third bound: bodies contain their bytes, and numbers in one piece,
and fields of later versions, have none that are known.
"""

import math
from collections.abc import Container, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor

# The class depends on the implementation of protobuf.
Descriptor = Any
# The elements of one message may take that beside its bytes.
ELEMENTS_BYTES_MAX: Final = 16 * 1024 * 1024
DEPTH_MAX: Final = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# The message itself, and those that it has once.
ONCE_BYTES: Final = 1024
_STEPS_AT_ONCE: Final = 1 << 30
_GROWTH: Final = 3
_POINTER: Final = 8
_STRING: Final = 16
_HEADER: Final = 24
# An entry of a map, in its table.
_MAP_ENTRY: Final = 80
# A field with one place: its text stays in memory when it comes again, and takes time to look at.
_AGAIN: Final = 32
# A field that the parser keeps without knowing it.
_UNKNOWN_BYTES: Final = 48
_WIDTHS: Final = {
    FieldDescriptor.CPPTYPE_BOOL: 1,
    FieldDescriptor.CPPTYPE_INT32: 4,
    FieldDescriptor.CPPTYPE_UINT32: 4,
    FieldDescriptor.CPPTYPE_ENUM: 4,
    FieldDescriptor.CPPTYPE_FLOAT: 4,
}
_FIXED: Final = {
    FieldDescriptor.TYPE_DOUBLE: _FIXED64,
    FieldDescriptor.TYPE_FIXED64: _FIXED64,
    FieldDescriptor.TYPE_SFIXED64: _FIXED64,
    FieldDescriptor.TYPE_FLOAT: _FIXED32,
    FieldDescriptor.TYPE_FIXED32: _FIXED32,
    FieldDescriptor.TYPE_SFIXED32: _FIXED32,
}
_TEXTS: Final = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


class TooLarge(ValueError):
    """Raised for a message whose elements take more memory than allowed, or a malformed one."""


class _Cost(NamedTuple):
    """Memory for one occurrence of a field and for each byte of its content; its message type."""

    element: int
    byte: int = 0
    inner: Descriptor | None = None
    # A field outside of lists and choices: it has one place.
    is_single: bool = False


_UNKNOWN: Final = _Cost(_UNKNOWN_BYTES)


def by_length(size_bytes: int, descriptor: Descriptor) -> int:
    """Return the most memory that a message of this size needs when it is parsed."""
    return ONCE_BYTES + size_bytes * per_byte(descriptor)


@lru_cache(maxsize=256)
def per_byte(descriptor: Descriptor) -> int:
    """Return the most that one byte of a message of this type takes when it is parsed."""
    most: float = _UNKNOWN_BYTES / 2
    waiting: list[tuple[Descriptor, bool]] = [(descriptor, True)]
    seen: set[tuple[str, bool]] = set()
    while waiting:
        kind, is_one = waiting.pop()
        if (kind.full_name, is_one) in seen:
            continue
        seen.add((kind.full_name, is_one))
        for tag, cost in _costs(kind).items():
            # A message that has one place in one message is made once, however often it comes.
            is_once = is_one and cost.is_single
            if cost.inner is not None:
                waiting.append((cost.inner, is_once))
            if not is_once:
                # Divided by the bytes of the tag, and of a length or a number.
                most = max(most, cost.element / (1 + (tag.bit_length() + 6) // 7), cost.byte)
    return 1 + math.ceil(most)


class Walk:
    """Adds up the memory of a message; `held_bytes` is complete once `go_on` returned True."""

    def __init__(
        self, data: bytes | memoryview, descriptor: Descriptor, most: int = ELEMENTS_BYTES_MAX
    ) -> None:
        self.held_bytes = len(data)
        self._data = data
        self._most = len(data) + most
        self._at, self._end = 0, len(data)
        self._costs = _costs(descriptor)
        # Where the messages end that the current one is inside of, and their costs.
        self._outer: list[tuple[int, dict[int, _Cost]]] = []

    def go_on(self, steps: int = _STEPS_AT_ONCE) -> bool:
        """Walk `steps` elements; return whether these were the last. Raises TooLarge."""
        try:
            for _ in range(steps):
                while self._at == self._end:
                    if not self._outer:
                        return True
                    self._end, self._costs = self._outer.pop()
                self._step()
        except IndexError:
            raise _malformed() from None
        return False

    def _step(self) -> None:
        data, at = self._data, self._at
        tag = data[at]
        at += 1
        if tag & 0x80:
            tag, at = _varint(data, at - 1)
        cost, kind = self._costs.get(tag, _UNKNOWN), tag & 7
        self.held_bytes += cost.element
        if kind == _BYTES:
            size = data[at]
            at += 1
            if size & 0x80:
                size, at = _varint(data, at - 1)
            if cost.inner is not None:
                self._outer.append((self._end, self._costs))
                self._costs = _costs(cost.inner)
                if len(self._outer) > DEPTH_MAX or at + size > self._end:
                    raise _malformed()
                self._at, self._end = at, at + size
            else:
                self.held_bytes += cost.byte * size
                self._at = at + size
        elif kind == _VARINT:
            _, self._at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            self._at = at + (8 if kind == _FIXED64 else 4)
        else:
            raise _malformed()
        if self._at > self._end:
            raise _malformed()
        if self.held_bytes > self._most:
            raise TooLarge(
                f"its elements take more than {(self._most - len(data)) >> 20} MB in memory"
            )


def check(data: bytes | memoryview, descriptor: Descriptor, most: int) -> None:
    """Raise TooLarge if the elements of a message take more than `most` bytes beside its own."""
    if by_length(len(data), descriptor) > most:
        Walk(data, descriptor, most).go_on()


def of_parsed(message: Any) -> int | None:
    """Return the memory for the elements of a parsed message, beside their bytes.

    None if it has repeated messages: those are not looked through.
    """
    columns, singles, messages = _shape(message.DESCRIPTOR)
    total = 0
    for name, element in columns:
        total += len(getattr(message, name)) * element
    for name in messages:
        if getattr(message, name):
            return None
    for name in singles:
        if message.HasField(name):
            inner = of_parsed(getattr(message, name))
            if inner is None:
                return None
            total += _HEADER + inner
    return total


@lru_cache(maxsize=256)
def has_choices(descriptor: Descriptor) -> bool:
    """Whether a type, or one that it has in one place, has choices of which some are messages."""
    for field in descriptor.fields:
        inner = field.message_type
        if inner is None or field.is_repeated:
            continue
        if field.containing_oneof is not None or (inner is not descriptor and has_choices(inner)):
            return True
    return False


def pieces(data: bytes | memoryview, fields: Container[int]) -> Iterator[tuple[int, memoryview]]:
    """Yield (field, content) of each entry of these repeated fields; and all else as (0, bytes).

    So a list of any length is parsed one entry at a time. Raises TooLarge if malformed.
    """
    view, at, end = memoryview(data), 0, len(data)
    while at < end:
        start = at
        tag, at = _varint(view, at)
        kind, size = tag & 7, 0
        if kind == _BYTES:
            size, at = _varint(view, at)
        elif kind == _VARINT:
            _, at = _varint(view, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise _malformed()
        if size > end - at:
            raise _malformed()
        is_entry = kind == _BYTES and tag >> 3 in fields
        content = at if is_entry else start
        at += size
        yield (tag >> 3 if is_entry else 0), view[content:at]


@lru_cache(maxsize=256)
def _costs(descriptor: Descriptor) -> dict[int, _Cost]:
    """Return the costs of the fields of a type by their tags; tags of other kinds are unknown."""
    found: dict[int, _Cost] = {}
    for field in descriptor.fields:
        tag, inner = field.number << 3, field.message_type
        if inner is not None:
            element = _struct(inner)
            if inner.GetOptions().map_entry:
                value = inner.fields_by_name["value"].message_type
                element = _MAP_ENTRY + (0 if value is None else _struct(value))
            elif field.is_repeated:
                element += _GROWTH * _POINTER
            is_single = not field.is_repeated and field.containing_oneof is None
            found[tag | _BYTES] = _Cost(element, inner=inner, is_single=is_single)
        elif field.type in _TEXTS:
            found[tag | _BYTES] = _Cost(_GROWTH * _STRING if field.is_repeated else _AGAIN)
        else:
            kind, width = _FIXED.get(field.type, _VARINT), _WIDTHS.get(field.cpp_type, 8)
            found[tag | kind] = _Cost(_GROWTH * width if field.is_repeated else _AGAIN)
            if field.is_repeated:
                found[tag | _BYTES] = _Cost(0, byte=_GROWTH * width)
    return found


@lru_cache(maxsize=256)
def _shape(
    descriptor: Descriptor,
) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...], tuple[str, ...]]:
    """Return a type's columns of values with the cost of each value, its messages, its lists."""
    repeated = [field for field in descriptor.fields if field.is_repeated]
    columns = tuple(
        (each.name, _GROWTH * (_STRING if each.type in _TEXTS else _WIDTHS.get(each.cpp_type, 8)))
        for each in repeated
        if each.message_type is None
    )
    singles = tuple(
        each.name for each in descriptor.fields if each.message_type and not each.is_repeated
    )
    return columns, singles, tuple(each.name for each in repeated if each.message_type)


@lru_cache(maxsize=256)
def _struct(descriptor: Descriptor) -> int:
    """Return the memory of an empty message of this type."""
    groups = {field.containing_oneof.name for field in descriptor.fields if field.containing_oneof}
    alone = [field for field in descriptor.fields if field.containing_oneof is None]
    texts = sum(field.type in _TEXTS and not field.is_repeated for field in alone)
    return _HEADER + _POINTER * len(alone) + _POINTER * texts + (_STRING + 4) * len(groups)


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _malformed()


def _malformed() -> TooLarge:
    return TooLarge("it is malformed")
