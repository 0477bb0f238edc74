"""`pipeline dlq report`, `usage`, `sessions`: tables about what is on the bus, unchanged.

`sessions`: what happened in each session, once it has been silent for a while.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from bendybus.spark import columns, option_table
from bendybus.spark.errors import OptionError

# What dead letters can be grouped by, beside properties.
GROUPS: Final = {
    "reason": "dead_letter_reason",
    "description": "dead_letter_description",
    "subject": "subject",
    "hour": "date_trunc('hour', enqueued_at)",
    "day": "date_trunc('day', enqueued_at)",
    "partition": "partition",
    "content_type": "content_type",
    "source": "dead_letter_source",
    "delivery_count": "delivery_count",
}
GROUP_DEFAULT: Final = ("reason", "subject")
# The beginning of a body, whatever bytes it has.
SAMPLE: Final = "left(make_valid_utf8(cast(body AS string)), 60)"
_PROPERTY: Final = "properties."
# Of dead letters: whose they are.
_OWNER: Final = "replace(entity, '/$DeadLetterQueue')"
_SESSION_COLUMNS: Final = "columns"
_DEAL_BY: Final = "dealBy"
_READ: Final = "session_id,subject,enqueued_at,body"


@dataclass(frozen=True, slots=True)
class Report:
    """Of which entities, and how: `sources` are the options of the format for each."""

    sources: Sequence[Mapping[str, str]]
    group_by: Sequence[str] = GROUP_DEFAULT
    # ISO 8601; "": all.
    since: str = ""


def dead_letters(spark: Any, wanted: Report) -> Any:
    """Return a DataFrame: groups of dead letters with count, ages and a sample, most first.

    Raises OptionError.
    """
    chosen = dict.fromkeys(wanted.group_by)
    groups = [("entity", _OWNER), *((name, group(name)) for name in chosen)]
    given = {"subQueue": "deadletter", "columns": ",".join(columns.DEFAULT)}
    if wanted.since:
        given["startingTime"] = wanted.since
    frame = _all(spark, wanted.sources, given)
    if wanted.since:
        # The times of dead letters do not rise: the start is no bound for what follows.
        frame = frame.where(f"enqueued_at >= timestamp_millis({_since_ms(wanted.since)})")
    made = frame.selectExpr(
        *(f"{expression} AS {_named(name)}" for name, expression in groups),
        "enqueued_at",
        f"{SAMPLE} AS sample",
    )
    from pyspark.sql import functions as sql

    return (
        made.groupBy(*(_named(name) for name, _ in groups))
        .agg(
            sql.count(sql.lit(1)).alias("messages"),
            sql.min("enqueued_at").alias("oldest"),
            sql.max("enqueued_at").alias("newest"),
            sql.min("sample").alias("sample"),
        )
        .orderBy(sql.desc("messages"), *(sql.asc(_named(name)) for name, _ in groups))
    )


def group(name: str) -> str:
    """Return the expression of a group. Raises OptionError."""
    if name.startswith(_PROPERTY) and len(name) > len(_PROPERTY):
        return f"properties['{_quoted(name[len(_PROPERTY) :])}']"
    if name not in GROUPS:
        raise OptionError(
            f"--group-by: {name!r} is unknown; known are {', '.join(GROUPS)}, and "
            f"{_PROPERTY}NAME for an application property"
        )
    return GROUPS[name]


@dataclass(frozen=True, slots=True)
class Usage:
    """Of which entities, and in which spans of time: an interval of Spark, such as `1 hour`."""

    sources: Sequence[Mapping[str, str]]
    every: str = "1 hour"
    since: str = ""


def usage(spark: Any, wanted: Usage) -> Any:
    """Return a DataFrame: messages and bytes that are there, by entity, partition and span."""
    from pyspark.sql import functions as sql

    given = {"columns": "entity,partition,enqueued_at,body"}
    if wanted.since:
        given["startingTime"] = wanted.since
    frame = _all(spark, wanted.sources, given)
    return (
        frame.groupBy("entity", "partition", sql.window("enqueued_at", wanted.every))
        .agg(
            sql.count(sql.lit(1)).alias("messages"),
            sql.sum(sql.coalesce(sql.octet_length("body"), sql.lit(0))).alias("bytes"),
        )
        .selectExpr(
            "entity", "partition", "window.start AS start", "window.end AS end", "messages", "bytes"
        )
        .orderBy("entity", "start", "partition")
    )


def _all(spark: Any, sources: Sequence[Mapping[str, str]], more: Mapping[str, str]) -> Any:
    if not sources:
        raise OptionError("--source: is required; name at least one queue or subscription")
    frames = [spark.read.format("bendybus").options(**{**more, **each}).load() for each in sources]
    return reduce(lambda one, other: one.unionByName(other), frames)


def _since_ms(text: str) -> int:
    return int(option_table.time("startingTime", text).timestamp() * 1_000)


def _named(column: str) -> str:
    return f"`{column.replace('`', '``')}`"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


@dataclass(frozen=True, slots=True)
class Sessions:
    """`source`: the options of the format. `gap`, `late`: intervals of Spark."""

    source: Mapping[str, str]
    checkpoint: str
    gap: str = "10 minutes"
    # How much later than others a message may be read.
    late: str = "1 minute"
    # Parquet files; or `target`: the options of the format for writing.
    out: str = ""
    target: Mapping[str, str] | None = None


def _session_totals(spark: Any, wanted: Sessions) -> Any:
    """Return the streaming DataFrame of closed sessions: how many messages, bytes, from when to
    when.
    """
    from pyspark.sql import functions as sql

    given = {_SESSION_COLUMNS: _READ, **wanted.source}
    if not any(name.lower() == _DEAL_BY.lower() for name in given):
        # Else sessions of a backlog would be dropped as late, or closed too early.
        given[_DEAL_BY] = "time"
    frame = spark.readStream.format("bendybus").options(**given).load()
    return (
        frame.where("session_id IS NOT NULL")
        .withWatermark("enqueued_at", wanted.late)
        .groupBy("session_id", sql.session_window("enqueued_at", wanted.gap))
        .agg(
            sql.count(sql.lit(1)).alias("messages"),
            sql.sum(sql.coalesce(sql.octet_length("body"), sql.lit(0))).alias("bytes"),
            sql.min("enqueued_at").alias("first_at"),
            sql.max("enqueued_at").alias("last_at"),
        )
        .drop("session_window")
    )


def start_sessions(spark: Any, wanted: Sessions, trigger: Mapping[str, Any]) -> Any:
    """Start the query. Raises OptionError."""
    if bool(wanted.out) == (wanted.target is not None):
        raise OptionError("--out: is required, or --to; one of them")
    frame = _session_totals(spark, wanted)
    if wanted.target is None:
        writer = frame.writeStream.format("parquet").option("path", wanted.out)
    else:
        frame = frame.selectExpr(
            "to_json(struct(*)) AS body",
            "session_id AS subject",
            "'application/json' AS content_type",
        )
        writer = frame.writeStream.format("bendybus").options(**wanted.target)
    writer = writer.option("checkpointLocation", wanted.checkpoint)
    return writer.outputMode("append").trigger(**trigger).start()
