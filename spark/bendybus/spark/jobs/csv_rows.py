"""The rows of a CSV file (RFC 4180), as they stand there: what has no exact meaning is refused.

Each row ends with LF or CR LF by itself. In a file whose header ends with CR, rows may end with CR,
too. A quote within quotes is doubled, and a quoted value keeps its line breaks. Empty lines are no
rows.
"""

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from bendybus.spark.errors import RowError

# Characters: far more than a message may have.
ROW_MAX: Final = 128 * 1024 * 1024
_BARE_CR: Final = re.compile(r"(?<=\r)(?!\n)")
# A quoted value; the group is its last quote, or nothing.
_QUOTED: Final = re.compile(r'(?:^|(?<=[,\r\n]))"(?:[^"]++|"")*+("?)')
_DOUBLE: Final = "a quote within a quoted value is doubled"


def table(
    lines: Iterable[str], file: str, folders: Sequence[str] = (), row_max: int = ROW_MAX
) -> Iterator[list[str]]:
    """Yield the names of the columns, then the rows. Raises RowError.

    `lines`: what is between the LF of the file. `folders`: columns that its folders name.
    """
    names: list[str] = []
    for line, row in _rows(lines, file, row_max):
        if not names:
            names = row
            _check_names(names, file, folders)
        elif len(row) != len(names):
            values = "1 value" if len(row) == 1 else f"{len(row)} values"
            raise RowError(
                f"--in: {file}: line {line} is malformed: it has {values}, and the header has "
                f"{len(names)}; mend the line, and quote values that have commas"
            )
        yield row


def _check_names(names: Sequence[str], file: str, folders: Sequence[str]) -> None:
    """Raise RowError for names of columns that would not tell their values apart."""
    for place, name in enumerate(names):
        if not name:
            raise RowError(
                f"--in: {file} has no name for its column {place + 1}; give it one in the header"
            )
        if name in names[:place]:
            raise RowError(
                f"--in: {file} has the column {name!r} twice, as its columns "
                f"{names.index(name) + 1} and {place + 1}; give one of them another name in the "
                "header"
            )
    check_folders(names, file, folders)


def check_folders(names: Sequence[str], file: str, folders: Sequence[str]) -> None:
    """Raise RowError for a column that files have, and folders too."""
    for name in folders:
        if name in names:
            raise RowError(
                f"--in: {file} has the column {name!r}, and is in a folder that is named {name}=…; "
                "give one of them another name"
            )


class _Lines:
    """Hands out lines, and keeps those of one row."""

    def __init__(self, lines: Iterable[str], file: str, row_max: int) -> None:
        self._pieces = _pieces(lines)
        self._file = file
        self._row_max = row_max
        self._size = 0
        # The line that the row begins in, and its text.
        self.first = 1
        self.row: list[str] = []
        # Whether a carriage return alone ends a row.
        self.of_cr = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        piece = next(self._pieces)
        self.row.append(piece)
        self._size += len(piece)
        if self._size > self._row_max:
            raise RowError(
                f"--in: {self._file}: the row that begins in line {self.first} has more than "
                f"{self._row_max:,} characters; is a quote in it not closed?"
            )
        return piece

    def begin(self) -> None:
        """Forget the row before."""
        self.first += sum(self.of_cr or piece.endswith("\n") for piece in self.row)
        self.row.clear()
        self._size = 0


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with what ends them: LF, CR LF, or CR."""
    first = True
    for line in lines:
        text = f"{line}\n"
        if first:
            text, first = text.removeprefix("\ufeff"), False
        if text.find("\r", 0, -2) < 0:
            yield text
        else:
            yield from _BARE_CR.split(text)


def _rows(lines: Iterable[str], file: str, row_max: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows, each with the line that it begins in."""
    # The module refuses values above 128 KB.
    csv.field_size_limit(sys.maxsize)
    given = _Lines(lines, file, row_max)
    reader = csv.reader(given, strict=True)
    header = True
    while True:
        given.begin()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise RowError(f"--in: {file}: {_fault(given)}") from error
        bare = given.row[-1].endswith("\r")
        if header:
            given.of_cr = bare
        elif bare and not given.of_cr:
            raise RowError(
                f"--in: {file}: line {given.first} has a carriage return outside of quotes, and "
                "rows end with a line feed here; quote the value, or end the row as the others"
            )
        if row:
            header = False
            yield given.first, row


def _fault(given: _Lines) -> str:
    """Return a phrase for the fault in the quotes of a row."""
    text = "".join(given.row)

    def line(end: int) -> int:
        return given.first + text.count("\n", 0, end)

    for quoted in _QUOTED.finditer(text):
        opens = f"the quote that opens in line {line(quoted.start())}"
        if not quoted[1]:
            return f"{opens} is not closed; close it: {_DOUBLE}"
        if text[quoted.end() : quoted.end() + 1] not in (",", "\r", "\n"):
            return (
                f"{opens} is malformed: it closes in line {line(quoted.end())} with text behind "
                f"it; {_DOUBLE}"
            )
    return f"line {given.first} is malformed; mend its quotes"
