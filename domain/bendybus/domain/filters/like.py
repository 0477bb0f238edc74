"""LIKE: matches a text against a pattern in time linear in the text, whatever the pattern.

% is any text, also none; _ is any single character (code point). Both are literal behind the
escape character. Upper and lower case differ.
"""

from collections.abc import Callable, Iterator
from typing import Final

from bendybus.domain import limits
from bendybus.domain.filters.values import FilterError

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


def compiled(pattern: str, escape: str | None = None) -> Callable[[str], bool]:
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
