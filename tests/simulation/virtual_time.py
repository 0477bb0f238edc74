"""An event loop whose time is virtual: nothing waits, and everything happens in one order."""

import asyncio
import selectors
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

# Modules that read a clock, as they import it.
_CLOCKS = (
    "bendybus.client.core.receive_asks",
    "bendybus.client.core.receive_stream",
    "bendybus.client.core.session_link",
    "bendybus.client.core.stream",
    "bendybus.client.messages.received_message",
    "bendybus.frontend.upstreams.upstream",
)


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.now_s


class _Selector(selectors.SelectSelector):
    """Waits for nothing: lets the loop's time pass instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        """Let time pass."""
        assert timeout is not None, "everything waits for something that never happens"
        self._loop.now_s += max(0.0, timeout)
        return []


class Clock:
    """The module `time`, as far as the code under test uses it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        """Return the virtual time in seconds."""
        return self._loop.now_s

    def monotonic_ns(self) -> int:
        """Return the virtual time in nanoseconds."""
        return round(self._loop.now_s * 1_000_000) * 1_000

    def time(self) -> float:
        """Return a wall clock."""
        return 1_700_000_000 + self._loop.now_s


def run(make: Coroutine[Any, Any, Any], patch: pytest.MonkeyPatch) -> Any:
    """Run a world to its end in virtual time; return what it returns."""
    loop = VirtualLoop()
    for name in _CLOCKS:
        patch.setattr(sys.modules[name], "time", Clock(loop))
    try:
        return loop.run_until_complete(make)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.1))
        loop.close()
