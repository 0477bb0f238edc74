"""A bus of real processes on loopback: one partition server per partition, one front end."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from bendybus.client import ServiceBusClient
from bendybus.client.management import ServiceBusAdministrationClient
from bendybus.domain.limits import Tier
from tests.integration import forked
from tests.ports import HOST, free_port

# Far more than any machine needs: it ends a test that would wait for ever.
WITHIN_S = 60.0
Value = TypeVar("Value")


class Process:
    """One server process. `ready` is to be awaited, unless the caller asks for that here.

    `tree`: the source of another version that it is of.
    """

    def __init__(
        self, *arguments: str, log: Path, wait: bool = True, tree: Path | None = None
    ) -> None:
        self.log = log
        self.address = ""
        given = (*arguments, "--exit-with-parent")
        with log.open("ab") as errors:
            self.server: Any
            if tree is None:
                self.server = forked.Process(given, errors.fileno())
            else:
                self.server = _of_version(tree, given, errors)
        if wait:
            self.ready()

    def ready(self) -> None:
        """Wait for its ready line. Raises RuntimeError with its last words if there is none."""
        line = self.server.stdout.readline()
        said = json.loads(line or "{}")
        if not said.get("ready"):
            self.end()
            raise RuntimeError(self.log.read_text()[-2_000:])
        self.address = said["address"]

    @property
    def pid(self) -> int:
        """The process."""
        return self.server.pid

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.server.send_signal(number)

    def terminate(self, within_s: float = 30.0) -> float:
        """Ask it to end and wait for that; return how long it took. Its exit code must be 0."""
        began = time.monotonic()
        self.server.send_signal(signal.SIGTERM)
        code = self.server.wait(within_s)
        took_s = time.monotonic() - began
        self.end()
        assert code == 0, self.log.read_text()[-2_000:]
        return took_s

    def kill(self) -> None:
        """End it as a power cut would."""
        self.end()

    def end(self) -> None:
        """End it, whatever state it is in."""
        self.server.send_signal(signal.SIGCONT)
        self.server.kill()
        self.server.wait(10)
        for stream in (self.server.stdin, self.server.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def rss_bytes(self) -> int:
        """Return the resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        """Return the seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _of_version(tree: Path, arguments: Sequence[str], errors: IO[bytes]) -> Any:
    rooms = [str(each) for each in tree.iterdir() if (each / "bendybus").is_dir()]
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(rooms)},
    )


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
        partition_module: str = "bendybus.partition_server",
    ) -> None:
        self.folder = folder
        self.count = partitions
        self._tier = tier
        self._options = partition_options
        self._front_end_options = front_end_options
        self._partition_module = partition_module
        folder.mkdir(parents=True, exist_ok=True)
        self.partitions: dict[int, Process] = {}
        self._addresses = {index: f"{HOST}:{free_port()}" for index in range(partitions)}
        self.front_end_address = f"{HOST}:{free_port()}"
        self._front_end: Process | None = None
        try:
            # All at once: most of a start is waiting for the machine.
            for index in range(partitions):
                self.start_partition(index, wait=False)
            for process in self.partitions.values():
                process.ready()
            self.start_front_end()
        except BaseException:
            self.end()
            raise

    def start_partition(
        self, index: int, data: Path | None = None, *, wait: bool = True, peers: bool = True
    ) -> None:
        """Start (again) the server of one partition, on the address that it had.

        `peers`: False, and it knows no other partition.
        """
        known = self._addresses if peers else {}
        self.partitions[index] = Process(
            self._partition_module,
            "serve",
            f"--data={data or self.folder}",
            "--namespace-name=test",
            "--namespace-uid=uid",
            f"--tier={self._tier}",
            f"--partition-count={self.count}",
            f"--partitions={index}",
            f"--listen={self._addresses[index]}",
            *(f"--peer={n}={address}" for n, address in known.items()),
            *self._options,
            log=self.folder / f"partition-{index}.log",
            wait=wait,
        )

    def start_front_end(self, *options: str) -> None:
        """Start (again) the front end, on the address that it had."""
        self._front_end = Process(
            "bendybus.frontend",
            "serve",
            f"--listen={self.front_end_address}",
            *(f"--partition={index}={address}" for index, address in self._addresses.items()),
            *self._front_end_options,
            *options,
            log=self.folder / "front-end.log",
        )

    def start_front_end_elsewhere(self, listens: Sequence[str]) -> list[str]:
        """Start a front end at addresses of its own, which is this bus's from now on.

        `listens`: addresses among the options of the one before. Returns the new addresses, in the
        same order.
        """
        self.front_end_address = f"{HOST}:{free_port()}"
        found = [f"{HOST}:{free_port()}" for _ in listens]
        options = "\n".join(self._front_end_options)
        for before, after in zip(listens, found, strict=True):
            options = options.replace(before, after)
        self._front_end_options = tuple(options.splitlines())
        self.start_front_end()
        return found

    @property
    def front_end(self) -> Process:
        """The front end."""
        assert self._front_end is not None
        return self._front_end

    def end(self) -> None:
        """End all processes."""
        for process in (self._front_end, *self.partitions.values()):
            if process is not None:
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
    look: Callable[[], Value], *, within_s: float = WITHIN_S, what: str = "the condition"
) -> Value:
    """Return the first true value of `look`; fail when there is none in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        value = look()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come true within {within_s} s")
