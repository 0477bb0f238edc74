"""`pipeline dlq report`, `pipeline dlq redrive`, `pipeline usage`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bendybus.spark.commands import output, values
from bendybus.spark.jobs import redrive as redrives
from bendybus.spark.jobs import reports, runtime
from bendybus.spark.jobs.redrive import Redrive
from bendybus.spark.jobs.reports import Report, Usage

letter_app = typer.Typer(help="Dead letters: report, redrive.", no_args_is_help=True)
Sources = Annotated[
    list[str],
    typer.Option("--source", help="Queue, or TOPIC/Subscriptions/NAME; repeatable."),
]
Form = Annotated[str, typer.Option("--format", help="table, markdown or json.")]
PREVIEW: int = 20


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
    connection_string_file: values.StringFile = None,
    master: values.Master = "local[2]",
    executors: values.Executors = 2,
    conf: values.Conf = [],  # noqa: B006
) -> None:
    """Count dead letters by reason and more. Nothing is removed."""
    output.check(form)
    groups = [name.strip() for name in group_by.split(",") if name.strip()]
    for name in groups:
        reports.group(name)
    sources = [values.entity(path, connection_string_file) for path in source]
    spark = runtime.session("dlq-report", values.runtime(master, executors, conf))
    _show(reports.dead_letters(spark, Report(sources, groups, since)), form, out, "no dead letters")


@letter_app.command()
def redrive(
    source: values.Source,
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
    connection_string_file: values.StringFile = None,
    master: values.Master = "local[2]",
    executors: values.Executors = 2,
    conf: values.Conf = [],  # noqa: B006
) -> None:
    """Send dead letters again, and remove what was sent."""
    wanted = Redrive(
        values.entity(source, connection_string_file),
        to,
        where,
        values.pairs("--set-property", set_property),
        most,
        fix,
        checkpoint,
    )
    redrives.fixer(fix)
    spark = runtime.session("dlq-redrive", values.runtime(master, executors, conf))
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
        first = shown.orderBy("sequence_number").limit(min(count, PREVIEW))
        _show(first, "table", "", "no dead letters")
        typer.echo(f"Would redrive {count:,} dead letters of {source}; --dry-run: nothing is done.")
        return
    done = redrives.redrive(spark, wanted)
    moved = done.moved
    again = " Continued an interrupted run." if done.continued else ""
    known = moved.repeated + moved.duplicates
    before = f" {known:,} were there already." if known else ""
    typer.echo(f"Redrove {moved.removed:,} dead letters of {source}.{before}{again}")


def usage(
    source: Sources,
    every: Annotated[str, typer.Option(help="Span of time: 10m, 1h, 1d.")] = "1h",
    since: Annotated[str, typer.Option(help="Enqueued then or later (ISO 8601).")] = "",
    form: Form = "table",
    out: Annotated[str, typer.Option(help="Also write it as Parquet into this folder.")] = "",
    connection_string_file: values.StringFile = None,
    master: values.Master = "local[2]",
    executors: values.Executors = 2,
    conf: values.Conf = [],  # noqa: B006
) -> None:
    """Count messages and bytes that are there, by entity, partition and time."""
    output.check(form)
    span = values.interval("--every", every)
    sources = [values.entity(path, connection_string_file) for path in source]
    spark = runtime.session("usage", values.runtime(master, executors, conf))
    _show(reports.usage(spark, Usage(sources, span, since)), form, out, "no messages")


def _show(frame: Any, form: str, out: str, empty: str) -> None:
    if out:
        frame = frame.cache()
        frame.write.mode("append").parquet(out)
    output.rows(frame.columns, frame.collect(), form, empty)
