"""One process of a local bus: started, watched, started again with back-off, held down on demand.

`run` is the only task that touches the process; everything else sets a wish and wakes it. The
address is fixed when the process first serves: later starts ask for the same ports, so that
no other process needs to be told. Until then, a port that turns out to be taken is chosen again.
"""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from bendybus.cli.errors import CliError
from bendybus.domain.backoff import Backoff
from bendybus.wire import readiness
from bendybus.wire.readiness import Readiness

READY_S: Final = 60.0
STOP_S: Final = 10.0
# Between restarts of a process that keeps ending.
BACKOFF: Final = Backoff(0.2, 5.0, reset_after_s=30.0)
_LOG_BYTES_MAX: Final = 16 * 2**20
_STDOUT_LINE_MAX: Final = 2**16
_LOG_TAIL_BYTES: Final = 4_096
# How often ports are chosen again.
_PORT_TRIES: Final = 5
_UTIME = 11
_STIME = 12


@dataclass(frozen=True, slots=True)
class Start:
    """One way to start a process: the address that it shall listen at, and the command.

    `metrics`: the URL at which its metrics are then.
    """

    listen: str
    command: Sequence[str]
    metrics: str = ""


class State(StrEnum):
    """What a process does at the moment."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPED = "stopped"


class Child:
    """A process under care. `choose` returns how to start it, with other ports at each call."""

    def __init__(
        self,
        name: str,
        role: str,
        *,
        partitions: tuple[int, ...],
        choose: Callable[[], Start],
        log: Path,
        on_change: Callable[[], None],
    ) -> None:
        self.name = name
        self.role = role
        self.partitions = partitions
        self._choose = choose
        self._start = choose()
        self.address = self._start.listen
        self.state = State.STARTING
        self.restarts = 0
        self.ready = asyncio.Event()
        self.down = asyncio.Event()
        self._log = log
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._started_at = 0.0
        self._held = False
        self._ending = False
        self._wake = asyncio.Event()
        self._served_once = False
        # What the last process printed instead of the ready line.
        self._failure: Readiness | None = None

    @property
    def pid(self) -> int:
        """Of the process, or 0 while there is none."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else 0

    @property
    def metrics(self) -> str:
        """URL of its metrics."""
        return self._start.metrics

    def facts(self) -> dict[str, Any]:
        """Return the facts about this process for run.json and the ready line."""
        return {
            "name": self.name,
            "role": self.role,
            "pid": self.pid,
            "partitions": list(self.partitions),
            "address": self.address,
            "metrics": self.metrics,
            "log": str(self._log),
        }

    def live_facts(self) -> dict[str, Any]:
        """Return `facts` and what only holds now."""
        uptime_s = time.monotonic() - self._started_at if self.pid else 0.0
        usage = _read_usage(self.pid)
        return self.facts() | {
            "state": self.state.value,
            "restarts": self.restarts,
            "uptime_s": round(uptime_s, 1),
            "rss_bytes": usage.rss_bytes,
            "cpu_s": round(usage.cpu_s, 2),
            "cpu_percent": round(100 * usage.cpu_s / uptime_s, 1) if uptime_s > 0 else 0.0,
        }

    async def run(self) -> None:
        """Keep the process running until `end`. Raises CliError when it never came to serve."""
        failures, tries = 0, 1
        while not self._ending:
            if self._held:
                self._become(State.STOPPED)
                await self._woken(None)
                continue
            began = time.monotonic()
            await self._one_life()
            self.ready.clear()
            if self._ending or self._held:
                continue
            if not self._served_once:
                taken = self._failure is not None and self._failure.cannot_listen
                if not taken or tries >= _PORT_TRIES:
                    raise CliError(self._why_not())
                tries += 1
                self.choose_again()
                continue
            failures = BACKOFF.failures_after(failures, time.monotonic() - began)
            self.restarts += 1
            self._become(State.RESTARTING)
            await self._woken(BACKOFF.delay_s(failures))
        self._become(State.STOPPED)

    async def _one_life(self) -> None:
        """Start the process, wait until it serves, and until it is gone."""
        self._wake.clear()
        self._rotate(moving=True)
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self._start.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=_STDOUT_LINE_MAX,
                start_new_session=True,
            )
        self._process, self._failure = process, None
        self._started_at = time.monotonic()
        try:
            wanted = not (self._ending or self._held)
            address = await self._until_ready(process) if wanted else ""
            if address and not self._held:
                self.address = address
                self._served_once = True
                self.ready.set()
                self._become(State.RUNNING)
                await self._until_gone(process)
        finally:
            await self._finish(process)

    async def _until_ready(self, process: asyncio.subprocess.Process) -> str:
        """Return the address of the ready line, or nothing when the process will not serve."""
        assert process.stdout is not None
        with suppress(TimeoutError, ValueError):
            async with asyncio.timeout(READY_S):
                while line := await process.stdout.readline():
                    found = readiness.read(line)
                    if found is not None and found.ready:
                        return found.address or self.address
                    self._failure = found or self._failure
        return ""

    async def _until_gone(self, process: asyncio.subprocess.Process) -> None:
        """Wait for the end of the process, reading its output so that it never blocks."""
        assert process.stdout is not None
        while True:
            try:
                if not await process.stdout.readline():
                    break
            except ValueError:
                continue
        await process.wait()

    async def _finish(self, process: asyncio.subprocess.Process) -> None:
        """Make sure that nothing of this life is left."""
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            _signal(process, signal.SIGKILL)
            await process.wait()

    def hold(self) -> None:
        """Kill the process at once and keep it down until `release`."""
        self._held = True
        self.ready.clear()
        self._kill()

    def choose_again(self) -> None:
        """Let the next start be another one."""
        self._start = self._choose()
        self.address = self._start.listen

    def release(self) -> None:
        """Start the process again."""
        self._held = False
        self._wake.set()

    async def end(self) -> None:
        """Ask the process to end, wait, kill it if it does not; `run` returns then."""
        self._ending = True
        self._wake.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        _signal(process, signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            self._kill()
            await process.wait()

    def kill(self) -> None:
        """Kill the process; it is not restarted."""
        self._ending = True
        self._wake.set()
        self._kill()

    def _kill(self) -> None:
        self._wake.set()
        process = self._process
        if process is not None:
            _signal(process, signal.SIGKILL)

    def keep_log_small(self) -> None:
        """Move a log that grew too large aside; called now and then."""
        self._rotate(moving=False)

    def _rotate(self, *, moving: bool) -> None:
        """Keep one older log. While the process writes (append mode), copy and cut instead."""
        try:
            size = self._log.stat().st_size
        except FileNotFoundError:
            return
        older = self._log.with_suffix(".log.1")
        if moving and not self._served_once and size:
            self._log.replace(older)
        elif size > _LOG_BYTES_MAX:
            shutil.copyfile(self._log, older)
            with self._log.open("r+b") as file:
                file.truncate(0)

    def _become(self, state: State) -> None:
        if state is not self.state:
            self.state = state
            if state is State.STOPPED:
                self.down.set()
            else:
                self.down.clear()
            self._on_change()

    async def _woken(self, timeout_s: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        self._wake.clear()

    def _last_lines(self) -> list[str]:
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - _LOG_TAIL_BYTES))
                return file.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return []

    def _why_not(self) -> str:
        """Return the error that the process reported, or the last line of its log."""
        if self._failure is not None:
            why = self._failure.error
        else:
            why = next(reversed(self._last_lines()), "its log is empty")
        return f"{self.name} did not start: {why} (log: {self._log})"


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal. Not by asyncio's own methods: they may reap the process behind its back."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process uses."""

    rss_bytes: int = 0
    cpu_s: float = 0.0


def _read_usage(pid: int) -> Usage:
    """Return the usage of a process; nothing when it is gone."""
    if not pid:
        return Usage()
    try:
        folder = Path("/proc") / str(pid)
        pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
        # The name in parentheses may hold spaces; the fields after it do not.
        fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (OSError, ValueError, IndexError):
        return Usage()
    ticks = int(fields[_UTIME]) + int(fields[_STIME])
    return Usage(pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))
