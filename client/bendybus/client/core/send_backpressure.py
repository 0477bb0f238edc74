"""The limit on messages and bytes waiting to be sent over a connection: backpressure above it."""

import threading
from collections import deque
from typing import Any, Final

from bendybus.client.core.waiters import Waiter

MESSAGES_MAX: Final = 50_000
BYTES_MAX: Final = 64 * 1024 * 1024


class SendLimit:
    """Counts messages and bytes; first come, first served. From any thread.

    The lock is held for a few additions only, never while a waiter is called.
    """

    def __init__(self, messages_max: int = MESSAGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._lock = threading.Lock()
        self._messages_max, self._bytes_max = messages_max, bytes_max
        self._messages = self._bytes = 0
        self._waiting: deque[tuple[int, int, Waiter]] = deque()

    def try_acquire(self, messages: int, size_bytes: int) -> bool:
        """Take room if there is enough and no caller waits for it. One unit always fits."""
        with self._lock:
            if self._waiting or not self._fits(messages, size_bytes):
                return False
            self._messages += messages
            self._bytes += size_bytes
            return True

    def wait(self, messages: int, size_bytes: int, waiter: Waiter) -> None:
        """Resolve `waiter` once room is taken for it."""
        with self._lock:
            self._waiting.append((messages, size_bytes, waiter))
        self._admit()

    def cancel(self, waiter: Waiter) -> None:
        """Stop waiting: the caller timed out. Does nothing if room was taken for it already."""
        with self._lock:
            kept = [entry for entry in self._waiting if entry[2] is not waiter]
            self._waiting = deque(kept)
        self._admit()

    def release(self, messages: int, size_bytes: int) -> None:
        """Give room back."""
        with self._lock:
            self._messages -= messages
            self._bytes -= size_bytes
            if not self._waiting:
                return
        self._admit()

    def _admit(self) -> None:
        admitted: list[Any] = []
        with self._lock:
            while self._waiting and self._fits(*self._waiting[0][:2]):
                messages, size_bytes, waiter = self._waiting.popleft()
                self._messages += messages
                self._bytes += size_bytes
                admitted.append(waiter)
        for waiter in admitted:
            waiter.resolve(None)

    def _fits(self, messages: int, size_bytes: int) -> bool:
        return self._messages == 0 or (
            self._messages + messages <= self._messages_max
            and self._bytes + size_bytes <= self._bytes_max
        )
