"""What a redrive is going to move, written down before anything is moved.

An interrupted run is continued from it: what it had sent is recognized by the fences of its name
and its numbers' places in the plan, and only removed. Conditions are not evaluated a second time.
"""

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bendybus.domain import limits
from bendybus.spark.errors import OptionError

FILE: Final = "redrive.json"
OWNER_FILE: Final = "redrive-owner"
_VERSION: Final = 1
# A day before partitions forget what a plan sent: the run itself takes time.
CONTINUED_MS: Final = limits.FENCE_MS - limits.DAY_MS


@dataclass(frozen=True, slots=True)
class Plan:
    """Dead letters, by partition in the order of their numbers, and where they go."""

    source: str
    destination: str
    numbers: Mapping[int, Sequence[int]]
    # Of the partitions, as they were when this was planned.
    incarnations: Mapping[int, str]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    # When it was made.
    at_ms: int = field(default_factory=lambda: int(time.time() * 1_000))

    def count(self) -> int:
        """Return how many dead letters that is."""
        return sum(map(len, self.numbers.values()))


def read(folder: Path) -> Plan | None:
    """Return the plan of an interrupted run; None: there is none. Raises OptionError."""
    found = _read(folder)
    if found is not None and time.time() * 1_000 - found.at_ms > CONTINUED_MS:
        days = CONTINUED_MS // limits.DAY_MS
        raise OptionError(
            f"--checkpoint: its interrupted run was planned more than {days} days ago, and what it "
            "sent without removing it may be forgotten, so that it would be sent twice; look for "
            f"that at {found.destination}, then remove {folder / FILE} to begin again"
        )
    return found


def _read(folder: Path) -> Plan | None:
    path = folder / FILE
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found["v"] != _VERSION:
            raise ValueError(f"version {found['v']}")
        return Plan(
            found["source"],
            found["destination"],
            {int(partition): numbers for partition, numbers in found["numbers"].items()},
            {int(partition): text for partition, text in found["incarnations"].items()},
            found["name"],
            int(found["at_ms"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"--checkpoint: {path} cannot be read ({error}); name another folder, or remove the "
            "file to begin again: what an interrupted run had sent may then be sent twice"
        ) from None


def write(folder: Path, plan: Plan) -> None:
    """Keep a plan durably. Raises OptionError."""
    values = {
        "v": _VERSION,
        "name": plan.name,
        "at_ms": plan.at_ms,
        "source": plan.source,
        "destination": plan.destination,
        "numbers": {str(partition): list(each) for partition, each in plan.numbers.items()},
        "incarnations": {str(partition): text for partition, text in plan.incarnations.items()},
    }
    _write(folder, FILE, json.dumps(values))


def done(folder: Path) -> None:
    """Forget the plan: all of it is done."""
    (folder / FILE).unlink(missing_ok=True)
    _sync(folder)


def owner(folder: Path) -> str:
    """Return the name of the folder's runs, which is made once. Raises OptionError."""
    path = folder / OWNER_FILE
    try:
        found = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        found = uuid.uuid4().hex[:12]
        _write(folder, OWNER_FILE, found)
    except (OSError, ValueError) as error:
        raise OptionError(
            f"--checkpoint: {path} cannot be read ({error}); name another folder, or remove it"
        ) from None
    return found


def _write(folder: Path, name: str, text: str) -> None:
    """Write a file durably, whole or not at all. Raises OptionError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f".{name}.tmp"
        with made.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        made.rename(folder / name)
        _sync(folder)
    except OSError as error:
        raise OptionError(f"--checkpoint: {folder} cannot be written: {error.strerror}") from None


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
