"""Every value comes back from its bytes as it was, type and all; what is none is refused."""

import struct
import uuid
from typing import Any

import pytest
from hypothesis import given, settings

from bendybus.amqp import decoding, encoding, values
from bendybus.amqp.errors import DecodeError
from bendybus.amqp.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Described,
    Float,
    Int,
    Pairs,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
)
from tests.amqp.any_values import BORDERS, ITEMS, VALUES, same

ANY_VALUE = settings(max_examples=200, derandomize=True)


def decoded(value: Any) -> Any:
    return decoding.decode_whole(encoding.encode(value))


@ANY_VALUE
@given(VALUES)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    assert same(decoded(value), value)


@ANY_VALUE
@given(VALUES)
def test_a_value_is_found_between_other_bytes_and_skipped_alike(value: Any) -> None:
    encoded = encoding.encode(value)
    data = b"\x40\x41" + encoded + b"\x42"

    found, end = decoding.decode(data, 2)

    assert same(found, value)
    assert end == decoding.skip(data, 2) == 2 + len(encoded)


@settings(max_examples=50, derandomize=True)
@given(VALUES)
def test_no_part_of_a_value_is_a_value(value: Any) -> None:
    encoded = encoding.encode(value)

    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            decoding.decode(encoded[:size])
        with pytest.raises(DecodeError):
            decoding.skip(encoded[:size], 0)


@pytest.mark.parametrize("size", [*BORDERS, 65_535, 65_536])
def test_variable_widths_come_back_at_the_borders_of_their_encodings(size: int) -> None:
    for value, narrow in (
        ("a" * size, values.STRING8), (Symbol("a" * size), values.SYMBOL8),
        (b"a" * size, values.BINARY8),
    ):  # fmt: skip
        encoded = encoding.encode(value)

        assert encoded[0] == narrow + (0x10 if size > 255 else 0)
        assert len(encoded) == size + (5 if size > 255 else 2)
        assert same(decoding.decode_whole(encoded), value)


@pytest.mark.parametrize("size", range(250, 260))
def test_compounds_come_back_at_the_borders_of_their_encodings(size: int) -> None:
    # By bytes, and by count, where an item takes none more than its constructor.
    by_bytes = "a" * (size - 2)
    by_count = [None] * size

    for value in (
        [by_bytes], by_count, {"": by_bytes}, {str(n): None for n in range(size)},
        Pairs(((True, None),) * size), Array(values.STRING32, [by_bytes]),
        Array(values.NULL, by_count), Array(values.UBYTE, [Ubyte(n % 256) for n in range(size)]),
        Array(values.LIST32, [[by_bytes], by_count]), Array(values.ARRAY32, [
            Array(values.BYTE, [Byte(1)] * size), Array(values.LIST32, [[]])]),
    ):  # fmt: skip
        assert same(decoded(value), value)


def test_a_list_is_narrow_while_its_size_and_count_fit_a_byte() -> None:
    assert encoding.encode([None] * 254)[:3] == bytes((values.LIST8, 255, 254))
    assert encoding.encode([None] * 255)[:9] == bytes((values.LIST32, 0, 0, 1, 3, 0, 0, 0, 255))


@pytest.mark.parametrize("code", sorted(ITEMS))
def test_arrays_without_items_keep_their_type(code: int) -> None:
    for array in (
        Array(code, []),
        Array(code, [], Ulong(7), True),
        Array(code, [], None, True),
    ):
        assert same(decoded(array), array)
        assert same(decoded([array, array]), [array, array])


def test_equal_keys_of_several_types_stay_apart() -> None:
    keys = (1, True, Int(1), Ulong(1), Uint(1), Timestamp(1), Char(1))
    texts = ("a", Symbol("a"))

    for each in (keys, texts):
        found = values.map_of([(key, None) for key in each])

        assert isinstance(found, Pairs)
        assert same(decoded(found), found)


def test_a_dict_has_keys_that_it_finds_again() -> None:
    keys = ["a", Symbol("b"), b"c", 1, Ulong(2), uuid.UUID(int=3), False]

    assert values.map_of([(key, key) for key in keys]) == {key: key for key in keys}
    odd: tuple[Any, ...] = (
        float("nan"),
        1.5,
        Float(1.5),
        [],
        {},
        Pairs(),
        Array(values.NULL, []),
        None,
    )
    for key in odd:
        assert values.map_of([(key, "v")]) == Pairs(((key, "v"),))
    assert values.map_of([(Described(1, 2), "v")]) == Pairs(((Described(1, 2), "v"),))


def test_many_keys_are_a_dict_only_if_no_sender_can_choose_their_hashes() -> None:
    texts = [(kind(n), n) for n in range(50) for kind in (str, lambda n: Symbol(f"s{n}"))]
    numbers = [(Ulong(n), n) for n in range(65)]

    assert values.map_of(texts) == dict(texts)
    assert values.map_of(numbers[:64]) == dict(numbers[:64])
    assert values.map_of(numbers) == Pairs(numbers)
    assert values.map_of([*texts, *numbers[:1]]) == Pairs([*texts, *numbers[:1]])


def nested(depth: int, inside: Any = None) -> Any:
    value: Any = inside
    for _ in range(depth):
        value = [value]
    return value


def test_values_are_nested_as_deep_as_allowed_and_no_deeper() -> None:
    most = decoding.NESTING_MAX
    deepest = nested(most)

    assert decoded(deepest) == deepest
    for inside in ([], [None], {"a": 1}, Described(1, 2), Array(values.NULL, [None])):
        assert same(decoded(nested(most - 1, inside)), nested(most - 1, inside))
    for inside in ([None], {"a": 1}, Described(1, 2), Array(values.NULL, [None])):
        with pytest.raises(DecodeError, match="more than 64 deep"):
            decoded(nested(most, inside))
    # Beside each other they do not add up.
    assert decoded([deepest[0], deepest[0]]) == [deepest[0], deepest[0]]


def test_items_without_bytes_are_bounded_in_all_of_a_value() -> None:
    most = decoding.EMPTY_ITEMS_MAX
    half = Array(values.NULL, [None] * (most // 2))

    assert same(decoded([half, half]), [half, half])
    with pytest.raises(DecodeError, match="without bytes"):
        decoded([half, half, Array(values.NULL, [None])])


@pytest.mark.parametrize(
    "value",
    [
        object(), (1,), {1}, bytearray(b"a"), 1j, [object()], {"a": object()}, Described(1, ()),
        Array(values.UINT, ["a"]), Array(values.UINT, [True]), Array(values.BOOLEAN, [1]),
        Array(values.STRING32, [b"a"]), Array(values.LIST32, [{}]), Array(values.MAP32, [[]]),
        Array(values.UUID, [b"a" * 16]), Array(values.NULL, [0]), Array(values.ARRAY32, [[]]),
        Array(values.ULONG, [Uint(1)]),
    ],
)  # fmt: skip
def test_what_is_no_type_of_amqp_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError):
        encoding.encode(value)


@pytest.mark.parametrize(
    "value",
    [
        Ubyte(256), Ubyte(-1), Uint(-1), Uint(1 << 32), Ulong(-1), Ulong(1 << 64), Byte(128),
        Int(1 << 31), 1 << 63, -(1 << 63) - 1, Timestamp(1 << 63), Float(1e39), Char(0x110000),
        Char(-1), Char(0xD800), Char(0xDFFF), Decimal32(b"abc"), Symbol("é"), "\ud800",
        Array(values.UBYTE, [256]), Array(values.CHAR, [Char(0xDABC)]), Array(values.STRING8, []),
        Array(values.DECIMAL32, [Decimal32(b"")]), Array(0x57, []), nested(100_000),
    ],
    ids=lambda value: f"{value!r:.30}" if not isinstance(value, list) else "nested",
)  # fmt: skip
def test_what_is_out_of_range_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        encoding.encode(value)


@pytest.mark.parametrize("nested", [False, True], ids=["one", "several"])
@pytest.mark.parametrize("kind", ["list", "map", "array"])
def test_items_of_a_whole_message_are_bounded(kind: str, nested: bool) -> None:
    """Ten million of them would take seconds."""

    def parts(items: int) -> bytes:
        if kind == "array":
            return b"\xf0" + struct.pack(">II", items + 5, items) + b"\x56" + b"\0" * items
        if kind == "list":
            return b"\xd0" + struct.pack(">II", items + 4, items) + b"\x45" * items
        content = b"".join(b"\x70" + struct.pack(">I", key) + b"\x40" for key in range(items // 2))
        return b"\xd1" + struct.pack(">II", len(content) + 4, items) + content

    def whole(items: int) -> bytes:
        if not nested:
            return parts(items)
        content = parts(items // 2) * 2
        return b"\xd0" + struct.pack(">II", len(content) + 4, 2) + content

    most = decoding.ITEMS_MAX

    decoding.decode_whole(whole(most - 4))
    with pytest.raises(DecodeError, match=f"more than {most} items"):
        decoding.decode_whole(whole(most + 4))
