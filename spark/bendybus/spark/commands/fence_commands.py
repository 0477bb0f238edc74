"""`pipeline fences show`, `reset`, `adopt`: without Spark."""

import json
from pathlib import Path
from typing import Annotated

import typer

from bendybus.spark import bus_errors, options
from bendybus.spark.commands import output, values
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs import capture_record
from bendybus.spark.jobs.fences import Fences, Write
from bendybus.spark.option_table import Use
from bendybus.spark.sink.bus import ConnectedSender

fence_app = typer.Typer(
    help="Progress of the tasks of a write: show, reset, adopt.", no_args_is_help=True
)
To = Annotated[
    str, typer.Option("--to", help="Queue or topic that is written to.", show_default=False)
]
Checkpoint = Annotated[
    Path | None, typer.Option(help="Checkpoint of the streaming query that writes.")
]
Key = Annotated[str, typer.Option("--idempotency-key", help="Or the key of the batch write.")]
Tasks = Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Number of tasks.")]
Yes = Annotated[
    bool, typer.Option("--yes", help="Do it; without it, only print what would be done.")
]
Form = Annotated[str, typer.Option("--format", help="table, markdown or json.")]
TASKS: int = 200


@fence_app.command()
def show(
    to: To,
    checkpoint: Checkpoint = None,
    idempotency_key: Key = "",
    tasks: Tasks = TASKS,
    form: Form = "table",
    connection_string_file: values.StringFile = None,
) -> None:
    """Show how far each task came in each partition. Batches of a query count from 0."""
    output.check(form)
    found = _fences(to, checkpoint, idempotency_key, tasks, connection_string_file)
    rows = [
        [each.task, each.partition, each.fence.epoch - 1, each.fence.ordinal, each.fence.mark.hex()]
        for each in found.came
    ]
    output.rows(["task", "partition", "batch", "rows", "mark"], rows, form, "no fences")


@fence_app.command()
def reset(
    to: To,
    checkpoint: Checkpoint = None,
    idempotency_key: Key = "",
    tasks: Tasks = TASKS,
    yes: Yes = False,
    connection_string_file: values.StringFile = None,
) -> None:
    """Have the latest batch written from its beginning: what is stored of it is stored twice.

    Stop the query before.
    """
    found = _fences(to, checkpoint, idempotency_key, tasks, connection_string_file)
    most = f"up to {found.stored_at_most():,} messages of batch {found.epoch - 1} of {to}"
    if not yes:
        raise PipelineError(f"nothing is done without --yes: {most} would be stored twice")
    with bus_errors.translated(to):
        found.check_at_rest()
        found.reset()
    typer.echo(f"Reset: {most} may be stored twice.")


@fence_app.command()
def adopt(
    to: To,
    checkpoint: Checkpoint = None,
    idempotency_key: Key = "",
    tasks: Tasks = TASKS,
    yes: Yes = False,
    connection_string_file: values.StringFile = None,
) -> None:
    """Take the latest batch as written: what is not stored of it is left out.

    Stop the query before.
    """
    found = _fences(to, checkpoint, idempotency_key, tasks, connection_string_file)
    what = f"batch {found.epoch - 1} of {to}, with up to {found.stored_at_most():,} messages"
    if not yes:
        raise PipelineError(
            f"nothing is done without --yes: {what}, would be taken as written by {found.tasks} "
            "tasks"
        )
    with bus_errors.translated(to):
        found.check_at_rest()
        found.adopt()
    typer.echo(f"Adopted: {what}; a repeat of it by up to {found.tasks} tasks stores nothing.")


def _fences(
    to: str, checkpoint: Path | None, key: str, tasks: int, string_file: Path | None
) -> Fences:
    """Return the fences of the write that is meant. Raises PipelineError."""
    if (checkpoint is None) == (not key):
        raise OptionError("--checkpoint: set this one or --idempotency-key")
    given = options.of_write(values.entity(to, string_file), Use.STREAM_WRITE)
    named = f"batch\0{key}" if checkpoint is None else f"query\0{_query_id(checkpoint)}"
    with bus_errors.translated(to):
        return Fences(ConnectedSender(given.connection, to, given.timeout_s), Write(named, tasks))


def _query_id(checkpoint: Path) -> str:
    """Return which query a checkpoint is of. Raises OptionError."""
    try:
        found: str = json.loads((checkpoint / capture_record.METADATA).read_bytes())["id"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"--checkpoint: {checkpoint} is not the checkpoint of a query on this machine ({error})"
        ) from None
    return found
