"""`bendybus up --front-ends 2` with the real servers: one bus behind two addresses."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage

COMMAND = (sys.executable, "-m", "bendybus.cli")
COUNT = 60

pytestmark = pytest.mark.requirement("R367", "R373")


@pytest.fixture
def facts(tmp_path: Path) -> Iterator[dict[str, Any]]:
    options = ("--front-ends", "2", "--processes", "1", "--port", "0", "--queue", "orders")
    up = subprocess.Popen(
        [*COMMAND, "up", "--data", str(tmp_path), *options, "-o", "json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert up.stdout is not None
    yield json.loads(up.stdout.readline())
    up.terminate()
    up.communicate(timeout=60)


def connected(facts: dict[str, Any], number: int) -> ServiceBusClient:
    first, wanted = facts["endpoints"][0], facts["endpoints"][number]
    string = facts["connection_string"].replace(first, wanted)
    return ServiceBusClient.from_connection_string(string)


def test_a_client_of_one_front_end_goes_on_when_that_was_killed(facts: dict[str, Any]) -> None:
    pid = next(each["pid"] for each in facts["processes"] if each["name"] == "frontend-0")
    received: list[str] = []

    with (
        connected(facts, 0) as first,
        connected(facts, 1) as second,
        first.get_queue_sender("orders") as sender,
        second.get_queue_receiver("orders", max_wait_time=10) as receiver,
    ):
        for number in range(COUNT):
            if number == COUNT // 2:
                os.kill(pid, signal.SIGKILL)
            sender.send_messages(ServiceBusMessage(str(number)))
        while len(received) < COUNT and (messages := receiver.receive_messages(COUNT)):
            receiver.complete_messages(messages)
            received += [str(each) for each in messages]
    top = subprocess.run(
        [*COMMAND, "--data", facts["data"], "top", "--interval", "0.5", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=60,
    )

    # Without a key, one that was under way may have been stored twice.
    assert {*received} == {str(number) for number in range(COUNT)}
    [row] = [json.loads(line) for line in top.stdout.splitlines()]
    assert (row["name"], row["incoming_per_s"], row["active"]) == ("orders", 0.0, 0)
