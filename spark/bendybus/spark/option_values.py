"""Values of options: each reader takes the name and the text that the user wrote.

All raise OptionError, which names the option, the value and what is allowed.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bendybus.domain import sequence_number
from bendybus.spark.errors import OptionError

Reader = Callable[[str, str], Any]
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
# In JSON, as Kafka's users know them.
_NAMED: Final = {-2: EARLIEST, -1: LATEST}
_UNITS_S: Final = {
    "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0,
}  # fmt: skip
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([a-z]*)")
_SIZE: Final = re.compile(r"([0-9]+) *([kmg]?)i?b?")
_SIZE_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a read begins or ends: at a name, after numbers by partition, or at a time."""

    name: str = ""
    # Numbers, or the names in place of them.
    numbers: Mapping[int, int | str] | None = None
    time: datetime | None = None


def bad(name: str, value: str, allowed: str) -> OptionError:
    """Return the error for a value."""
    return OptionError(f"option {name}: must be {allowed} (got {value!r})")


def text(name: str, value: str) -> str:
    """Return a text that is not blank."""
    if not value.strip():
        raise OptionError(f"option {name}: must not be empty; leave it out instead")
    return value.strip()


def any_text(name: str, value: str) -> str:
    """Return a text as it is."""
    return value


def flag(name: str, value: str) -> bool:
    """Return true or false."""
    if value.strip().lower() not in ("true", "false"):
        raise bad(name, value, "true or false")
    return value.strip().lower() == "true"


def one_of(*allowed: str) -> Reader:
    """Return a reader of one of several words."""

    def read(name: str, value: str) -> str:
        found = value.strip().lower()
        if found not in allowed:
            raise bad(name, value, f"{', '.join(allowed[:-1])} or {allowed[-1]}")
        return found

    return read


def count(least: int, most: int) -> Reader:
    """Return a reader of a whole number within bounds."""

    def read(name: str, value: str) -> int:
        try:
            found = int(value)
        except ValueError:
            raise bad(name, value, f"a whole number from {least} to {most}") from None
        if not least <= found <= most:
            raise bad(name, value, f"a whole number from {least} to {most}")
        return found

    return read


def size(least: int, most: int) -> Reader:
    """Return a reader of a number of bytes, such as 1048576, 512k or 1m."""

    def read(name: str, value: str) -> int:
        match = _SIZE.fullmatch(value.strip().lower())
        found = int(match[1]) * _SIZE_UNITS[match[2]] if match else -1
        if not least <= found <= most:
            raise bad(name, value, f"{least} to {most} bytes, such as 1048576, 512k or 1m")
        return found

    return read


def duration(least_s: float, most_s: float) -> Reader:
    """Return a reader of a duration in seconds, written as 30, 30s, 500ms, 15m, 2h or 7d."""

    def read(name: str, value: str) -> float:
        match = _DURATION.fullmatch(value.strip().lower())
        unit = _UNITS_S.get((match[2] or "s") if match else "")
        found = float(match[1]) * unit if match and unit else -1.0
        if not least_s <= found <= most_s:
            raise bad(
                name, value, f"a duration from {least_s:g} s to {most_s:g} s, such as 30s or 15m"
            )
        return found

    return read


def words(name: str, value: str) -> tuple[str, ...]:
    """Return the parts of a list with commas."""
    found = tuple(filter(None, (part.strip() for part in value.split(","))))
    if not found:
        raise bad(name, value, "a list with commas")
    return found


def time(name: str, value: str) -> datetime:
    """Return a time: ISO 8601 (UTC where it has no zone), or milliseconds since 1970."""
    given = value.strip()
    try:
        if given.isdigit():
            return _EPOCH + timedelta(milliseconds=int(given))
        found = datetime.fromisoformat(given)
    except (ValueError, OverflowError):
        raise bad(
            name, value, "ISO 8601, such as 2026-01-31T18:00:00Z, or milliseconds since 1970"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def position(name: str, value: str) -> Position:
    """Return earliest, latest, or the numbers of a JSON object by partition.

    The object is `{"0": 41, "1": 281474976710673}`, or an offset of a query's progress, whose
    numbers are in `seq`. A number is the last one that counts as read; -2 is earliest, -1 latest.
    """
    word = value.strip().lower()
    if word in (EARLIEST, LATEST):
        return Position(word)
    allowed = 'earliest, latest, or JSON such as {"0": 41, "1": -2}'
    try:
        found = json.loads(value)
        numbers = {int(key): number for key, number in found.get("seq", found).items()}
    except (ValueError, AttributeError):
        raise bad(name, value, allowed) from None
    if not numbers or not all(type(number) is int for number in numbers.values()):
        raise bad(name, value, allowed)
    return Position(
        numbers={
            partition: _named_or_number(name, partition, number)
            for partition, number in numbers.items()
        }
    )


def _named_or_number(name: str, partition: int, number: int) -> int | str:
    if number in _NAMED:
        return _NAMED[number]
    if number == 0:
        return sequence_number.compose(partition, 0)
    if number < 0 or sequence_number.partition_of(number) != partition:
        raise OptionError(
            f"option {name}: {number} is not a sequence number of partition {partition}; write the "
            "whole numbers that the column sequence_number shows, -2 (earliest) or -1 (latest)"
        )
    return number
