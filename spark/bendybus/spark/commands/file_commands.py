"""`pipeline export`, `replay`, `load`."""

from typing import Annotated

import typer

from bendybus.spark.commands import values
from bendybus.spark.jobs import files, runtime
from bendybus.spark.jobs.files import Export, Load, Replay

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


def export(
    source: values.Source,
    out: Annotated[str, typer.Option(help="Folder.", show_default=False)],
    form: Annotated[str, typer.Option("--format", help="parquet or jsonl.")] = "parquet",
    since: Annotated[str, typer.Option("--from", help="Enqueued then or later (ISO 8601).")] = "",
    until: Annotated[str, typer.Option("--until", help="Enqueued before then.")] = "",
    where: Where = "",
    columns: Annotated[str, typer.Option(help="Only these, with commas; or all.")] = "",
    compression: Annotated[str, typer.Option(help="zstd, snappy, gzip, none.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder.")] = False,
    option: values.Set = [],  # noqa: B006
    connection_string_file: values.StringFile = None,
    master: values.Master = "local[2]",
    executors: values.Executors = 2,
    conf: values.Conf = [],  # noqa: B006
) -> None:
    """Write the messages of a queue or subscription into files. Nothing is removed."""
    given = values.entity(source, connection_string_file, option)
    for name, text in (("startingTime", since), ("endingTime", until)):
        if text:
            given[name] = text
    spark = runtime.session("export", values.runtime(master, executors, conf))
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
    connection_string_file: values.StringFile = None,
    master: values.Master = "local[2]",
    executors: values.Executors = 2,
    conf: values.Conf = [],  # noqa: B006
) -> None:
    """Send messages again that export or capture wrote."""
    target = _target(to, connection_string_file, idempotency_key)
    spark = runtime.session("replay", values.runtime(master, executors, conf))
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
    connection_string_file: values.StringFile = None,
    master: values.Master = "local[2]",
    executors: values.Executors = 2,
    conf: values.Conf = [],  # noqa: B006
) -> None:
    """Send one message for each row of Parquet, CSV or JSON lines."""
    target = _target(to, connection_string_file, idempotency_key)
    named = {
        "session_id": session_column,
        "partition_key": key_column,
        "message_id": id_column,
        "subject": subject_column,
    }
    spark = runtime.session("load", values.runtime(master, executors, conf))
    rows = files.load(spark, Load(given, target, form, body_column, named, rate))
    typer.echo(f"Loaded {rows:,} messages into {to}.")


def _target(to: str, string_file: object, key: str) -> dict[str, str]:
    found = values.entity(to, string_file)  # type: ignore[arg-type]
    return {**found, "idempotencyKey": key} if key else found
