"""Runs a command and turns errors into a sentence and an exit code."""

import errno
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final, TextIO

import typer.main

from bendybus.cli import errors
from bendybus.cli.commands import option_order
from bendybus.cli.commands.app import app
from bendybus.cli.errors import CliError
from bendybus.cli.output import printing
from bendybus.domain.errors import BusError

_NOT_WRITTEN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def run(arguments: Sequence[str] | None) -> int:
    """Run `bendybus` with `arguments` and return its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    _open_streams()
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
    except OSError as error:
        return _say(_unusable(error), CliError.exit_code)
    return 0


def _open_streams() -> None:
    """Let what a caller closed (`<&-`, `>&-`) be empty input, and output that nobody reads."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            file = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(file, mode, encoding="utf-8"))


def _unusable(error: OSError) -> str:
    """Return the sentence for what the system refused, most often to write the output."""
    reason = (error.strerror or str(error)).lower()
    if error.filename is not None:
        return f"{error.filename}: {reason}. Check the path, and its rights."
    if error.errno not in _NOT_WRITTEN:
        return f"The system refuses this: {reason}."
    # Python would try again at its end, and say more.
    _write_nowhere(sys.__stdout__)
    return f"The output cannot be written: {reason}. Make room, or write it elsewhere."


def _pipe_closed() -> int:
    """Return the code for `bendybus peek q | head`: there is nowhere to write any more."""
    # Both, since notes may have gone to the same pipe: Python flushes them at its end.
    _write_nowhere(sys.__stdout__, sys.__stderr__)
    return errors.PIPE_CLOSED


def _write_nowhere(*streams: TextIO | None) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        if stream is not None:
            os.dup2(nowhere, stream.fileno())


def _say(sentence: str, code: int) -> int:
    printing.note(f"bendybus: {sentence}")
    return code
