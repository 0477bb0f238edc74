"""Every option of the format `bendybus`: for what, how it is read, what it means. One place.

Names are those that Spark's users know from Kafka, where Kafka has the option.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Flag, auto
from typing import Any, Final

from bendybus.domain import limits, sequence_number
from bendybus.spark.errors import OptionError

# What Spark itself hands over beside the options of the user.
_OF_SPARK: Final = frozenset({"checkpointlocation"})
MESSAGES_MAX: Final = 2**31 - 1
SECOND: Final = 1_000
# Of Kafka's source → ours.
_OTHER_NAMES: Final = {"maxOffsetsPerTrigger": "maxMessagesPerTrigger"}
_OTHER_KEYS: Final = {other.lower(): other for other in _OTHER_NAMES}
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
# Of the years 2001 to 2286. Others of so many digits are dates without hyphens, or seconds.
_MILLISECONDS: Final = range(10**12, 10**13)
_DATE: Final = 10_000_000


class Use(Flag):
    """What a data source is used for."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()


READ: Final = Use.BATCH_READ | Use.STREAM_READ
WRITE: Final = Use.BATCH_WRITE | Use.STREAM_WRITE
_TITLES: Final = {
    Use.BATCH_READ: "a batch read",
    Use.STREAM_READ: "a streaming read",
    Use.BATCH_WRITE: "a batch write",
    Use.STREAM_WRITE: "a streaming write",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is for people."""

    name: str
    uses: Use
    read: Reader
    default: str
    means: str


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
    """Return a time: ISO 8601 with a zone, or milliseconds since 1970."""
    given = value.strip()
    form = "ISO 8601 with a zone, such as 2026-01-31T18:00:00Z, or milliseconds since 1970"
    try:
        if given.isdigit():
            if int(given) >= _DATE and int(given) not in _MILLISECONDS:
                raise bad(name, value, f"{form}, and not a date or seconds")
            return _EPOCH + timedelta(milliseconds=int(given))
        found = datetime.fromisoformat(given)
    except (ValueError, OverflowError):
        raise bad(name, value, form) from None
    if found.tzinfo is None:
        # Spark's own times are of the session's zone: none of the two can be guessed.
        raise bad(name, value, f"{form}; add Z for UTC, or an offset such as +01:00")
    return found


@dataclass(frozen=True, slots=True)
class Position:
    """Where a read begins or ends: at a name, after numbers by partition, or at a time."""

    name: str = ""
    # Numbers, or the names in place of them.
    numbers: Mapping[int, int | str] | None = None
    time: datetime | None = None


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


OPTIONS: Final = (
    Option(
        "connectionStringFile",
        READ | WRITE,
        text,
        "",
        "file with the connection string, on the driver and on every executor",
    ),
    Option(
        "connectionString",
        READ | WRITE,
        text,
        "`BENDYBUS_CONNECTION_STRING`",
        "the connection string; it becomes part of Spark's plans, so prefer the file",
    ),
    Option(
        "endpoint",
        READ | WRITE,
        text,
        "",
        "`sb://HOST:PORT`, with `tokenFile`",
    ),
    Option(
        "tokenFile",
        READ | WRITE,
        text,
        "",
        "file with a shared access signature; read again when it changes",
    ),
    Option(
        "caFile",
        READ | WRITE,
        text,
        "`BENDYBUS_CA_FILE`",
        "file with the CA certificates to trust",
    ),
    Option(
        "queue",
        READ | WRITE,
        text,
        "",
        "the queue",
    ),
    Option(
        "topic",
        READ | WRITE,
        text,
        "",
        "the topic",
    ),
    Option(
        "subscription",
        READ,
        text,
        "",
        "the subscription of `topic`",
    ),
    Option(
        "entity",
        READ | WRITE,
        text,
        "",
        "a path in place of these: `NAME`, `TOPIC/Subscriptions/NAME`, or one of those with "
        "`/$DeadLetterQueue`",
    ),
    Option(
        "subQueue",
        READ,
        one_of("deadletter", "transferdeadletter"),
        "",
        "a sub-queue: `deadletter` or `transferdeadletter`",
    ),
    Option(
        "startingOffsets",
        READ,
        position,
        "earliest; `latest` for a streaming read with `settle=none`",
        '`earliest`, `latest`, or the numbers after which to read, as JSON: `{"0": 41, "1": '
        "-2}`; -2 is earliest, -1 latest; of a new query only",
    ),
    Option(
        "startingTime",
        READ,
        time,
        "",
        "read what was enqueued at this time or later; ISO 8601 with a zone, or milliseconds since"
        " 1970",
    ),
    Option(
        "endingOffsets",
        Use.BATCH_READ,
        position,
        "latest",
        "`latest`, or the last numbers to read, as JSON",
    ),
    Option(
        "endingTime",
        Use.BATCH_READ,
        time,
        "",
        "read what was enqueued before this time",
    ),
    Option(
        "maxMessagesPerTrigger",
        Use.STREAM_READ,
        count(1, MESSAGES_MAX),
        "10000 × partitions",
        "the most sequence numbers of a batch, dealt by lag, at least one for each partition "
        "that has any; also `maxOffsetsPerTrigger`, as Kafka's source calls it",
    ),
    Option(
        "dealBy",
        Use.STREAM_READ,
        one_of("lag", "time"),
        "lag",
        "what a batch takes of a backlog: `lag`: of each partition in proportion to what waits "
        "there. `time`: of all up to one enqueued time, so that a watermark drops nothing; while a "
        "partition cannot be read, none is",
    ),
    Option(
        "maxBytesPerTrigger",
        Use.STREAM_READ,
        size(1, 2**40),
        "",
        "the most bytes of a batch, estimated from the average size of the messages",
    ),
    Option(
        "minMessagesPerTrigger",
        Use.STREAM_READ,
        count(1, MESSAGES_MAX),
        "",
        "wait until there are so many",
    ),
    Option(
        "maxTriggerDelay",
        Use.STREAM_READ,
        duration(0, 7 * 86_400),
        "15m",
        "the longest wait for `minMessagesPerTrigger`",
    ),
    Option(
        "minPartitions",
        READ,
        count(1, 100_000),
        "0",
        "cut ranges so that there are about so many tasks; a batch that is repeated keeps those "
        "that it was begun with",
    ),
    Option(
        "failOnDataLoss",
        READ,
        flag,
        "true",
        "fail if messages expired, or the entity was recreated, before they were read",
    ),
    Option(
        "settle",
        READ,
        one_of("none", "trailing"),
        "none",
        "`none`: nothing is removed. `trailing`: what Spark has committed is removed, and no "
        "other receiver gets messages meanwhile",
    ),
    Option(
        "owner",
        Use.STREAM_READ,
        text,
        "made for the query",
        "with `settle=trailing`: the name of the drain lease's owner",
    ),
    Option(
        "leaseDuration",
        Use.STREAM_READ,
        duration(limits.DRAIN_MS_MIN / SECOND, limits.DRAIN_MS_MAX / SECOND),
        "60s",
        "how long the lease outlives a query that stopped renewing it",
    ),
    Option(
        "columns",
        READ,
        words,
        "all but `head` and `range`",
        "the columns to read, with commas, or `all`; without `body` no bodies are transferred",
    ),
    Option(
        "body",
        READ,
        one_of("binary", "string", "none"),
        "binary",
        "the type of the column `body`; `none` leaves it out",
    ),
    Option(
        "states",
        READ,
        words,
        "active",
        "which messages: `active`, `deferred`, `scheduled`, with commas",
    ),
    Option(
        "sessionId",
        READ,
        any_text,
        "",
        "only messages of this session, of the one partition that holds it",
    ),
    Option(
        "fetchSize",
        READ,
        count(1, limits.RANGE_ROWS_MAX),
        "1000",
        "messages of a page",
    ),
    Option(
        "fetchBytes",
        READ,
        size(1, limits.RANGE_BYTES_MAX),
        "1m",
        "bytes of a page",
    ),
    Option(
        "timeout",
        READ | WRITE,
        duration(1, 3_600),
        "60s",
        "how long to wait for a partition that is unavailable, and for locked messages before"
        " a drain",
    ),
    Option(
        "pushFilters",
        Use.BATCH_READ,
        flag,
        "false",
        "let filters on `partition`, `sequence_number` and `enqueued_at` choose what is read;"
        " needs `spark.sql.python.filterPushdown.enabled=true`",
    ),
    Option(
        "idempotencyKey",
        Use.BATCH_WRITE,
        text,
        "made for the write",
        "what names the write, so that repeating it stores nothing twice; needs `tasks`",
    ),
    Option(
        "tasks",
        Use.BATCH_WRITE,
        count(0, 100_000),
        "any",
        "how many tasks a write under an `idempotencyKey` has, as `df.rdd.getNumPartitions()` says:"
        " rows are known by task, so another number is refused before anything is stored",
    ),
)
_BY_KEY: Final = {option.name.lower(): option for option in OPTIONS}


def read(given: Mapping[str, str], use: Use) -> dict[str, Any]:
    """Return the values of the options of a use, by name. Raises OptionError."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key.lower() in _OF_SPARK:
            continue
        option = known(key)
        if use not in option.uses:
            raise OptionError(
                f"option {option.name}: is not an option of {_TITLES[use]}, but of "
                f"{_titles(option.uses)}; {_allowed(use)}"
            )
        if option.name in found:
            other = next(name for name, ours in _OTHER_NAMES.items() if ours == option.name)
            raise OptionError(f"option {other}: is another name of {option.name}; set one of them")
        found[option.name] = option.read(option.name, value)
    return found


def check_known(key: str) -> None:
    """Raise OptionError for what is neither an option nor Spark's own."""
    if key.lower() not in _OF_SPARK:
        known(key)


def known(key: str) -> Option:
    """Return the option of a name, without regard to case. Raises OptionError."""
    other = _OTHER_KEYS.get(key.lower())
    option = _BY_KEY.get((_OTHER_NAMES[other] if other else key).lower())
    if option is None:
        raise OptionError(f"option {key}: is unknown; {_advice(key.lower())}")
    return option


def _advice(key: str) -> str:
    if key == "path":
        return "name the entity with the option queue, or topic and subscription"
    alike = [_BY_KEY[each].name for each in difflib.get_close_matches(key, _BY_KEY)]
    meant = f"did you mean {' or '.join(alike)}? " if alike else ""
    return f"{meant}Known options are {', '.join(option.name for option in OPTIONS)}"


def _allowed(use: Use) -> str:
    return "allowed are " + ", ".join(option.name for option in OPTIONS if use in option.uses)


def _titles(uses: Use) -> str:
    found = [title for use, title in _TITLES.items() if use in uses]
    return " and ".join(found)


def bad(name: str, value: str, allowed: str) -> OptionError:
    """Return the error for a value."""
    return OptionError(f"option {name}: must be {allowed} (got {value!r})")


def _named_or_number(name: str, partition: int, number: int) -> int | str:
    if number in _NAMED:
        return _NAMED[number]
    # The entity, which has one of two forms of numbers, is not known yet.
    forms = {sequence_number.base_of(partition, plain=plain) for plain in (True, False)}
    if number < 0 or sequence_number.base_below(number) not in forms:
        raise OptionError(
            f"option {name}: {number} is not a sequence number of partition {partition}; write the "
            "whole numbers that the column sequence_number shows, -2 (earliest) or -1 (latest)"
        )
    # Before the first message, in either form.
    return number if sequence_number.counter_of(number) else 0
