"""Runs a command and turns errors into a sentence and an exit code."""

import logging
import os
import sys
from collections.abc import Callable, Sequence

import typer.main

from bendybus.cli import errors
from bendybus.cli.commands import option_order
from bendybus.cli.commands.app import app
from bendybus.cli.errors import CliError
from bendybus.cli.output import printing
from bendybus.domain.errors import BusError


def run(arguments: Sequence[str] | None) -> int:
    """Run `bendybus` with `arguments` and return its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    log = logging.getLogger("bendybus.client")
    if not log.handlers:
        # What a retry was about is in the error, if there is one: one sentence, not two.
        log.addHandler(logging.NullHandler())
    command = typer.main.get_command(app)
    return guarded(lambda: command(args=option_order.ordered(given, command), prog_name="bendybus"))


def guarded(command: Callable[[], object]) -> int:
    """Run a command; errors become one sentence on stderr."""
    try:
        command()
    except SystemExit as done:
        if isinstance(done.__context__, BrokenPipeError):
            # typer ends by itself then, with code 1.
            return _pipe_closed()
        return done.code if isinstance(done.code, int) else int(bool(done.code))
    except CliError as error:
        return _say(str(error), error.exit_code)
    except BusError as error:
        return _say(error.message, errors.exit_code(error))
    except KeyboardInterrupt:
        return _say("Interrupted.", errors.INTERRUPTED)
    except BrokenPipeError:
        return _pipe_closed()
    return 0


def _pipe_closed() -> int:
    """Return the code for `bendybus peek q | head`: there is nowhere to write any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    # Both, since notes may have gone to the same pipe: Python flushes them at its end.
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            os.dup2(nowhere, stream.fileno())
    return errors.PIPE_CLOSED


def _say(sentence: str, code: int) -> int:
    printing.note(f"bendybus: {sentence}")
    return code
