"""`bendybus pipeline` as a user runs it: what it prints, and how it ends."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.live.queues import Queue

pytestmark = pytest.mark.requirement("R312")

# The JVM itself says this, of a module that Spark names on its command line.
JVM = "WARNING: Using incubator modules: jdk.incubator.vector"


def run(queue: Queue, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command against the queue's bus, with an environment that names no Python."""
    environment = {**os.environ, "BENDYBUS_CONNECTION_STRING": queue.bus.connection_string}
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_CONF_DIR"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-m", "bendybus.cli", "pipeline", *arguments],
        env={**environment, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_capture_says_what_it_did_and_leaves_the_queue_empty(
    new_queue: Callable[..., Queue], tmp_path: Path
) -> None:
    queue = new_queue()
    queue.send([f"m{n}" for n in range(30)])
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    done = run(
        queue,
        *("capture", "--source", queue.name, "--out", out, "--checkpoint", checkpoint, "--now"),
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Captured 30 messages of {queue.name} in ")
    assert '"rows": 30' in done.stderr
    assert [line for line in done.stderr.splitlines() if not line.startswith("{")] == [JVM]
    assert queue.active() == 0


def test_an_error_is_one_sentence_without_a_trace(
    new_queue: Callable[..., Queue], tmp_path: Path
) -> None:
    queue = new_queue()

    done = run(queue, "usage", "--source", "missing")

    assert done.returncode == 1
    assert "bendybus pipeline: there is no queue 'missing'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "\tat " not in done.stderr


def test_a_wrong_option_is_wrong_usage(new_queue: Callable[..., Queue]) -> None:
    done = run(new_queue(), "usage", "--source", "q", "--every", "soon")

    assert done.returncode == 2
    assert done.stderr.endswith(
        "bendybus pipeline: --every: must be like 30s, 10m or 1h (got 'soon')\n"
    )
