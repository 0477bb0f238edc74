"""A client whose process is suspended: answers that wait are read before deadlines are judged."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage
from tests.client.fake_front_end import FakeFrontEnd

# Waits and margins are short, so that the test may be: they are all over before it goes on.
CHILD = """
import asyncio, json, sys
from bendybus.client import ServiceBusClient, ServiceBusMessage, aio
from bendybus.client.core import (receive_asks, io_thread)

io_thread.MARGIN_S, receive_asks._GRACE_S = 0.3, 0.2
surface, operation, address = sys.argv[1:]

async def either(found):
    return await found if asyncio.iscoroutine(found) else found

async def main():
    kind = ServiceBusClient if surface == "sync" else aio.ServiceBusClient
    client = kind.from_connection_string(address)
    sender, receiver = client.get_queue_sender("q"), client.get_queue_receiver("q")
    await either(sender.send_messages(ServiceBusMessage("first")))
    (first,) = await either(receiver.receive_messages())
    print("ready", flush=True)
    sys.stdin.readline()
    if operation == "send":
        await either(sender.send_messages(ServiceBusMessage("x"), timeout=1))
        found = "sent"
    elif operation == "settle":
        await either(receiver.renew_message_lock(first, timeout=1))
        found = "renewed"
    else:
        found = str((await either(receiver.receive_messages(1, 1)))[0])
    print(json.dumps(found), flush=True)

asyncio.run(main())
"""


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("surface", ["sync", "aio"])
@pytest.mark.parametrize(
    ("operation", "found"), [("send", "sent"), ("settle", "renewed"), ("receive", "late")]
)
def test_answers_that_came_while_the_process_was_suspended_count(
    fake: FakeFrontEnd, surface: str, operation: str, found: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, surface, operation, fake.connection_string],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "ready\n"
            frames, asks, settlements = len(fake.frames), len(fake.asks), len(fake.settle_frames)
            fake.hold_frames = fake.hold_settlements = held = asyncio.Event()
            child.stdin.write("go\n")
            child.stdin.flush()
            until(
                lambda: (
                    len(fake.frames) > frames
                    or len(fake.asks) > asks
                    or len(fake.settle_frames) > settlements
                )
            )
            os.kill(child.pid, signal.SIGSTOP)
            fake.call(held.set)
            if operation == "receive":
                with ServiceBusClient.from_connection_string(fake.connection_string) as other:
                    other.get_queue_sender("q").send_messages(ServiceBusMessage("late"))
            # All that the call may take, and more: its answer is in the socket meanwhile.
            time.sleep(1.8)
            os.kill(child.pid, signal.SIGCONT)

            said, _ = child.communicate(timeout=30)
            assert json.loads(said) == found
        finally:
            child.kill()
