"""Whatever dies, at any moment: files and queues hold each message exactly once in the end."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.processes import Bus, eventually
from tests.spark.live import driver
from tests.spark.live.queues import Queue

pytestmark = pytest.mark.slow
DEATHS = ("driver", "worker", "front end", "partition")
NOW = {"availableNow": True}
# Small batches, so that there are many moments; the owner takes its lease over.
SOURCE = {"settle": "trailing", "owner": "storm", "maxMessagesPerTrigger": "40"}


class Storm:
    """A streaming query in processes of its own, and what happens to them and to the bus."""

    def __init__(self, bus: Bus, kind: str, job: dict[str, Any], log: Path, seed: int) -> None:
        self._bus = bus
        self._kind = kind
        self._job = job
        self._log = log
        self._random = random.Random(seed)
        self._process: subprocess.Popen[bytes] | None = None

    def rage(self, queue: Queue, moved: Callable[[], int]) -> list[str]:
        """Send, and let one after the other die while messages move; return what was sent."""
        sent: list[str] = []
        deaths = list(DEATHS)
        self._random.shuffle(deaths)
        for number, death in enumerate(deaths):
            more = [f"m{number}-{n}" for n in range(60)]
            known = moved()
            queue.send(more)
            sent += more
            self.start()
            eventually(lambda known=known: moved() > known or self._ended(), within_s=90)  # type: ignore[misc]
            time.sleep(self._random.uniform(0, 1.5))
            self.die(death)
        self.die("driver")
        return sent

    def start(self) -> None:
        if self._ended():
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        sys.executable, "-m", "tests.spark.live.driver",
                        self._kind, json.dumps(self._job),
                    ],
                    stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip

    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def die(self, what: str) -> None:
        if what == "front end":
            self._bus.front_end.kill()
            self._bus.start_front_end()
        elif what == "partition":
            index = self._random.randrange(self._bus.count)
            self._bus.partitions[index].kill()
            self._bus.start_partition(index)
        elif what == "worker":
            workers = self._workers()
            if workers:
                os.kill(self._random.choice(workers), signal.SIGKILL)
        elif self._process is not None:
            if not self._ended():
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _workers(self) -> list[int]:
        """Return the Python processes that plan, read and write for Spark."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes()
                group = os.getpgid(int(folder.name))
            except OSError:
                continue
            if self._process is not None and group == self._process.pid and b"pyspark.d" in line:
                found.append(int(folder.name))
        return found


@pytest.fixture
def queue(make_bus: Callable[..., Bus], spark: Any, tmp_path: Path) -> Queue:
    made = Queue(make_bus(partitions=2), spark, "orders", tmp_path)
    made.create()
    return made


@pytest.mark.requirement("R299")
def test_a_capture_has_each_message_once_in_its_files(queue: Queue, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    seed = time.time_ns()
    job = {
        "source": {**queue.options, **SOURCE},
        "out": str(tmp_path / "files"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }

    def files() -> list[Path]:
        return [each for each in (tmp_path / "files").rglob("*.parquet") if each.is_file()]

    storm = Storm(queue.bus, "capture", job, tmp_path / "log", seed)
    sent = storm.rage(queue, lambda: len(files()))
    driver.start(queue.spark, "capture", job, NOW).awaitTermination(90)

    found = Counter(
        body.decode()
        for path in files()
        for body in pq.read_table(path, columns=["body"]).column("body").to_pylist()
    )
    assert found == Counter(sent), seed
    assert queue.active() == 0


@pytest.mark.requirement("R400")
@pytest.mark.parametrize("killed", [(0, 1), (0,)], ids=["before it", "in the middle of it"])
def test_a_driver_that_dies_between_publishing_and_settling_loses_and_repeats_nothing(
    queue: Queue, tmp_path: Path, killed: tuple[int, ...]
) -> None:
    import pyarrow.parquet as pq

    sent = [f"m{n}" for n in range(60)]
    queue.send(sent)
    job = {
        "source": {**queue.options, "settle": "trailing", "owner": "storm"},
        "out": str(tmp_path / "files"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    # Partitions that are not there settle nothing.
    killing = {**job, "kills": [queue.bus.partitions[index].pid for index in killed]}
    storm = Storm(queue.bus, "capture", killing, tmp_path / "log", 0)

    storm.start()
    # Batch 0 is empty; with this file Spark has committed what was published.
    eventually((tmp_path / "checkpoint" / "commits" / "1").exists, within_s=90)
    if 1 not in killed:
        eventually(lambda: left_in(queue, 1) == 0)
    storm.die("driver")
    for index in killed:
        queue.bus.partitions[index].kill()
        queue.bus.start_partition(index)
    published = files_of(tmp_path)
    eventually(lambda: None not in (left_in(queue, 0), left_in(queue, 1)))
    left = [left_in(queue, 0), left_in(queue, 1)]
    driver.start(queue.spark, "capture", job, NOW).awaitTermination(90)

    assert all(left) if 1 in killed else (left[0] and not left[1])
    assert files_of(tmp_path) == published
    bodies = [
        body.decode()
        for path in published
        for body in pq.read_table(path, columns=["body"]).column("body").to_pylist()
    ]
    assert sorted(bodies) == sorted(sent)
    assert queue.active() == 0


def left_in(queue: Queue, partition: int) -> int | None:
    """Return how many messages a partition has; None: it does not answer."""
    with queue.bus.client() as client:
        browser = client.get_partition_browser(queue_name=queue.name)
        found = browser.describe_partitions(timeout=5).partitions[partition]
    return None if found.error is not None else int(found.active_message_count)


def files_of(folder: Path) -> list[Path]:
    return sorted(each for each in (folder / "files").rglob("*.parquet") if each.is_file())


@pytest.mark.requirement("R297")
def test_a_queue_that_is_copied_has_each_message_once(queue: Queue, tmp_path: Path) -> None:
    seed = time.time_ns()
    target = Queue(queue.bus, queue.spark, "target", tmp_path)
    target.create()
    job = {
        "source": {**queue.options, **SOURCE},
        "target": target.options,
        "checkpoint": str(tmp_path / "checkpoint"),
    }

    storm = Storm(queue.bus, "copy", job, tmp_path / "log", seed)
    sent = storm.rage(queue, target.active)
    driver.start(queue.spark, "copy", job, NOW).awaitTermination(90)

    assert Counter(target.received()) == Counter(sent), seed
    assert queue.active() == 0
