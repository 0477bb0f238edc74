"""`bendybus pipeline`: data pipelines on Spark, in a process of their own.

The room of Spark has its own commands; this one finds the bus for them. It is not imported here:
without the extra `spark` the CLI has neither Spark nor Java.
"""

import importlib.util
import os
import signal
import subprocess
import sys
from typing import Annotated, Final

import typer

from bendybus.cli.bus import bus_choice
from bendybus.cli.errors import CliError

MODULE: Final = "bendybus.spark"
# What names a bus, or needs none.
_NO_BUS: Final = ("--help", "--connection-string-file")


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
        raise typer.Exit(_run(given, {}))
    with bus_choice.target(context.obj) as target:
        found = {bus_choice.VARIABLE: target.connection_string}
        if target.ca_file is not None:
            found[bus_choice.CA_FILE_VARIABLE] = str(target.ca_file)
        code = _run(given, found)
    raise typer.Exit(code)


def _run(arguments: list[str], environment: dict[str, str]) -> int:
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
