"""What commands print: tables for people, Markdown, JSON lines."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from bendybus.spark.errors import OptionError

FORMATS: Final = ("table", "markdown", "json")
# Numbers that count nothing.
NAMES: Final = ("sequence_number", "partition")
DATE_CHARS: Final = 10


def check(form: str) -> None:
    """Raise OptionError for a form that is not known."""
    if form not in FORMATS:
        raise OptionError(f"--format: must be {', '.join(FORMATS)} (got {form!r})")


def rows(names: Sequence[str], found: Iterable[Sequence[Any]], form: str, empty: str) -> None:
    """Print rows on stdout; `empty` on stderr if there are none."""
    values = [list(row) for row in found]
    if not values:
        print(empty, file=sys.stderr)
        return
    if form == "json":
        for row in values:
            print(json.dumps(dict(zip(names, row, strict=True)), default=_text))
    elif form == "markdown":
        print("| " + " | ".join(names) + " |")
        print("|" + "---|" * len(names))
        for row in values:
            print("| " + " | ".join(map(_cell, names, row)) + " |")
    else:
        _table(names, values)


def _table(names: Sequence[str], values: list[list[Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(names):
        kinds = {type(row[index]) for row in values}
        numeric = kinds <= {int, float}
        made.add_column(
            name.upper().replace("_", " "),
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=numeric,
            # A time is broken between date and time of day only.
            min_width=DATE_CHARS if datetime in kinds else None,
        )
    for row in values:
        # Texts of messages are no markup.
        made.add_row(*(Text(visible(each)) for each in map(_shown, names, row)))
    Console().print(made)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and name not in NAMES:
        return f"{value:,}"
    # A DataFrame has times as they are here.
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)


def _cell(name: str, value: Any) -> str:
    return visible(_shown(name, value).replace("\n", " ")).replace("|", "\\|")


def visible(text: str) -> str:
    """Return a text without what a terminal would obey."""
    return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    return str(value)
