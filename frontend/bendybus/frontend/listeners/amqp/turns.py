"""Turns: connections are read one after the other, and not while too much output is pending.

Input of a connection is processed for a millisecond; the rest waits for the next turn, and
its socket is paused. Small inputs are processed between two turns, so a client that sends little
does not wait for one that sends much. Nor for many: everything that arrives in the same iteration
of the loop shares one turn, except small inputs of known clients.

A *stranger* is a client that has not presented a valid token yet. It gets shorter turns.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

# A turn processes pieces of this size until this time has passed.
PIECE_BYTES: Final = 8 * 1024
TURN_S: Final = 0.001
STRANGER_PIECE_BYTES: Final = 1024
STRANGER_TURN_S: Final = 0.0005


class Pausable(Protocol):
    """The source of the bytes."""

    def pause_reading(self) -> None:
        """Read nothing more until `resume_reading`."""

    def resume_reading(self) -> None:
        """Read again."""


class Reading:
    """The input of one connection.

    `take` processes bytes; `taken` is called at the end of a turn and returns whether the
    connection goes on; `waits(part)` returns whether reading must pause: 1 compares with the
    bounds, 2 with half of them, at which reading resumes.
    """

    def __init__(
        self,
        wire: Pausable,
        turns: "Turns",
        take: Callable[[bytes], None],
        taken: Callable[[], bool],
        waits: Callable[[int], bool],
    ) -> None:
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
        """Process what waits."""
        self._asked = False
        data, self._unread = self._unread, b""
        self._read(data)

    def go_on(self) -> None:
        """Resume reading, if it is paused and need not be any more."""
        if not self.paused or self._asked or self._waits(2):
            return
        if self._unread:
            self._asked = True
            self._turns.ask(self)
        else:
            self.paused = False
            self._wire.resume_reading()

    def _read(self, data: bytes) -> None:
        # Not the loop's clock, which may have a resolution of milliseconds.
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
        # Input of this iteration of the loop is processed at once until then; 0: none came yet.
        self._until_s = 0.0

    def has_time_for(self, size_bytes: int, stranger: bool) -> bool:
        """Whether input is processed at once, without waiting for a turn."""
        if size_bytes <= PIECE_BYTES and not stranger:
            return True
        if self._until_s:
            return time.monotonic() < self._until_s
        self._until_s = time.monotonic() + TURN_S
        asyncio.get_running_loop().call_soon(self._all_came)
        return True

    def ask(self, reading: Reading) -> None:
        """Queue a connection for a turn, after the others of its kind."""
        (self._strangers if reading.stranger else self._known).append(reading)
        if not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        # One of each kind, so that neither waits for all of the other.
        for waiting in (self._known, self._strangers):
            if waiting:
                waiting.popleft().take_turn()
        self._going = bool(self._known or self._strangers)
        if self._going:
            # STRICTLY AFTER the loop has delivered the input of other connections.
            asyncio.get_running_loop().call_soon(self._next)

    def _all_came(self) -> None:
        self._until_s = 0.0
