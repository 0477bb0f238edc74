"""`pipeline capture`: what is in a queue or subscription goes into files, each message once.

batch ──► a task for each range reads it and writes its files (captured_files) ──► all published
      ──► Spark commits the batch ──► what it had is removed of the bus (settle=trailing)

What Spark hands to tasks are the ranges, not their messages, which would go through the JVM to a
second worker: its rows are ranges, so the messages of a batch are counted here, in `Batch`.

A batch that is repeated, after whatever died, has the same ranges, so the same names of files; what
is published already stays as it is. So files hold each message once for every reader of files.
What else decides the names and contents is on record in the checkpoint; see `capture_record`.
"""

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bendybus.spark import columns, connections, options
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs import capture_record, file_store
from bendybus.spark.jobs.capture_record import Shape
from bendybus.spark.jobs.file_layout import Layout
from bendybus.spark.option_table import Use
from bendybus.spark.options import ReadOptions

logger = logging.getLogger(__name__)
_NEEDED: Final = ("entity", "partition", "enqueued_at", columns.RANGE)
_RESULT: Final = "path string, rows bigint, size_bytes bigint, new boolean"
# Of a batch, unless the source's options say otherwise: a file is not larger than that.
BYTES_PER_BATCH: Final = 256_000_000


@dataclass(frozen=True, slots=True)
class Capture:
    """What is captured, and where to. `source`: the options of the format."""

    source: Mapping[str, str]
    # A path or a URI that all executors reach.
    out: str
    checkpoint: str
    layout: Layout = field(default_factory=Layout)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch captured. `repeated`: files that an earlier attempt had published."""

    number: int
    messages: int
    files: int
    repeated: int
    size_bytes: int


def start(
    spark: Any,
    wanted: Capture,
    trigger: Mapping[str, Any],
    done: Callable[[Batch], None] = lambda batch: None,
) -> Any:
    """Start to capture; return the streaming query. Raises OptionError.

    `trigger`: as Spark takes it. `done` is called after each batch that published its files.
    """
    path = check(wanted)
    # Not above: this module is loaded without Spark, too.
    from bendybus.spark.data_source import RangesDataSource

    today, owner = _shape(wanted), _owner(wanted)
    record = capture_record.of_checkpoint(spark, wanted.checkpoint)
    source = _source(wanted)[0]
    read = options.of_read(source, Use.STREAM_READ)
    file_store.of_uri(wanted.out, owner).clear()

    def publish(frame: Any, number: int) -> None:
        shape = record.begin(number, today)
        found = frame.mapInArrow(_writing(shape, owner, read), _RESULT).collect()
        batch = Batch(
            number,
            sum(row.rows for row in found),
            len(found),
            sum(not row.new for row in found),
            sum(row.size_bytes for row in found),
        )
        logger.info(
            "%s: batch %d captured: messages=%d files=%d repeated=%d bytes=%d",
            path, number, batch.messages, batch.files, batch.repeated, batch.size_bytes,
        )  # fmt: skip
        done(batch)

    spark.dataSource.register(RangesDataSource)
    stream = spark.readStream.format(RangesDataSource.name()).options(**source).load()
    return (
        stream.writeStream.queryName(f"capture {path}")
        .foreachBatch(publish)
        .option("checkpointLocation", wanted.checkpoint)
        .trigger(**trigger)
        .start()
    )


def check(wanted: Capture) -> str:
    """Return the path of the entity. Raises OptionError for what cannot be."""
    wanted.layout.check()
    path = options.of_read(_source(wanted)[0], Use.STREAM_READ).entity.path
    wanted.layout.check(path)
    return path


def _source(wanted: Capture) -> tuple[dict[str, str], list[str]]:
    """Return the options of the source, and the columns that files have."""
    source = {"settle": "trailing", **_without_case(wanted.source)}
    if "minpartitions" in source:
        # Cut in another way after a restart, ranges would give other names.
        raise OptionError("option minPartitions: is not an option of capture; leave it out")
    if source["settle"] == "none":
        source.setdefault("startingoffsets", "earliest")
    source.setdefault("maxbytespertrigger", str(BYTES_PER_BATCH))
    kept, _ = options.columns_of(source)
    source["columns"] = ",".join(dict.fromkeys((*kept, *_NEEDED)))
    return source, list(kept)


def _shape(wanted: Capture) -> Shape:
    """Return what the files are of the batches that are begun with these options."""
    source, kept = _source(wanted)
    layout = replace(wanted.layout, compression=wanted.layout.codec, selection=_selection(wanted))
    path = options.of_read(source, Use.STREAM_READ).entity.path
    return Shape(path, wanted.out, layout, tuple(kept), options.columns_of(source)[1])


def _selection(wanted: Capture) -> str:
    """Return what names less than all of a range: other columns, or some of its messages; "": all.

    Else the files of a tap would be those of a capture that removes what it takes for written.
    """
    given, kept = _source(wanted)
    found = options.of_read(given, Use.STREAM_READ)
    of = (tuple(kept), found.body, found.states, found.session_id)
    if of == (columns.DEFAULT, "binary", ("active",), None):
        return ""
    return hashlib.blake2b(repr(of).encode(), digest_size=4).hexdigest()


def _without_case(given: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in given.items()}


def _owner(wanted: Capture) -> str:
    """Return what names the drafts of a capture, also after a restart.

    Several may write into one folder, and in pods of their own each may call its checkpoint the
    same.
    """
    found = options.of_read(_source(wanted)[0], Use.STREAM_READ)
    of = (connections.address(found.connection), found.entity.path, wanted.checkpoint)
    return hashlib.blake2b("\0".join(of).encode(), digest_size=8).hexdigest()


def _writing(
    shape: Shape, owner: str, read: ReadOptions
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what a task does with its range."""
    from pyspark.sql.types import StructType

    path, out, layout, kept = shape.path, shape.out, shape.layout, list(shape.columns)
    names = tuple(dict.fromkeys((*shape.columns, *_NEEDED)))
    schema = StructType.fromDDL(columns.ddl(names, shape.body))

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from bendybus.spark import errors
        from bendybus.spark.jobs import captured_files
        from bendybus.spark.source import readers

        rows = itertools.chain.from_iterable(
            readers.batches_of(read, schema, readers.range_of(batch), path)
            for batch in batches
            if batch.num_rows
        )
        with errors.shown():
            store = file_store.of_uri(out, owner)
            try:
                found = list(captured_files.write(rows, layout, store, kept))
            except OSError as error:
                raise PipelineError(
                    f"--out: {out} cannot be written: {error}; fix that, and start again with the "
                    "same checkpoint"
                ) from error
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([file.path for file in found], pa.string()),
                pa.array([file.rows for file in found], pa.int64()),
                pa.array([file.size_bytes for file in found], pa.int64()),
                pa.array([file.new for file in found], pa.bool_()),
            ],
            names=["path", "rows", "size_bytes", "new"],
        )

    return task
