"""LIKE: matches a text against a pattern in time linear in the text, whatever the pattern.

% is any text, also none; _ is any single character (code point). Both are literal behind the
escape character. Upper and lower case differ.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from bendybus.domain import limits
from bendybus.domain.filters.values import FilterError

_MANY: Final = object()
# What _ becomes in a segment.
_ONE: Final = None
_Character = str | None
# A segment up to this length is searched by an expression, thirty times as fast as bit by bit; its
# time is at most that of trying each place. Making the expression pays for a long text only.
_TRIED_CHARS_MAX: Final = 32
_LONG_TEXT_CHARS: Final = 500


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

    __slots__ = ("_any", "_expression", "_last", "_masks", "_runs", "_text", "length")

    def __init__(self, characters: list[_Character]) -> None:
        self.length = len(characters)
        # None if there is a _ in it.
        self._text = None if _ONE in characters else "".join(filter(None, characters))
        self._runs = list(_runs(characters))
        # For find: the state has a bit for each character of the segment that matches so far.
        self._any, self._masks = 0, dict[str, int]()
        # "": not to be used.
        self._expression: re.Pattern[str] | str = ""
        if self._text is None and self.length <= _TRIED_CHARS_MAX:
            parts = ("." if each is _ONE else re.escape(each) for each in characters)
            self._expression = "".join(parts)
        self._last = 1 << max(0, self.length - 1)
        if self._text is None:
            for i, character in enumerate(characters):
                if character is _ONE:
                    self._any |= 1 << i
            for i, character in enumerate(characters):
                if character is not _ONE:
                    self._masks[character] = self._masks.get(character, self._any) | 1 << i

    def is_at(self, text: str, at: int) -> bool:
        """Whether the text has the segment at a place that leaves room for it."""
        if self._text is not None:
            return text.startswith(self._text, at)
        return all(text.startswith(run, at + offset) for offset, run in self._runs)

    def find(self, text: str, start: int, end: int) -> int:
        """Return the first place of the segment in text[start:end]; -1: there is none."""
        if self._text is not None:
            return text.find(self._text, start, end)
        if self._expression and end - start > _LONG_TEXT_CHARS:
            if isinstance(self._expression, str):
                self._expression = re.compile(self._expression, re.DOTALL)
            found = self._expression.search(text, start, end)
            return -1 if found is None else found.start()
        # Shift-and: one step per character, also where trying each place would be quadratic.
        state, masks, other, last = 0, self._masks, self._any, self._last
        for i in range(start, end):
            state = (state << 1 | 1) & masks.get(text[i], other)
            if state & last:
                return i + 1 - self.length
        return -1


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
