"""`pipeline` and `store …`: commands that another program of Bendybus carries out, in its process.

`pipeline`: the room of Spark has its own commands; this one finds the bus for them. It is not
imported here: without the extra `spark` the CLI has neither Spark nor Java. `store …`: the file of
a partition, read on a copy by the partition server's own command.
"""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from bendybus.cli.bus import bus_choice
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.errors import SERVER_MODULES, CliError, NotFound, UsageError, need_extra
from bendybus.cli.output.printing import Output, OutputOption

MODULE: Final = "bendybus.spark"
# What names a bus, or needs none.
_NO_BUS: Final = ("--help", "--connection-string-file")
_PASSES: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
_IN_POD: Final = (
    "kubectl exec NAME-partition-N -- python3 -m bendybus.partition_server store copy "
    "/var/lib/bendybus/partition-NN.db - > partition-NN.db"
)
store_app = typer.Typer(help="Inspect a copy of a partition's file.")
StoreFile = Annotated[str, typer.Argument(help="partition-NN.db, or the index of a partition.")]


def pipeline(
    context: typer.Context,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="JOB [OPTIONS]")] = None,
) -> None:
    """Capture, export, replay, load, redrive and more, on Spark. See `pipeline --help`."""
    given = list(arguments or []) or ["--help"]
    # What the jobs are can be read without Spark.
    if "--help" not in given and importlib.util.find_spec("pyspark") is None:
        raise CliError(
            "Spark is not installed here: pip install '.[spark]' in Bendybus's folder; it needs "
            "Java 17 or newer."
        )
    if any(each.partition("=")[0] in _NO_BUS for each in given):
        raise typer.Exit(_run_job(given, {}))
    with bus_choice.target(context.obj) as target:
        found = {bus_choice.VARIABLE: target.connection_string}
        if target.ca_file is not None:
            found[bus_choice.CA_FILE_VARIABLE] = str(target.ca_file)
        code = _run_job(given, found)
    raise typer.Exit(code)


def _run_job(arguments: list[str], environment: dict[str, str]) -> int:
    """Run a job and return its exit code; what ends this process ends the job."""
    child = subprocess.Popen(
        [sys.executable, "-m", MODULE, *arguments], env={**os.environ, **environment}
    )
    before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                # The terminal signals the job, too: it ends by itself.
                continue
    finally:
        signal.signal(signal.SIGTERM, before)


def _store(context: typer.Context, action: str, file: str, *more: str) -> None:
    instead = _IN_POD
    if action != "copy":
        # The image has no sqlite-utils.
        instead += f", then bendybus store {action} partition-NN.db"
    bus_choice.refuse_cluster(context.obj, f"store {action}", instead)
    need_extra("server", SERVER_MODULES, f"bendybus store {action}")
    path = Path(file)
    if file.isdecimal() and _is_missing(path):
        path = _store_file(context.obj, int(file))
    if _is_missing(path):
        raise NotFound(f"{path} does not exist. Name a partition's file, or its index.")
    command = [sys.executable, "-m", "bendybus.partition_server", "store", action, str(path)]
    done = subprocess.run([*command, *more, *context.args], check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)


def _is_missing(path: Path) -> bool:
    """Whether the file does not exist; missing permission is reported by the command itself."""
    try:
        return not path.exists()
    except PermissionError:
        return False


def _store_file(choice: Choice, partition: int) -> Path:
    """Return the file of a partition: in --data, else of the bus that runs."""
    folder = choice.data or Path(bus_choice.local_bus(choice)["data"])
    return folder / f"partition-{partition:02}.db"


@store_app.command("inspect", context_settings=_PASSES)
def store_inspect(
    context: typer.Context, file: StoreFile, output: OutputOption = Output.TABLE
) -> None:
    """Show what a partition's file holds: whose it is, tables, queues, counts."""
    _store(context, "inspect", file, *_words(output))


@store_app.command("check", context_settings=_PASSES)
def store_check(
    context: typer.Context, file: StoreFile, output: OutputOption = Output.TABLE
) -> None:
    """Check the integrity of a partition's file."""
    _store(context, "check", file, *_words(output))


@store_app.command("export", context_settings=_PASSES)
def store_export(context: typer.Context, file: StoreFile) -> None:
    """Write the messages of a partition's file as JSON lines."""
    _store(context, "export", file)


@store_app.command("copy", context_settings=_PASSES)
def store_copy(
    context: typer.Context,
    file: StoreFile,
    to: Annotated[str, typer.Argument(help="A new file, or - for standard output.")],
) -> None:
    """Back a partition's file up, also while it is in use."""
    _store(context, "copy", file, to)


def _words(output: Output) -> list[str]:
    """Return the option of the partition server's own command."""
    if output is Output.YAML:
        raise UsageError("--output: yaml is not supported here; use json.")
    return ["--json"] if output is Output.JSON else []
