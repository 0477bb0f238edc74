"""How many elements a message has, counted in its bytes before it is parsed. Pure.

A parsed message takes up to a hundred times its bytes when it is made of empty elements: 20 MB of
them are 1.2 GB. Bodies cost nothing to skip, so the count is quick however large they are.
"""

from collections.abc import Container, Iterator
from functools import lru_cache
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

# Of either of the two implementations of protobuf.
Descriptor = Any
# Smaller messages are not counted.
SMALL_BYTES: Final = 1024 * 1024
# 5,000 messages of 40 properties each; 20 MB when parsed.
ELEMENTS_MAX: Final = 200_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class TooManyElements(ValueError):
    """Raised for a message with more elements than allowed, or a malformed one."""


def check(
    data: bytes | memoryview,
    descriptor: Descriptor,
    elements_max: int = ELEMENTS_MAX,
    *,
    small_bytes: int = SMALL_BYTES,
) -> None:
    """Raise TooManyElements if a serialised message would take far more memory than its bytes.

    One of at most `small_bytes` is not counted.
    """
    if len(data) > small_bytes:
        _count(memoryview(data), descriptor, elements_max)


def pieces(data: bytes, fields: Container[int]) -> Iterator[tuple[int, memoryview]]:
    """Yield (field, content) of each entry of these repeated fields; and all else as (0, bytes).

    So a list of any length is parsed one entry at a time. Raises TooManyElements if malformed.
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
            raise TooManyElements("the message is malformed")
        if size > end - at:
            raise TooManyElements("the message is malformed")
        is_entry = kind == _BYTES and tag >> 3 in fields
        content = at if is_entry else start
        at += size
        yield (tag >> 3 if is_entry else 0), view[content:at]


def _count(data: memoryview, descriptor: Descriptor, left: int, depth: int = 0) -> int:
    """Return how many more elements there may be after this message's."""
    nested = _nested(descriptor)
    at, end = 0, len(data)
    while at < end:
        left -= 1
        if left < 0 or depth > 64:
            raise TooManyElements("the message has too many elements")
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(data, at)
            if size > end - at:
                raise TooManyElements("the message is malformed")
            inner = nested.get(tag >> 3)
            if inner is not None:
                left = _count(data[at : at + size], inner, left, depth + 1)
            elif tag >> 3 in _packed(descriptor):
                left -= size
            at += size
        elif kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise TooManyElements("the message is malformed")
    if left < 0:
        raise TooManyElements("the message has too many elements")
    return left


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise TooManyElements("the message is malformed")


@lru_cache(maxsize=256)
def _nested(descriptor: Descriptor) -> dict[int, Descriptor]:
    """Return the fields that are messages themselves."""
    return {
        field.number: field.message_type
        for field in descriptor.fields
        if field.message_type is not None
    }


@lru_cache(maxsize=256)
def _packed(descriptor: Descriptor) -> frozenset[int]:
    """Return the fields that may be lists of numbers in one piece."""
    return frozenset(
        field.number
        for field in descriptor.fields
        if field.is_repeated
        and field.type not in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
        and field.message_type is None
    )
