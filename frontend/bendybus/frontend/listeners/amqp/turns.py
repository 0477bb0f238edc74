"""Reading: what comes of a client is read in turns, and not while too much is on its way to it.

What comes is read for a few milliseconds; the rest waits, and nothing more is read of its
connection. One connection after the other has a turn, and whoever sends little is read between any
two of them: so nobody waits for all that another one sent. Nor for what many sent: all that came
together has one turn, but for the little that known clients send.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

# What is read in a turn: pieces of so many bytes, until so much time is over. Less of a client that
# has not shown that it may do anything.
PIECE_BYTES: Final = 8 * 1024
TURN_S: Final = 0.005
STRANGER_PIECE_BYTES: Final = 1024
STRANGER_TURN_S: Final = 0.001


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
        # Of a client that has not shown that it may do anything.
        self.stranger = True
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
        elif self._turns.has_time_for(len(data), self.stranger):
            self._read(data)
        else:
            self._unread = data
            self._pause()
            self.go_on()

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
        size, at = len(data), 0
        until_s = time.monotonic() + (STRANGER_TURN_S if self.stranger else TURN_S)
        piece = STRANGER_PIECE_BYTES if self.stranger else PIECE_BYTES
        while at < size:
            self._take(data if size <= piece else data[at : at + piece])
            at += piece
            if time.monotonic() > until_s:
                break
        going_on = self._taken()
        self._unread = data[at:] if going_on else b""
        if not self.paused and (self._unread or self._waits(1)):
            self._pause()
        self.go_on()

    def _pause(self) -> None:
        self.paused = True
        self._wire.pause_reading()


class Turns:
    """The connections that wait for a turn."""

    def __init__(self) -> None:
        self._known: deque[Reading] = deque()
        self._strangers: deque[Reading] = deque()
        self._going = False
        # What comes together is read at once until then; 0: nothing came yet.
        self._until_s = 0.0

    def has_time_for(self, size_bytes: int, stranger: bool) -> bool:
        """Whether what has come is read at once, and not after others."""
        if size_bytes <= PIECE_BYTES and not stranger:
            return True
        if self._until_s:
            return time.monotonic() < self._until_s
        self._until_s = time.monotonic() + TURN_S
        asyncio.get_running_loop().call_soon(self._all_came)
        return True

    def ask(self, reading: Reading) -> None:
        """Give a turn, after all of its kind that wait for one."""
        (self._strangers if reading.stranger else self._known).append(reading)
        if not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        # One of each kind: neither waits for all of the other.
        for waiting in (self._known, self._strangers):
            if waiting:
                waiting.popleft().take_turn()
        self._going = bool(self._known or self._strangers)
        if self._going:
            # What came on other connections comes before that.
            asyncio.get_running_loop().call_soon(self._next)

    def _all_came(self) -> None:
        self._until_s = 0.0
