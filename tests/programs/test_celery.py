"""Celery, with the bus as its broker: tasks are sent, worked on, retried, and survive a worker.

The transport of kombu creates its queues over HTTPS, with the administration client of its SDK.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.azure_sdk.live_bus import AMQPS_PORT, HTTPS_PORT
from tests.integration.processes import eventually
from tests.integration.secured import ROOT_KEY, ROOT_POLICY, SecuredBus
from tests.ports import HOST, loopback_address

FOLDER: Final = Path(__file__).parent / "tasks"
# An environment of its own: `make sdks` makes it.
PYTHON: Final = str(Path(sys.prefix) / "programs/bin/python")
ENDS_S: Final = 60.0


class Tasks:
    """The program on a bus."""

    def __init__(self, folder: Path) -> None:
        self.address = loopback_address(AMQPS_PORT, HTTPS_PORT)
        self.bus = SecuredBus(
            folder / "bus",
            addresses=(HOST, self.address),
            front_end_options=(
                f"--amqps-listen={self.address}:{AMQPS_PORT}",
                f"--http-listen={self.address}:{HTTPS_PORT}",
            ),
        )
        self.file = folder / "done"
        self.file.touch()
        self._log = folder / "workers.log"
        self._workers: list[subprocess.Popen[bytes]] = []

    def environment(self) -> dict[str, str]:
        """Return what the program needs to know."""
        return {
            **os.environ,
            # Without an end in .net, kombu takes an address for the name of a namespace of Azure.
            "BROKER_URL": f"azureservicebus://{ROOT_POLICY}:{ROOT_KEY}@{self.address}/local.net",
            "TRUSTED": str(self.bus.ca_file),
            "TASKS_DONE": str(self.file),
            "REQUESTS_CA_BUNDLE": str(self.bus.ca_file),
        }

    def send(self) -> None:
        """Send the tasks."""
        subprocess.run(
            [PYTHON, "tasks.py"],
            cwd=FOLDER,
            env=self.environment(),
            timeout=ENDS_S,
            check=True,
            capture_output=True,
        )

    def start(self) -> "subprocess.Popen[bytes]":
        """Start a worker."""
        command = [PYTHON, "-m", "celery", "-A", "tasks", "worker", "--loglevel=INFO"]
        options = ["--concurrency=2", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        with self._log.open("ab") as log:
            made = subprocess.Popen(
                [*command, *options],
                cwd=FOLDER,
                env=self.environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._workers.append(made)
        return made

    def done(self) -> Counter[str]:
        """Return what is done, and how often."""
        return Counter(self.file.read_text(encoding="utf-8").splitlines())

    def wait_for(self, line: str) -> None:
        """Wait until something is done."""
        what = f"{line!r} in {self.done()}, {self._log.read_text()[-2_000:]}"
        eventually(lambda: self.done()[line], within_s=ENDS_S, what=what)

    def end(self) -> None:
        """End all of it."""
        for each in self._workers:
            killed(each)
        self.bus.end()


def killed(worker: "subprocess.Popen[bytes]") -> None:
    """Kill a worker, and the processes of its pool."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait(10)


@pytest.fixture
def tasks(tmp_path: Path) -> Iterator[Tasks]:
    made = Tasks(tmp_path)
    yield made
    made.end()


@pytest.mark.requirement("R515")
def test_tasks_are_worked_on_once_retried_and_survive_their_worker(tasks: Tasks) -> None:
    tasks.send()
    first = tasks.start()
    tasks.wait_for("slow began")

    killed(first)
    second = tasks.start()
    tasks.wait_for("slow ended")
    tasks.wait_for("retried 2")

    def left() -> int:
        with tasks.bus.administration() as administration:
            return administration.get_queue_runtime_properties("tasks").total_message_count

    eventually(lambda: left() == 0, within_s=ENDS_S, what="the queue to be empty")
    second.terminate()
    assert second.wait(ENDS_S) == 0
    found: Any = tasks.done()
    assert {f"add {number}" for number in range(20)} <= found.keys()
    assert {f"retried {number}" for number in range(3)} <= found.keys()
    assert found["slow began"] == 2
