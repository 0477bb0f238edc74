"""How tests are dealt over processes; see conftest."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_pytest_xdist_is_told_which_tests_belong_together() -> None:
    command = [sys.executable, "-m", "pytest", "-v", "--numprocesses=1", "--dist=loadgroup"]

    run = subprocess.run(
        [*command, "-p", "no:cacheprovider", "tests/domain/test_backoff.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )

    lines = [line for line in run.stdout.splitlines() if "PASSED tests/" in line]
    assert lines, run.stdout
    # It shows the group behind the name of each test.
    for line in lines:
        name = line.partition("PASSED ")[2].strip()
        assert name.endswith("@" + name.partition("::")[0]), line
