"""What several commands read from the command line, and print: tables, Markdown, JSON lines."""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bendybus.spark.errors import OptionError
from bendybus.spark.jobs.runtime import Runtime

Source = Annotated[
    str, typer.Option(help="Queue, or TOPIC/Subscriptions/NAME.", show_default=False)
]
Checkpoint = Annotated[
    str, typer.Option(help="Folder of the job's positions; Spark keeps them there.")
]
Master = Annotated[
    str,
    typer.Option(
        help="local[N], k8s (in a pod), or any that Spark knows; ignored under spark-submit."
    ),
]
Executors = Annotated[int, typer.Option(min=1, metavar="N", help="With --master k8s.")]
Conf = Annotated[list[str], typer.Option(help="NAME=VALUE, a setting of Spark; repeatable.")]
StringFile = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="File with the connection string, on all executors."
    ),
]
Set = Annotated[
    list[str], typer.Option("--option", help="NAME=VALUE, an option of the format; repeatable.")
]
_DURATION: Final = re.compile(r"(\d+)\s*(s|m|h|d)?\Z")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
FORMATS: Final = ("table", "markdown", "json")
# Numbers that count nothing.
NAMES: Final = ("sequence_number", "partition")
_DATE_CHARS: Final = 10


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """Return NAME=VALUE texts as a dictionary. Raises OptionError."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise OptionError(f"{option}: must be NAME=VALUE (got {text!r})")
        found[name] = value
    return found


def entity(path: str, string_file: Path | None, more: Sequence[str] = ()) -> dict[str, str]:
    """Return the options of the format for an entity."""
    found = {"entity": path, **pairs("--option", more)}
    if string_file is not None:
        found["connectionStringFile"] = str(string_file.absolute())
    return found


def runtime(master: str, executors: int, conf: Sequence[str]) -> Runtime:
    """Return how a job runs."""
    return Runtime(master, pairs("--conf", conf), executors)


def interval(option: str, text: str) -> str:
    """Return a duration such as 30s, 10m, 1h as Spark has it. Raises OptionError."""
    match = _DURATION.match(text.strip())
    if match is None or not int(match[1]):
        raise OptionError(f"{option}: must be like 30s, 10m or 1h (got {text!r})")
    return f"{match[1]} {_UNITS[match[2] or 's']}"


def trigger(every: str, now: bool) -> dict[str, Any]:
    """Return the trigger of a query: --now ends when all that is there is done."""
    if now:
        return {"availableNow": True}
    return {"processingTime": interval("--trigger", every)}


def check_format(form: str) -> None:
    """Raise OptionError for a form that is not known."""
    if form not in FORMATS:
        raise OptionError(f"--format: must be {', '.join(FORMATS)} (got {form!r})")


def show_rows(names: Sequence[str], found: Iterable[Sequence[Any]], form: str, empty: str) -> None:
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
            min_width=_DATE_CHARS if datetime in kinds else None,
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
