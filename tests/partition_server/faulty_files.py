"""Makes the n-th call that SQLite makes on files fail, as a device or a full volume does."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final

import apsw

_BASE: Final = "unix"
_PWRITE: Final = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int64,
    use_errno=True,
)


class Call(Enum):
    """Calls that can fail."""

    WRITE = "write"
    SYNC = "sync"


class Faults:
    """Which calls fail: `times` of them from the n-th on, with `error`."""

    def __init__(self, call: Call, error: int, *, nth: int, times: int, half: bool = False) -> None:
        self.call = call
        self.error = error
        # Half of what is written is in the file all the same.
        self.half = half
        self.happened = False
        self._seen = 0
        self._failing = range(nth, nth + times)

    def fails(self, call: Call) -> bool:
        """Count a call; return whether it fails."""
        if call is not self.call:
            return False
        self._seen += 1
        failing = self._seen in self._failing
        self.happened = self.happened or failing
        return failing

    def end(self) -> None:
        """Let no call fail from now on."""
        self._failing = range(0)


class _File(apsw.VFSFile):
    def __init__(self, faults: Faults, name: Any, flags: Any) -> None:
        self._faults = faults
        super().__init__(_BASE, name, flags)

    def xSync(self, flags: int) -> None:
        if self._faults.fails(Call.SYNC):
            raise apsw.IOError("sync failed")
        super().xSync(flags)


class _Files(apsw.VFS):
    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        # Not for writes: errors that pass through its files are raised by apsw also where SQLite
        # ignores them, as in a checkpoint after a commit.
        super().__init__("faulty", _BASE, makedefault=faults.call is Call.SYNC)

    def xOpen(self, name: Any, flags: Any) -> _File:
        return _File(self._faults, name, flags)


@contextmanager
def failing(faults: Faults) -> Iterator[None]:
    """Let every file that SQLite opens in this process meanwhile fail so."""
    files = _Files(faults)
    name = next(n for n in ("pwrite64", "pwrite") if files.xGetSystemCall(n))
    address = files.xGetSystemCall(name)
    assert address is not None
    real = _PWRITE(address)

    def write(handle: int, data: int, size: int, offset: int) -> int:
        if not faults.fails(Call.WRITE):
            return real(handle, data, size, offset)
        if faults.half and size > 1:
            real(handle, data, size // 2, offset)
        ctypes.set_errno(faults.error)
        return -1

    replaced = _PWRITE(write)
    files.xSetSystemCall(name, ctypes.cast(replaced, ctypes.c_void_p).value or 0)
    try:
        yield
    finally:
        files.xSetSystemCall(name, 0)
        files.unregister()


def described(faults: Faults) -> str:
    """Return which fault this is, for a failing test."""
    return f"{faults.call.value} {os.strerror(faults.error)}"
