"""What a command can end with, and the exit code of each.

    CliError              1   what was asked was not done
    ├── UsageError        2   the command line cannot mean anything
    ├── NotFound          3   the thing that was named does not exist
    └── Unreachable       4   no bus answers

Everything that a person can cause becomes one of these with one sentence; a traceback is a bug.
"""

from typing import ClassVar, Final

from bendybus.domain import errors
from bendybus.domain.errors import BusError

INTERRUPTED: Final = 130


class CliError(Exception):
    """Raised when a command did not do what was asked."""

    exit_code: ClassVar[int] = 1


class UsageError(CliError):
    """Raised when arguments contradict each other or are out of range."""

    exit_code = 2


class NotFound(CliError):
    """Raised when what was named does not exist."""

    exit_code = 3


class Unreachable(CliError):
    """Raised when there is no bus, or it does not answer."""

    exit_code = 4


def exit_code(error: BusError) -> int:
    """Return the exit code for an error of the bus."""
    if isinstance(error, errors.EntityNotFound | errors.MessageNotFound):
        return NotFound.exit_code
    if type(error) in (errors.RetryableError, errors.ServiceTimeout):
        return Unreachable.exit_code
    return CliError.exit_code
