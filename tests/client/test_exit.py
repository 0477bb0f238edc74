"""Programs that end without closing their client: what they asked for ahead is given back."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.client.fake_front_end import FakeFrontEnd
from tests.client.loops import fill
from tests.client.memory_queue import MemoryQueue

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
    client: Any, merging: FakeFrontEnd, queue: MemoryQueue
) -> None:
    await fill(client, 20)

    found = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", NEVER_CLOSES, merging.connection_string],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

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
    client: Any, merging: FakeFrontEnd, queue: MemoryQueue, tmp_path: Path
) -> None:
    await fill(client, 20)
    worker = tmp_path / "worker.py"
    worker.write_text(NEVER_CLOSES)

    found = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", FORKS, merging.connection_string, str(worker)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (found.returncode, found.stderr) == (0, "")
    assert len(queue.messages) == 10
    assert not any(stored.token or stored.delivery_count for stored in queue.messages.values())
