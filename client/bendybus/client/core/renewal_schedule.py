"""Background renewal of locks, on the I/O thread: a busy application loses no lock."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from bendybus.client.core.receive_stream import Receiving
from bendybus.client.core.settlements import Outcome, Settlement
from bendybus.client.exceptions import (
    AutoLockRenewFailed,
    AutoLockRenewTimeout,
    MessageLockLostError,
    ServiceBusError,
)
from bendybus.client.messages.received_message import ServiceBusReceivedMessage
from bendybus.v1 import receiver_pb2

Failure = Callable[[ServiceBusReceivedMessage, ServiceBusError | None], Any]

_TICK_S: Final = 0.25
_TIMEOUT_S: Final = 30.0


class Renewal:
    """A message whose lock is renewed until `end_s`. `fail` is not called on the I/O thread."""

    __slots__ = (
        "asked_s",
        "due_s",
        "end_s",
        "fail",
        "lock_end_s",
        "lock_s",
        "message",
        "receiver",
        "receiving",
    )

    def __init__(
        self,
        receiving: Receiving,
        message: ServiceBusReceivedMessage,
        duration_s: float,
        fail: Failure | None,
    ) -> None:
        self.receiving = receiving
        self.message = message
        self.fail = fail
        # Keeps the receiver from being garbage-collected while its locks are renewed.
        self.receiver: Any = None
        now = time.monotonic()
        self.end_s = now + duration_s
        self.lock_s = lock_left_s(message)
        self.lock_end_s = now + self.lock_s
        self.due_s = now + self.lock_s / 2
        self.asked_s = now


class RenewalSchedule:
    """All locks of one renewer. Each is renewed after half of its duration, in batches."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, notify: Callable[[Renewal, ServiceBusError], None]
    ) -> None:
        self._loop = loop
        self._notify = notify
        self._entries: set[Renewal] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def add(self, entry: Renewal) -> None:
        """Add a lock."""
        if not self._closed:
            self._entries.add(entry)
            self._arm()

    def close(self) -> None:
        """Stop renewing all locks."""
        self._closed = True
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()

    def done(self, entries: list[Renewal], outcome: Outcome) -> None:
        """Set the new expiry of locks; report the lost ones."""
        lost = dict(outcome.errors)
        now = time.monotonic()
        for index, entry in enumerate(entries):
            if index in lost and isinstance(lost[index], MessageLockLostError):
                self._lost(entry, lost[index])
            elif index in lost:
                # The lock may outlast the cause of the failure.
                self.failed([entry], lost[index])
            elif entry in self._entries:
                entry.message._locked_until_ms = outcome.locked_until_ms
                # Counted from the request: the response may have been delayed.
                entry.lock_end_s = entry.asked_s + outcome.lock_remaining_ms / 1_000
                entry.lock_s = max(0.0, entry.lock_end_s - now)
                entry.due_s = now + entry.lock_s / 2

    def failed(self, entries: list[Renewal], error: BaseException) -> None:
        """Retry until the locks expire; then report them."""
        for entry in entries:
            now = time.monotonic()
            if entry.lock_end_s <= now:
                self._lost(entry, error)
            else:
                entry.due_s = now + min(1.0, entry.lock_s / 8)

    def _arm(self) -> None:
        if self._timer is None and self._entries:
            self._timer = self._loop.call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = time.monotonic()
        due: dict[Receiving, list[Renewal]] = {}
        for entry in list(self._entries):
            if entry.message._settled:
                self._entries.discard(entry)
            elif now >= entry.end_s:
                self._entries.discard(entry)
                entry.message.auto_renew_error = AutoLockRenewTimeout(
                    "The lock is no longer renewed: max_lock_renewal_duration has passed."
                )
            elif now >= entry.due_s:
                due.setdefault(entry.receiving, []).append(entry)
                # Not again before the response.
                entry.due_s = now + _TIMEOUT_S
                entry.asked_s = now
        for receiving, entries in due.items():
            tokens = b"".join(e.message._delivered.token(e.message._index) for e in entries)
            receiving.settle(
                Settlement(
                    receiver_pb2.DISPOSITION_RENEW_LOCK, tokens, _Batch(self, entries), _TIMEOUT_S
                )
            )
        self._arm()

    def _lost(self, entry: Renewal, cause: BaseException) -> None:
        if entry not in self._entries:
            return
        self._entries.discard(entry)
        if entry.message._settled:
            return
        error = AutoLockRenewFailed(f"The lock could not be renewed: {cause}", error=cause)
        entry.message.auto_renew_error = error
        if entry.fail is not None:
            self._notify(entry, error)


class _Batch:
    """The waiter of one request that renews several locks."""

    def __init__(self, renewing: RenewalSchedule, entries: list[Renewal]) -> None:
        self._renewing = renewing
        self._entries = entries

    def resolve(self, value: Outcome) -> None:
        """Handle the outcome."""
        self._renewing.done(self._entries, value)

    def fail(self, error: BaseException) -> None:
        """Handle the failure."""
        self._renewing.failed(self._entries, error)


def lock_left_s(message: ServiceBusReceivedMessage) -> float:
    """Return how long the lock of a message lasts, on the monotonic clock."""
    delivered = message._delivered
    # By how much renewals have moved the expiry, on the clock of the bus.
    renewed_s = (message._locked_until_ms - delivered.locked_until_ms) / 1_000
    return max(0.0, delivered.lock_end_s + renewed_s - time.monotonic())
