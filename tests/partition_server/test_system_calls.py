"""The system calls of a turn that stores one message: each has its reason."""

import ctypes
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from bendybus.partition_server.broker import disk_space
from bendybus.partition_server.state.answers import Appended
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append
from tests.partition_server.running_partition import Runner

pytestmark = [
    pytest.mark.requirement("R644"),
    pytest.mark.skipif(sys.platform != "linux", reason="the calls are those of Linux"),
]
# The calls of a turn, each with its reason:
#
#     6 fcntl       SQLite   the locks of a transaction: a backup may read the file meanwhile
#     pwrite        SQLite   each page that changed goes into the log, its header before it
#     1 fdatasync   SQLite   the commit; not counted here, as SQLite lets nobody replace it
#     1 stat        ours     the file is still the one in the directory, before anyone is answered
#     0 statvfs     ours     the volume is looked at every 50 ms or megabyte
TURNS = 20
COUNTED = ("fcntl", "pwrite64", "pread64", "stat", "fstat", "access", "open", "ftruncate")
Call = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 4, use_errno=True)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count the system calls of SQLite, as it names them, and our own, as `os` does."""
    counts: Counter[str] = Counter()
    files = apsw.VFS("counted-calls", "unix")
    kept: list[Any] = []
    for name in COUNTED:
        address = files.xGetSystemCall(name)
        assert address, f"SQLite has no {name}"
        kept.append((name, address, _counted(name, address, counts)))
    for name, _, wrapper in kept:
        pointer = ctypes.cast(wrapper, ctypes.c_void_p).value
        assert pointer
        assert files.xSetSystemCall(name, pointer)
    for name in ("stat", "statvfs"):
        monkeypatch.setattr(os, name, _counted_os(name, getattr(os, name), counts))
    yield counts
    for name, address, _ in kept:
        files.xSetSystemCall(name, address)


def _counted(name: str, address: int, counts: Counter[str]) -> Any:
    original = Call(address)

    def call(*values: int) -> int:
        counts[name] += 1
        return int(original(*values))

    return Call(call)


def _counted_os(name: str, original: Any, counts: Counter[str]) -> Any:
    def call(*values: Any, **named: Any) -> Any:
        counts[f"os.{name}"] += 1
        return original(*values, **named)

    return call


def test_a_turn_makes_no_call_without_a_reason(
    tmp_path: Path, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No look at the volume falls into the test, however slow the machine is.
    monkeypatch.setattr(disk_space, "STORING_EVERY_S", 60.0)
    monkeypatch.setattr(disk_space, "CHECK_EVERY_S", 60.0)
    runner = Runner(tmp_path)
    try:
        entity = runner.create()
        append = Append("t", entity, Batch([b"x" * 256]))
        for _ in range(3):
            assert isinstance(runner.ask(append), Appended)
        calls.clear()

        for _ in range(TURNS):
            assert isinstance(runner.ask(append), Appended)

        each = {name: count / TURNS for name, count in calls.items()}
    finally:
        runner.thread.stop()

    assert each.pop("fcntl") == 6
    assert each.pop("pwrite64") <= 8
    assert each.pop("os.stat") == 1
    assert each == {}
