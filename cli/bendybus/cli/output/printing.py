"""Output: tables or JSON lines on stdout, notes and progress on stderr.

What a message or a bus says never reaches the terminal as it is: control characters in it would
be the terminal's commands. Here they become what Python writes for them.
"""

import codecs
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol, TextIO

import typer
import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bendybus.cli.output.tables import Column, Layout

# C0, DEL, C1 (8-bit escape codes), marks that turn text around, and what UTF-8 cannot express.
_MARKS: Final = "\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE: Final = re.compile(f"[\x00-\x1f{_MARKS}]")
# JSON escapes C0 by itself.
_UNSAFE_JSON: Final = re.compile(f"[{_MARKS}]")


class Output(StrEnum):
    """How to show something."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def structured(self) -> bool:
        """Whether it is for programs."""
        return self in (Output.JSON, Output.YAML)


# The option of every command that has a result; `run_command` still takes `--json` of 0.6.
OutputOption = Annotated[
    Output,
    typer.Option("--output", "-o", help="table, wide, yaml, or json: one object a line."),
]


class Step(Protocol):
    """Moves a progress bar on."""

    def __call__(self, count: int) -> None:
        """Say that so many more are done."""


def visible(text: str) -> str:
    """Return a text of one line whose control characters are written out."""
    return _UNSAFE.sub(lambda found: repr(found.group())[1:-1], text)


def line(text: str) -> None:
    """Print a line of text on stdout."""
    _write(sys.stdout, _lines_visible(text))
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a note on stderr, so that stdout can be parsed."""
    _write(sys.stderr, _lines_visible(text))
    sys.stderr.flush()


def json_text(value: Mapping[str, Any]) -> str:
    """Return one JSON object on a line, with no character that a terminal acts on.

    Where stdout has another encoding than UTF-8, characters outside ASCII are escaped as JSON has
    it: what stdout itself would write for them is no JSON.
    """
    plain = getattr(sys.stdout, "encoding", "utf-8") or "ascii"
    escaped = codecs.lookup(plain).name != "utf-8"
    text = json.dumps(value, ensure_ascii=escaped, allow_nan=False, default=str)
    return _UNSAFE_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def json_line(value: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of its own."""
    _write(sys.stdout, json_text(value))
    sys.stdout.flush()


def structured(value: Mapping[str, Any], output: Output) -> None:
    """Print an object as JSON, or as a YAML document."""
    if output is Output.YAML:
        text = yaml.safe_dump(_plain(value), sort_keys=False, allow_unicode=False)
        print(f"---\n{text}", end="", flush=True)
    else:
        json_line(value)


def result(value: Mapping[str, Any], sentence: str, output: Output) -> None:
    """Print what a command has done: as an object for programs, else as a sentence."""
    if output.structured:
        structured(value, output)
    else:
        line(sentence)


def table(columns: Sequence[str | Column], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; see `tables`."""
    Table(columns).rows(rows, header=True)


class Table:
    """A table that is printed row by row."""

    def __init__(self, columns: Sequence[str | Column]) -> None:
        # A pipe has no width: nothing is cut for a program that reads columns.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        self._layout = Layout(columns, width)

    def rows(self, rows: Iterable[Sequence[object]], *, header: bool = False) -> None:
        """Print rows, the header before the first; it alone where `header` and there are none."""
        cells = [[_cell(value) for value in row] for row in rows]
        if cells or header:
            for text in self._layout.lines(cells):
                _write(sys.stdout, text)
            sys.stdout.flush()

    def each(self, rows: Sequence[Sequence[object]]) -> Iterator[None]:
        """Print rows, the header before the first; yields when each is flushed.

        In a terminal, where a row may take several lines, the first is flushed with all of them.
        """
        lines = self._layout.lines([[_cell(value) for value in row] for row in rows])
        more = len(lines) - len(rows)
        for index in range(len(rows)):
            for text in lines[: more + 1] if not index else lines[more + index : more + index + 1]:
                _write(sys.stdout, text)
            sys.stdout.flush()
            yield


def _write(stream: TextIO, text: str) -> None:
    """Write a line in one piece: where PYTHONUNBUFFERED is set, `print` writes its end alone.

    The reader of a socket or a pipe would have a message before its line is whole.
    """
    stream.write(text + "\n")


def clear() -> None:
    """Begin at the top of a cleared terminal."""
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        print("\x1b[H\x1b[2J", end="")


def size(count: int) -> str:
    """Return a size with its unit."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1024 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


@contextmanager
def progress(what: str, total: int | None, *, shown: bool = True) -> Iterator[Step]:
    """Show a progress bar on stderr if that is a terminal, and `shown`."""
    if not shown or not sys.stderr.isatty():
        yield lambda count: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def _lines_visible(text: str) -> str:
    return "\n".join(visible(part) for part in text.split("\n"))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else visible(str(value))


def _plain(value: Any) -> Any:
    """Return what YAML's safe writer knows."""
    return json.loads(json.dumps(value, default=str))
