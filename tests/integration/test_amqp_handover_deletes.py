"""Receivers that delete messages lose none while front ends are replaced."""

import contextlib
import itertools
import threading
import time
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusConnectionError

from tests.sdks.replaced_bus import ReplacedBus

pytestmark = [
    pytest.mark.integration,
    pytest.mark.requirement("R518"),
    # azure-servicebus leaves sockets of connections that ended to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
QUEUES = ("one", "two", "three")
REPLACEMENTS = 4
PAUSE_S = 0.05


class Program:
    """Sends to a queue, a message each 50 ms, and receives 20 at a time, which deletes them."""

    def __init__(self, connection_string: str, queue: str) -> None:
        self.sent: list[str] = []
        self.received: list[str] = []
        self._connection_string, self._queue = connection_string, queue
        self._sends, self._receives = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    @property
    def lost(self) -> set[str]:
        """Messages that were sent and not received."""
        return set(self.sent) - set(self.received)

    def finish(self) -> None:
        """Send nothing more, and receive what is left."""
        self._sends.set()
        self._threads[0].join()
        ends = time.monotonic() + 10
        while self.lost and time.monotonic() < ends:
            time.sleep(PAUSE_S)
        self._receives.set()

    def end(self) -> None:
        """Wait until the last send and receive are over."""
        self._sends.set()
        self._receives.set()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        # Each of the two has a connection of its own, as programs of their own have.
        with (
            ServiceBusClient.from_connection_string(self._connection_string) as client,
            client.get_queue_sender(self._queue) as sender,
        ):
            for number in itertools.takewhile(
                lambda _: not self._sends.is_set(), itertools.count()
            ):
                sender.send_messages(ServiceBusMessage(str(number)))
                self.sent.append(str(number))
                time.sleep(PAUSE_S)

    def _receive(self) -> None:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with (
            ServiceBusClient.from_connection_string(self._connection_string) as client,
            client.get_queue_receiver(self._queue, receive_mode=mode) as receiver,
        ):
            while not self._receives.is_set():
                # The SDK does not connect again for the rest of a wait that is nearly over.
                with contextlib.suppress(ServiceBusConnectionError):
                    self.received += map(str, receiver.receive_messages(20, max_wait_time=5))


def test_a_program_gets_every_message_that_was_deleted_for_it(tmp_path: Path) -> None:
    bus = ReplacedBus(tmp_path)
    programs: list[Program] = []
    try:
        bus.create_queues(QUEUES)
        programs += [Program(bus.connection_string, queue) for queue in QUEUES]
        for _ in range(REPLACEMENTS):
            time.sleep(1)
            bus.replace_front_end()
        for program in programs:
            program.finish()
    finally:
        for program in programs:
            program.end()
        bus.end()

    assert [each.lost for each in programs] == [set(), set(), set()]
    assert min(len(each.sent) for each in programs) > 20
