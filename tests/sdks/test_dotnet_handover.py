"""A program on the SDK for .NET sees no error while front ends are replaced."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.integration.amqp import AmqpBus
from tests.integration.balancer import Balancer
from tests.sdks import conftest
from tests.sdks.dotnet_driver import Driver, SdkError

LOADED_S: Final = 24.0
REPLACEMENTS: Final = 4
LATER_MS: Final = 3_600_000
QUEUES: Final = ("load", "later", "held")
DISPOSITIONS: Final = ("complete", "abandon", "defer", "deadletter")


class Programs:
    """Loops of operations on one client; each has its sender or receiver."""

    def __init__(self, driver: Driver, connection: str) -> None:
        self.errors: list[str] = []
        self.done: Counter[str] = Counter()
        self.acknowledged: list[str] = []
        self.completed: list[str] = []
        self.stop = threading.Event()
        self._driver = driver
        self._threads: list[threading.Thread] = []
        driver.call("client", name="c", connection=connection)
        for queue in QUEUES:
            driver.call("sender", name=f"s-{queue}", client="c", entity=queue)
            driver.call("receiver", name=f"r-{queue}", client="c", entity=queue)

    def call(self, operation: str, **fields: Any) -> Any:
        """Do an operation while others are under way."""
        return self._driver.start(operation, **fields).result(90)

    def loop(self, name: str, once: Callable[[], None]) -> None:
        """Do something again and again until all stop; note what it raises."""

        def run() -> None:
            while not self.stop.is_set():
                try:
                    once()
                    self.done[name] += 1
                except SdkError as error:
                    self.errors.append(f"{name}: {error}")
                time.sleep(0.02)

        self._threads.append(threading.Thread(target=run, name=name))
        self._threads[-1].start()

    def send(self) -> None:
        """Send a message that has a name of its own."""
        body = f"m{len(self.acknowledged)}"
        self.call("send", sender="s-load", message={"body": body})
        self.acknowledged.append(body)

    def receive(self) -> None:
        """Receive and complete some."""
        for each in self.call("receive", receiver="r-load", max=20, waitS=1):
            self.call("complete", receiver="r-load", handle=each["handle"])
            self.completed.append(each["body"])

    def schedule(self) -> None:
        """Schedule a message and cancel it."""
        [number] = self.call("schedule", sender="s-later", messages=[{"body": "x"}], inMs=LATER_MS)
        self.call("cancel", sender="s-later", numbers=[number])

    def peek(self) -> None:
        """Peek at what is there."""
        self.call("peek", receiver="r-later", max=5)

    def hold(self) -> list[str]:
        """Receive a message for each disposition; return the handles."""
        self.call("send", sender="s-held", messages=[{"body": each} for each in DISPOSITIONS])
        found: list[str] = []
        while len(found) < len(DISPOSITIONS):
            messages = self.call("receive", receiver="r-held", max=4, waitS=2)
            found += [each["handle"] for each in messages]
        return found

    def end(self) -> None:
        """Stop all loops."""
        self.stop.set()
        for each in self._threads:
            each.join(100)


@pytest.fixture
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    conftest.needs_tools()
    made = AmqpBus(tmp_path_factory.mktemp("bus"), partitions=2)
    with made.administration() as administration:
        for queue in QUEUES:
            administration.create_queue(queue)
    yield made
    made.end()


@pytest.mark.requirement("R518")
def test_a_program_sees_nothing_of_front_ends_that_are_replaced(bus: AmqpBus) -> None:
    driver = Driver()
    with Balancer(bus.amqp_address) as balancer:
        text = bus.connection_string.replace(bus.front_end_address, balancer.address)
        programs = Programs(driver, text)
        held = programs.hold()
        for name in ("send", "receive", "schedule", "peek"):
            programs.loop(name, getattr(programs, name))
        try:
            for _ in range(REPLACEMENTS):
                time.sleep(LOADED_S / (REPLACEMENTS + 1))
                old = bus.front_end
                balancer.target = bus.start_another_front_end()
                old.terminate()
            time.sleep(LOADED_S / (REPLACEMENTS + 1))
        finally:
            programs.end()
        left = driver.call("receive", receiver="r-load", max=1_000, waitS=3)
        for disposition, handle in zip(DISPOSITIONS, held, strict=True):
            driver.call(disposition, receiver="r-held", handle=handle)
        driver.end()

    assert programs.errors == []
    assert set(programs.done) == {"send", "receive", "schedule", "peek"}
    taken = {*programs.completed, *(each["body"] for each in left)}
    assert set(programs.acknowledged) <= taken
