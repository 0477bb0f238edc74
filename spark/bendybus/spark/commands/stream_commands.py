"""Jobs that are streaming queries: they run until they are stopped, or --now."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from bendybus.spark.commands import terminal
from bendybus.spark.errors import OptionError
from bendybus.spark.jobs import capture as captures
from bendybus.spark.jobs import reports, runtime
from bendybus.spark.jobs.capture import Batch, Capture
from bendybus.spark.jobs.file_store import FIELDS, FOLDER, Layout
from bendybus.spark.jobs.reports import Sessions

Every = Annotated[str, typer.Option("--trigger", help="Time between batches: 30s, 5m.")]
Now = Annotated[bool, typer.Option("--now", help="End when all that is there now is done.")]
Port = Annotated[
    int,
    typer.Option(
        "--metrics-port", min=0, max=65_535, metavar="N", help="Port for Prometheus; 0: none."
    ),
]
Alive = Annotated[
    Path | None, typer.Option("--alive-file", help="Touched at each look, for a liveness probe.")
]


def capture(
    source: terminal.Source,
    out: Annotated[
        str, typer.Option(help="Folder, or URI such as s3://…, that all executors reach.")
    ],
    checkpoint: terminal.Checkpoint,
    form: Annotated[str, typer.Option("--format", help="parquet or jsonl.")] = "parquet",
    compression: Annotated[
        str, typer.Option(help="zstd (default), snappy or none; of jsonl: none (default), gzip.")
    ] = "",
    path_template: Annotated[
        str, typer.Option(help=f"Folders below --out, of {', '.join(FIELDS)}, by enqueued time.")
    ] = FOLDER,
    settle: Annotated[
        str,
        typer.Option(help="trailing: what is captured is removed. none: nothing is."),
    ] = "trailing",
    max_messages: Annotated[
        int,
        typer.Option(
            "--max-messages", min=0, metavar="N", help="Maximum in a batch; 0: 10,000 a partition."
        ),
    ] = 0,
    columns: Annotated[str, typer.Option(help="Only these, with commas; or all.")] = "",
    trigger: Annotated[
        str, typer.Option("--trigger", "--window", help="Time between batches: 30s, 5m.")
    ] = "60s",
    now: Now = False,
    metrics_port: Port = 0,
    alive_file: Alive = None,
    option: terminal.Set = [],  # noqa: B006
    connection_string_file: terminal.StringFile = None,
    master: terminal.Master = "local[2]",
    executors: terminal.Executors = 2,
    conf: terminal.Conf = [],  # noqa: B006
) -> None:
    """Put what is in a queue or subscription into files, each message exactly once."""
    given = {"settle": settle, **terminal.entity(source, connection_string_file, option)}
    if columns:
        given["columns"] = columns
    if max_messages:
        given["maxMessagesPerTrigger"] = str(max_messages)
    wanted = Capture(given, out, checkpoint, Layout(form, compression, path_template))
    captures.check(wanted)
    pace = terminal.trigger(trigger, now)
    spark = runtime.session("capture", terminal.runtime(master, executors, conf))
    total = Total()
    with reporting(spark, "capture", source, metrics_port, alive_file) as reported:

        def done(batch: Batch) -> None:
            total.add(batch)
            reported.counted(batch.number, batch.messages)

        run(captures.start(spark, wanted, pace, done))
    files = "1 file" if total.files == 1 else f"{total.files:,} files"
    typer.echo(f"Captured {total.messages:,} messages of {source} in {files} below {out}.")


class Total:
    """What the batches of a run captured."""

    def __init__(self) -> None:
        self.messages = self.files = 0

    def add(self, batch: Batch) -> None:
        """Take a batch."""
        self.messages += batch.messages
        self.files += batch.files


def sessions(
    source: terminal.Source,
    checkpoint: terminal.Checkpoint,
    out: Annotated[str, typer.Option(help="Folder of Parquet files; or --to.")] = "",
    to: Annotated[str, typer.Option(help="Queue or topic for the results, as JSON.")] = "",
    gap: Annotated[str, typer.Option(help="Silence that closes a session.")] = "10m",
    late: Annotated[str, typer.Option(help="How late a message may be read.")] = "1m",
    trigger: Every = "30s",
    now: Now = False,
    metrics_port: Port = 0,
    alive_file: Alive = None,
    option: terminal.Set = [],  # noqa: B006
    connection_string_file: terminal.StringFile = None,
    master: terminal.Master = "local[2]",
    executors: terminal.Executors = 2,
    conf: terminal.Conf = [],  # noqa: B006
) -> None:
    """Write one row for each session that is over: messages, bytes, first and last time."""
    wanted = Sessions(
        {"startingOffsets": "earliest", **terminal.entity(source, connection_string_file, option)},
        checkpoint,
        terminal.interval("--gap", gap),
        terminal.interval("--late", late),
        out,
        terminal.entity(to, connection_string_file) if to else None,
    )
    pace = terminal.trigger(trigger, now)
    spark = runtime.session("sessions", terminal.runtime(master, executors, conf))
    with reporting(spark, "sessions", source, metrics_port, alive_file):
        run(reports.start_sessions(spark, wanted, pace))


@contextlib.contextmanager
def reporting(
    spark: Any, job: str, entity: str, port: int, alive: Path | None
) -> Iterator[runtime.Progress]:
    """Have the queries of a session write lines and metrics."""
    metrics = runtime.Metrics(job) if port else None
    if metrics is not None:
        try:
            metrics.serve(port)
        except OSError as error:
            raise OptionError(f"--metrics-port: {port} cannot be used: {error.strerror}") from None
    reported = runtime.Progress(entity, metrics, alive)
    listener = runtime.listen(spark, reported)
    try:
        yield reported
    finally:
        # Spark would call it when this process is gone.
        spark.streams.removeListener(listener)


def run(query: Any) -> None:
    """Wait for the end of a query; SIGTERM stops it. Raises what it failed with."""

    def stop(*_: Any) -> None:
        print("Stopping.", file=sys.stderr)
        query.stop()

    before = signal.signal(signal.SIGTERM, stop)
    try:
        query.awaitTermination()
    finally:
        signal.signal(signal.SIGTERM, before)
