"""Reading: what comes of a client is read in turns, and not while too much is on its way to it.

What comes is read for a few milliseconds; the rest waits, and nothing more is read of its
connection. One connection after the other has a turn, and whoever sends little is read between any
two of them: so nobody waits for all that another one sent.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

# What is read in a turn: pieces of so many bytes, until so much time is over.
PIECE_BYTES: Final = 8 * 1024
TURN_S: Final = 0.005


class Pausable(Protocol):
    """What bytes come from."""

    def pause_reading(self) -> None:
        """Read nothing more until `resume_reading`."""

    def resume_reading(self) -> None:
        """Read again."""


class Reading:
    """What comes on one connection.

    `take` reads bytes; `taken` is told of the end of a turn, and says whether there may be another
    one; `waits` says whether nothing is to be read, by a part of its bounds: the whole, and half of
    them once nothing is read.
    """

    def __init__(
        self,
        wire: Pausable,
        turns: "Turns",
        take: Callable[[bytes], None],
        taken: Callable[[], bool],
        waits: Callable[[int], bool],
    ) -> None:
        self._wire = wire
        self._turns = turns
        self._take = take
        self._taken = taken
        self._waits = waits
        self._unread = b""
        # A turn was asked for.
        self._asked = False
        self.paused = False

    def received(self, data: bytes) -> None:
        """Take bytes."""
        if self.paused:
            self._unread += data
        else:
            self._read(data)

    def take_turn(self) -> None:
        """Read on."""
        self._asked = False
        data, self._unread = self._unread, b""
        self._read(data)

    def go_on(self) -> None:
        """Read on, if that was waited for, and need not be any more."""
        if not self.paused or self._asked or self._waits(2):
            return
        if self._unread:
            self._asked = True
            self._turns.ask(self)
        else:
            self.paused = False
            self._wire.resume_reading()

    def _read(self, data: bytes) -> None:
        # Finer than the loop's clock, which may count in milliseconds.
        size, until_s, at = len(data), time.monotonic() + TURN_S, 0
        while at < size:
            self._take(data if size <= PIECE_BYTES else data[at : at + PIECE_BYTES])
            at += PIECE_BYTES
            if time.monotonic() > until_s:
                break
        going_on = self._taken()
        self._unread = data[at:] if going_on else b""
        if not self.paused and (self._unread or self._waits(1)):
            self.paused = True
            self._wire.pause_reading()
        self.go_on()


class Turns:
    """The connections that wait for a turn."""

    def __init__(self) -> None:
        self._waiting: deque[Reading] = deque()
        self._going = False

    def ask(self, reading: Reading) -> None:
        """Give a turn, after all that wait for one."""
        self._waiting.append(reading)
        if not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._waiting.popleft().take_turn()
        self._going = bool(self._waiting)
        if self._going:
            # What came on other connections comes before that.
            asyncio.get_running_loop().call_soon(self._next)
