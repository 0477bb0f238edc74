"""Whatever the bytes are: a value or a DecodeError, in memory and time in proportion to them.

`make test` runs a few thousand rounds. For ten minutes of them:

    BENDYBUS_CODEC_FUZZ_ROUNDS=12000000 python -m pytest -n0 tests/amqp/test_hostile_bytes.py

A failure names its round, which alone decides the bytes: `attempt(round)` repeats it.
"""

import itertools
import os
import random
import tracemalloc
import uuid
from collections.abc import Callable
from typing import Any, Final

import pytest

from bendybus.amqp import composites, decoding, encoding, sections, values
from bendybus.amqp.errors import DecodeError
from bendybus.amqp.values import Array, Described, Pairs, Ulong
from tests.amqp.any_values import same
from tests.amqp.test_recorded_bytes import FRAMES, LONGER, SECTIONS, SHORTEST
from tests.work import steps

ROUNDS: Final = int(os.environ.get("BENDYBUS_CODEC_FUZZ_ROUNDS", "4000"))
PARTS: Final = 4
# What mutations begin with: values, frame bodies, and sections and whole messages.
VALUES: Final = [bytes.fromhex(text) for text, _ in SHORTEST + LONGER if len(text) < 200]
BODIES: Final = [bytes.fromhex(text) for text, _ in FRAMES]
MESSAGES: Final = [
    *(bytes.fromhex(text) for text in SECTIONS),
    *(bytes.fromhex("".join(SECTIONS[:count])) for count in range(2, len(SECTIONS) + 1)),
]
CONSTRUCTORS: Final = bytes(decoding._BY_CODE)
NUMBERS: Final = (0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 1 << 24, 0x7FFFFFFF, 0xFFFFFFFF)


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Return bytes with one thing changed, most of which is left as it was."""
    out = bytearray(data)
    at = chance.randrange(len(out) + 1)
    match chance.randrange(7):
        case 0 if at < len(out):
            out[at] ^= 1 << chance.randrange(8)
        case 1 if at < len(out):
            out[at] = chance.choice(CONSTRUCTORS)
        case 2:
            del out[at:]
        case 3:
            out[at : at + 4] = chance.choice(NUMBERS).to_bytes(4, "big")
        case 4:
            out[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
        case 5:
            out[at:at] = chance.choice(VALUES)
        case 6 if at < len(out):
            # Sizes and counts of narrow compounds.
            out[at] = (out[at] + chance.choice((-2, -1, 1, 2))) % 256
    return bytes(out)


def bytes_of(round_: int) -> bytes:
    chance = random.Random(round_)
    if round_ % 8 == 0:
        return chance.randbytes(chance.randrange(1, 40))
    if round_ % 8 == 1:
        return bytes(chance.choices(CONSTRUCTORS + b"\1\2\3\4", k=chance.randrange(1, 40)))
    data = chance.choice(chance.choice((VALUES, BODIES, MESSAGES)))
    for _ in range(chance.randrange(1, 3)):
        data = mutated(chance, data)
    return data


def attempt(round_: int) -> None:
    """Read the bytes of a round as everything that bytes can be."""
    data = bytes_of(round_)
    check_value(data)
    check_message(data)


def check_value(data: bytes) -> None:
    """What is a value stays itself, and so does the composite that it may be."""
    try:
        directly = composites.decode(data)
    except DecodeError:
        directly = None
    try:
        value, end = decoding.decode(data)
    except DecodeError:
        assert directly is None
        return
    assert 0 < end <= len(data)
    assert decoding.skip(data, 0) == end
    assert same(decoding.decode_whole(encoding.encode(value)), value)
    try:
        made = composites.known(value)
    except DecodeError:
        return
    if isinstance(made, composites.Composite):
        assert same(directly, (made, end))
        assert composites.composite(decoding.decode_whole(made.encoded())) == made
        for name, *_ in made._TYPES:
            check_field(getattr(made, name))


def check_field(value: Any) -> None:
    try:
        composites.known(value)
    except DecodeError:
        return


def check_message(data: bytes) -> None:
    """What is a message stays itself; what is a batch is pieces of the bytes."""
    for read in (decoding.skip, lambda data, _: sections.batched(data)):
        try:
            read(data, 0)
        except DecodeError:
            continue
    try:
        message = sections.decode(data)
    except DecodeError:
        return
    # A float that is NaN is not equal to itself; texts of it are.
    assert repr(sections.decode(sections.encode(message))) == repr(message)


@pytest.mark.parametrize("part", range(PARTS))
def test_any_bytes_are_a_value_or_a_decode_error(part: int) -> None:
    for round_ in range(part, ROUNDS, PARTS):
        try:
            attempt(round_)
        except Exception as error:
            raise AssertionError(f"round {round_}: {bytes_of(round_).hex()}") from error


def test_every_constructor_is_tried_with_every_following_byte() -> None:
    for code in range(256):
        for following in range(256):
            check_value(bytes((code, following, 0x40, 0x40)))
            check_value(bytes((0xE0, 3, following, code, 0x40)))


def wrapped(depth: int, head: Callable[[int], bytes]) -> bytes:
    """Return compounds in each other, sizes and all; `head` writes one, by the size in it."""
    heads, size = [], 1
    for _ in range(depth):
        heads.append(head(size))
        size += len(heads[-1])
    return b"".join(reversed(heads)) + b"\x40"


def wide(code: int, count: int, before: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: (
        bytes((code,))
        + (size + 4 + len(before)).to_bytes(4, "big")
        + count.to_bytes(4, "big")
        + before
    )


NESTED: Final[dict[str, Callable[[int], bytes]]] = {
    "lists": lambda depth: wrapped(depth, wide(values.LIST32, 1)),
    "maps": lambda depth: wrapped(depth, wide(values.MAP32, 2, b"\x40")),
    "map keys": lambda depth: b"\xd1\x00\x00\xff\xff\x00\x00\x00\x02" * depth,
    "arrays": lambda depth: wrapped(depth, wide(values.ARRAY32, 1, b"\xf0")),
    "described arrays": lambda depth: wrapped(depth, wide(values.ARRAY32, 1, b"\x00\x40")),
    "descriptors": lambda depth: b"\x00" * depth + b"\x40" * (depth + 1),
    "described values": lambda depth: b"\x00\x40" * depth + b"\x40",
    "narrow lists": lambda depth: b"\xc0\xff\x01" * depth + b"\x40" * 300,
    "narrow arrays": lambda depth: b"\xe0\xff\x01" * depth + b"\x40" * 300,
}


@pytest.mark.parametrize("name", NESTED)
def test_compounds_ten_thousand_deep_are_refused(name: str) -> None:
    data = NESTED[name](10_000)

    with pytest.raises(DecodeError):
        decoding.decode(data)
    with pytest.raises(DecodeError):
        sections.decode(b"\x00\x53\x77" + data)
    check_message(data)


def test_deep_compounds_are_skipped() -> None:
    for name in ("lists", "maps", "arrays", "descriptors", "described values"):
        data = NESTED[name](10_000)

        assert decoding.skip(data, 0) == len(data)


@pytest.mark.parametrize("code", [0xB0, 0xB1, 0xB3, 0xD0, 0xD1, 0xF0])
def test_announced_sizes_allocate_nothing(code: int) -> None:
    numbers = [number.to_bytes(4) for number in (9, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF)]

    for size, count in itertools.product(numbers, numbers):
        for item in CONSTRUCTORS:
            assert peak_bytes(bytes((code,)) + size + count + bytes((item, 0, 0, 0, 0))) < 100_000


def peak_bytes(data: bytes) -> int:
    """Return the most memory that reading these bytes takes."""
    tracemalloc.start()
    try:
        check_bytes(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def check_bytes(data: bytes) -> None:
    for read in (decoding.decode, composites.decode, sections.decode, sections.batched):
        try:
            read(data)
        except DecodeError:
            continue


def listed(item: bytes, count: int, code: int = values.LIST32, before: bytes = b"") -> bytes:
    body = before + item * count
    return bytes((code,)) + (len(body) + 4).to_bytes(4) + count.to_bytes(4) + body


# Items that need far more memory than bytes.
DENSE: Final = {
    "empty lists": b"\x45", "empty maps": b"\xc1\x01\x00", "described nulls": b"\x00\x40\x40",
    "empty arrays": b"\xe0\x01\x00", "arrays of nulls": b"\xe0\x02\x08\x40", "ulongs": b"\x53\x09",
    "symbols": b"\xa3\x01a", "maps": b"\xc1\x03\x02\x40\x40", "doubles": b"\x82" + b"\1" * 8,
    "maps of maps": b"\xc1\x09\x02\x40\xc1\x05\x02\x40\xc1\x01\x00",
}  # fmt: skip


@pytest.mark.parametrize("name", DENSE)
def test_memory_is_in_proportion_to_the_bytes(name: str) -> None:
    data = b"\x00\x53\x77" + listed(DENSE[name], 12_000 // len(DENSE[name]))

    assert peak_bytes(data) < 100 * len(data) + 100_000


def test_memory_of_sections_is_in_proportion_to_them() -> None:
    assert peak_bytes(b"\x00\x53\x75\xa0\x00" * 5_000) < 100 * 25_000
    assert peak_bytes(b"\x00\x53\x76\x45" * 5_000) < 100 * 25_000


def numbered(count: int) -> bytes:
    """Return a map of unsigned longs."""
    pairs = b"".join(b"\x80" + number.to_bytes(8) + b"\x40" for number in range(count))
    return b"\xd1" + (len(pairs) + 4).to_bytes(4) + (2 * count).to_bytes(4) + pairs


SHAPES: Final[dict[str, Callable[[int], bytes]]] = {
    "lists": lambda count: listed(b"\x45", count),
    "maps": numbered,
    "arrays of arrays": lambda count: listed(b"\2\0\x40", count, values.ARRAY32, b"\xe0"),
    "arrays of nulls": lambda count: listed(b"\xe0\x02\xff\x40", count),
    "symbols": lambda count: listed(b"\xa3\x01a", count),
    "sections": lambda count: b"\x00\x53\x76\x45" * count,
}


@pytest.mark.parametrize("name", SHAPES)
def test_work_is_in_proportion_to_the_bytes(name: str) -> None:
    def work(count: int) -> int:
        data = SHAPES[name](count)
        return steps(lambda: check_bytes(data)) - steps(lambda: check_bytes(b"\x40"))

    assert work(800) < 2.5 * work(400)


# Hashes of these are known to whoever sends them: of one hash, a dict compares each with each.
PRIME: Final = (1 << 61) - 1


def test_keys_of_one_hash_are_not_compared_with_each_other(monkeypatch: Any) -> None:
    keys = [uuid.UUID(int=number * PRIME + 7) for number in range(2_000)]
    assert len({hash(key) for key in keys}) == 1
    compared = 0
    equal = uuid.UUID.__eq__

    def counted(one: uuid.UUID, other: object) -> bool:
        nonlocal compared
        compared += 1
        return equal(one, other)

    data = encoding.encode(Pairs([(key, None) for key in keys]))
    small = encoding.encode([Pairs([(key, None) for key in keys[:64]])] * 20)
    monkeypatch.setattr(uuid.UUID, "__eq__", counted)

    assert isinstance(decoding.decode_whole(data), Pairs)
    assert compared == 0
    assert isinstance(decoding.decode_whole(small)[0], dict)
    assert compared <= 20 * 64 * 63 / 2


def test_keys_that_hold_values_are_never_hashed() -> None:
    for key in (Described(Ulong(1), Ulong(2)), Array(values.ULONG, [Ulong(1)]), Pairs(((1, 1),))):
        found = decoding.decode_whole(encoding.encode(Pairs(((key, 1), ("a", 2)))))

        assert isinstance(found, Pairs)
