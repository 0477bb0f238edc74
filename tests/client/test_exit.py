"""Programs that end without closing their client: what they asked for ahead is given back."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.fake_front_end import FakeFrontEnd
from tests.client.loops import fill
from tests.client.memory_queue import MemoryQueue

# What a client says when a busy machine accepts its connection late.
LATE = ("reconnecting in", "answers again after")


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; its errors are without what is said of late connections."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | environment,
    )
    lines = done.stderr.splitlines(keepends=True)
    done.stderr = "".join(line for line in lines if not any(each in line for each in LATE))
    return done


NEVER_CLOSES = """
import sys
from bendybus.client import ServiceBusClient
from bendybus.client.core import io_thread

# On a busy machine the answer may come later than an application would wait for it.
io_thread._EXIT_S = 60.0
client = ServiceBusClient.from_connection_string(sys.argv[1])
receiver = client.get_queue_receiver("q", max_wait_time=5)
for message in receiver:
    receiver.complete_message(message)
    if str(message) == "9":
        break
"""


async def test_a_program_that_exits_without_closing_gives_back_what_it_asked_for_ahead(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue
) -> None:
    await fill(client, 20)

    found = await asyncio.to_thread(run, NEVER_CLOSES, in_step.connection_string)

    assert (found.returncode, found.stderr) == (0, "")
    assert len(queue.messages) == 10
    # Else it would wait for the end of a lock, and count a delivery that no application saw.
    assert not any(stored.token or stored.delivery_count for stored in queue.messages.values())


FORKS = """
import multiprocessing
import runpy
import sys

child = multiprocessing.get_context("fork").Process(target=runpy.run_path, args=(sys.argv[2],))
child.start()
child.join()
"""


async def test_a_worker_process_that_ends_without_closing_does_so_too(
    client: Any, in_step: FakeFrontEnd, queue: MemoryQueue, tmp_path: Path
) -> None:
    await fill(client, 20)
    worker = tmp_path / "worker.py"
    worker.write_text(NEVER_CLOSES)

    found = await asyncio.to_thread(run, FORKS, in_step.connection_string, str(worker))

    assert (found.returncode, found.stderr) == (0, "")
    assert len(queue.messages) == 10
    assert not any(stored.token or stored.delivery_count for stored in queue.messages.values())


# Between the end of the interpreter and that of the process, an event wakes the I/O thread's loop.
ENDS_SLOWLY = """
import ctypes
import sys

from bendybus.client.core import io_thread

thread = io_thread.current()
thread.submit(thread.loop.call_later, 0.5, print)
libc = ctypes.CDLL(None)
libc.on_exit(libc.sleep, None)
sys.exit(1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="on_exit is a function of Linux' C libraries")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_event_during_the_end_of_the_process_does_not_crash_it(loop: str) -> None:
    found = run(ENDS_SLOWLY, BENDYBUS_EVENT_LOOP=loop)

    assert (found.returncode, found.stderr) == (1, "")


ENDS_TOO_LATE = """
import atexit
import sys


def close():
    try:
        client.close()
    except RuntimeError as error:
        print(error)


atexit.register(close)

from bendybus.client import ServiceBusClient, ServiceBusMessage

client = ServiceBusClient.from_connection_string(sys.argv[1])
client.get_queue_sender("q").send_messages(ServiceBusMessage("x"))
"""


async def test_a_client_used_after_the_end_of_the_io_thread_does_not_hang(
    in_step: FakeFrontEnd,
) -> None:
    found = await asyncio.to_thread(run, ENDS_TOO_LATE, in_step.connection_string)

    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout in ("", "the program is ending: the client's I/O thread has stopped\n")
