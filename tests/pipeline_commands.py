"""Whether `bendybus pipeline` takes arguments, and which jobs it has, without starting any."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import typer.core
import typer.main

from bendybus.spark.commands.run import app

# Of Click, which Typer brings along in some versions and imports in others.
UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]


def jobs() -> set[str]:
    """Return the names of the jobs, those of two words with a space: what runs on Spark."""
    names = set(_names(typer.main.get_command(app), ""))
    return {name for name in names if not name.startswith("fences ")}


def _names(command: Any, name: str) -> Iterator[str]:
    if isinstance(command, typer.core.TyperGroup):
        for each, inner in command.commands.items():
            yield from _names(inner, f"{name} {each}".strip())
    else:
        yield name


def take(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the options that a job would get. Raises UsageError."""
    assert list(arguments[:2]) == ["bendybus", "pipeline"], arguments
    rest = list(arguments[2:])
    command: Any = typer.main.get_command(app)
    context: Any = None
    while isinstance(command, typer.core.TyperGroup):
        context = typer.Context(command, parent=context)
        _, command, rest = command.resolve_command(context, rest)
    found: dict[str, Any] = command.make_context("job", rest, parent=context).params
    return found
