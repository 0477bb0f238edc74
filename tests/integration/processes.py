"""A bus of real processes on loopback: one partition server per partition, one front end."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bendybus.client import ServiceBusClient
from bendybus.client.management import ServiceBusAdministrationClient
from bendybus.domain.limits import Tier

START_S = 30.0
Value = TypeVar("Value")


class Process:
    """One server process; its ready line was read."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self._log = log.open("ab")
        self.popen = subprocess.Popen(
            [sys.executable, "-m", *arguments, "--exit-with-parent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        if not line:
            self.end()
            raise RuntimeError(log.read_text()[-2_000:])
        self.log = log
        self.address: str = json.loads(line)["address"]

    @property
    def pid(self) -> int:
        """The process."""
        return self.popen.pid

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.popen.send_signal(number)

    def terminate(self, within_s: float = 30.0) -> float:
        """Ask it to end and wait for that; return how long it took. Its exit code must be 0."""
        began = time.monotonic()
        self.popen.send_signal(signal.SIGTERM)
        code = self.popen.wait(within_s)
        took_s = time.monotonic() - began
        self.end()
        assert code == 0, self.log.read_text()[-2_000:]
        return took_s

    def kill(self) -> None:
        """End it as a power cut would."""
        self.end()

    def end(self) -> None:
        """End it, whatever state it is in."""
        with contextlib.suppress(ProcessLookupError):
            self.popen.send_signal(signal.SIGCONT)
        self.popen.kill()
        self.popen.wait(10)
        for stream in (self.popen.stdin, self.popen.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def rss_bytes(self) -> int:
        """Return the resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class Bus:
    """All processes of one namespace."""

    def __init__(
        self,
        folder: Path,
        *,
        partitions: int = 4,
        tier: Tier = Tier.PREMIUM,
        partition_options: tuple[str, ...] = (),
        front_end_options: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.count = partitions
        self._tier = tier
        self._options = partition_options
        self._front_end_options = front_end_options
        folder.mkdir(parents=True, exist_ok=True)
        self.partitions: dict[int, Process] = {}
        self._addresses: dict[int, str] = {}
        for index in range(partitions):
            self.start_partition(index)
        self.front_end_address = "127.0.0.1:0"
        self.start_front_end()

    def start_partition(self, index: int, data: Path | None = None) -> None:
        """Start (again) the server of one partition, on the address that it had."""
        self.partitions[index] = Process(
            "bendybus.partition_server",
            "serve",
            f"--data={data or self.folder}",
            "--namespace-name=test",
            "--namespace-uid=uid",
            f"--tier={self._tier}",
            f"--partition-count={self.count}",
            f"--partitions={index}",
            f"--listen={self._addresses.get(index, '127.0.0.1:0')}",
            *self._options,
            log=self.folder / f"partition-{index}.log",
        )
        self._addresses[index] = self.partitions[index].address

    def start_front_end(self, *options: str) -> None:
        """Start (again) the front end, on the address that it had."""
        self.front_end = Process(
            "bendybus.frontend",
            "serve",
            f"--listen={self.front_end_address}",
            *(f"--partition={index}={address}" for index, address in self._addresses.items()),
            *self._front_end_options,
            *options,
            log=self.folder / "front-end.log",
        )
        self.front_end_address = self.front_end.address

    def end(self) -> None:
        """End all processes."""
        for process in (self.front_end, *self.partitions.values()):
            process.end()

    @property
    def connection_string(self) -> str:
        """What clients need."""
        return (
            f"Endpoint=sb://{self.front_end_address};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=local;UseDevelopmentEmulator=true"
        )

    def client(self, **options: Any) -> ServiceBusClient:
        """Return a client."""
        return ServiceBusClient.from_connection_string(self.connection_string, **options)

    def administration(self, **options: Any) -> ServiceBusAdministrationClient:
        """Return an administration client."""
        return ServiceBusAdministrationClient.from_connection_string(
            self.connection_string, **options
        )


def eventually(
    look: Callable[[], Value], *, within_s: float = 15.0, what: str = "the condition"
) -> Value:
    """Return the first true value of `look`; fail when there is none in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        value = look()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come true within {within_s} s")
