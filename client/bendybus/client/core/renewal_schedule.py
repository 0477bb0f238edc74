"""Locks that are renewed in the background. On the I/O thread: a busy caller costs no lock."""

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
    """A message whose lock is kept until `end_s`. `fail` is called off the I/O thread."""

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
        # While its locks are renewed a receiver stays, whoever has it.
        self.receiver: Any = None
        now = time.monotonic()
        self.end_s = now + duration_s
        self.lock_s = lock_left_s(message)
        self.lock_end_s = now + self.lock_s
        self.due_s = now + self.lock_s / 2
        self.asked_s = now


class RenewalSchedule:
    """All locks of one renewer: those due are renewed together, half a lock before the end."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, notify: Callable[[Renewal, ServiceBusError], None]
    ) -> None:
        self._loop = loop
        self._notify = notify
        self._entries: set[Renewal] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def add(self, entry: Renewal) -> None:
        """Keep a lock."""
        if not self._closed:
            self._entries.add(entry)
            self._arm()

    def close(self) -> None:
        """Keep no lock any more."""
        self._closed = True
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()

    def done(self, entries: list[Renewal], outcome: Outcome) -> None:
        """Note the new ends of locks; report those that are lost."""
        lost = dict(outcome.errors)
        now = time.monotonic()
        for index, entry in enumerate(entries):
            if index in lost and isinstance(lost[index], MessageLockLostError):
                self._lost(entry, lost[index])
            elif index in lost:
                # The lock may last longer than what hindered its renewal.
                self.failed([entry], lost[index])
            elif entry in self._entries:
                entry.message._locked_until_ms = outcome.locked_until_ms
                # From when it was asked for: the answer may have taken its time.
                entry.lock_end_s = entry.asked_s + outcome.lock_remaining_ms / 1_000
                entry.lock_s = max(0.0, entry.lock_end_s - now)
                entry.due_s = now + entry.lock_s / 2

    def failed(self, entries: list[Renewal], error: BaseException) -> None:
        """Try again while the locks last; then report them."""
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
                    "The time for which the lock was to be renewed is over."
                )
            elif now >= entry.due_s:
                due.setdefault(entry.receiving, []).append(entry)
                # Not again while the answer is under way.
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
    """Waits for the answer to one renewal of several locks."""

    def __init__(self, renewing: RenewalSchedule, entries: list[Renewal]) -> None:
        self._renewing = renewing
        self._entries = entries

    def resolve(self, value: Outcome) -> None:
        """Note the outcome."""
        self._renewing.done(self._entries, value)

    def fail(self, error: BaseException) -> None:
        """Note the failure."""
        self._renewing.failed(self._entries, error)


def lock_left_s(message: ServiceBusReceivedMessage) -> float:
    """Return how long the lock of a message lasts, by the monotonic clock."""
    delivered = message._delivered
    # A renewal moved the end by as much as the bus's own clock says.
    renewed_s = (message._locked_until_ms - delivered.locked_until_ms) / 1_000
    return max(0.0, delivered.lock_end_s + renewed_s - time.monotonic())
