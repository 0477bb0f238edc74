"""Settlements whose callers do not wait: how many are under way, and which of them failed.

`settle_in_background()` of a receiver makes one. What is under way is bounded; a caller beyond the
bound waits. Failures are kept until a flush reports them.
"""

import threading
from collections.abc import Sequence
from typing import Final

from bendybus.client.core.io_thread import IoThread
from bendybus.client.core.settlements import Outcome
from bendybus.client.core.waiters import Waiter
from bendybus.client.exceptions import ServiceBusError
from bendybus.client.messages.received_message import ServiceBusReceivedMessage

# Messages whose settlement is not confirmed.
PENDING_MAX: Final = 5_000
# Failures that are kept; of the others it is known how many there are.
FAILURES_KEPT_MAX: Final = 1_000

# What a settlement in the background has to say when it begins.
BEGUN: Final = Outcome((), 0)

Messages = Sequence[ServiceBusReceivedMessage]
Failure = tuple[ServiceBusReceivedMessage, ServiceBusError]
# Those that are kept, and how many there were.
Failures = tuple[list[Failure], int]


class BackgroundSettlements:
    """Settlements of one receiver. From any thread, of the process of `io` only."""

    def __init__(self, io: IoThread) -> None:
        self.io = io
        self._lock = threading.Lock()
        self._pending = 0
        self._failures: list[Failure] = []
        self._failed = 0
        # (how many may be pending, who waits for that)
        self._waiting: list[tuple[int, Waiter]] = []

    @property
    def full(self) -> bool:
        """Whether a caller is to wait."""
        return self._pending >= PENDING_MAX

    def add(self, messages: Messages) -> None:
        """Count messages whose settlement begins; its waiter is a `Pending`."""
        with self._lock:
            self._pending += len(messages)

    def wait(self, pending_max: int, waiter: Waiter) -> None:
        """Resolve `waiter` as soon as no more than `pending_max` are pending."""
        with self._lock:
            if self._pending > pending_max:
                self._waiting.append((pending_max, waiter))
                return
        waiter.resolve(None)

    def take_failures(self) -> Failures:
        """Return the failures since the last time, and how many there were."""
        with self._lock:
            taken = self._failures, self._failed
            self._failures, self._failed = [], 0
        return taken

    def done(self, messages: Messages, errors: Sequence[tuple[int, ServiceBusError]]) -> None:
        """Note an outcome."""
        ready: list[Waiter] = []
        with self._lock:
            self._pending -= len(messages)
            for index, error in errors:
                self._failed += 1
                if len(self._failures) < FAILURES_KEPT_MAX:
                    self._failures.append((messages[index], error))
            if self._waiting:
                ready = [waiter for most, waiter in self._waiting if self._pending <= most]
                self._waiting = [each for each in self._waiting if self._pending > each[0]]
        for waiter in ready:
            waiter.resolve(None)


class Pending:
    """The waiter of a settlement in the background."""

    __slots__ = ("_messages", "_of")

    def __init__(self, of: BackgroundSettlements, messages: Messages) -> None:
        self._of = of
        self._messages = messages

    def resolve(self, value: Outcome) -> None:
        """Take the outcome."""
        self._of.done(self._messages, value.errors)

    def fail(self, error: BaseException) -> None:
        """Take the failure of all of them."""
        found = error if isinstance(error, ServiceBusError) else ServiceBusError(str(error))
        self._of.done(self._messages, [(index, found) for index in range(len(self._messages))])


def raise_failures(failures: Sequence[Failure], failed: int) -> None:
    """Raise an error that lists the messages that were not settled, if there are any."""
    if failed:
        first = failures[0][1]
        raise type(first)(
            message=f"{failed} messages were not settled in the background; the first: {first}",
            reason=first.reason,
            metadata=first.metadata,
            failures=list(failures),
        )
