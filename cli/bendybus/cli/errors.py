"""The errors of commands, and the exit code of each.

    CliError              1   the command failed
    ├── UsageError        2   the command line is invalid
    ├── NotFound          3   the named object does not exist
    ├── Unreachable       4   no bus answers, or not in time
    └── Incomplete        5   it is done, but a partition did not answer: what is shown lacks some

Every error that a user can cause becomes one of these with one sentence, which is the same in every
command; a traceback is a bug.
"""

import importlib.util
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.wire import tls

INTERRUPTED: Final = 130
# The reader of a pipe went away: what shells say of a program that SIGPIPE ended.
PIPE_CLOSED: Final = 141
# What the extra `server` installs; the modules that its programs cannot start without.
SERVER_MODULES: Final = (
    "aiohttp", "apsw", "cryptography", "defusedxml", "grpc_health", "grpc_reflection",
    "prometheus_client",
)  # fmt: skip


class CliError(Exception):
    """Raised when a command fails."""

    exit_code: ClassVar[int] = 1


class UsageError(CliError):
    """Raised when arguments contradict each other or are out of range."""

    exit_code = 2


class NotFound(CliError):
    """Raised when the named object does not exist."""

    exit_code = 3


class Unreachable(CliError):
    """Raised when there is no bus, or it does not answer."""

    exit_code = 4


class Incomplete(CliError):
    """Raised after all is shown, when a partition did not answer."""

    exit_code = 5


def exit_code(error: BusError) -> int:
    """Return the exit code for an error of the bus."""
    if isinstance(error, errors.EntityNotFound | errors.MessageNotFound):
        return NotFound.exit_code
    if isinstance(error, errors.PartitionUnavailable | errors.ServiceTimeout):
        return Unreachable.exit_code
    if type(error) is errors.RetryableError:
        return Unreachable.exit_code
    return CliError.exit_code


def no_answer(address: str, said: str, *, use_tls: bool) -> str:
    """Return the sentence for a bus that does not answer; `said`: the error of gRPC."""
    advice = tls.explain(said, address=address, use_tls=use_tls)
    if advice:
        return advice
    return f"No bus answers at {address}. Is it running? bendybus up starts one locally."


def of_client(error: Any, address: str, *, use_tls: bool) -> CliError:
    """Return the error of the CLI for an AzureError of the client."""
    cause = error.inner_exception
    if type(cause) is errors.RetryableError:
        return Unreachable(no_answer(address, cause.message, use_tls=use_tls))
    if isinstance(cause, BusError):
        code = exit_code(cause)
    else:
        code = Unreachable.exit_code if error.reason == errors.ServiceTimeout.reason else 1
    return with_exit_code(str(error), code)


def with_exit_code(sentence: str, code: int) -> CliError:
    """Return the error that ends the program with this code."""
    kinds = (NotFound, Unreachable, CliError)
    return next((kind for kind in kinds if kind.exit_code == code), CliError)(sentence)


def need_extra(extra: str, modules: Sequence[str], what: str) -> None:
    """Raise CliError if modules of an extra of the package are missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise CliError(
            f"{what} needs {', '.join(missing)}, which the extra {extra!r} installs: "
            f"pip install '.[{extra}]' in Bendybus's folder."
        )
