"""A reader that goes away ends a command quietly, with the code of SIGPIPE."""

import os
import subprocess
import sys

import pytest

from bendybus.domain import entity
from tests.cli.fake_management import FakeManagement

pytestmark = pytest.mark.requirement("R369")


def closed_at_once(*arguments: str) -> "tuple[int, str]":
    """Return the exit code and stderr of a command whose reader is gone before it writes."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bendybus.cli", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_command_whose_reader_is_gone_ends_as_sigpipe_ends_others(
    bus: FakeManagement, output: str
) -> None:
    bus.add("orders", entity.Origin.CLIENT)
    where = f"Endpoint=sb://{bus.address};UseDevelopmentEmulator=true"

    found = closed_at_once("--connection-string", where, "get", "queues", "-o", output)

    assert found == (141, "")


def test_help_that_is_not_read_ends_like_that_too() -> None:
    assert closed_at_once("--help") == (141, "")
