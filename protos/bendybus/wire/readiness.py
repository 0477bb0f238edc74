"""How a server tells the process that started it whether it serves: a line of JSON on stdout.

    {"ready": true, "address": "127.0.0.1:7480", …}             it serves
    {"ready": false, "error": SENTENCE, "cannot_listen": BOOL}  it does not, and ends with status 1

The only place that knows these lines: servers print them, and `bendybus up` reads them. For people
the sentence is on standard error too.
"""

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FAILED: Final = 1
TERMINATION_LOG: Final = Path("/dev/termination-log")
# Kubernetes keeps 4,096 bytes.
TERMINATION_CHARS_MAX: Final = 1_000


class CannotListen(Exception):
    """Raised when a server cannot listen at an address, most often because the port is taken."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a line says. `address` is empty if it does not name one."""

    ready: bool
    address: str = ""
    error: str = ""
    cannot_listen: bool = False


def print_ready(**facts: Any) -> None:
    """Report that this process serves."""
    _print({"ready": True, **facts})


def print_failure(error: Exception) -> int:
    """Report why this process does not serve; return its exit status."""
    # First for people: the reader of the line may end this process at once.
    print(f"error: {error}", file=sys.stderr, flush=True)
    # Kubernetes keeps it with the state of the pod, and the operator shows it in the bus's status.
    # There is no such file elsewhere, and it is not made.
    with contextlib.suppress(OSError), TERMINATION_LOG.open("r+", encoding="utf-8") as file:
        file.write(str(error)[:TERMINATION_CHARS_MAX])
    cannot_listen = isinstance(error, CannotListen)
    _print({"ready": False, "error": str(error), "cannot_listen": cannot_listen})
    return FAILED


def _print(facts: Mapping[str, Any]) -> None:
    """Write a line. A closed pipe is not an error: its parent is gone, and stdin ends the child."""
    try:
        print(json.dumps(facts), flush=True)
    except BrokenPipeError:
        # What is still in the buffer would fail again when the process ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def listening(address: str) -> Iterator[None]:
    """Raise CannotListen for what fails inside, where a server begins to listen."""
    try:
        yield
    except OSError as error:
        # asyncio's own words for it repeat the address.
        number = error.errno or 0
        why = os.strerror(number) if number in errno.errorcode else error.strerror or error
        raise CannotListen(f"cannot listen at {address}: {why}") from error
    except RuntimeError as error:
        # gRPC says no more than that it failed.
        raise CannotListen(
            f"cannot listen at {address}: the port is in use, or the address is not of this machine"
        ) from error


def read(line: bytes) -> Readiness | None:
    """Return what a line of a server's standard output says; None for any other line."""
    try:
        facts = json.loads(line)
    except ValueError:
        return None
    if not isinstance(facts, dict) or not isinstance(facts.get("ready"), bool):
        return None
    return Readiness(
        facts["ready"],
        str(facts.get("address", "")),
        str(facts.get("error", "")),
        facts.get("cannot_listen") is True,
    )
