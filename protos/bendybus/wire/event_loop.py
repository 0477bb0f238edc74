"""The event loop of a server, and of the client's I/O thread: uvloop's where it is installed.

Only loops of our own: an application's loop, and asyncio's policy, stay as they are. It takes a
sixth to a fifth off what a message of the plain loop costs; nothing depends on it.
"""

import asyncio
import contextlib
import importlib
from collections.abc import Callable, Coroutine
from typing import Any, Final


def factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes a loop."""
    with contextlib.suppress(ImportError):
        found: Callable[[], asyncio.AbstractEventLoop]
        found = importlib.import_module("uvloop").new_event_loop
        return found
    return asyncio.new_event_loop


NEW: Final = factory()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Do what `asyncio.run` does, on such a loop."""
    with asyncio.Runner(loop_factory=NEW) as runner:
        runner.run(main)
