"""What people and programs see: tables or JSON lines on stdout, notes and progress on stderr."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

_PIPE_COLUMNS: Final = 10_000


class Output(StrEnum):
    """How to show something."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class Step(Protocol):
    """Moves a progress bar on."""

    def __call__(self, count: int) -> None:
        """Say that so many more are done."""


def line(text: str) -> None:
    """Print one line for people on stdout."""
    print(text, flush=True)


def note(text: str) -> None:
    """Print one line for people on stderr, where it disturbs no program."""
    print(text, file=sys.stderr, flush=True)


def json_line(value: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of its own."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table without frames; figures stand to the right."""
    body = [[_cell(value) for value in row] for row in rows]
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        figures = all(_is_figure(row[index]) for row in body) and bool(body)
        shown.add_column(column, justify="right" if figures else "left", overflow="fold")
    for row in body:
        shown.add_row(*row)
    # A pipe has no width: nothing is folded for a program that reads columns.
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    Console(highlight=False, markup=False, width=width).print(shown)


def size(count: int) -> str:
    """Return bytes as people read them."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1024 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Step]:
    """Show a bar on stderr while a person watches; nothing otherwise."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _is_figure(text: str) -> bool:
    return text[:1].isdigit() or text == "-"
