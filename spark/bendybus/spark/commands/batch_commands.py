"""Jobs that end: `export`, `replay`, `load`, `dlq`, `usage`; and `fences`, without Spark."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from bendybus.spark import bus_errors, options
from bendybus.spark.bus import ConnectedSender
from bendybus.spark.commands import terminal
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs import capture, files, reports, runtime
from bendybus.spark.jobs import redrive as redrives
from bendybus.spark.jobs.files import Export, Load, Replay
from bendybus.spark.jobs.redrive import Redrive
from bendybus.spark.jobs.reports import Report, Usage
from bendybus.spark.option_table import Use
from bendybus.spark.sink.fences import Fences, Write

In = Annotated[str, typer.Option("--in", help="File or folder.", show_default=False)]
To = Annotated[str, typer.Option("--to", help="Queue or topic.", show_default=False)]
Rate = Annotated[float, typer.Option(help="Messages a second at most; 0: no bound.")]
Key = Annotated[
    str,
    typer.Option(
        "--idempotency-key",
        help="Names the write: a repeat with the same key, files and options stores nothing twice.",
    ),
]
Where = Annotated[str, typer.Option(help="Only rows of this condition (Spark SQL).")]
letter_app = typer.Typer(help="Dead letters: report, redrive.", no_args_is_help=True)
Sources = Annotated[
    list[str],
    typer.Option("--source", help="Queue, or TOPIC/Subscriptions/NAME; repeatable."),
]
Form = Annotated[str, typer.Option("--format", help="table, markdown or json.")]
_PREVIEW: int = 20
fence_app = typer.Typer(
    help="Progress of the tasks of a write: show, reset, adopt.", no_args_is_help=True
)
Written = Annotated[
    str, typer.Option("--to", help="Queue or topic that is written to.", show_default=False)
]
Checkpoint = Annotated[
    Path | None, typer.Option(help="Checkpoint of the streaming query that writes.")
]
WriteKey = Annotated[str, typer.Option("--idempotency-key", help="Or the key of the batch write.")]
Tasks = Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Number of tasks.")]
Yes = Annotated[
    bool, typer.Option("--yes", help="Do it; without it, only print what would be done.")
]
TASKS: int = 200


def export(
    source: terminal.Source,
    out: Annotated[str, typer.Option(help="Folder.", show_default=False)],
    form: Annotated[str, typer.Option("--format", help="parquet or jsonl.")] = "parquet",
    since: Annotated[str, typer.Option("--from", help="Enqueued then or later (ISO 8601).")] = "",
    until: Annotated[str, typer.Option("--until", help="Enqueued before then.")] = "",
    where: Where = "",
    columns: Annotated[str, typer.Option(help="Only these, with commas; or all.")] = "",
    compression: Annotated[str, typer.Option(help="zstd, snappy, gzip, none.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder.")] = False,
    option: terminal.Set = [],  # noqa: B006
    connection_string_file: terminal.StringFile = None,
    master: terminal.Master = "local[2]",
    executors: terminal.Executors = 2,
    conf: terminal.Conf = [],  # noqa: B006
) -> None:
    """Write the messages of a queue or subscription into files. Nothing is removed."""
    given = terminal.entity(source, connection_string_file, option)
    for name, text in (("startingTime", since), ("endingTime", until)):
        if text:
            given[name] = text
    spark = runtime.session("export", terminal.runtime(master, executors, conf))
    rows = files.export(spark, Export(given, out, form, where, columns, compression, overwrite))
    typer.echo(f"Exported {rows:,} messages of {source} to {out}.")


def replay(
    given: In,
    to: To,
    form: Annotated[str, typer.Option("--format", help="parquet or jsonl.")] = "parquet",
    where: Where = "",
    new_ids: Annotated[
        bool, typer.Option("--new-ids/--preserve-ids", help="New message ids, or the old ones.")
    ] = False,
    shift_time: Annotated[
        bool,
        typer.Option("--shift-time", help="Keep the distances in time: messages are scheduled."),
    ] = False,
    rate: Rate = 0,
    idempotency_key: Key = "",
    connection_string_file: terminal.StringFile = None,
    master: terminal.Master = "local[2]",
    executors: terminal.Executors = 2,
    conf: terminal.Conf = [],  # noqa: B006
) -> None:
    """Send messages again that export or capture wrote."""
    target = _target(to, connection_string_file, idempotency_key)
    spark = runtime.session("replay", terminal.runtime(master, executors, conf))
    rows = files.replay(spark, Replay(given, target, form, where, new_ids, shift_time, rate))
    typer.echo(f"Replayed {rows:,} messages to {to}.")


def load(
    given: In,
    to: To,
    form: Annotated[str, typer.Option("--format", help="parquet, csv or jsonl.")] = "parquet",
    body_column: Annotated[
        str, typer.Option(help="Column of the body; default: the whole row as JSON.")
    ] = "",
    session_column: Annotated[str, typer.Option(help="Column of the session id.")] = "",
    key_column: Annotated[str, typer.Option(help="Column of the partition key.")] = "",
    id_column: Annotated[str, typer.Option(help="Column of the message id.")] = "",
    subject_column: Annotated[str, typer.Option(help="Column of the subject.")] = "",
    rate: Rate = 0,
    idempotency_key: Key = "",
    connection_string_file: terminal.StringFile = None,
    master: terminal.Master = "local[2]",
    executors: terminal.Executors = 2,
    conf: terminal.Conf = [],  # noqa: B006
) -> None:
    """Send one message for each row of Parquet, CSV or JSON lines."""
    target = _target(to, connection_string_file, idempotency_key)
    named = {
        "session_id": session_column,
        "partition_key": key_column,
        "message_id": id_column,
        "subject": subject_column,
    }
    spark = runtime.session("load", terminal.runtime(master, executors, conf))
    rows = files.load(spark, Load(given, target, form, body_column, named, rate))
    typer.echo(f"Loaded {rows:,} messages into {to}.")


def _target(to: str, string_file: object, key: str) -> dict[str, str]:
    found = terminal.entity(to, string_file)  # type: ignore[arg-type]
    return {**found, "idempotencyKey": key} if key else found


@letter_app.command()
def report(
    source: Sources,
    group_by: Annotated[
        str,
        typer.Option(
            help="With commas: reason, description, subject, hour, day, partition, content_type, "
            "source, delivery_count, properties.NAME."
        ),
    ] = ",".join(reports.GROUP_DEFAULT),
    since: Annotated[str, typer.Option(help="Enqueued then or later (ISO 8601).")] = "",
    form: Form = "table",
    out: Annotated[str, typer.Option(help="Also write it as Parquet into this folder.")] = "",
    connection_string_file: terminal.StringFile = None,
    master: terminal.Master = "local[2]",
    executors: terminal.Executors = 2,
    conf: terminal.Conf = [],  # noqa: B006
) -> None:
    """Count dead letters by reason and more. Nothing is removed."""
    terminal.check_format(form)
    groups = [name.strip() for name in group_by.split(",") if name.strip()]
    for name in groups:
        reports.group(name)
    sources = [terminal.entity(path, connection_string_file) for path in source]
    spark = runtime.session("dlq-report", terminal.runtime(master, executors, conf))
    _show(reports.dead_letters(spark, Report(sources, groups, since)), form, out, "no dead letters")


@letter_app.command()
def redrive(
    source: terminal.Source,
    where: Annotated[
        str, typer.Option(help="Only those of this condition, such as dead_letter_reason='late'.")
    ] = "",
    to: Annotated[
        str, typer.Option(help="Another queue or topic; default: the queue, or the topic.")
    ] = "",
    set_property: Annotated[
        list[str], typer.Option(help="NAME=VALUE, set on each; repeatable.")
    ] = [],  # noqa: B006
    most: Annotated[
        int, typer.Option("--max", min=0, metavar="N", help="At most so many; 0: all.")
    ] = 0,
    fix: Annotated[
        str,
        typer.Option(
            help="MODULE:FUNCTION that gets each message as a dictionary, changes it, or "
            "returns None to leave it."
        ),
    ] = "",
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder that lets an interrupted run be continued: nothing twice."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which.")] = False,
    connection_string_file: terminal.StringFile = None,
    master: terminal.Master = "local[2]",
    executors: terminal.Executors = 2,
    conf: terminal.Conf = [],  # noqa: B006
) -> None:
    """Send dead letters again, and remove what was sent."""
    wanted = Redrive(
        terminal.entity(source, connection_string_file),
        to,
        where,
        terminal.pairs("--set-property", set_property),
        most,
        fix,
        checkpoint,
    )
    redrives.fixer(fix)
    spark = runtime.session("dlq-redrive", terminal.runtime(master, executors, conf))
    if dry_run:
        frame = redrives.preview(spark, wanted)
        shown = frame.selectExpr(
            "sequence_number",
            "message_id",
            "subject",
            "dead_letter_reason AS reason",
            f"{reports.SAMPLE} AS body",
        )
        count = min(frame.count(), most) if most else frame.count()
        first = shown.orderBy("sequence_number").limit(min(count, _PREVIEW))
        _show(first, "table", "", "no dead letters")
        typer.echo(f"Would redrive {count:,} dead letters of {source}; --dry-run: nothing is done.")
        return
    done = redrives.redrive(spark, wanted)
    moved = done.moved
    again = " Continued an interrupted run." if done.continued else ""
    known = moved.repeated + moved.duplicates
    before = f" {known:,} were there already." if known else ""
    typer.echo(f"Redrove {moved.removed:,} dead letters of {source}.{before}{again}")
    _name_refused(source, moved.refused)


def _name_refused(source: str, refused: Sequence[tuple[int, str]]) -> None:
    """Name the dead letters that are left. Raises PipelineError if there are any."""
    for number, why in refused[:_PREVIEW]:
        typer.echo(f"dead letter {number} is left: {why}", err=True)
    if refused:
        raise PipelineError(
            f"{len(refused):,} dead letters of {source} are left, since their copies are too "
            "large. Receive and complete them, shorten them with --fix, or raise the limit of the "
            "entity."
        )


def usage(
    source: Sources,
    every: Annotated[str, typer.Option(help="Span of time: 10m, 1h, 1d.")] = "1h",
    since: Annotated[str, typer.Option(help="Enqueued then or later (ISO 8601).")] = "",
    form: Form = "table",
    out: Annotated[str, typer.Option(help="Also write it as Parquet into this folder.")] = "",
    connection_string_file: terminal.StringFile = None,
    master: terminal.Master = "local[2]",
    executors: terminal.Executors = 2,
    conf: terminal.Conf = [],  # noqa: B006
) -> None:
    """Count messages and bytes that are there, by entity, partition and time."""
    terminal.check_format(form)
    span = terminal.interval("--every", every)
    sources = [terminal.entity(path, connection_string_file) for path in source]
    spark = runtime.session("usage", terminal.runtime(master, executors, conf))
    _show(reports.usage(spark, Usage(sources, span, since)), form, out, "no messages")


def _show(frame: Any, form: str, out: str, empty: str) -> None:
    if out:
        frame = frame.cache()
        frame.write.mode("append").parquet(out)
    terminal.show_rows(frame.columns, frame.collect(), form, empty)


@fence_app.command()
def show(
    to: Written,
    checkpoint: Checkpoint = None,
    idempotency_key: WriteKey = "",
    tasks: Tasks = TASKS,
    form: Form = "table",
    connection_string_file: terminal.StringFile = None,
) -> None:
    """Show how far each task came in each partition. Batches of a query count from 0."""
    terminal.check_format(form)
    found = _fences(to, checkpoint, idempotency_key, tasks, connection_string_file)
    rows = [
        [each.task, each.partition, each.fence.epoch - 1, each.fence.ordinal, each.fence.mark.hex()]
        for each in found.came
    ]
    terminal.show_rows(["task", "partition", "batch", "rows", "mark"], rows, form, "no fences")


@fence_app.command()
def reset(
    to: Written,
    checkpoint: Checkpoint = None,
    idempotency_key: WriteKey = "",
    tasks: Tasks = TASKS,
    yes: Yes = False,
    connection_string_file: terminal.StringFile = None,
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
    to: Written,
    checkpoint: Checkpoint = None,
    idempotency_key: WriteKey = "",
    tasks: Tasks = TASKS,
    yes: Yes = False,
    connection_string_file: terminal.StringFile = None,
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
    given = options.of_write(terminal.entity(to, string_file), Use.STREAM_WRITE)
    named = f"batch\0{key}" if checkpoint is None else f"query\0{_query_id(checkpoint)}"
    with bus_errors.translated(to):
        return Fences(ConnectedSender(given.connection, to, given.timeout_s), Write(named, tasks))


def _query_id(checkpoint: Path) -> str:
    """Return which query a checkpoint is of. Raises OptionError."""
    try:
        found: str = json.loads((checkpoint / capture.METADATA).read_bytes())["id"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"--checkpoint: {checkpoint} is not the checkpoint of a query on this machine ({error})"
        ) from None
    return found
