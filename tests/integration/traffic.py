"""Load on a bus: single calls, and a sender and a receiver that go on until told to stop."""

import threading
from collections.abc import Callable, Sequence

from bendybus.client import ServiceBusClient, ServiceBusMessage, ServiceBusReceivedMessage
from bendybus.client.exceptions import (
    MessageLockLostError,
    OutcomeUnknownError,
    PartitionUnavailableError,
)
from tests.integration.processes import eventually

# How many messages may wait to be received: the load is bounded.
AHEAD_MAX = 500
# A pause after each send: faults meet traffic, other tests get the processors.
PAUSE_S = 0.01


def send_one(client: ServiceBusClient, queue: str = "orders") -> None:
    """Send a message."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("x"))


def receive_one(client: ServiceBusClient, queue: str = "orders") -> int:
    """Receive and complete what is there; return how many."""
    with client.get_queue_receiver(queue) as receiver:
        messages = receiver.receive_messages(1, max_wait_time=5)
        receiver.complete_messages(messages)
        return len(messages)


class Traffic:
    """A sender and a receiver that go on until told to stop; what they saw."""

    def __init__(
        self, client: ServiceBusClient, *, keyed: bool = False, locks_may_go: bool = False
    ) -> None:
        self.sent: list[str] = []
        self.received: list[str] = []
        self.errors: list[BaseException] = []
        self._client = client
        self._keyed = keyed
        self._locks_may_go = locks_may_go
        self._stop = threading.Event()
        self._sent_all = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(each,))
            for each in (self._send, self._take)
        ]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def goes_on(self, messages: int = 50) -> None:
        """Wait until so many more were received."""
        wanted = len(self.received) + messages
        eventually(lambda: self.errors or len(self.received) >= wanted, what="traffic")
        assert self.errors == [], repr(self.errors)

    def sent_more(self, messages: int = 50) -> None:
        """Wait until so many more were sent."""
        wanted = len(self.sent) + messages
        eventually(lambda: self.errors or len(self.sent) >= wanted, what="sends")
        assert self.errors == [], repr(self.errors)

    def also(self, messages: Sequence[ServiceBusReceivedMessage]) -> None:
        """Take note of what somebody else received."""
        self.received += [str(message) for message in messages]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.errors.append(error)
        finally:
            if work == self._send:
                self._sent_all.set()

    def _send(self) -> None:
        with self._client.get_queue_sender("orders") as sender:
            while not self._stop.is_set():
                # A receiver may wait for a partition that is away; the sender goes on then.
                ahead_max = AHEAD_MAX * 20 if self._locks_may_go else AHEAD_MAX
                if len(self.sent) - len(self.received) > ahead_max:
                    self._stop.wait(0.005)
                    continue
                bodies = [f"m-{len(self.sent) + n}" for n in range(5)]
                key = f"k-{len(self.sent) % 7}" if self._keyed else None
                sender.send_messages([ServiceBusMessage(b, partition_key=key) for b in bodies])
                self.sent += bodies
                self._stop.wait(PAUSE_S)

    def _take(self) -> None:
        with self._client.get_queue_receiver("orders") as receiver:
            while True:
                over = self._sent_all.is_set()
                # While there is no front end, a short wait would end in an error, not in nothing.
                messages = receiver.receive_messages(50, max_wait_time=2 if over else 20)
                try:
                    receiver.complete_messages(messages)
                except (MessageLockLostError, PartitionUnavailableError, OutcomeUnknownError):
                    if not self._locks_may_go:
                        raise
                    # They come again, or were settled before the answer got lost.
                self.received += [str(message) for message in messages]
                if over and len(self.received) >= len(self.sent):
                    return
                if over and not messages:
                    return

    def check(self) -> None:
        """Nothing failed, nothing is lost, nothing came twice."""
        assert self.errors == [], repr(self.errors)
        assert len(self.received) == len(set(self.received))
        assert set(self.received) == set(self.sent)
