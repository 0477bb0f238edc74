"""Tables without frames that fit a terminal. Pure.

Columns of figures are right-aligned. In a narrow terminal, columns that may be cut end in an
ellipsis, columns that may wrap break between words, and if that is not enough every row becomes a
block of lines. A name or a number is never broken.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GAP: Final = 2
_ELLIPSIS: Final = "…"


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    `cut`: the fewest characters to which it may be cut; `wrap`: to which it may be wrapped; `room`:
    the fewest that it gets, for rows that come later; `text`: left-aligned, even if every cell
    looks like a figure.
    """

    title: str
    cut: int = 0
    wrap: int = 0
    room: int = 0
    text: bool = False

    @property
    def least(self) -> int:
        """Return the narrowest it may be; 0: as its widest cell."""
        return self.cut or self.wrap


def columns(titles: Sequence[str | Column]) -> list[Column]:
    """Return columns; a bare title is a column that is neither cut nor wrapped."""
    return [each if isinstance(each, Column) else Column(each) for each in titles]


class Layout:
    """The column widths of a table, fixed by its first rows."""

    def __init__(self, titles: Sequence[str | Column], width: int | None) -> None:
        """Make a layout for a terminal of `width`; None: as wide as need be."""
        self._columns = columns(titles)
        self._width = width
        self._widths: list[int] | None = None
        self._right: list[bool] = []

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Return the lines of some rows; the header precedes the first."""
        made: list[str] = []
        if self._widths is None:
            self._right = [
                bool(rows)
                and not (self._columns[index].wrap or self._columns[index].text)
                and all(_is_figure(row[index]) for row in rows)
                for index in range(len(self._columns))
            ]
            self._widths = self._fit([self._natural(index, rows) for index in self._indexes()])
            if self._widths:
                made += self._row([column.title for column in self._columns])
        for number, row in enumerate(rows):
            if self._widths:
                made += self._row(row)
            else:
                made += [""] if number else []
                made += self._block(row)
        return made

    def _indexes(self) -> range:
        return range(len(self._columns))

    def _natural(self, index: int, rows: Sequence[Sequence[str]]) -> int:
        cells = [row[index] for row in rows]
        column = self._columns[index]
        return max(column.room, *(wide(text) for text in (column.title, *cells)))

    def _fit(self, natural: list[int]) -> list[int]:
        """Return the widths; none when a table does not fit."""
        if self._width is None:
            return natural
        widths = list(natural)
        too_much = sum(widths) + GAP * (len(widths) - 1) - self._width
        # From the last: bodies and descriptions stand there.
        for index in reversed(self._indexes()):
            column = self._columns[index]
            if too_much <= 0 or not column.least:
                continue
            least = max(column.least, wide(column.title))
            taken = min(too_much, max(0, widths[index] - least))
            widths[index] -= taken
            too_much -= taken
        return widths if too_much <= 0 else []

    def _row(self, cells: Sequence[str]) -> list[str]:
        assert self._widths is not None
        parts = [
            self._pieces(text, column, width)
            for text, column, width in zip(cells, self._columns, self._widths, strict=True)
        ]
        made = []
        for height in range(max(len(part) for part in parts)):
            texts = [part[height] if height < len(part) else "" for part in parts]
            padded = [
                _padded(text, width, right)
                for text, width, right in zip(texts, self._widths, self._right, strict=True)
            ]
            made.append((" " * GAP).join(padded).rstrip())
        return made

    def _pieces(self, text: str, column: Column, width: int) -> list[str]:
        if wide(text) <= width or self._width is None:
            return [text]
        if column.wrap:
            return _wrapped(text, width)
        # A later row may be wider than those that the widths are of.
        return [shortened(text, width)] if column.cut else [text]

    def _block(self, row: Sequence[str]) -> list[str]:
        title = max(wide(column.title) for column in self._columns)
        room = max(20, (self._width or 0) - title - GAP)
        made = []
        for column, text in zip(self._columns, row, strict=True):
            shown = shortened(text, room) if column.cut else text
            made.append(f"{column.title.ljust(title + GAP)}{shown}".rstrip())
        return made


def wide(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(each) for each in text)


def shortened(text: str, width: int) -> str:
    """Return the beginning of a text, with an ellipsis where something is missing."""
    if wide(text) <= width:
        return text
    made, used = "", 0
    for each in text:
        used += _cells(each)
        if used >= width:
            break
        made += each
    return made + _ELLIPSIS


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _padded(text: str, width: int, right: bool) -> str:
    blank = " " * max(0, width - wide(text))
    return blank + text if right else text + blank


def _wrapped(text: str, width: int) -> list[str]:
    made: list[str] = []
    current = ""
    for word in text.replace(",", ", ").split():
        longer = f"{current} {word}" if current and not current.endswith(",") else current + word
        if current and wide(longer) > width:
            made.append(current)
            current = word
        else:
            current = longer
    return [*made, current]


def _is_figure(text: str) -> bool:
    return text[:1].isdigit() or text == "-"
