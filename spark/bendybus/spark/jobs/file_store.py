"""Captured files: how they are named, and where they are published.

What a file must hold names it, so a replay gives the same names. Each file is there whole or not at
all, and is never replaced:

    draft (temporary) ──► filled ──► durable ──► published, unless a file of its name is there
"""

import errno
import os
import shutil
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from bendybus.domain import sequence_number
from bendybus.spark.errors import OptionError

# Spark's readers pass over names that begin with _.
_TEMPORARY: Final = "_temporary"
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
PARQUET: Final = "parquet"
JSON_LINES: Final = "jsonl"
COMPRESSIONS: Final = {PARQUET: ("zstd", "snappy", "none"), JSON_LINES: ("none", "gzip")}
FIELDS: Final = ("entity", "partition", "year", "month", "day", "hour")
FOLDER: Final = "{partition}/{year}/{month}/{day}/{hour}"
HOUR_S: Final = 3_600
# Prefixes of files that Spark, Arrow and pandas ignore.
HIDDEN: Final = ("_", ".")


class Draft(Protocol):
    """A file that is being written."""

    @property
    def file(self) -> Any:
        """What is written to."""

    def publish(self) -> tuple[bool, int]:
        """Give it its name; (whether it was not there, bytes)."""

    def discard(self) -> None:
        """Remove what is left of it."""


class Store(Protocol):
    """A folder with files."""

    def has(self, path: str) -> bool:
        """Whether a file was published."""

    def draft(self, path: str) -> Draft:
        """Return a new file, to be published under a path."""

    def clear(self) -> None:
        """Remove the drafts that earlier runs of the owner left."""


def of_uri(out: str, owner: str) -> Store:
    """Return the store of a path, or of a URI that pyarrow knows, such as s3:// or gs://.

    `owner`: names the drafts of one checkpoint. Raises OptionError.
    """
    split = urlsplit(out)
    if split.scheme in ("", "file"):
        return LocalStore(Path(split.path if split.scheme else out), owner)
    import pyarrow as pa
    from pyarrow import fs

    try:
        found, root = fs.FileSystem.from_uri(out)
    except (pa.ArrowInvalid, OSError) as error:
        raise OptionError(
            f"--out: {out!r} must be a path, or the URI of a store: {error}"
        ) from None
    return RemoteStore(found, root, owner)


class LocalStore:
    """A folder of this machine, or one that is mounted. What was published survives a power cut."""

    def __init__(self, root: Path, owner: str) -> None:
        self._root = root
        self._temporary = root / _TEMPORARY / owner

    def has(self, path: str) -> bool:
        """Whether a file was published."""
        return (self._root / path).exists()

    def draft(self, path: str) -> "LocalDraft":
        """Return a new file, to be published under a path."""
        self._temporary.mkdir(parents=True, exist_ok=True)
        return LocalDraft(self._root, self._root / path, self._temporary / uuid.uuid4().hex)

    def clear(self) -> None:
        """Remove the drafts that earlier runs of the owner left."""
        shutil.rmtree(self._temporary, ignore_errors=True)


class LocalDraft:
    """A file that is being written."""

    def __init__(self, root: Path, final: Path, made: Path) -> None:
        self._root = root
        self._final = final
        self._made = made
        self.file = made.open("wb")

    def publish(self) -> tuple[bool, int]:
        """Give it its name; (whether it was not there, bytes)."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        size_bytes = self._made.stat().st_size
        _make_folders(self._root, self._final.parent)
        new = _link(self._made, self._final)
        _sync(self._final.parent)
        return new, size_bytes

    def discard(self) -> None:
        """Remove what is left of it."""
        self.file.close()
        self._made.unlink(missing_ok=True)


class RemoteStore:
    """An object store. Objects are there when they are complete."""

    def __init__(self, system: Any, root: str, owner: str) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self._temporary = f"{self._root}/{_TEMPORARY}/{owner}"

    def has(self, path: str) -> bool:
        """Whether a file was published."""
        from pyarrow import fs

        known = self._system.get_file_info([f"{self._root}/{path}"])[0]
        return bool(known.type == fs.FileType.File)

    def draft(self, path: str) -> "RemoteDraft":
        """Return a new object, to be published under a path."""
        self._system.create_dir(self._temporary, recursive=True)
        made = f"{self._temporary}/{uuid.uuid4().hex}"
        return RemoteDraft(self._system, self, path, f"{self._root}/{path}", made)

    def clear(self) -> None:
        """Remove the drafts that earlier runs of the owner left."""
        self._system.delete_dir_contents(self._temporary, missing_dir_ok=True)


class RemoteDraft:
    """An object that is being written under another key: an aborted upload may leave a part."""

    def __init__(self, system: Any, store: RemoteStore, path: str, final: str, made: str) -> None:
        self._system = system
        self._store = store
        self._path = path
        self._final = final
        self._made = made
        self._published = False
        self.file = system.open_output_stream(made, compression=None)

    def publish(self) -> tuple[bool, int]:
        """Give it its key; (whether it was not there, bytes)."""
        self.file.close()
        size_bytes = int(self._system.get_file_info([self._made])[0].size)
        if self._store.has(self._path):
            return False, size_bytes
        self._system.create_dir(self._final.rpartition("/")[0], recursive=True)
        self._system.move(self._made, self._final)
        self._published = True
        return True, size_bytes

    def discard(self) -> None:
        """Remove what is left of it."""
        if not self.file.closed:
            self.file.close()
        if not self._published:
            self._system.delete_file(self._made)


def _link(made: Path, final: Path) -> bool:
    """Give a file its name; return whether there was none of that name."""
    try:
        os.link(made, final)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links.
        if final.exists():
            return False
        made.rename(final)
    return True


def _make_folders(root: Path, folder: Path) -> None:
    """Make a folder and those between it and the root, each of them durably."""
    if folder.exists():
        return
    if folder != root:
        _make_folders(root, folder.parent)
    folder.mkdir(exist_ok=True, parents=folder == root)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where files go and what they are. `folder`: a template of FIELDS, by enqueued time in UTC."""

    format: str = PARQUET
    # "": the first one of the format.
    compression: str = ""
    folder: str = FOLDER
    # Names what is taken of a range, in files; "": all of it. What holds less is another file.
    selection: str = ""

    def check(self, entity: str = "entity") -> None:
        """Raise OptionError for what cannot be, of files of an entity."""
        if self.format not in COMPRESSIONS:
            raise OptionError(f"--format: must be parquet or jsonl (got {self.format!r})")
        allowed = COMPRESSIONS[self.format]
        if self.compression and self.compression not in allowed:
            raise OptionError(
                f"--compression: must be {', '.join(allowed[:-1])} or {allowed[-1]} with "
                f"{self.format} (got {self.compression!r})"
            )
        fields = ", ".join(f"{{{name}}}" for name in FIELDS)
        try:
            found = self.path(entity, 1, 0, ":1:2")
        except (KeyError, IndexError, ValueError, AttributeError):
            raise OptionError(
                f"--path-template: must be made of text and {fields} (got {self.folder!r})"
            ) from None
        if "{partition}" not in self.folder or ".." in PurePosixPath(found).parts:
            raise OptionError(
                "--path-template: must have {partition}, and stay below --out "
                f"(got {self.folder!r})"
            )
        hidden = [part for part in PurePosixPath(found).parts if part.startswith(HIDDEN)]
        if hidden:
            raise OptionError(
                "--path-template: no folder may begin with _ or . as readers pass over it "
                f"(got {self.folder!r}, and so {hidden[0]!r})"
            )

    @property
    def codec(self) -> str:
        """The compression: none, or its name."""
        return self.compression or COMPRESSIONS[self.format][0]

    def path(self, entity: str, partition: int, hour: int, range_: str) -> str:
        """Return the file of the rows of a range that were enqueued in an hour since 1970.

        `range_`: as in the column `range`. The incarnation is in the name, as numbers of another
        one start over.
        """
        moment = datetime.fromtimestamp(hour * HOUR_S, UTC)
        folder = self.folder.format(
            entity=entity.replace("$", ""),
            partition=partition,
            year=f"{moment.year:04}",
            month=f"{moment.month:02}",
            day=f"{moment.day:02}",
            hour=f"{moment.hour:02}",
        )
        incarnation, after, upto = range_.rsplit(":", 2)
        first = sequence_number.counter_of(int(after)) + 1
        last = sequence_number.counter_of(int(upto))
        parts = (f"{first:012}", f"{last:012}", incarnation, self.selection)
        name = "-".join(filter(None, parts))
        ending = f"{self.format}.gz" if self.codec == "gzip" else self.format
        return f"{folder.strip('/')}/{name}.{ending}"
