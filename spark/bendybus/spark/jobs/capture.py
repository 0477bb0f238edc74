"""`pipeline capture`: what is in a queue or subscription goes into files, each message once.

batch ──► a task for each range reads it and writes its files (captured_files) ──► all published
      ──► Spark commits the batch ──► what it had is removed of the bus (settle=trailing)

What Spark hands to tasks are the ranges, not their messages, which would go through the JVM to a
second worker: its rows are ranges, so the messages of a batch are counted here, in `Batch`.

A batch that is repeated, after whatever died, has the same ranges, so the same names of files; what
is published already stays as it is. So files hold each message once for every reader of files.
What else decides the names and contents is on record in the checkpoint; see `Record`.
"""

import hashlib
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from bendybus.spark import bus, columns, connect, options
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs import file_store
from bendybus.spark.jobs.file_store import Layout
from bendybus.spark.option_table import Use
from bendybus.spark.options import ReadOptions

logger = logging.getLogger(__name__)
_NEEDED: Final = ("entity", "partition", "enqueued_at", columns.RANGE)
_RESULT: Final = "path string, rows bigint, size_bytes bigint, new boolean"
# Of a batch, unless the source's options say otherwise: a file is not larger than that.
BYTES_PER_BATCH: Final = 256_000_000
RECORD_FILE: Final = "bendybus-capture.json"
# Spark's own: which query the checkpoint is of.
METADATA: Final = "metadata"
_VERSION: Final = 1


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
    if connect.is_remote(spark):
        raise OptionError(
            "capture: needs a session of Spark itself, and not one of Spark Connect, whose server "
            "would run its batches without the record in the checkpoint. Run `bendybus pipeline "
            "capture` without SPARK_REMOTE, or make the session with SparkSession.builder.master()"
        )
    # Not above: this module is loaded without Spark, too.
    from bendybus.spark.data_source import RangesDataSource

    today, owner = _shape(wanted), _owner(wanted)
    record = _record_of(spark, wanted.checkpoint)
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


@dataclass(frozen=True, slots=True)
class Shape:
    """What the files of a batch are. `path`: of the entity, as the option has it, with its case.

    `body`: the type of the column.
    """

    path: str
    out: str
    layout: Layout
    columns: tuple[str, ...]
    body: str


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
    of = (bus.address(found.connection), found.entity.path, wanted.checkpoint)
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


class Folder(Protocol):
    """A checkpoint."""

    def read(self, name: str) -> bytes | None:
        """Return what a file holds; None: there is none."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file durably. A crash may leave a part of it."""


class Record:
    """The record of one checkpoint."""

    def __init__(self, folder: Folder, where: str) -> None:
        """Read it. Raises PipelineError."""
        self._folder = folder
        self._where = where
        found = self._read()
        self._batch, self._query = -1, ""
        self.begun: Shape | None = None
        if found is not None and found["query"] == self._query_id():
            self._batch, self._query = found["batch"], found["query"]
            self.begun = Shape(
                found["path"],
                found["out"],
                Layout(**found["layout"]),
                tuple(found["columns"]),
                found["body"],
            )

    def begin(self, batch: int, today: Shape) -> Shape:
        """Return how a batch is written; it is on record from then on. Raises OptionError.

        STRICTLY BEFORE anything of the batch is published.
        """
        if self.begun is not None and batch == self._batch:
            return self._repeated(batch, self.begun, today)
        if batch and self.begun is None:
            logger.warning(
                "%s: batch %d: a version before 0.7.0 kept no record of how files are written; if "
                "it began this batch, it is finished as the options say now", self._where, batch,
            )  # fmt: skip
        values = {
            "v": _VERSION, "query": self._query_id(), "batch": batch, "path": today.path,
            "out": today.out, "layout": asdict(today.layout), "columns": today.columns,
            "body": today.body,
        }  # fmt: skip
        self._folder.write(RECORD_FILE, json.dumps(values).encode())
        self._batch, self.begun = batch, today
        return today

    def _repeated(self, batch: int, begun: Shape, today: Shape) -> Shape:
        for option, then, now in (
            ("--out", begun.out, today.out),
            ("--option body", begun.body, today.body),
        ):
            if then != now:
                raise OptionError(
                    f"{option}: batch {batch} was begun with {then!r}, and is not finished; start "
                    f"with that until it is, then with {now!r}"
                )
        if begun != today:
            logger.warning(
                "%s: batch %d is finished as it was begun: --format %s, --compression %s, "
                "--path-template %s, --columns %s, entity %s",
                self._where, batch, begun.layout.format, begun.layout.codec, begun.layout.folder,
                ",".join(begun.columns), begun.path,
            )  # fmt: skip
        return begun

    def _query_id(self) -> str:
        if not self._query:
            found = self._folder.read(METADATA)
            self._query = "" if found is None else str(json.loads(found)["id"])
        return self._query

    def _read(self) -> dict[str, Any] | None:
        data = self._folder.read(RECORD_FILE)
        try:
            found: dict[str, Any] | None = None if data is None else json.loads(data)
        except ValueError:
            # A crash while it was written: nothing of the batch was published.
            return None
        if found is not None and found["v"] != _VERSION:
            raise PipelineError(
                f"--checkpoint: {RECORD_FILE} is of version {found['v']}, and this version of "
                f"Bendybus reads {_VERSION}; use the version that wrote it, or another checkpoint"
            )
        return found


def _record_of(spark: Any, checkpoint: str) -> Record:
    """Return the record of a checkpoint, wherever Spark has it. Raises PipelineError."""
    path = spark._jvm.org.apache.hadoop.fs.Path(checkpoint)
    system = path.getFileSystem(spark._jsc.hadoopConfiguration())
    folder: Folder = HadoopFolder(spark, system, path)
    if system.getUri().getScheme() == "file":
        folder = LocalFolder(Path(system.makeQualified(path).toUri().getPath()))
    return Record(folder, checkpoint)


class LocalFolder:
    """A folder of this machine, or one that is mounted."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str) -> bytes | None:
        """Return what a file holds; None: there is none."""
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Write a file durably. A crash may leave a part of it."""
        self._path.mkdir(parents=True, exist_ok=True)
        new = not (self._path / name).exists()
        with (self._path / name).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if new:
            handle = os.open(self._path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


class HadoopFolder:
    """A folder of any file system that Spark has checkpoints in."""

    def __init__(self, spark: Any, system: Any, path: Any) -> None:
        self._spark = spark
        self._system = system
        self._path = path

    def read(self, name: str) -> bytes | None:
        """Return what a file holds; None: there is none."""
        file = self._file(name)
        if not self._system.exists(file):
            return None
        stream = self._system.open(file)
        try:
            return bytes(self._spark._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, name: str, data: bytes) -> None:
        """Write a file durably. A crash may leave a part of it."""
        stream = self._system.create(self._file(name), True)
        try:
            stream.write(bytearray(data))
            stream.hsync()
        finally:
            stream.close()

    def _file(self, name: str) -> Any:
        return self._spark._jvm.org.apache.hadoop.fs.Path(self._path, name)
