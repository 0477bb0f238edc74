"""A process that forks after it used the client: parent and child both go on."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.core import io_thread
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.stream import Stream
from tests.client.conftest import RETRY, Either
from tests.client.fake_front_end import FakeFrontEnd

# What even a busy machine needs for a program; who waits longer waits for ever.
PROGRAM_S = 30
# What a program that is ended needs to say where its threads stand.
DUMP_S = 5


def _run(program: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a program that forks; one that does not end says where its processes stand."""
    command = [sys.executable, "-X", "faulthandler", "-c", program, *args]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, errors = process.communicate(timeout=PROGRAM_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)
            out, errors = process.communicate(timeout=DUMP_S)
            pytest.fail(f"not ended after {PROGRAM_S} s\n{out}\n{errors}")
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


PROGRAM = """
import os, sys, threading
from bendybus.client import ServiceBusClient, ServiceBusMessage

client = ServiceBusClient.from_connection_string(sys.argv[1], retry_backoff_factor=0.01)
sender, receiver = client.get_queue_sender("q"), client.get_queue_receiver("q", max_wait_time=5)
sender.send_messages(ServiceBusMessage("before"))
[message] = receiver.receive_messages()
pid = os.fork()
if pid == 0:
    sender.send_messages(ServiceBusMessage("child"))
    [own] = receiver.receive_messages()
    receiver.complete_message(own)
    print("child", own, flush=True)
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
receiver.complete_message(message)
sender.send_messages(ServiceBusMessage("parent"))
[own] = receiver.receive_messages()
receiver.complete_message(own)
print("parent", own, status, flush=True)
client.close()
"""


def test_parent_and_child_both_go_on_after_a_fork(fake: FakeFrontEnd) -> None:
    found = _run(PROGRAM, fake.connection_string)

    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == ["child child", "parent parent 0"], found.stderr
    assert not fake.queues["q"].messages
    assert len({frame[0] for frame in fake.frames}) == 2


IN_BACKGROUND = """
import os, sys, time
from bendybus.client import ServiceBusClient

client = ServiceBusClient.from_connection_string(sys.argv[1])
receiver = client.get_queue_receiver("q", max_wait_time=5)
messages = receiver.receive_messages(3)
receiver.settle_in_background()
for message in messages:
    receiver.complete_message(message)
pid = os.fork()
if pid == 0:
    began = time.monotonic()
    receiver.flush()
    client.close()
    print("child", time.monotonic() - began < 5, flush=True)
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print("parent", status, flush=True)
os._exit(0)
"""


async def test_settlements_in_the_background_before_a_fork_stay_with_the_parent(
    client: Any, fake: FakeFrontEnd
) -> None:
    sender = Either(client.get_queue_sender("q"))
    await sender.send_messages([ServiceBusMessage(str(index)) for index in range(3)])
    fake.hold_settlements = asyncio.Event()

    found = await asyncio.to_thread(_run, IN_BACKGROUND, fake.connection_string)

    assert found.stdout.splitlines() == ["child True", "parent 0"], found.stderr
    fake.call(fake.hold_settlements.set)


def test_nothing_of_grpc_starts_at_import() -> None:
    code = (
        "import threading, bendybus.client.aio.management;"
        "print([thread.name for thread in threading.enumerate()])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "['MainThread']"


def test_a_send_under_way_survives_the_fork_of_its_process(fake: FakeFrontEnd) -> None:
    program = """
import os, sys, threading
from bendybus.client import ServiceBusClient, ServiceBusMessage

client = ServiceBusClient.from_connection_string(sys.argv[1], retry_backoff_factor=0.01)
sender = client.get_queue_sender("q")
def send():
    for index in range(100):
        sender.send_messages(ServiceBusMessage(str(index)))
thread = threading.Thread(target=send)
thread.start()
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
thread.join()
client.close()
"""
    found = _run(program, fake.connection_string)

    assert found.returncode == 0, found.stderr
    assert len(fake.queues["q"].messages) == 100


async def test_a_stream_that_is_just_opened_is_let_go_of_at_once() -> None:
    class Owner:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: True

        async def open_call(self) -> Any:
            await asyncio.Event().wait()

    owner: Any = Owner()
    stream = Stream(owner, RetryPolicy())
    running = asyncio.ensure_future(stream.run())
    await asyncio.sleep(0)

    await stream.cancel()

    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()


@pytest.mark.requirement("R484")
@pytest.mark.parametrize("busy_s", [0.3, 0.8], ids=["until it ends", "longer than it waits"])
def test_clients_go_on_after_a_fork_while_the_io_thread_is_busy(
    fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch, busy_s: float
) -> None:
    monkeypatch.setattr(io_thread, "_PAUSE_TIMEOUT_S", 0.2)
    clients = [
        ServiceBusClient.from_connection_string(fake.connection_string, **RETRY) for _ in range(3)
    ]
    senders = [each.get_queue_sender("q") for each in clients]
    for sender in senders:
        sender.send_messages(ServiceBusMessage(b"before"))
    io_thread.current().submit(time.sleep, busy_s)
    time.sleep(0.05)

    io_thread._before_fork()  # what os.fork() runs
    io_thread._after_fork_in_parent()

    for sender in senders * 2:
        sender.send_messages(ServiceBusMessage(b"after"), timeout=5)
    assert len(fake.queues["q"].messages) == 9
    for each in clients:
        each.close()
