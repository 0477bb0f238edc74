"""docs/tutorial/flights-on-spark.md: its cells are the example's, which runs."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.live.queues import Queue

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "delays.py"
PAGE = ROOT / "docs" / "tutorial" / "flights-on-spark.md"


def test_the_cells_of_the_page_are_the_examples() -> None:
    cells = re.split(r"^# %% .*$", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)

    assert [each.strip() for each in cells] == [each.strip() for each in blocks]


@pytest.mark.slow
@pytest.mark.parametrize("remote", [{}, {"SPARK_REMOTE": "local[2]"}], ids=["classic", "connect"])
def test_the_example_sends_reads_and_draws(
    remote: dict[str, str], new_queue: Callable[..., Queue], tmp_path: Path
) -> None:
    queue = new_queue()

    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLE)],
        capture_output=True, text=True, timeout=240, check=False,
        env={
            **os.environ, **remote,
            "BENDYBUS_CONNECTION_STRING": queue.bus.connection_string,
            "QUEUE": queue.name,
            "FLIGHTS": "2000", "OUT": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1",
            "MPLBACKEND": "agg",
        },
    )  # fmt: skip

    sent = re.search(r"Sent ([\d,]+) flights", ran.stdout)
    assert sent, ran.stderr[-3_000:]
    assert f"Read {sent[1]} flights from the files." in ran.stdout
    assert queue.active() == 0
    assert "mean delay, minutes" in (tmp_path / "delays.svg").read_text(encoding="utf-8")
