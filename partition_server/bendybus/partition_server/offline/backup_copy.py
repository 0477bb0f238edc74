"""Opens a backup copy of a partition's file, never the file itself.

The file may be in use: nothing is written to it or beside it, and its server's lock is not taken.
How it is read depends on the files beside it:

    -wal and -shm   a server has it open, or was killed: read as SQLite reads for others, in one
                    read transaction; the map (-shm) is only read
    neither         closed cleanly: read as it is
    only -wal       a copy of a file in use: both files are copied as they are

If this changed while the copy was made, the copy is repeated.
"""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import apsw

from bendybus.partition_server.store import file_format
from bendybus.partition_server.store.errors import FileRefused, StoreFailed, StoreFull
from bendybus.partition_server.store.file_format import APPLICATION_ID

if TYPE_CHECKING:
    from sqlite_utils import Database

ATTEMPTS: Final = 5


def back_up(file: Path, out: IO[bytes]) -> int:
    """Write a sound copy of a partition's file to `out`, also of one in use; return its bytes.

    It holds what was committed when the copying began. Raises what `opened` raises; then nothing
    was written. Needs room for the copy in TMPDIR, and nothing but the server's own packages.
    """
    _check_there(file)
    with tempfile.TemporaryDirectory(prefix="bendybus-store-") as folder:
        copy = _copied(file, Path(folder) / "copy.db")
        try:
            with contextlib.closing(apsw.Connection(str(copy))) as connection:
                # One file, without a log beside it; a torn page is found here, not at a restore.
                connection.pragma("journal_mode", "DELETE")
                application = connection.pragma("application_id")
                version = connection.pragma("user_version")
                found = connection.pragma("quick_check")
                if application == APPLICATION_ID and found == "ok":
                    file_format.check_version(file, version)
                    _forget_incarnation(connection)
        except apsw.Error as exc:
            raise StoreFailed(f"{file} is damaged ({exc}). Restore a backup.") from exc
        if application != APPLICATION_ID:
            raise FileRefused(f"{file} is an SQLite file of another program.")
        if found != "ok":
            raise StoreFailed(f"{file} is damaged ({found}). Restore a backup.")
        with copy.open("rb") as stream:
            shutil.copyfileobj(stream, out, 1 << 20)
        out.flush()
        return copy.stat().st_size


@contextlib.contextmanager
def opened(file: Path) -> Iterator["Database"]:
    """Yield a copy of a partition's file; it is removed at the end.

    Raises FileRefused, StoreFull or StoreFailed with a sentence for the user.
    """
    from sqlite_utils import Database

    _check_there(file)
    try:
        with tempfile.TemporaryDirectory(prefix="bendybus-store-") as folder:
            copy = _copied(file, Path(folder) / "copy.db")
            database = Database(copy)
            try:
                _check_kind(file, database)
                yield database
            finally:
                database.conn.close()
    except sqlite3.DatabaseError as exc:
        raise StoreFailed(f"{file} is damaged ({exc}). Restore a backup.") from exc
    except FileNotFoundError as exc:
        raise FileRefused(f"{file}: {exc.filename} was removed while it was copied.") from exc


def _forget_incarnation(copy: apsw.Connection) -> None:
    """Let the server that opens a copy give it a new incarnation: each restore gets its own."""
    with copy:
        copy.execute(file_format.load()["write_incarnation"], (b"",))


def _check_there(file: Path) -> None:
    try:
        # These fail, too, in a folder without search permission.
        if not file.exists():
            raise FileRefused(f"{file} does not exist. Name a partition's file.")
        if not file.is_file():
            raise FileRefused(
                f"{file} is not a file. Name a partition's file, such as partition-03.db."
            )
        with file.open("rb") as stream:
            head = stream.read(16)
    except OSError as exc:
        raise FileRefused(
            f"{file} cannot be read: {exc.strerror}. Run this as the user of the bus."
        ) from exc
    if head != b"SQLite format 3\0":
        raise FileRefused(f"{file} is not an SQLite file, or its header is damaged.")


def _check_kind(file: Path, database: "Database") -> None:
    [(application,)] = database.execute("PRAGMA application_id").fetchall()
    if application != APPLICATION_ID:
        raise FileRefused(f"{file} is an SQLite file of another program.")
    [(version,)] = database.execute("PRAGMA user_version").fetchall()
    file_format.check_version(file, version)
    [versions] = database.execute(file_format.load()["read_versions"]).fetchall()
    file_format.check_contents(file, *versions)


def _copied(file: Path, copy: Path) -> Path:
    for _ in range(ATTEMPTS):
        before = _situation(file)
        with _translated(file, copy):
            _copy(file, copy)
            # A running server creates and removes its log. A file in use is read through SQLite;
            # a copy that was made as if it were not in use must be repeated.
            after = _situation(file)
            if before == after or (before.in_use and after.in_use):
                return copy
        for path in copy.parent.iterdir():
            path.unlink()
    raise StoreFailed(f"{file} is opened and closed repeatedly. Try again when that has ended.")


class _Situation(tuple[object, ...]):
    """The files present: existence of -wal and -shm, and the file's inode, size and time."""

    __slots__ = ()

    @property
    def in_use(self) -> bool:
        return bool(self[0] and self[1])


def _situation(file: Path) -> _Situation:
    found = file.stat()
    beside = (Path(f"{file}{end}").exists() for end in ("-wal", "-shm"))
    return _Situation((*beside, found.st_ino, found.st_size, found.st_mtime_ns))


def _copy(file: Path, copy: Path) -> None:
    situation = _situation(file)
    if situation[0] and not situation[1]:
        shutil.copyfile(file, copy)
        shutil.copyfile(f"{file}-wal", f"{copy}-wal")
        return
    how = "readonly_shm=1" if situation.in_use else "immutable=1"
    uri = f"{file.absolute().as_uri()}?mode=ro&{how}"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with (
        contextlib.closing(apsw.Connection(uri, flags=flags)) as source,
        contextlib.closing(apsw.Connection(str(copy))) as target,
        target.backup("main", source, "main") as backup,
    ):
        # All pages at once: a backup in steps starts over at every write.
        backup.step(-1)


@contextlib.contextmanager
def _translated(file: Path, copy: Path) -> Iterator[None]:
    full = (
        f"not enough space for a copy of {file} in {copy.parent.parent}. Set TMPDIR to a directory "
        "with more space."
    )
    try:
        yield
    except apsw.FullError as exc:
        raise StoreFull(full) from exc
    except (apsw.NotADBError, apsw.CorruptError) as exc:
        raise StoreFailed(f"{file} is damaged or not an SQLite file ({exc}).") from exc
    except apsw.Error as exc:
        free = os.statvfs(copy.parent)
        if free.f_bavail * free.f_frsize < file.stat().st_size:
            raise StoreFull(full) from exc
        raise StoreFailed(f"{file} cannot be copied to {copy.parent.parent}: {exc}.") from exc
    except OSError as exc:
        raise StoreFull(f"{full} ({exc.strerror})") from exc
