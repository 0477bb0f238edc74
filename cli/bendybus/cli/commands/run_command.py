"""Runs a command and turns errors into a sentence and an exit code.

Options of `bendybus` itself may stand anywhere: `bendybus get queues --kube` means
`bendybus --kube get queues`. An option that the command has itself stays its own, what follows `--`
is not looked at, and a value is never taken for an option. And `--json`, as 0.6 had it, means
`--output=json`.
"""

import contextlib
import errno
import io
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TextIO

import typer.main

from bendybus.cli import ending, errors
from bendybus.cli.commands.app import app
from bendybus.cli.errors import CliError
from bendybus.cli.output import printing
from bendybus.domain.errors import BusError

_NOT_WRITTEN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
_END: Final = "--"
_OLD_JSON: Final = "--json"
_JSON: Final = "--output=json"
# Commands and options of typer's parser; it has no public types of its own.
Command = Any
Option = Any


def run(arguments: Sequence[str] | None) -> int:
    """Run `bendybus` with `arguments` and return its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    _open_streams()
    log = logging.getLogger("bendybus.client")
    if not log.handlers:
        # What a retry was about is in the error, if there is one: one sentence, not two.
        log.addHandler(logging.NullHandler())
    command = typer.main.get_command(app)
    with ending.in_order() as ended:
        code = guarded(lambda: command(args=ordered_options(given, command), prog_name="bendybus"))
    return ended.code(code, errors.INTERRUPTED)


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
    except UnicodeEncodeError as error:
        return _say(_not_text(error), errors.UsageError.exit_code)
    except OSError as error:
        return _say(_unusable(error), CliError.exit_code)
    return 0


def _open_streams() -> None:
    """Let what a caller closed (`<&-`, `>&-`) be empty input, and output that nobody reads.

    What the encoding of an output lacks is written as an escape: a message is not lost for it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            file = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(file, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors != "backslashreplace":
            # Whoever put another file under an open stream finds it cannot be changed any more.
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="backslashreplace")


def _not_text(error: UnicodeEncodeError) -> str:
    """Return the sentence for a name or a value that has bytes which are no text."""
    return f"{error.object[:60]!a} is not UTF-8 text. Give names and values in UTF-8."


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


def ordered_options(arguments: Sequence[str], root: Command) -> list[str]:
    """Return the arguments with the options of `root` before the command."""
    first: list[str] = []
    rest: list[str] = []
    command = root
    left = iter(arguments)
    for word in left:
        if word == _END:
            return [*first, *rest, word, *left]
        if not word.startswith("-") or word == "-":
            rest.append(word)
            command = getattr(command, "commands", {}).get(word, command)
            continue
        found = _option(word, command)
        if word == _OLD_JSON and found is None and _option(_JSON, command) is not None:
            rest.append(_JSON)
            continue
        if found is None and command is not root:
            found = _option(word, root)
            if found is not None:
                first += [word, *_value(word, found, left)]
                continue
        rest += [word, *_value(word, found, left)]
    return [*first, *rest]


def _option(word: str, command: Command) -> Option | None:
    """Return the option of a command that a word is."""
    name = word.partition("=")[0] if word.startswith("--") else word[:2]
    for parameter in command.params:
        if parameter.param_type_name != "option":
            continue
        if name in parameter.opts or name in parameter.secondary_opts:
            return parameter
    return None


def _value(word: str, option: Option | None, left: Iterator[str]) -> list[str]:
    """Return the word that is the option's value, if it is a word of its own."""
    if option is None or option.is_flag or option.count:
        return []
    attached = "=" in word if word.startswith("--") else len(word) > 2
    found = None if attached else next(left, None)
    return [] if found is None else [found]
