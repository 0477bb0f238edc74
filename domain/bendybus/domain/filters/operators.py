"""What operators do with values. None is UNKNOWN, of any operand and as a result.

Integers are computed exactly and must fit into 64 signed bits; with a float in it, a computation
is one of doubles. Division of integers drops the fraction, as in C#.

LIKE matches in time linear in the text, whatever the pattern. % is any text, also none; _ is any
single character (code point). Both are literal behind the escape character. Upper and lower case
differ.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from bendybus.domain import limits
from bendybus.domain.filters import conversion
from bendybus.domain.filters.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    FilterError,
    Value,
    equal,
    is_number,
    is_ordered,
    kind_of,
)

Comparing = Callable[[Value, Value], bool | None]
Computing = Callable[[Value, Value], Value]
_Number = int | float
_MANY: Final = object()
# What _ becomes in a segment.
_ONE: Final = None
_Character = str | None
# Different characters of a segment that are sought in all of a text.
_SOUGHT_MAX: Final = 16
# Of a text, what is looked at first.
_WINDOW_CHARS_MIN: Final = 256
# For each, the digit of every byte.
_BITS: Final = [
    bytes(b"1"[0] if each == code else b"0"[0] for each in range(256))
    for code in range(_SOUGHT_MAX + 1)
]


def unequal(left: Value, right: Value) -> bool | None:
    """Return left <> right."""
    found = equal(left, right)
    return None if found is None else not found


def _ordering(sign: str, test: Callable[[object, object], bool]) -> Comparing:
    def compare(left: Value, right: Value) -> bool | None:
        if left is None or right is None:
            return None
        if not is_ordered(left, right):
            raise FilterError(
                f"{kind_of(left).value} cannot be compared with {kind_of(right).value} by {sign}."
            )
        return test(left, right)

    return compare


def _computing(sign: str, compute: Callable[[_Number, _Number], _Number]) -> Computing:
    def result(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return None
        if is_number(left) and is_number(right):
            return _fitting(compute(left, right))
        if sign == "+" and str in (type(left), type(right)):
            # As in C#, where a string is on either side.
            first, second = conversion.as_text(left), conversion.as_text(right)
            if first is not None and second is not None:
                return _joined(first, second)
        raise FilterError(f"{kind_of(left).value} {sign} {kind_of(right).value} is not defined.")

    return result


def signed(sign: str, operand: Value) -> Value:
    """Return +operand or -operand."""
    if operand is None:
        return None
    if not is_number(operand):
        raise FilterError(f"{sign} {kind_of(operand).value} is not defined.")
    return operand if sign == "+" else _fitting(-operand)


def _fitting(number: _Number) -> _Number:
    if type(number) is int and not INTEGER_MIN <= number <= INTEGER_MAX:
        raise FilterError("the result of integer arithmetic does not fit into 64 bits.")
    return number


def _joined(left: str, right: str) -> str:
    if len(left) + len(right) > limits.PROPERTY_BYTES_MAX:
        raise FilterError(f"a string is longer than {limits.PROPERTY_BYTES_MAX} characters.")
    return left + right


def _divided(left: _Number, right: _Number) -> _Number:
    if type(left) is int and type(right) is int:
        if right == 0:
            raise FilterError("an integer is divided by zero.")
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if right != 0:
        return left / right
    # As IEEE 754 has it, which Python refuses to do.
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _remainder(left: _Number, right: _Number) -> _Number:
    if type(left) is int and type(right) is int:
        if right == 0:
            raise FilterError("an integer is divided by zero.")
        remainder = abs(left) % abs(right)
        return remainder if left >= 0 else -remainder
    if right == 0 or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


COMPARE: Final[Mapping[str, Comparing]] = MappingProxyType(
    {
        "=": equal,
        "<>": unequal,
        "<": _ordering("<", operator.lt),  # type: ignore[arg-type]
        "<=": _ordering("<=", operator.le),  # type: ignore[arg-type]
        ">": _ordering(">", operator.gt),  # type: ignore[arg-type]
        ">=": _ordering(">=", operator.ge),  # type: ignore[arg-type]
    }
)
COMPUTE: Final[Mapping[str, Computing]] = MappingProxyType(
    {
        "+": _computing("+", operator.add),
        "-": _computing("-", operator.sub),
        "*": _computing("*", operator.mul),
        "/": _computing("/", _divided),
        "%": _computing("%", _remainder),
    }
)


def like(pattern: str, escape: str | None = None) -> Callable[[str], bool]:
    """Return the test of a pattern. Raises FilterError for a pattern that is none."""
    if len(pattern) > limits.LIKE_PATTERN_CHARS_MAX:
        raise FilterError(
            f"a pattern of LIKE must be at most {limits.LIKE_PATTERN_CHARS_MAX} characters "
            f"(got {len(pattern)})."
        )
    if escape is not None and len(escape) != 1:
        raise FilterError(f"ESCAPE must be a single character (got {escape[:20]!r}).")
    # The texts between the %.
    segments: list[list[_Character]] = [[]]
    for token in _tokens(pattern, escape):
        if token is _MANY:
            segments.append([])
        else:
            segments[-1].append(token)  # type: ignore[arg-type]
    if len(segments) == 1:
        whole = _Segment(segments[0])
        return lambda text: len(text) == whole.length and whole.is_at(text, 0)
    first, *middle, last = (_Segment(each) for each in segments)
    middle = [each for each in middle if each.length]

    def test(text: str) -> bool:
        end = len(text) - last.length
        if end < first.length or not first.is_at(text, 0) or not last.is_at(text, end):
            return False
        at = first.length
        for segment in middle:
            # The leftmost place is as good as any: it leaves most to what follows.
            found = segment.find(text, at, end)
            if found < 0:
                return False
            at = found + segment.length
        return True

    return test


def _tokens(pattern: str, escape: str | None) -> Iterator[object]:
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                raise FilterError("a pattern of LIKE must not end with its escape character.")
            yield literal
        elif character == "%":
            yield _MANY
        else:
            yield _ONE if character == "_" else character


class _Segment:
    """A part of a pattern without %."""

    __slots__ = (
        "_ascii",
        "_characters",
        "_codes",
        "_exact",
        "_offsets",
        "_runs",
        "_text",
        "_wanted",
        "length",
    )

    def __init__(self, characters: list[_Character]) -> None:
        self.length = len(characters)
        # None if there is a _ in it.
        self._text = None if _ONE in characters else "".join(filter(None, characters))
        self._runs = list(_runs(characters))
        if self._text is None:
            self._prepare(characters)

    def _prepare(self, characters: list[_Character]) -> None:
        """Choose the characters that `find` looks for."""
        places: dict[str, list[int]] = {}
        for i, character in enumerate(characters):
            if character is not _ONE:
                places.setdefault(character, []).append(i)
        chosen = list(places)[:_SOUGHT_MAX]
        # Whether all that there is is sought. Else one place of each: few places of a text have so
        # many different characters where they must be, and the rest is compared there.
        self._exact = len(chosen) == len(places)
        self._offsets = [places[each] if self._exact else places[each][:1] for each in chosen]
        self._characters = characters
        self._ascii = "".join(places).isascii()
        # By the bytes of a character: which bits of the segment count, and what they must be.
        self._wanted: dict[int, tuple[int, int]] = {}
        # The byte of a character that is sought; nothing else becomes one of these.
        self._codes = dict.fromkeys(range(_SOUGHT_MAX + 1), 0)
        self._codes |= {ord(each): code for code, each in enumerate(chosen, 1)}

    def is_at(self, text: str, at: int) -> bool:
        """Whether the text has the segment at a place that leaves room for it."""
        if self._text is not None:
            return text.startswith(self._text, at)
        return all(text.startswith(run, at + offset) for offset, run in self._runs)

    def find(self, text: str, start: int, end: int) -> int:
        """Return the first place of the segment in text[start:end]; -1: there is none."""
        if self._text is not None:
            return text.find(self._text, start, end)
        # In windows that grow: what is found early costs little, whatever follows it.
        window = max(_WINDOW_CHARS_MIN, 2 * self.length)
        while end - start >= self.length:
            window_end = min(start + window, end)
            at = self._find_in(text[start:window_end])
            if at >= 0:
                return start + at
            start = window_end - self.length + 1
            window *= 8
        return -1

    def _find_in(self, text: str) -> int:
        if text.isascii() and not self._ascii:
            return -1
        count = len(text) - self.length + 1
        places = self._places(text, count)
        if not self._exact and places:
            encoded = _encoded(text)
            bytes_each = len(encoded) // len(text)
            mask, wanted = self._in_bytes(bytes_each)
        while places:
            bit = places.bit_length() - 1
            at = count - 1 - bit
            if self._exact:
                return at
            # All characters at once.
            piece = encoded[bytes_each * at : bytes_each * (at + self.length)]
            if int.from_bytes(piece, "little") & mask == wanted:
                return at
            places ^= 1 << bit
        return -1

    def _in_bytes(self, bytes_each: int) -> tuple[int, int]:
        """Return which bits of a place count, and what they must be, if characters have so many
        bytes.
        """
        if bytes_each not in self._wanted:
            ones = b"".join(
                (b"\0" if each is _ONE else b"\xff") * bytes_each for each in self._characters
            )
            encoding = "ascii" if bytes_each == 1 else "utf-32-le"
            wanted = "".join(each or "\0" for each in self._characters)
            self._wanted[bytes_each] = (
                int.from_bytes(ones, "little"),
                int.from_bytes(wanted.encode(encoding, "surrogatepass"), "little"),
            )
        return self._wanted[bytes_each]

    def _places(self, text: str, count: int) -> int:
        """Return where a text has the sought characters of the segment: of its first `count`
        places the highest bit is the first.

        All places at once: bits of the text for each character, shifted and combined. Trying each
        place would be quadratic, and a step of its own for each is slow.
        """
        codes = text.translate(self._codes).encode("latin-1", "replace")
        spare, places = len(text) - count, (1 << count) - 1
        for code, offsets in enumerate(self._offsets, 1):
            bits = int(codes.translate(_BITS[code]), 2)
            for offset in offsets:
                places &= bits >> spare - offset
            if not places:
                break
        return places


def _encoded(text: str) -> bytes:
    """Return a text with as many bytes for each character: one, if all are ASCII, else four."""
    if text.isascii():
        return text.encode("ascii")
    return text.encode("utf-32-le", "surrogatepass")


def _runs(characters: list[_Character]) -> Iterator[tuple[int, str]]:
    run, began = "", 0
    for i, character in enumerate(characters):
        if character is not _ONE:
            began = i if not run else began
            run += character
        elif run:
            yield began, run
            run = ""
    if run:
        yield began, run
