"""Guards a partition's file from the outside: one process, the right inode, a reserve of space.

partition-NN.db       the file (with -wal and -shm beside it while it is open)
partition-NN.lock     locked while a process has the file; names the process
partition-NN.reserve  space that is given up when the disk is full, so that settling goes on;
                      its presence also tells a lost file from a new partition
"""

import contextlib
import fcntl
import os
from pathlib import Path

from bendybus.partition_server.store.errors import FileRefused, StoreFailed


class FileGuard:
    """The files of one partition in `directory`."""

    def __init__(self, directory: Path, partition: int, reserve_bytes: int) -> None:
        self.path = directory / f"partition-{partition:02d}.db"
        # For what is looked at in every turn: paths are converted to strings at each use.
        self._file, self._folder = str(self.path), str(directory)
        self.reserve_path = self.path.with_suffix(".reserve")
        self._lock_path = self.path.with_suffix(".lock")
        self._reserve_bytes = reserve_bytes
        self._lock: int | None = None
        self._identity: tuple[int, int] | None = None
        # Whether the reserve lies there whole: nothing is opened to see that again.
        self._laid = False

    def lock(self) -> None:
        """Take the file for this process. Raises FileRefused that names the holder."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise FileRefused(f"{self.path.parent} cannot be used: {exc.strerror}.") from exc
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise FileRefused(
                f"{self.path} is in use by process {holder}. One process serves a partition; "
                "stop that one first."
            ) from exc
        # A full disk may refuse even this; the name of the holder is a courtesy.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._lock = handle

    def unlock(self) -> None:
        """Give the file up; may be called at any time."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def check_before_open(self) -> None:
        """Raise FileRefused when the file was there once and is gone: its messages are lost."""
        if not self.path.exists():
            self.check_may_begin("is gone")

    def check_may_begin(self, what: str) -> None:
        """Raise FileRefused when a file without anything in it had something before."""
        if self._reserve_bytes and self.reserve_path.exists():
            raise FileRefused(
                f"{self.path} {what}, but {self.reserve_path.name} shows that it held messages. "
                "Restore it from a backup; to start again without its messages, delete "
                f"{self.reserve_path.name} too."
            )

    def opened(self) -> None:
        """Remember which file was opened and lay down the reserve."""
        found = os.stat(self.path)
        self._identity = (found.st_dev, found.st_ino)
        self._laid = False
        self.restore_reserve()

    def check_still_there(self) -> None:
        """Raise StoreFailed when the open file is no longer the one in the directory.

        A deleted file still accepts writes, which are lost when it is closed.
        """
        try:
            found = os.stat(self._file)
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._identity:
            raise StoreFailed(f"{self.path} was deleted or replaced while it was open")

    def free_bytes(self) -> int:
        """Return the free space of the volume."""
        volume = os.statvfs(self._folder)
        return volume.f_bavail * volume.f_frsize

    def give_up_reserve(self) -> bool:
        """Free the reserve; return whether there was one."""
        self._laid = False
        with contextlib.suppress(OSError):
            if os.stat(self.reserve_path).st_size:
                os.truncate(self.reserve_path, 0)
                return True
        return False

    def restore_reserve(self) -> None:
        """Lay the reserve down (again), if there is room for it twice over."""
        if not self._reserve_bytes or self._laid:
            return
        with contextlib.suppress(OSError):
            handle = os.open(self.reserve_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                missing = self._reserve_bytes > os.fstat(handle).st_size
                if missing and self.free_bytes() > 2 * self._reserve_bytes:
                    _allocate(handle, self._reserve_bytes)
                self._laid = os.fstat(handle).st_size >= self._reserve_bytes
            finally:
                os.close(handle)


def _allocate(handle: int, size_bytes: int) -> None:
    """Give a file room on its volume."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size_bytes)
        return
    # macOS has no such call: what is written has its room.
    zeros = bytes(2**20)
    for start in range(0, size_bytes, len(zeros)):
        os.pwrite(handle, zeros[: size_bytes - start], start)
