"""The command line when it is ended, when its reader is no pipe, and when a partition is away."""

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage
from tests.integration import command_lines
from tests.integration.processes import Bus, eventually

pytestmark = [pytest.mark.integration]
ENDS_S = 60.0
NewQueue = Callable[..., str]


def run(bus: Bus, *given: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command_lines.command(bus, *given),
        capture_output=True,
        text=True,
        timeout=ENDS_S,
        **options,
    )


def left(bus: Bus, queue: str) -> int:
    with bus.administration() as administration:
        return administration.get_queue_runtime_properties(queue).total_message_count


@pytest.fixture
def received(bus: Bus, new_queue: NewQueue) -> Iterator[Any]:
    """A command that receives five messages, the end of a socket that it writes to, and a queue."""
    queue = new_queue()
    assert run(bus, "send", queue, input="0\n1\n2\n3\n4\n").returncode == 0
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = subprocess.Popen(
            command_lines.command(bus, "receive", queue, "--max", "5", "-o", "json"),
            stdout=theirs.fileno(),
        )
        theirs.close()
        yield command, ours, queue
        command.kill()
        command.wait(ENDS_S)


@pytest.mark.requirement("R582")
def test_what_the_reader_of_a_socket_did_not_read_stays_in_the_queue(
    bus: Bus, received: Any
) -> None:
    command, ours, queue = received
    assert json.loads(ours.recv(100_000).splitlines()[0])["body"] == "0"
    eventually(lambda: ours.recv(1, socket.MSG_PEEK))
    ours.close()

    assert command.wait(ENDS_S) == 141
    assert left(bus, queue) == 4


@pytest.mark.requirement("R582")
def test_what_the_reader_of_a_socket_has_read_is_completed(bus: Bus, received: Any) -> None:
    command, ours, queue = received
    found = b""
    while got := ours.recv(100_000):
        found += got
        time.sleep(0.1)

    assert command.wait(ENDS_S) == 0
    assert [json.loads(line)["body"] for line in found.splitlines()] == list("01234")
    assert left(bus, queue) == 0


@pytest.mark.requirement("R582")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_was_read_does_not_come_again_when_the_command_is_ended(
    bus: Bus, new_queue: NewQueue, number: signal.Signals
) -> None:
    queue, count = new_queue(), 8
    # Each fills the pipe, so that it is read before the next one is written.
    run(bus, "send", queue, input="\n".join(["x" * 60_000] * count))
    command = subprocess.Popen(
        command_lines.command(bus, "receive", queue, "--max", str(count), "-o", "json"),
        stdout=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    assert command.stdout is not None
    for _ in range(3):
        command.stdout.readline()

    command.send_signal(number)
    code = command.wait(ENDS_S)
    command.stdout.close()

    assert code == 128 + number
    # No lock is left either.
    assert run(bus, "receive", queue, "--max", "8", "-o", "json").stdout.count("\n") == count - 3


@pytest.mark.requirement("R583")
def test_an_import_that_is_ended_goes_on_where_it_stopped(
    bus: Bus, new_queue: NewQueue, tmp_path: Path
) -> None:
    queue, count = new_queue(), 200_000
    file = tmp_path / "lines"
    file.write_text("x\n" * count, encoding="utf-8")
    given = ["send", queue, "--from-file", str(file)]
    command = subprocess.Popen(
        command_lines.command(bus, *given), stderr=subprocess.PIPE, text=True
    )
    eventually(lambda: left(bus, queue))
    command.terminate()
    said = command.communicate(timeout=ENDS_S)[1]

    again = run(bus, *given, "--resume")

    assert command.returncode == 128 + signal.SIGTERM
    stored = re.search(r"Stopped: (\d+) messages are stored(?:, and (\d+) more may be)?", said)
    assert stored is not None
    assert (again.returncode, 0 < int(stored[1]) < count) == (0, True)
    assert count <= left(bus, queue) <= count + int(stored[2] or 0)


@pytest.mark.requirement("R584")
def test_dead_letters_that_expire_again_are_sent_again_once(bus: Bus, new_queue: NewQueue) -> None:
    queue = new_queue(dead_lettering_on_message_expiration=True)
    run(bus, "send", queue, "x", "--ttl", "1")
    eventually(lambda: run(bus, "deadletter", "list", queue, "-o", "json").stdout)

    done = run(bus, "deadletter", "resubmit", queue, "-o", "json")

    assert (done.returncode, json.loads(done.stdout)["resubmitted"]) == (0, 1)


@pytest.fixture
def half_away(tmp_path: Path) -> Iterator[Bus]:
    """A bus with ten dead letters of a queue on each of two partitions, one of which is away."""
    made = Bus(tmp_path, partitions=2)
    try:
        with made.administration() as administration:
            administration.create_queue("orders", enable_partitioning=True)
        with made.client() as client:
            dead_letter(client, 20)
        made.partitions[1].terminate()
        yield made
    finally:
        made.end()


def dead_letter(client: ServiceBusClient, count: int) -> None:
    with client.get_queue_sender("orders") as sender:
        for number in range(count):
            sender.send_messages(ServiceBusMessage("x", partition_key=str(number)))
    partitions: list[int] = []
    with client.get_queue_receiver("orders") as receiver:
        while len(partitions) < count:
            for each in receiver.receive_messages(count, max_wait_time=10):
                receiver.dead_letter_message(each)
                partitions.append((each.sequence_number or 0) >> 48)
    assert set(partitions) == {0, 1}


@pytest.mark.requirement("R584")
def test_dead_letters_of_a_partition_that_is_away_are_not_told_as_done(half_away: Bus) -> None:
    counted = run(half_away, "purge", "orders", "--dead-letters", "--dry-run")
    sent = run(half_away, "deadletter", "resubmit", "orders")
    number = str((1 << 48) + 1)
    named = run(half_away, "deadletter", "resubmit", "orders", "--number", number)

    assert [counted.returncode, sent.returncode, named.returncode] == [4, 4, 4]
    assert "Not all messages of 'orders' can be counted. Partition 1 does not" in counted.stderr
    assert "Not all dead letters of 'orders' were seen. Partition 1 does not" in sent.stderr
    assert "no dead letter" not in named.stderr
