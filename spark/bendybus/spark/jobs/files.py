"""`pipeline export`, `replay` and `load`: messages to files, and files to messages.

export   entity ──► Parquet or JSON lines, with all columns of the format
replay   what export or capture wrote ──► entity, as it was
load     any Parquet, CSV, JSON ──► entity: one row a message

What has a session or a key is sent in its order: see `_order_kept`.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.spark import columns, connect
from bendybus.spark.columns import BODY, BODY_BASE64
from bendybus.spark.errors import OptionError
from bendybus.spark.jobs import csv_rows, text_files

FORMATS: Final = ("parquet", "jsonl", "csv")
# What Spark calls them.
_OF_SPARK: Final = {"parquet": "parquet", "jsonl": "json", "csv": "csv"}
# Lines of JSON: their fields, and bodies, which are text where they can be.
_IN_JSON: Final = (*columns.ALL, BODY_BASE64)
_TO_JSON: Final = (
    f"CASE WHEN is_valid_utf8({BODY}) THEN cast({BODY} AS string) END AS {BODY}",
    f"CASE WHEN NOT is_valid_utf8({BODY}) THEN base64({BODY}) END AS {BODY_BASE64}",
)
_FROM_JSON: Final = f"coalesce(unbase64({BODY_BASE64}), cast({BODY} AS binary)) AS {BODY}"
# Column of a message → the option of `load` that names its column, without "-column".
_NAMED_BY: Final = {
    BODY: "body",
    "session_id": "session",
    "partition_key": "key",
    "message_id": "id",
    "subject": "subject",
}
# At least so many tasks for files that are not small.
SPLITS: Final = 16
_OTHER_FILES: Final = "replay reads what export or capture wrote, load reads other files"
# Spark's own formats end at milliseconds.
_MICROSECONDS: Final = (
    """map('timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", """
    """'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")"""
)
# Settings while files are loaded.
_KEPT: Final = {
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.caseSensitive": "true",
}
# Columns by which messages belong together, the stronger one first.
_KEYS: Final = ("session_id", "partition_key")
# The order in which messages were enqueued, also those of several entities.
_ORDER: Final = ("enqueued_at", "sequence_number", "entity", "message_id")
# Rows between two looks at the clock, where the rate is bounded.
_RATE_ROWS: Final = 100
# Tasks that rows are dealt to, whatever the cores: rows under an idempotency key are known by task.
_ORDERED_TASKS: Final = 16
_FILE, _AT, _ROW = "__file", "__at", "__row"
# Where a row is in the files that are read.
_PLACES: Final = (
    f"_metadata.file_path AS {_FILE}",
    f"_metadata.file_block_start AS {_AT}",
    f"monotonically_increasing_id() AS {_ROW}",
)
_BY_PLACE: Final = (_FILE, _AT, _ROW)


@dataclass(frozen=True, slots=True)
class Export:
    """What is written. `source`: the options of the format; positions are among them."""

    source: Mapping[str, str]
    out: str
    format: str = "parquet"
    # A condition of Spark SQL on the columns.
    where: str = ""
    # "": all.
    columns: str = ""
    compression: str = ""
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """What is sent again. `target`: the options of the format for writing."""

    given: str
    target: Mapping[str, str]
    format: str = "parquet"
    where: str = ""
    # Each message gets a new id; else it keeps the one that it had.
    new_ids: bool = False
    # Messages become active at the distances that they were enqueued at, from now on.
    shift_time: bool = False
    # Messages a second; 0: as fast as it goes.
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent. Columns of the files are named; "" is none."""

    given: str
    target: Mapping[str, str]
    format: str = "parquet"
    # "": the whole row becomes a JSON object.
    body_column: str = ""
    # Column of a message → column of the files.
    named: Mapping[str, str] = field(default_factory=dict)
    rate: float = 0.0


def export(spark: Any, wanted: Export) -> int:
    """Write messages into files; return how many. Raises PipelineError."""
    check_format(wanted.format, "--format", ("parquet", "jsonl"))
    given = dict(wanted.source)
    if wanted.columns:
        given["columns"] = wanted.columns
    frame = spark.read.format("bendybus").options(**given).load()
    if wanted.where:
        frame = frame.where(wanted.where)
    if wanted.format == "jsonl" and (BODY, "binary") in frame.dtypes:
        others = [_quoted(name) for name in frame.columns if name != BODY]
        frame = frame.selectExpr(*others, *_TO_JSON)
    frame, counted = observed(frame)
    writer = frame.write.mode("overwrite" if wanted.overwrite else "error")
    if wanted.compression:
        writer = writer.option("compression", wanted.compression)
    writer.format(_OF_SPARK[wanted.format]).save(wanted.out)
    return int(counted())


def replay(spark: Any, wanted: Replay) -> int:
    """Send what was exported or captured; return how many rows. Raises PipelineError."""
    check_format(wanted.format, "--format", ("parquet", "jsonl"))
    if wanted.shift_time and "idempotencyKey" in wanted.target:
        raise OptionError(
            "--shift-time: gives other times in each run, and --idempotency-key is for the same "
            "messages; leave one of them out"
        )
    _fix_splits(spark)
    frame = read_messages(spark, wanted)
    if wanted.where:
        frame = frame.where(wanted.where)
    kept = [name for name in columns.WRITTEN if name in frame.columns and name != "entity"]
    if wanted.new_ids and "message_id" in kept:
        kept.remove("message_id")
    made = [f"`{name}`" for name in kept]
    if wanted.shift_time:
        made.append(f"{_shift(frame)} scheduled_enqueue_time")
    return send(_in_order(frame).selectExpr(*made), wanted.target, wanted.rate)


def load(spark: Any, wanted: Load) -> int:
    """Send a message for each row; return how many. Raises PipelineError."""
    check_format(wanted.format, "--format", FORMATS)
    _fix_splits(spark)
    with _as_they_stand(spark):
        frame = _ROWS[wanted.format](spark, wanted)
        if not wanted.body_column:
            frame = frame.selectExpr("*", "'application/json' AS content_type")
        keys = [name for name in _KEYS if wanted.named.get(name)]
        if keys:
            frame = _order_kept(frame, keys, _BY_PLACE).drop(*_BY_PLACE)
        return send(frame, wanted.target, wanted.rate)


@contextlib.contextmanager
def _as_they_stand(spark: Any) -> Iterator[None]:
    """Have Spark keep names of columns and of folders, as long as it reads.

    A folder id=007 is no number, and Name is another column than name.
    """
    before = {name: spark.conf.get(name) for name in _KEPT}
    try:
        for name, value in _KEPT.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _rows_of_json(spark: Any, wanted: Load) -> Any:
    """Return messages, and their places where these are needed."""
    folders = text_files.json_folders(spark, wanted.given)
    named = _named(wanted)
    if any(named.values()):
        found = text_files.json_columns(spark, wanted.given)
        _check_named(wanted, [*found, *folders], wanted.given)
    return text_files.json_rows(spark, wanted.given, named, _places(wanted), folders)


def _rows_of_csv(spark: Any, wanted: Load) -> Any:
    """Return messages, and their places where these are needed."""
    found = text_files.csv_files(spark, wanted.given)
    for path, names in found.columns.items():
        _check_named(wanted, names, path)
    return text_files.csv_messages(found, _named(wanted), _BY_PLACE if _places(wanted) else ())


def _rows_of_parquet(spark: Any, wanted: Load) -> Any:
    """Return messages, and their places where these are needed."""
    folders = text_files.folders_of(text_files.lines(spark, wanted.given, wanted.format))
    reader = _reader(spark, wanted.format)
    if folders:
        inside = _reader(spark, wanted.format).option("recursiveFileLookup", "true")
        csv_rows.check_folders(inside.load(wanted.given).columns, wanted.given, folders)
    frame = reader.load(wanted.given)
    _check_named(wanted, frame.columns, wanted.given)
    body = f"to_json(struct({', '.join(map(_quoted, frame.columns))}), {_MICROSECONDS})"
    body = text_files.refused_unless_text(frame.schema, body, wanted.given)
    if wanted.body_column:
        plain = dict(frame.dtypes)[wanted.body_column] in ("string", "binary")
        quoted = _quoted(wanted.body_column)
        body = quoted if plain else f"cast({quoted} AS string)"
    made = [
        f"cast({_quoted(column)} AS {columns.BY_WRITTEN[name].type}) AS `{name}`"
        for name, column in wanted.named.items()
        if column
    ]
    return frame.selectExpr(f"{body} AS body", *made, *_places(wanted))


_ROWS: Final = {"parquet": _rows_of_parquet, "csv": _rows_of_csv, "jsonl": _rows_of_json}


def _named(wanted: Load) -> dict[str, str]:
    return {BODY: wanted.body_column, **wanted.named}


def _places(wanted: Load) -> tuple[str, ...]:
    """Return the columns that tell the order of rows, where there is a key."""
    return _PLACES if any(wanted.named.get(name) for name in _KEYS) else ()


def _check_named(wanted: Load, found: Sequence[str], where: str) -> None:
    """Raise OptionError for a column that files do not have."""
    for name, column in _named(wanted).items():
        if column and column not in found:
            raise OptionError(
                f"--{_NAMED_BY[name]}-column: {where} has no column {column!r}; "
                f"it has {', '.join(found)}"
            )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _in_order(frame: Any) -> Any:
    """Return messages so that those of a session or key are sent as they were enqueued."""
    keys = [name for name in _KEYS if name in frame.columns]
    by = [name for name in _ORDER if name in frame.columns]
    if not keys or not {"enqueued_at", "sequence_number"}.intersection(by):
        return frame
    any_key = " OR ".join(f"{name} IS NOT NULL" for name in keys)
    if not frame.where(any_key).limit(1).count():
        return frame
    return _order_kept(frame, keys, by)


def _fix_splits(spark: Any) -> None:
    """Have files cut into the same tasks with any number of cores and executors.

    What was written under an idempotency key is known by task.
    """
    spark.conf.set("spark.sql.files.minPartitionNum", SPLITS)


def read_messages(spark: Any, wanted: Replay) -> Any:
    """Return the messages in files of export or capture, which has folders in folders."""
    text_files.lines(spark, wanted.given, wanted.format, recursive=True)
    reader = _reader(spark, wanted.format).option("recursiveFileLookup", "true")
    if wanted.format == "jsonl":
        reader = reader.schema(f"{columns.ddl(columns.ALL, 'string')}, {BODY_BASE64} string")
    frame = reader.load(wanted.given)
    if wanted.format == "jsonl":
        _check_json(spark, frame.inputFiles()[0], wanted.given)
    if BODY not in frame.columns:
        raise OptionError(f"--in: {wanted.given} has no column `body`; {_OTHER_FILES}")
    if wanted.format == "jsonl":
        others = [_quoted(name) for name in frame.columns if name not in (BODY, BODY_BASE64)]
        frame = frame.selectExpr(*others, _FROM_JSON)
    return frame


def _reader(spark: Any, form: str) -> Any:
    """Return a reader of files, which fails at a line that cannot be read.

    Such a line is no message, and none is made of a part of it. Parquet files may have columns that
    others have not: those of one file would stand for all.
    """
    reader = spark.read.format(_OF_SPARK[form]).option("mode", "FAILFAST")
    return reader.option("mergeSchema", "true") if form == "parquet" else reader


def _check_json(spark: Any, path: str, given: str) -> None:
    """Raise OptionError if JSON lines are those of no message; `path`: of one of the files.

    A field that is absent is read as null, so that any line would be a message.
    """
    fields = "json_object_keys(value) AS fields"
    first = spark.read.text(path).selectExpr(fields).limit(1).collect()
    other = sorted({name for row in first for name in row.fields or ()} - {*_IN_JSON})
    if other:
        raise OptionError(
            f"--in: {given} has the field {other[0]!r}, which no message has; {_OTHER_FILES}"
        )


def _shift(frame: Any) -> str:
    """Return the expression of when a message becomes active again. Raises OptionError."""
    if "enqueued_at" not in frame.columns:
        raise OptionError("--shift-time: the files have no column enqueued_at; leave it out")
    [first] = frame.selectExpr("min(unix_micros(enqueued_at)) AS first").collect()
    if first.first is None:
        return "cast(NULL AS timestamp)"
    shift = int(time.time() * 1_000_000) - first.first
    return f"timestamp_micros(unix_micros(enqueued_at) + {shift})"


def send(frame: Any, target: Mapping[str, str], rate: float) -> int:
    """Write rows to the bus; return how many there were."""
    if rate < 0:
        raise OptionError(f"--rate: must be positive, or 0 for no bound (got {rate:g})")
    frame, counted = observed(frame)
    if rate:
        # In the same tasks as without: what was written under an idempotency key is known by task.
        frame = frame.mapInArrow(_throttled(rate / _tasks_at_once(frame)), frame.schema)
    if "idempotencyKey" in target:
        frame, tasks = _of_fixed_tasks(frame)
        target = {**target, "tasks": str(tasks)}
    frame.write.format("bendybus").options(**target).mode("append").save()
    return int(counted())


def _of_fixed_tasks(frame: Any) -> tuple[Any, int]:
    """Return a frame, and how many tasks it has."""
    if connect.is_remote(frame.sparkSession):
        # It does not tell.
        return frame.repartition(SPLITS), SPLITS
    return frame, frame.rdd.getNumPartitions()


def _tasks_at_once(frame: Any) -> int:
    """Return how many tasks of a frame run side by side, at most."""
    if connect.is_remote(frame.sparkSession):
        # It tells neither cores nor tasks.
        return SPLITS
    context = frame.sparkSession.sparkContext
    conf = context.getConf()
    executors, cores = (
        int(conf.get(f"spark.executor.{name}", "1")) for name in ("instances", "cores")
    )
    # Executors may still be on their way.
    at_most: int = max(context.defaultParallelism, executors * cores)
    tasks: int = frame.rdd.getNumPartitions()
    return max(1, min(at_most, tasks))


def _throttled(rate: float) -> Any:
    """Return what lets rows of a task pass at most at a rate, a second."""

    def throttle(batches: Iterator[Any]) -> Iterator[Any]:
        began, passed = time.monotonic(), 0
        step = max(1, min(_RATE_ROWS, int(rate)))
        for batch in batches:
            for start in range(0, batch.num_rows, step):
                part = batch.slice(start, step)
                wait_s = began + passed / rate - time.monotonic()
                if wait_s > 0:
                    time.sleep(wait_s)
                passed += part.num_rows
                yield part

    return throttle


def observed(frame: Any) -> tuple[Any, Any]:
    """Return a frame that counts its rows as they pass, and what returns the count."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    observation = Observation()
    counting = frame.observe(observation, sql.count(sql.lit(1)).alias("rows"))
    return counting, lambda: int(observation.get["rows"])


def check_format(given: str, option: str, known: tuple[str, ...]) -> None:
    """Raise OptionError for a format that is not known."""
    if given not in known:
        raise OptionError(f"{option}: must be {' or '.join(known)} (got {given!r})")


def _order_kept(frame: Any, keys: Sequence[str], by: Sequence[str]) -> Any:
    """Return a frame in which rows of the same key are in one task, ordered by columns.

    `keys`: columns; the first that is not null is the key. Rows without a key go to any task.
    """
    from pyspark.sql import functions as sql

    named = [sql.col(name).cast("string") for name in keys]
    anywhere = sql.xxhash64(*by).cast("string")
    dealt = frame.repartition(_ORDERED_TASKS, sql.coalesce(*named, anywhere))
    return dealt.sortWithinPartitions(*by)
