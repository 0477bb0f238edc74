"""Waiting for a partition's answer from a thread that is not the event loop."""

import threading
from typing import Any, Generic, TypeVar

from bendybus.partition_server.state.answers import Failed

Value = TypeVar("Value")


class Waiter(Generic[Value]):
    """A `reply_to` for one value."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._value: Value | None = None

    def answer(self, value: Any) -> None:
        """Take the value; a failure is none."""
        self._value = None if isinstance(value, Failed) else value
        self._done.set()

    def value(self, timeout_s: float) -> Value | None:
        """Return the value, None if there is none in time."""
        self._done.wait(timeout_s)
        return self._value
