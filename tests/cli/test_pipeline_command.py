"""`bendybus pipeline` where Spark is not installed."""

import subprocess
import sys

RUN = [sys.executable, "-m", "bendybus.cli", "pipeline"]


def test_what_the_jobs_are_can_be_read_without_spark() -> None:
    done = subprocess.run([*RUN, "dlq", "redrive", "--help"], capture_output=True, text=True)

    assert done.returncode == 0
    assert "--dry-run" in done.stdout


def test_a_job_names_the_extra_that_it_needs() -> None:
    done = subprocess.run([*RUN, "usage", "--source", "orders"], capture_output=True, text=True)

    assert done.returncode != 0
    assert done.stderr.startswith("bendybus: Spark is not installed here: pip install '.[spark]'")
