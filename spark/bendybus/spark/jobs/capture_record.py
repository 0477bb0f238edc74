"""How the files of the last batch of a capture were begun, kept in its checkpoint.

record ──► files are published ──► Spark commits the batch

A batch that is repeated is finished as it was begun: with other columns, or in another format or
folder, the same messages would be in other files as well.
"""

import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs.file_layout import Layout

logger = logging.getLogger(__name__)
FILE: Final = "bendybus-capture.json"
# Spark's own: which query the checkpoint is of.
METADATA: Final = "metadata"
_VERSION: Final = 1


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
        self._folder.write(FILE, json.dumps(values).encode())
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
        data = self._folder.read(FILE)
        try:
            found: dict[str, Any] | None = None if data is None else json.loads(data)
        except ValueError:
            # A crash while it was written: nothing of the batch was published.
            return None
        if found is not None and found["v"] != _VERSION:
            raise PipelineError(
                f"--checkpoint: {FILE} is of version {found['v']}, and this version of Bendybus "
                f"reads {_VERSION}; use the version that wrote it, or another checkpoint"
            )
        return found


def of_checkpoint(spark: Any, checkpoint: str) -> Record:
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
