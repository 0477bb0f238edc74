"""What all peers share: finding the broker and its client, or reporting what is missing."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from bench import loads
from bench.row import Row

BODY: Final = os.urandom(loads.BODY_BYTES)
NAME: Final = "bench"
START_S: Final = 60.0
# Where Debian puts servers, also when the caller's PATH lacks it.
_PATH: Final = os.pathsep.join(
    (os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/lib/rabbitmq/bin")
)


def program(name: str) -> str | None:
    """Return the path of a program, if it is installed."""
    return shutil.which(name, path=_PATH)


class UnavailableError(Exception):
    """Raised when a broker cannot be fetched or started; the text is the reason, in one line."""


@contextmanager
def skipping(systems: Iterable[str], emit: Callable[[Row], None]) -> Iterator[None]:
    """Emit a row for each system with the reason why the block could not measure it."""
    try:
        yield
    except UnavailableError as error:
        for system in systems:
            emit(Row(system, "skipped", "skipped", "", note=str(error)))


def missing(
    systems: tuple[str, ...], package: str, module: str, emit: Callable[[Row], None]
) -> bool:
    """Emit a row for each system that cannot be measured here. Whether that is so."""
    with skipping(systems, emit):
        if program(package) is None:
            raise UnavailableError(f"not installed: apt install {package}")
        require_client(module)
        return False
    return True


def require_client(module: str) -> None:
    """Raise UnavailableError if a Python client is not installed."""
    if importlib.util.find_spec(module) is None:
        raise UnavailableError(
            "client not installed: pip install --require-hashes -r requirements/bench.txt"
        )
