"""Every option of the format `bendybus`: for what, how it is read, what it means. One place.

Names are those that Spark's users know from Kafka, where Kafka has the option.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Final

from bendybus.domain import limits
from bendybus.spark import option_values as values
from bendybus.spark.errors import OptionError
from bendybus.spark.option_values import Reader


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
# What Spark itself hands over beside the options of the user.
_OF_SPARK: Final = frozenset({"checkpointlocation"})
MESSAGES_MAX: Final = 2**31 - 1
SECOND: Final = 1_000


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is for people."""

    name: str
    uses: Use
    read: Reader
    default: str
    means: str


OPTIONS: Final = (
    Option(
        "connectionStringFile",
        READ | WRITE,
        values.text,
        "",
        "file with the connection string, on the driver and on every executor",
    ),
    Option(
        "connectionString",
        READ | WRITE,
        values.text,
        "`BENDYBUS_CONNECTION_STRING`",
        "the connection string; it becomes part of Spark's plans, so prefer the file",
    ),
    Option(
        "endpoint",
        READ | WRITE,
        values.text,
        "",
        "`sb://HOST:PORT`, with `tokenFile`",
    ),
    Option(
        "tokenFile",
        READ | WRITE,
        values.text,
        "",
        "file with a shared access signature; read again when it changes",
    ),
    Option(
        "caFile",
        READ | WRITE,
        values.text,
        "`BENDYBUS_CA_FILE`",
        "file with the CA certificates to trust",
    ),
    Option(
        "queue",
        READ | WRITE,
        values.text,
        "",
        "the queue",
    ),
    Option(
        "topic",
        READ | WRITE,
        values.text,
        "",
        "the topic",
    ),
    Option(
        "subscription",
        READ,
        values.text,
        "",
        "the subscription of `topic`",
    ),
    Option(
        "entity",
        READ | WRITE,
        values.text,
        "",
        "a path in place of these: `NAME`, `TOPIC/Subscriptions/NAME`, or one of those with "
        "`/$DeadLetterQueue`",
    ),
    Option(
        "subQueue",
        READ,
        values.one_of("deadletter", "transferdeadletter"),
        "",
        "a sub-queue: `deadletter` or `transferdeadletter`",
    ),
    Option(
        "startingOffsets",
        READ,
        values.position,
        "earliest; `latest` for a streaming read with `settle=none`",
        '`earliest`, `latest`, or the numbers after which to read, as JSON: `{"0": 41, "1": '
        "-2}`; -2 is earliest, -1 latest; of a new query only",
    ),
    Option(
        "startingTime",
        READ,
        values.time,
        "",
        "read what was enqueued at this time or later; ISO 8601, or milliseconds since 1970",
    ),
    Option(
        "endingOffsets",
        Use.BATCH_READ,
        values.position,
        "latest",
        "`latest`, or the last numbers to read, as JSON",
    ),
    Option(
        "endingTime",
        Use.BATCH_READ,
        values.time,
        "",
        "read what was enqueued before this time",
    ),
    Option(
        "maxMessagesPerTrigger",
        Use.STREAM_READ,
        values.count(1, MESSAGES_MAX),
        "10000 × partitions",
        "the most sequence numbers of a batch, dealt by lag, at least one for each partition "
        "that has any; also `maxOffsetsPerTrigger`, as Kafka's source calls it",
    ),
    Option(
        "dealBy",
        Use.STREAM_READ,
        values.one_of("lag", "time"),
        "lag",
        "what a batch takes of a backlog: `lag`: of each partition in proportion to what waits "
        "there. `time`: of all up to one enqueued time, so that a watermark drops nothing; while a "
        "partition cannot be read, none is",
    ),
    Option(
        "maxBytesPerTrigger",
        Use.STREAM_READ,
        values.size(1, 2**40),
        "",
        "the most bytes of a batch, estimated from the average size of the messages",
    ),
    Option(
        "minMessagesPerTrigger",
        Use.STREAM_READ,
        values.count(1, MESSAGES_MAX),
        "",
        "wait until there are so many",
    ),
    Option(
        "maxTriggerDelay",
        Use.STREAM_READ,
        values.duration(0, 7 * 86_400),
        "15m",
        "the longest wait for `minMessagesPerTrigger`",
    ),
    Option(
        "minPartitions",
        READ,
        values.count(1, 100_000),
        "0",
        "cut ranges so that there are about so many tasks; a batch that is repeated keeps those "
        "that it was begun with",
    ),
    Option(
        "failOnDataLoss",
        READ,
        values.flag,
        "true",
        "fail if messages expired, or the entity was recreated, before they were read",
    ),
    Option(
        "settle",
        READ,
        values.one_of("none", "trailing"),
        "none",
        "`none`: nothing is removed. `trailing`: what Spark has committed is removed, and no "
        "other receiver gets messages meanwhile",
    ),
    Option(
        "owner",
        Use.STREAM_READ,
        values.text,
        "made for the query",
        "with `settle=trailing`: the name of the drain lease's owner",
    ),
    Option(
        "leaseDuration",
        Use.STREAM_READ,
        values.duration(limits.DRAIN_MS_MIN / SECOND, limits.DRAIN_MS_MAX / SECOND),
        "60s",
        "how long the lease outlives a query that stopped renewing it",
    ),
    Option(
        "columns",
        READ,
        values.words,
        "all but `head` and `range`",
        "the columns to read, with commas, or `all`; without `body` no bodies are transferred",
    ),
    Option(
        "body",
        READ,
        values.one_of("binary", "string", "none"),
        "binary",
        "the type of the column `body`; `none` leaves it out",
    ),
    Option(
        "states",
        READ,
        values.words,
        "active",
        "which messages: `active`, `deferred`, `scheduled`, with commas",
    ),
    Option(
        "sessionId",
        READ,
        values.any_text,
        "",
        "only messages of this session, of the one partition that holds it",
    ),
    Option(
        "fetchSize",
        READ,
        values.count(1, limits.RANGE_ROWS_MAX),
        "1000",
        "messages of a page",
    ),
    Option(
        "fetchBytes",
        READ,
        values.size(1, limits.RANGE_BYTES_MAX),
        "1m",
        "bytes of a page",
    ),
    Option(
        "timeout",
        READ | WRITE,
        values.duration(1, 3_600),
        "60s",
        "how long to wait for a partition that is unavailable, and for locked messages before"
        " a drain",
    ),
    Option(
        "pushFilters",
        Use.BATCH_READ,
        values.flag,
        "false",
        "let filters on `partition`, `sequence_number` and `enqueued_at` choose what is read;"
        " needs `spark.sql.python.filterPushdown.enabled=true`",
    ),
    Option(
        "idempotencyKey",
        Use.BATCH_WRITE,
        values.text,
        "made for the write",
        "what names the write, so that repeating it stores nothing twice; needs `tasks`",
    ),
    Option(
        "tasks",
        Use.BATCH_WRITE,
        values.count(1, 100_000),
        "any",
        "how many tasks a write under an `idempotencyKey` has, as `df.rdd.getNumPartitions()` says:"
        " rows are known by task, so another number is refused before anything is stored",
    ),
)
_BY_KEY: Final = {option.name.lower(): option for option in OPTIONS}
# Of Kafka's source → ours.
_OTHER_NAMES: Final = {"maxOffsetsPerTrigger": "maxMessagesPerTrigger"}
_OTHER_KEYS: Final = {other.lower(): other for other in _OTHER_NAMES}


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
