"""The command line in pipes: no message is lost between the bus and the other end."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, ServiceBusSender
from bendybus.client.exceptions import MessageSizeExceededError
from bendybus.domain import limits
from tests.integration import command_lines
from tests.integration.processes import Bus, eventually

pytestmark = [pytest.mark.integration]
ENDS_S = 60.0
LOCK = timedelta(seconds=5)
NewQueue = Callable[..., str]


def run(bus: Bus, *given: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    """Run a command; its output is in bytes."""
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(
        command_lines.command(bus, *given), stderr=subprocess.PIPE, timeout=ENDS_S, **options
    )


def fill(client: ServiceBusClient, queue: str, *bodies: str) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(body) for body in bodies])


def left(bus: Bus, queue: str) -> int:
    with bus.administration() as administration:
        return administration.get_queue_runtime_properties(queue).total_message_count


@pytest.mark.requirement("R582")
@pytest.mark.parametrize("output", ["json", "table"])
def test_what_the_reader_of_a_pipe_did_not_read_stays_in_the_queue(
    bus: Bus, client: ServiceBusClient, new_queue: NewQueue, output: str
) -> None:
    queue, lines = new_queue(), 2 if output == "table" else 1
    fill(client, queue, *map(str, range(300)))
    command = subprocess.Popen(
        command_lines.command(bus, "receive", queue, "--max", "1000", "-o", output),
        stdout=subprocess.PIPE,
    )

    head = subprocess.run(
        ["head", f"-{lines}"], stdin=command.stdout, stdout=subprocess.PIPE, timeout=ENDS_S
    )
    assert command.stdout is not None
    command.stdout.close()
    code = command.wait(ENDS_S)

    assert len(head.stdout.splitlines()) == lines
    assert code == 141
    assert left(bus, queue) == 299


@pytest.mark.requirement("R582")
@pytest.mark.parametrize("sessions", [False, True])
def test_the_reader_of_a_pipe_takes_its_time(bus: Bus, new_queue: NewQueue, sessions: bool) -> None:
    queue = new_queue(lock_duration=LOCK, requires_session=sessions)
    given = [str(number).encode() for number in range(4)]
    of = {"--property": "session_id=a"} if sessions else {}
    run(bus, "send", queue, *sum(of.items(), ()), input=b"\n".join(given))
    command = subprocess.Popen(
        command_lines.command(
            *(bus, "receive", queue, "--max", "4", "-o", "json"),
            *(("--session", "a") if sessions else ()),
        ),
        stdout=subprocess.PIPE,
    )
    assert command.stdout is not None

    found = b""
    while got := os.read(command.stdout.fileno(), 100_000):
        found += got
        time.sleep(LOCK.total_seconds() / 2)
    command.stdout.close()

    assert command.wait(ENDS_S) == 0
    assert [json.loads(line)["body"].encode() for line in found.splitlines()] == given
    assert left(bus, queue) == 0


@pytest.mark.requirement("R582")
def test_what_a_slow_reader_has_does_not_come_again_when_the_command_is_killed(
    bus: Bus, new_queue: NewQueue
) -> None:
    queue, count, bytes_each = new_queue(), 8, 60_000
    # Each fills the pipe, so that it is read before the next one is written.
    run(bus, "send", queue, input=b"\n".join([b"x" * bytes_each] * count))
    command = subprocess.Popen(
        command_lines.command(bus, "receive", queue, "--max", str(count), "-o", "json"),
        stdout=subprocess.PIPE,
    )
    assert command.stdout is not None
    for _ in range(3):
        command.stdout.readline()
        time.sleep(0.7)

    eventually(lambda: left(bus, queue) <= count - 3)
    command.kill()
    command.stdout.close()
    command.wait(ENDS_S)

    assert count - 4 <= left(bus, queue) <= count - 3


@pytest.mark.requirement("R582")
@pytest.mark.parametrize("mode", ["peek-lock", "receive-and-delete"])
@pytest.mark.parametrize("output", ["json", "table", "yaml"])
def test_what_an_encoding_lacks_is_escaped(
    bus: Bus, client: ServiceBusClient, new_queue: NewQueue, mode: str, output: str
) -> None:
    queue, body = new_queue(), "gr\u00fc\u00df \U0001f68c"
    fill(client, queue, body)
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}

    done = run(bus, "receive", queue, "--mode", mode, "-o", output, env=ascii_only)

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"gr" in done.stdout
    done.stdout.decode("ascii")
    if output == "json":
        import json

        assert json.loads(done.stdout)["body"] == body
    assert left(bus, queue) == 0


@pytest.mark.requirement("R582")
def test_nothing_is_deleted_that_cannot_be_written(
    bus: Bus, client: ServiceBusClient, new_queue: NewQueue
) -> None:
    queue = new_queue()
    fill(client, queue, "one", "two")

    with Path("/dev/full").open("wb") as full:
        done = run(bus, "receive", queue, "--max", "2", "--mode", "receive-and-delete", stdout=full)

    assert done.returncode == 1
    assert b"cannot be written" in done.stderr
    assert left(bus, queue) == 2


@pytest.mark.requirement("R583")
@pytest.mark.parametrize("count", [1, 600, 1_001])
def test_a_message_is_sent_as_often_as_is_asked(bus: Bus, new_queue: NewQueue, count: int) -> None:
    queue = new_queue()

    done = run(bus, "send", queue, "x", "--count", str(count), "-o", "json")

    assert f'"sent": {count}'.encode() in done.stdout
    assert left(bus, queue) == count


@pytest.mark.requirement("R583")
def test_large_messages_are_sent_as_often_as_is_asked(bus: Bus, new_queue: NewQueue) -> None:
    queue = new_queue()

    done = run(bus, "send", queue, "x" * 100_000, "--count", "5", "-o", "json")

    assert (done.returncode, left(bus, queue)) == (0, 5)


@pytest.mark.requirement("R583")
def test_input_that_pauses_is_sent(bus: Bus, new_queue: NewQueue) -> None:
    queue = new_queue()
    command = subprocess.Popen(
        command_lines.command(bus, "send", queue),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdin is not None

    command.stdin.write(b"one\ntwo\nthr")
    command.stdin.flush()
    eventually(lambda: left(bus, queue) == 2, what="both lines are sent")
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=ENDS_S)

    assert command.returncode == 130
    assert b"Not sent: 3 bytes of a line that has no end yet." in said
    assert b"2 messages are stored" in said


@pytest.mark.requirement("R583")
def test_what_is_sent_several_times_says_what_is_stored(bus: Bus, new_queue: NewQueue) -> None:
    queue = new_queue()
    command = subprocess.Popen(
        command_lines.command(bus, "send", queue, "--count", "3"),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdin is not None

    command.stdin.write(b"one\ntwo\n")
    command.stdin.flush()
    eventually(lambda: left(bus, queue) == 6, what="both lines are sent")
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=ENDS_S)

    assert command.returncode == 130
    assert b"Stopped: 6 messages are stored." in said


@pytest.mark.requirement("R583")
def test_lines_are_sent_as_they_are(
    bus: Bus, client: ServiceBusClient, new_queue: NewQueue, tmp_path: Path
) -> None:
    queue, file = new_queue(), tmp_path / "lines"
    given = ["\ufeffone", "a\rb", "\u2028", "tail\r", " x\t", ""]
    file.write_bytes(b"".join(line.encode() + b"\r\n" for line in given))

    done = run(bus, "send", queue, "--from-file", str(file))

    assert done.returncode == 0
    with client.get_queue_receiver(queue, max_wait_time=2) as receiver:
        found = [str(each) for each in receiver]
    assert sorted(found) == sorted(given)


def largest(sender: ServiceBusSender) -> int:
    """Return how many bytes a message may have, with an id that is as long as `large`."""
    for size in range(limits.PREMIUM_MESSAGE_BYTES_DEFAULT, 0, -1):
        try:
            sender.send_messages(ServiceBusMessage(b"x" * size, message_id="first"))
        except MessageSizeExceededError:
            continue
        return size
    raise AssertionError


@pytest.mark.requirement("R584")
def test_a_dead_letter_that_cannot_be_copied_is_named_and_the_others_are_sent(
    bus: Bus, client: ServiceBusClient, new_queue: NewQueue
) -> None:
    # Its copy has another id there, and the old one in a property.
    queue = new_queue(requires_duplicate_detection=True)
    with client.get_queue_sender(queue) as sender:
        for name, size in (("large", largest(sender)), ("small", 10)):
            sender.send_messages(ServiceBusMessage(b"x" * size, message_id=name))
    with client.get_queue_receiver(queue, max_wait_time=2) as receiver:
        for each in receiver:
            receiver.dead_letter_message(each, reason="test")

    done = run(bus, "deadletter", "resubmit", queue)

    assert b"1 dead letter of" in done.stdout
    assert done.returncode == 1
    assert re.search(rb"Not sent again: dead letter \d+: .*larger", done.stderr)
    with bus.administration() as administration:
        found = administration.get_queue_runtime_properties(queue)
    # The first one, and its copy cannot be made, either.
    assert (found.active_message_count, found.dead_letter_message_count) == (1, 2)


@pytest.mark.requirement("R585")
def test_a_proxy_in_the_environment_is_not_asked(bus: Bus, new_queue: NewQueue) -> None:
    queue, proxy = new_queue(), "http://127.0.0.1:9"
    proxied = {**os.environ, "http_proxy": proxy, "https_proxy": proxy, "grpc_proxy": proxy}
    began = time.monotonic()

    done = run(bus, "send", queue, "x", env=proxied)

    assert (done.returncode, left(bus, queue)) == (0, 1)
    assert time.monotonic() - began < ENDS_S / 2


@pytest.mark.requirement("R584")
@pytest.mark.parametrize(
    "command", ["peek", "receive", "send", "purge --yes", "get queue", "delete queue --yes"]
)
def test_a_name_that_is_no_text_gives_a_sentence(bus: Bus, command: str) -> None:
    given = [each.encode() for each in command_lines.command(bus, *command.split())]

    done = subprocess.run([*given, b"\xff"], capture_output=True, timeout=ENDS_S)

    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr
