"""Whether `bendybus pipeline` takes arguments, and which jobs it has, without starting any."""

from collections.abc import Iterator, Sequence

import click
import typer.main

from bendybus.spark.commands.app import app


def jobs() -> set[str]:
    """Return the names of the jobs, those of two words with a space."""
    return set(_names(typer.main.get_command(app), ""))


def _names(command: click.Command, name: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        for each, inner in command.commands.items():
            yield from _names(inner, f"{name} {each}".strip())
    else:
        yield name


def take(arguments: Sequence[str]) -> dict[str, object]:
    """Return the options that a job would get. Raises click.UsageError."""
    begin, rest = ["bendybus", "pipeline"], list(arguments[2:])
    assert list(arguments[:2]) == begin, arguments
    command = typer.main.get_command(app)
    context: click.Context | None = None
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context)
        _, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
    return command.make_context("job", rest, parent=context).params
