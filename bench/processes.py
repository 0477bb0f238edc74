"""Processes that a measurement starts: started on free loopback ports, ended by their pids."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

STOP_S: Final = 10.0
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@contextmanager
def running(
    command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """Run a program until the block ends; its standard output is the caller's to read."""
    with log.open("a", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=None if env is None else {**os.environ, **env},
        )
    with process:
        try:
            yield process
        finally:
            # Those that read their standard input end with it, should a signal not reach them.
            if process.stdin is not None:
                process.stdin.close()
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def read_line(process: "subprocess.Popen[str]", log: Path) -> str:
    """Return the line with which a program says that it is ready."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line or '"ready": false' in line:
        raise RuntimeError(f"{process.args!r} did not start: {log.read_text(encoding='utf-8')}")
    return line


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, process: "subprocess.Popen[str]", log: Path, limit_s: float) -> None:
    """Wait until a process listens at a loopback port."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not start: {log.read_text(encoding='utf-8')[-2000:]}")


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, all its threads, from the kernel's own clock of it.

    /proc/PID/stat has the same in steps of 10 ms, as much as a tenth of a short row.
    """
    # clock_getcpuclockid(3) of Linux: the inverted pid above the bits for "scheduler's time".
    return time.clock_gettime(~pid << 3 | 2)


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process, in millions of bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE / 1e6


def family(pid: int) -> list[int]:
    """Return a process and all that it started."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found.extend(children.get(each, ()))
    return found
