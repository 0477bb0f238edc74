"""What a client keeps: nothing of what is done, nor of who has gone."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

from bendybus.client import ServiceBusClient, ServiceBusMessage, aio
from bendybus.client.core import io_thread
from tests.client.fake_front_end import FakeFrontEnd


def eventually(look: Callable[[], bool], within_s: float = 20.0) -> bool:
    """Return whether something becomes true."""
    deadline = time.monotonic() + within_s
    while not look():
        if time.monotonic() > deadline:
            return False
        gc.collect()
        time.sleep(0.05)
    return True


def test_loops_of_the_application_are_let_go(fake: FakeFrontEnd) -> None:
    client = aio.ServiceBusClient.from_connection_string(fake.connection_string)
    sender = client.get_queue_sender("q")
    # Other tests of this process may still have theirs.
    others = list(io_thread.current()._outboxes)
    for _ in range(10):
        asyncio.run(sender.send_messages(ServiceBusMessage("b")))

    assert eventually(lambda: len(io_thread.current()._outboxes) <= len(others) + 1)
    asyncio.run(client.close())


def test_a_receiver_that_nobody_closed_ends_when_nobody_has_it(
    fake: FakeFrontEnd, sync: ServiceBusClient
) -> None:
    fake.queues["q"].lock_ms = 300_000
    with sync.get_queue_sender("q") as sender:
        sender.send_messages([ServiceBusMessage(str(n)) for n in range(10)])
    for _ in range(3):
        sync.get_queue_receiver("q", prefetch_count=2).receive_messages(1, max_wait_time=5)
    connection = sync._shared.get()

    assert eventually(lambda: len(connection._streams) == 1)
    # What was prefetched and not seen is back; what was seen is locked.
    assert eventually(lambda: sum(not m.token for m in fake.queues["q"].messages.values()) == 7)


def test_threads_come_and_go(fake: FakeFrontEnd, sync: ServiceBusClient) -> None:
    def receive(receiver: Any) -> None:
        with receiver:
            receiver.receive_messages(max_wait_time=0.05)

    before = threading.active_count()
    for _ in range(20):
        thread = threading.Thread(target=receive, args=(sync.get_queue_receiver("q"),))
        thread.start()
        thread.join()

    assert threading.active_count() <= before + 1
