"""Many programs send one message at a time over AMQP, and go to partitions together."""

import itertools
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from bendybus.client import ServiceBusReceiveMode
from tests.integration.amqp import AmqpBus
from tests.integration.processes import eventually

pytestmark = [
    pytest.mark.integration,
    pytest.mark.requirement("R639"),
    # azure-servicebus leaves sockets of connections that ended to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PROGRAMS = 16
# So many of them send with a key of their own.
KEYED = 6


class Program:
    """Sends "name number" for each number from 0, each when the one before is acknowledged."""

    def __init__(self, bus: AmqpBus, name: str, key: str | None) -> None:
        self.name, self.key = name, key
        self.acknowledged: list[int] = []
        # Messages that may be stored or not, once or twice.
        self.unsure: set[int] = set()
        self._bus = bus
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more."""
        self._stop.set()

    def end(self) -> None:
        """Wait for the last send."""
        self.stop()
        self._thread.join()

    def _send(self) -> None:
        with self._bus.sdk() as client, client.get_queue_sender("orders") as sender:
            for number in itertools.count():
                if self._stop.is_set():
                    return
                message = ServiceBusMessage(f"{self.name} {number}", partition_key=self.key)
                try:
                    sender.send_messages(message)
                except ServiceBusError:
                    self.unsure.add(number)
                else:
                    self.acknowledged.append(number)


def test_nothing_acknowledged_is_lost_or_doubled_while_partitions_die(tmp_path: Path) -> None:
    bus = AmqpBus(tmp_path, partitions=2)
    programs: list[Program] = []
    try:
        with bus.administration() as administration:
            administration.create_queue("orders", enable_partitioning=True)
        keys = [f"key-{number}" for number in range(KEYED)] + [None] * (PROGRAMS - KEYED)
        programs += [Program(bus, f"p{number}", key) for number, key in enumerate(keys)]

        def all_go_on() -> None:
            wanted = [len(each.acknowledged) + 10 for each in programs]
            eventually(
                lambda: all(
                    len(each.acknowledged) >= least
                    for each, least in zip(programs, wanted, strict=True)
                ),
                within_s=60,
            )

        all_go_on()
        bus.partitions[1].kill()
        time.sleep(1)
        bus.start_partition(1)
        all_go_on()
        bus.partitions[0].signal(signal.SIGSTOP)
        time.sleep(1)
        bus.partitions[0].signal(signal.SIGCONT)
        all_go_on()
        for program in programs:
            program.end()
        received = receive_all(bus)
    finally:
        for program in programs:
            program.stop()
        bus.end()

    counts = Counter(received)
    for program in programs:
        own = [counts[f"{program.name} {number}"] for number in program.acknowledged]
        assert 0 not in own
        assert len(program.unsure) < 5
        # Without a key, what a partition that died had may be sent to another one.
        assert own.count(1) >= len(own) - (program.key is None)
        if program.key is not None:
            order = [int(each.split()[1]) for each in received if each.split()[0] == program.name]
            certain = [number for number in order if number not in program.unsure]
            assert certain == sorted(certain)


def receive_all(bus: AmqpBus) -> list[str]:
    """Receive everything there is, in order."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    found: list[str] = []
    with (
        bus.client() as client,
        client.get_queue_receiver("orders", receive_mode=mode) as receiver,
    ):
        while messages := receiver.receive_messages(1_000, max_wait_time=2):
            found += map(str, messages)
    return found
