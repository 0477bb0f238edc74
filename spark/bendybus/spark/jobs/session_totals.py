"""`pipeline sessions`: what happened in each session, once it has been silent for a while.

    messages ──session_id, enqueued_at──► windows with gaps ──► one row a closed session ──► out

State is kept by Spark (RocksDB), exactly once, under the checkpoint. A session closes when no
message of it came for the gap, as seen by the enqueued times of all messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bendybus.spark.errors import OptionError

COLUMNS: Final = "columns"
DEAL_BY: Final = "dealBy"
_READ: Final = "session_id,subject,enqueued_at,body"


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


def totals(spark: Any, wanted: Sessions) -> Any:
    """Return the streaming DataFrame of closed sessions: how many messages, bytes, from when to
    when.
    """
    from pyspark.sql import functions as sql

    given = {COLUMNS: _READ, **wanted.source}
    if not any(name.lower() == DEAL_BY.lower() for name in given):
        # Else sessions of a backlog would be dropped as late, or closed too early.
        given[DEAL_BY] = "time"
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


def start(spark: Any, wanted: Sessions, trigger: Mapping[str, Any]) -> Any:
    """Start the query. Raises OptionError."""
    if bool(wanted.out) == (wanted.target is not None):
        raise OptionError("--out: is required, or --to; one of them")
    frame = totals(spark, wanted)
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
