"""Turns of connections that sent more than can be read at once.

What comes is read for a few milliseconds; the rest waits, and nothing more is read of its
connection. One connection after the other has a turn, and whoever sends little is read between any
two of them: so nobody waits for all that another one sent.
"""

import asyncio
from collections import deque
from typing import Protocol


class Taker(Protocol):
    """What takes turns."""

    def take_turn(self) -> None:
        """Read on for a moment."""


class Turns:
    """See the module."""

    def __init__(self) -> None:
        self._waiting: deque[Taker] = deque()
        self._going = False

    def ask(self, taker: Taker) -> None:
        """Give a turn, after all that wait for one."""
        self._waiting.append(taker)
        if not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._waiting.popleft().take_turn()
        self._going = bool(self._waiting)
        if self._going:
            # What came on other connections comes before that.
            asyncio.get_running_loop().call_soon(self._next)
