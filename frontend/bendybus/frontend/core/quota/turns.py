"""Turns: connections are read one after the other, and not while too much output is pending.

Input of a connection is processed for a millisecond; the rest waits for the next turn, and its
socket is paused. The clock runs from the first byte that is processed in an iteration of the loop,
whatever brings it, and is read after each frame and each message of a WebSocket. Small inputs are
processed between two turns, so a client that sends little does not wait for one that sends much.
Nor does it wait for many: everything that arrives in the same iteration of the loop shares one
turn, and small inputs of known clients share ten. Further input waits for turns. Policies
have turns one after the other, however many connections each has, and its connections within those.

A *stranger* is a client that has not presented a valid token yet. It gets shorter turns.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol, TypeVar

from bendybus.domain.steps import Steps
from bendybus.frontend.core.quota.bounds import (
    PIECE_BYTES,
    SMALL_INPUTS_S,
    STRANGER_PIECE_BYTES,
    STRANGER_TURN_S,
    TURN_S,
)

T = TypeVar("T")


class Pausable(Protocol):
    """The source of the bytes."""

    def pause_reading(self) -> None:
        """Read nothing more until `resume_reading`."""

    def resume_reading(self) -> None:
        """Read again."""


class Waiting(Protocol):
    """A connection that waits for a turn."""

    stranger: bool
    policy: str

    @property
    def is_small(self) -> bool:
        """Whether what waits is no more than a small input."""

    def take_turn(self) -> None:
        """Process what waits."""


class Reading:
    """The input of one connection.

    `take` processes bytes until the turn `is_over`, and returns whether it has some left; it is
    called again in the next turn. `taken` is called at the end of a turn and returns whether the
    connection goes on; `waits(part)` returns whether reading must pause: 1 compares with the
    bounds, 2 with half of them, at which reading resumes.
    """

    def __init__(
        self,
        wire: Pausable,
        turns: "Turns",
        take: Callable[[bytes], bool],
        taken: Callable[[], bool],
        waits: Callable[[int], bool],
    ) -> None:
        self.stranger = True
        self.policy = ""
        self._wire = wire
        self._turns = turns
        self._take = take
        self._taken = taken
        self._waits = waits
        self._unread = b""
        # `take` has bytes left.
        self._has_left = False
        # When the turn is over; 0: nothing was processed in this iteration of the loop.
        self._until_s = 0.0
        # Held by work that is done in steps.
        self._doing = asyncio.Lock()
        # A turn was asked for.
        self._asked = False
        self.paused = False

    def received(self, data: bytes) -> None:
        """Take bytes."""
        if self.paused:
            self._unread += data
        elif not self.is_over() and self._turns.has_time_for(len(data), self.stranger):
            self._read(data)
        else:
            self._unread = data
            self._pause()
            self.go_on()

    def begin(self) -> None:
        """Start the clock of a turn, unless it runs: something of the connection is processed."""
        if not self._until_s:
            self._until_s = self._turns.clock() + (STRANGER_TURN_S if self.stranger else TURN_S)
            asyncio.get_running_loop().call_soon(self._end)

    def is_over(self) -> bool:
        """Whether the connection has had its time in this iteration of the loop."""
        return bool(self._until_s) and self._turns.clock() > self._until_s

    async def own_turn(self) -> None:
        """Begin a turn for work that is not input, after those of others if it has to wait."""
        if self.is_over() or not self._turns.has_time_for(PIECE_BYTES + 1, self.stranger):
            await self.turn()
        self.begin()

    def work(self, steps: Steps[None]) -> bool:
        """Do steps of work at once, as long as there is time; return whether all are done."""
        if not self._until_s and not self._turns.has_time_for(PIECE_BYTES + 1, self.stranger):
            return False
        self.begin()
        while not self.is_over():
            try:
                next(steps)
            except StopIteration:
                return True
        return False

    async def turn(self) -> None:
        """Wait for the next turn; for what is not passed to `received`."""
        waiting = _Coroutine(self.stranger, self.policy)
        self._turns.ask(waiting)
        await waiting.future

    async def do(self, steps: Steps[T]) -> T:
        """Do work of the connection in steps, in its turns; return its result.

        One after the other: many requests get no more turns than one.
        """
        async with self._doing:
            while True:
                if self.is_over():
                    await self.turn()
                self.begin()
                try:
                    next(steps)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]

    @property
    def is_small(self) -> bool:
        """Whether what waits is no more than a small input."""
        return not self._has_left and len(self._unread) <= PIECE_BYTES

    def take_turn(self) -> None:
        """Process what waits."""
        self._asked = False
        data, self._unread = self._unread, b""
        self._read(data)

    def go_on(self) -> None:
        """Resume reading, if it is paused and need not be any more."""
        if not self.paused or self._asked or self._waits(2):
            return
        if self._unread or self._has_left:
            self._asked = True
            self._turns.ask(self)
        else:
            self.paused = False
            self._wire.resume_reading()

    def _read(self, data: bytes) -> None:
        size, at = len(data), 0
        piece = STRANGER_PIECE_BYTES if self.stranger else PIECE_BYTES
        self.begin()
        while at < size or self._has_left:
            self._has_left = self._take(data if size <= piece and not at else data[at : at + piece])
            at += piece
            if self.is_over():
                break
        going_on = self._taken()
        self._unread = data[at:] if going_on else b""
        self._has_left = self._has_left and going_on
        if not self.paused and (self._unread or self._has_left or self._waits(1)):
            self._pause()
        self.go_on()

    def _pause(self) -> None:
        self.paused = True
        self._wire.pause_reading()

    def _end(self) -> None:
        self._until_s = 0.0


class _Coroutine:
    """A coroutine that waits for a turn of its connection."""

    is_small = False

    def __init__(self, stranger: bool, policy: str) -> None:
        self.stranger = stranger
        self.policy = policy
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take_turn(self) -> None:
        """Let it go on."""
        if not self.future.done():
            self.future.set_result(None)


class _Line:
    """A queue by policy; the policy that had a turn last is the last."""

    def __init__(self) -> None:
        self._policies: OrderedDict[str, deque[Waiting]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._policies)

    def put(self, waiting: Waiting) -> None:
        """Queue one behind the others of its policy."""
        self._policies.setdefault(waiting.policy, deque()).append(waiting)

    def next(self) -> Waiting:
        """Return the one whose turn it is."""
        policy, those = self._policies.popitem(last=False)
        found = those.popleft()
        if those:
            self._policies[policy] = those
        return found


class Turns:
    """The connections that wait for a turn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        # Not the loop's, which may have a resolution of milliseconds.
        self.clock = clock
        # Small inputs of known clients, what else they sent, and strangers.
        self._small, self._known, self._strangers = _Line(), _Line(), _Line()
        self._going = False
        # Input of this iteration of the loop is processed at once until then, small inputs of known
        # clients until later; 0: none came yet.
        self._until_s = self._small_until_s = 0.0

    def has_time_for(self, size_bytes: int, stranger: bool) -> bool:
        """Whether input is processed at once, without waiting for a turn."""
        if self._begin():
            return True
        is_small = size_bytes <= PIECE_BYTES and not stranger
        return self.clock() < (self._small_until_s if is_small else self._until_s)

    def ask(self, reading: Waiting) -> None:
        """Queue a connection for a turn, after the others of its policy."""
        if reading.stranger:
            self._strangers.put(reading)
        else:
            (self._small if reading.is_small else self._known).put(reading)
        if not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        try:
            # Before the small inputs that have just come, which share this time.
            self._begin()
            while self._small and self.clock() < self._small_until_s:
                self._small.next().take_turn()
            # One of each kind, so that neither waits for all of the other.
            for line in (self._known, self._strangers):
                if line:
                    line.next().take_turn()
        finally:
            # Also after an error, which is one connection's.
            self._going = bool(self._small or self._known or self._strangers)
            if self._going:
                # STRICTLY AFTER the loop has delivered the input of other connections.
                asyncio.get_running_loop().call_soon(self._next)

    def _begin(self) -> bool:
        """Start the clock of this iteration of the loop; return whether it did not run yet."""
        if self._until_s:
            return False
        now_s = self.clock()
        self._until_s, self._small_until_s = now_s + TURN_S, now_s + SMALL_INPUTS_S
        asyncio.get_running_loop().call_soon(self._all_came)
        return True

    def _all_came(self) -> None:
        self._until_s = 0.0
