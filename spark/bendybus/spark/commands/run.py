"""Runs a command of `bendybus pipeline`; errors become one sentence and an exit code.

`app` is the index of the jobs: what `bendybus pipeline --help` lists.
"""

import logging
import re
import sys
from collections.abc import Sequence
from typing import Final

import typer
import typer.main

from bendybus.client.exceptions import InvalidArgumentError, ServiceBusError
from bendybus.spark.commands import batch_commands, stream_commands, terminal
from bendybus.spark.errors import OptionError, PipelineError

FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
# Characters.
SENTENCE_MAX: Final = 2_000
# In an error of the JVM, what each exception says.
_CAUSE: Final = re.compile(r"^(?:Caused by|): [\w.$]+: (.+)$", re.MULTILINE)
# Where Spark speaks of its own interface: what it means for commands.
_CONDITIONS: Final = {
    "PATH_NOT_FOUND": "--in: {path} does not exist",
    "PATH_ALREADY_EXISTS": "--out: {outputPath} exists; name another one, or give --overwrite",
    "UNABLE_TO_INFER_SCHEMA": "--in: no files of --format {format} there",
}
# Part of what Spark says → what to do, where it says only what it found.
_REMEDIES: Final = {
    "(NANOS": (
        "--in: the Parquet files have times in nanoseconds, which Spark does not read; write them "
        "in microseconds, for example with pyarrow.parquet.write_table(table, path, "
        "coerce_timestamps='us')"
    ),
}
# What Spark wraps the sentence of an error of ours in.
_OURS: Final = ("bendybus.spark.errors.", "bendybus.client.exceptions.")
app = typer.Typer(
    name="pipeline",
    help=(
        "Data pipelines on Spark: capture, export, replay, load, dead letters, sessions, usage, "
        "fences."
    ),
    epilog=(
        "Which bus: --connection-string-file, then BENDYBUS_CONNECTION_STRING; `bendybus pipeline` "
        "sets it for the bus that it is asked for. Exit codes: 0 done, 1 failed, 2 wrong usage."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    # What a job waits for: the bus, or the lease of another pipeline.
    for name in ("bendybus.pipeline", "bendybus.client"):
        logging.getLogger(name).setLevel(logging.INFO)
    # What Spark and PySpark log of an error is in its sentence, or in the traceback of a bug.
    for name in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    command = typer.main.get_command(app)
    try:
        command(args=list(arguments), prog_name="bendybus pipeline")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(bool(done.code))
    except OptionError as error:
        return _say(str(error), WRONG_USAGE)
    except (PipelineError, ServiceBusError, InvalidArgumentError) as error:
        return _say(str(error), FAILED)
    except KeyboardInterrupt:
        return _say("Interrupted.", INTERRUPTED)
    except Exception as error:
        sentence = sentence_of(error)
        if not sentence:
            raise
        return _say(sentence, FAILED)
    finally:
        stop_spark()
    return 0


def stop_spark() -> None:
    """End the session, if there is one: executors go with it."""
    if "pyspark.sql" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


def sentence_of(error: BaseException) -> str:
    """Return the sentence for users that an error of Spark carries; "": none."""
    for line in str(error).splitlines():
        for name in _OURS:
            _, found, rest = line.partition(name)
            if found:
                return rest.partition(": ")[2].strip()
    found = _condition(error)
    return next((meant for part, meant in _REMEDIES.items() if part in found), found)


def _condition(error: BaseException) -> str:
    """Return what an error says that Spark has for its user; "": it is another one."""
    named = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    condition = named() if named is not None else None
    if condition:
        meant = _CONDITIONS.get(condition)
        if meant is not None:
            parameters: dict[str, str] = error.getMessageParameters() or {}  # type: ignore[attr-defined]
            return meant.format_map(parameters)
        return next(line for line in str(error).splitlines() if line.strip()).strip()
    of_java = type(error).__name__ == "Py4JJavaError"
    causes: list[str] = _CAUSE.findall(str(error)) if of_java else []
    # The innermost of those that Spark has for its user; else the outermost.
    known = [each for each in causes if each.startswith("[")]
    return (known[-1:] or causes[:1] or [""])[0].strip()


def _say(sentence: str, code: int) -> int:
    # Names of columns are in it, which may be those of any bytes.
    shown = terminal.visible(sentence)
    if len(shown) > SENTENCE_MAX:
        shown = f"{shown[:SENTENCE_MAX]}…"
    print(f"bendybus pipeline: {shown}", file=sys.stderr)
    return code


app.command("capture")(stream_commands.capture)


app.command("export")(batch_commands.export)


app.command("replay")(batch_commands.replay)


app.command("load")(batch_commands.load)


app.command("sessions")(stream_commands.sessions)


app.command("usage")(batch_commands.usage)


app.add_typer(batch_commands.letter_app, name="dlq")


app.add_typer(batch_commands.fence_app, name="fences")
