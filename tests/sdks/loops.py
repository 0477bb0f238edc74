"""Programs that do the same operations again and again, while servers of their bus are replaced."""

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage

from tests.sdks.dotnet_driver import Driver

LATER: Final = timedelta(hours=1)
PAUSE_S: Final = 0.02
ANSWER_S: Final = 90.0
LEFT_WAIT_S: Final = 3.0


class Loops(ABC):
    """Loops of one program: what it did, and each error that it saw.

    `load`: the queue that it sends to and receives from. `later`: the one that it schedules to.
    """

    def __init__(self, load: str, later: str) -> None:
        self.load, self.later = load, later
        self.errors: list[str] = []
        self.done: Counter[str] = Counter()
        self.acknowledged: list[str] = []
        self.completed: list[str] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start a loop for each operation."""
        for name, once in self.operations().items():
            self._threads.append(threading.Thread(target=self._run, args=(name, once), name=name))
            self._threads[-1].start()

    def end(self) -> None:
        """Stop all loops."""
        self._stop.set()
        for each in self._threads:
            each.join(ANSWER_S + 10)

    def lost(self) -> set[str]:
        """Return messages that were acknowledged, and neither completed nor left in the queue."""
        return set(self.acknowledged) - set(self.completed) - set(self.left())

    @abstractmethod
    def operations(self) -> Mapping[str, Callable[[], object]]:
        """Return the operation of each loop."""

    @abstractmethod
    def left(self) -> Iterable[str]:
        """Receive what is left in the queue, and return its bodies."""

    def _run(self, name: str, once: Callable[[], object]) -> None:
        while not self._stop.is_set():
            try:
                once()
                self.done[name] += 1
            except Exception as error:  # whatever a program sees counts
                self.errors.append(f"{name}: {type(error).__name__}: {error}")
            time.sleep(PAUSE_S)


class DotnetLoops(Loops):
    """Loops on one client of the SDK for .NET."""

    def __init__(self, driver: Driver, load: str, later: str, **client: Any) -> None:
        super().__init__(load, later)
        self._driver = driver
        driver.call("client", name="c", **client)
        for queue in (load, later):
            driver.call("sender", name=f"s-{queue}", client="c", entity=queue)
            driver.call("receiver", name=f"r-{queue}", client="c", entity=queue)

    def operations(self) -> Mapping[str, Callable[[], object]]:
        """Return the operation of each loop."""
        return {
            "send": self._send,
            "receive": self._receive,
            "schedule": self._schedule,
            "peek": lambda: self._call("peek", receiver=f"r-{self.later}", max=5),
        }

    def left(self) -> list[str]:
        """Receive what is left in the queue, and return its bodies."""
        found: list[str] = []
        while more := self._received(1_000, LEFT_WAIT_S):
            found += [each["body"] for each in more]
        return found

    def _call(self, operation: str, **fields: Any) -> Any:
        """Do an operation while others are under way."""
        return self._driver.start(operation, **fields).result(ANSWER_S)

    def _received(self, most: int, wait_s: float) -> Any:
        return self._call("receive", receiver=f"r-{self.load}", max=most, waitS=wait_s)

    def _send(self) -> None:
        body = f"m{len(self.acknowledged)}"
        self._call("send", sender=f"s-{self.load}", message={"body": body})
        self.acknowledged.append(body)

    def _receive(self) -> None:
        for each in self._received(20, 1):
            self._call("complete", receiver=f"r-{self.load}", handle=each["handle"])
            self.completed.append(each["body"])

    def _schedule(self) -> None:
        sender, later_ms = f"s-{self.later}", LATER / timedelta(milliseconds=1)
        [number] = self._call("schedule", sender=sender, messages=[{"body": "x"}], inMs=later_ms)
        self._call("cancel", sender=sender, numbers=[number])


class PythonLoops(Loops):
    """Loops on one client of azure-servicebus. `waits_s`: of receives from queues without messages.

    `empty`: those queues, one for each wait.
    """

    def __init__(
        self, client: SdkClient, load: str, later: str, empty: Mapping[str, float]
    ) -> None:
        super().__init__(load, later)
        self._sender, self._planner = (client.get_queue_sender(each) for each in (load, later))
        self._receiver, self._peeker = (client.get_queue_receiver(each) for each in (load, later))
        self._waiting = {client.get_queue_receiver(name): wait for name, wait in empty.items()}

    def operations(self) -> Mapping[str, Callable[[], object]]:
        """Return the operation of each loop."""
        due = datetime.now(UTC) + LATER
        waits = {
            f"receive for {wait_s:g} s": lambda receiver=receiver, wait_s=wait_s: (
                receiver.receive_messages(1, max_wait_time=wait_s)
            )
            for receiver, wait_s in self._waiting.items()
        }
        return {
            "send": self._send,
            "receive": self._receive,
            "schedule": lambda: self._planner.schedule_messages(SdkMessage("x"), due),
            "peek": lambda: self._peeker.peek_messages(3),
            **waits,
        }

    def left(self) -> list[str]:
        """Receive what is left in the queue, and return its bodies."""
        found: list[str] = []
        while more := self._receiver.receive_messages(100, max_wait_time=LEFT_WAIT_S):
            found += map(str, more)
        return found

    def _send(self) -> None:
        body = f"m{len(self.acknowledged)}"
        self._sender.send_messages(SdkMessage(body))
        self.acknowledged.append(body)

    def _receive(self) -> None:
        for each in self._receiver.receive_messages(10, max_wait_time=5):
            self._receiver.complete_message(each)
            self.completed.append(str(each))
