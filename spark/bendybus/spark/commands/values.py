"""What options of several commands have in common: how they are read, and what they become."""

import re
from collections.abc import Sequence
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
