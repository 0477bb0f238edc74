"""What all peers share: finding the broker and its client, or saying what is missing."""

import importlib.util
import os
import shutil
from collections.abc import Callable
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


def missing(
    systems: tuple[str, ...], package: str, module: str, emit: Callable[[Row], None]
) -> bool:
    """Emit a row for each system that cannot be measured here. Whether that is so."""
    note = ""
    if program(package) is None:
        note = f"not installed: apt install {package}"
    elif importlib.util.find_spec(module) is None:
        note = "client not installed: pip install --require-hashes -r requirements/bench.txt"
    if note:
        for system in systems:
            emit(Row(system, "skipped", "skipped", "", note=note))
    return bool(note)
