"""A STOMP connection to Artemis, and what its measurements do with one: send all, receive all."""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from bench.peers import peer
from bench.recorder import Recorder

# Sends without a receipt, at any time.
WINDOW: Final = 1_000
ACKNOWLEDGE_EACH: Final = 100
# What may be delivered and not yet acknowledged when receiving in batches.
BATCHED_BYTES: Final = 1_000_000
WAIT_S: Final = 60.0
ANYCAST: Final = "ANYCAST"
MULTICAST: Final = "MULTICAST"


@contextmanager
def timing(recorder: Recorder | None, what: str, count: int) -> Iterator[None]:
    """Measure the block, or with no recorder only run it."""
    if recorder is None:
        yield
    else:
        with recorder.timing(what, count):
            yield


def send_all(
    port: int,
    address: str,
    count: int,
    kind: str = ANYCAST,
    headers: Callable[[int], Mapping[str, str]] = lambda _: {},
) -> None:
    """Send so many messages, each with a receipt. `headers` are those of the nth message."""
    with StompSession(port) as session:
        for number in range(count):
            session.wait_for(number - WINDOW + 1)
            session.send(address, f"send-{number}", kind, headers(number))
        session.wait_for(count)


def receive_all(port: int, name: str, count: int, kind: str = ANYCAST) -> None:
    """Receive so many messages; acknowledge many at once, each time with a receipt."""
    with StompSession(port) as session:
        session.subscribe(name, "client", BATCHED_BYTES, kind)
        for gone in range(1, count + 1):
            message = session.next()
            if gone % ACKNOWLEDGE_EACH == 0 or gone == count:
                session.acknowledge(message, f"ack-{gone}")
        session.wait_for(-(-count // ACKNOWLEDGE_EACH))


class StompSession:
    """A connection, and its listener: stomp.py calls it in a thread of the connection's."""

    def __init__(self, port: int) -> None:
        import stomp

        self._connection = stomp.Connection12(
            [("127.0.0.1", port)], auto_decode=False, reconnect_attempts_max=1
        )
        self._connection.set_listener("", self)
        self._arrived: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._receipts = 0
        self._error = ""

    def __enter__(self) -> "StompSession":
        self._connection.connect(wait=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.disconnect()

    def send(
        self, address: str, receipt: str, kind: str = ANYCAST, headers: Mapping[str, str] = {}
    ) -> None:
        """Send a message whose receipt comes when it is on disk."""
        own = {"persistent": "true", "destination-type": kind, **headers}
        self._connection.send(address, peer.BODY, receipt=receipt, **own)

    def subscribe(self, name: str, mode: str, window_bytes: int, kind: str = ANYCAST) -> None:
        """Ask for deliveries, so many bytes of them ahead of their acknowledgements."""
        headers = {"subscription-type": kind, "consumer-window-size": str(window_bytes)}
        self._connection.subscribe(name, id="1", ack=mode, headers=headers)

    def next(self) -> str:
        """Return what acknowledges the next message."""
        return self._arrived.get(timeout=WAIT_S)

    def acknowledge(self, message: str, receipt: str | None) -> None:
        """Acknowledge a message, and in mode `client` all before it."""
        self._connection.ack(message, receipt=receipt)

    def wait_for(self, receipts: int) -> None:
        """Return when there were so many receipts."""
        with self._changed:
            done = self._changed.wait_for(lambda: self._receipts >= receipts or self._error, WAIT_S)
        if self._error or not done:
            raise RuntimeError(self._error or f"no receipt for {WAIT_S:.0f} s")

    def on_receipt(self, frame: Any) -> None:
        """Count a receipt."""
        with self._changed:
            self._receipts += 1
            self._changed.notify()

    def on_message(self, frame: Any) -> None:
        """Hand a message over."""
        self._arrived.put(frame.headers["ack"])

    def on_error(self, frame: Any) -> None:
        """End what waits."""
        with self._changed:
            self._error = f"the broker reports an error: {frame.headers.get('message')}"
            self._changed.notify()
