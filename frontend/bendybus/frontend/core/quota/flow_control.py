"""Flow control towards clients: how much one connection may make this front end hold.

It counts bytes of answers that the client has not read, lock tokens being settled, and frames of
sends. All streams of one `FlowControl` share the counts of their connection, so that a client that
opens many streams or never reads gets no more than another one. All connections share a total as
well: above it only those that have read nearly everything go on. Listeners of every protocol use
this.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from bendybus.frontend.core.credit import Owner
from bendybus.frontend.core.quota.bounds import (
    PACE_S,
    REFUSALS_A_SECOND,
    REPEATED_FEW,
    REPEATED_TOKENS,
    SEND_FRAMES,
    TOKENS,
    TOKENS_A_FRAME,
    UNREAD,
    UNREAD_MIN,
)


def charged_tokens(count: int, *, repeat: bool = False) -> int:
    """Return how many locks a settlement of `count` of them is charged as.

    A repeat of more than a few is looked for in all that its receiver settled before.
    """
    looks = repeat and count > REPEATED_FEW
    return max(count, REPEATED_TOKENS if looks else TOKENS_A_FRAME)


class Pausable(Protocol):
    """What hands messages to connections."""

    def pause(self, owner: Owner) -> None:
        """Hand nothing to a connection until `resume`."""

    def resume(self, owner: Owner) -> None:
        """Go on after a pause."""


class ConnectionFlow:
    """The counts of one connection. On the loop only."""

    def __init__(self, total: "FlowControl", owner: Owner) -> None:
        self.owner = owner
        self.paused = False
        # Of sends, under way.
        self.frames = 0
        self._pacing = 0
        self._total = total
        self._unread_bytes = 0
        self._tokens = 0
        self._room = asyncio.Event()
        self._read = asyncio.Event()

    def handed(self, size_bytes: int) -> None:
        """Count what waits to be read."""
        self._unread_bytes += size_bytes
        self._total.unread_bytes += size_bytes
        if self._unread_bytes >= UNREAD_MIN and not self.paused and self.behind():
            self.paused = True
            self._total.pause(self)

    def read(self, size_bytes: int) -> None:
        """Uncount what was read, or whose stream has ended."""
        self._unread_bytes -= size_bytes
        total = self._total
        total.unread_bytes -= size_bytes
        if self.paused and not self.behind():
            self.go_on()
        if total.unread_bytes < UNREAD.all <= total.unread_bytes + size_bytes:
            total.go_on()

    def behind(self) -> bool:
        """Whether so much is unread that there must not be more."""
        if self._unread_bytes >= UNREAD.connection:
            return True
        crowded = self._total.unread_bytes >= UNREAD.all
        return crowded and self._unread_bytes >= UNREAD_MIN

    def go_on(self) -> None:
        """End the pause."""
        self.paused = False
        self._read.set()
        self._total.resume(self)

    async def caught_up(self) -> None:
        """Wait until the connection has read enough of what it was given."""
        while self.paused:
            self._read.clear()
            await self._read.wait()

    async def frame(self) -> bool:
        """Wait until a frame may be taken, but not long; return whether it may."""
        while self.paused:
            await self.caught_up()
        if self.frames >= SEND_FRAMES.connection:
            await self.pace()
        return self.frames < SEND_FRAMES.connection

    async def pace(self) -> None:
        """Let time pass before a frame is refused; the more of them wait, the longer."""
        self._pacing += 1
        try:
            await asyncio.sleep(PACE_S + self._pacing / REFUSALS_A_SECOND)
        finally:
            self._pacing -= 1

    @contextmanager
    def stream(self) -> Iterator["StreamFlow"]:
        """Hold the counts of a stream."""
        flow = StreamFlow(self)
        try:
            yield flow
        finally:
            flow.close()

    async def take_tokens(self, taken: int) -> int:
        """Wait until so many tokens may be settled; return what to give back when answered."""
        while self._tokens and self._tokens + taken > TOKENS.connection:
            self._room.clear()
            await self._room.wait()
        self._tokens += taken
        self._total.tokens += taken
        return taken

    def give_tokens(self, taken: int) -> None:
        """Give back what `take_tokens` returned."""
        self._tokens -= taken
        self._total.tokens -= taken
        self._room.set()


class StreamFlow:
    """One stream's part of its connection's counts; all of it is given back when it ends."""

    def __init__(self, connection: ConnectionFlow) -> None:
        self.connection = connection
        self.closed = False
        self._unread_bytes = 0
        self._tokens = 0

    def handed(self, size_bytes: int) -> None:
        """Count what waits to be read; after the end it is dropped, and not counted."""
        if not self.closed:
            self._unread_bytes += size_bytes
            self.connection.handed(size_bytes)

    def read(self, size_bytes: int) -> None:
        """Uncount what was read."""
        self._unread_bytes -= size_bytes
        self.connection.read(size_bytes)

    async def take_tokens(self, taken: int) -> int:
        """Wait until so many tokens may be settled; return what to give back when answered."""
        await self.connection.take_tokens(taken)
        self._tokens += taken
        return taken

    def give_tokens(self, taken: int) -> None:
        """Give back what `take_tokens` returned."""
        self._tokens -= taken
        self.connection.give_tokens(taken)

    def close(self) -> None:
        """Give back the rest."""
        self.closed = True
        self.connection.read(self._unread_bytes)
        self.connection.give_tokens(self._tokens)


class FlowControl:
    """The connections that have a stream open."""

    def __init__(self, source: Pausable | None = None) -> None:
        self._source = source
        self._connections: dict[Owner, tuple[ConnectionFlow, int]] = {}
        # The total; from UNREAD.all on, only connections that have read nearly all go on.
        self.unread_bytes = 0
        # Tokens that are being settled, until the outcome is read.
        self.tokens = 0
        # In order.
        self._paused: dict[ConnectionFlow, None] = {}

    @contextmanager
    def of(self, owner: Owner) -> Iterator[ConnectionFlow]:
        """Hold the counts of a connection."""
        connection, users = self._connections.get(owner, (None, 0))
        connection = connection or ConnectionFlow(self, owner)
        self._connections[owner] = (connection, users + 1)
        try:
            yield connection
        finally:
            connection, users = self._connections.pop(owner)
            if users > 1:
                self._connections[owner] = (connection, users - 1)

    def go_on(self) -> None:
        """End the pauses of connections that waited only for others to read."""
        for connection in list(self._paused):
            if not connection.behind():
                connection.go_on()

    def pause(self, connection: ConnectionFlow) -> None:
        """Hand nothing to a connection for now."""
        self._paused[connection] = None
        if self._source is not None:
            self._source.pause(connection.owner)

    def resume(self, connection: ConnectionFlow) -> None:
        """Go on after a pause."""
        self._paused.pop(connection, None)
        if self._source is not None:
            self._source.resume(connection.owner)
