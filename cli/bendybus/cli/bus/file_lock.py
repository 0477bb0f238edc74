"""A lock between the processes of a user, on POSIX and on Windows: for the file of `contexts`.

A lock of the system, which ends with its process: one that is killed blocks no other.
"""

import errno
import importlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

WAIT_S: Final = 5.0
_LOOK_S: Final = 0.02
_TAKEN: Final = frozenset({errno.EAGAIN, errno.EACCES, errno.EDEADLK})
# Of file systems without locks: changes at the same moment are not kept apart there.
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})


@contextmanager
def held(path: Path, within_s: float | None = None) -> Iterator[None]:
    """Hold the lock file, which stays. Raises TimeoutError if another process does for so long."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        until_s = time.monotonic() + (WAIT_S if within_s is None else within_s)
        while not _taken(descriptor):
            if time.monotonic() >= until_s:
                raise TimeoutError(errno.ETIMEDOUT, "in use by another process", str(path))
            time.sleep(_LOOK_S)
        try:
            yield
        finally:
            _release(descriptor)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    """Take the lock; return whether it is this process's now."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            system = _windows()
            system.locking(descriptor, system.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return True
        if error.errno not in _TAKEN:
            raise
        return False
    return True


def _release(descriptor: int) -> None:
    """Give the lock back; on POSIX the end of the descriptor does that."""
    if fcntl is None:
        system = _windows()
        with suppress(OSError):
            system.locking(descriptor, system.LK_UNLCK, 1)


def _windows() -> Any:
    return importlib.import_module("msvcrt")
