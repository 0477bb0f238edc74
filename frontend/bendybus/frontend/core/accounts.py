"""What one connection makes this front end hold: answers that it has not read, settlements.

All streams of a connection share its account, so that a client that opens many of them or never
reads what it is answered gets no more room than another one. All accounts of a front end share a
room as well: beyond it those that owe most wait, whoever opened how many connections.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from bendybus.domain import limits

# Bytes handed over that the client has not taken off the wire; it gets nothing more beyond that.
UNREAD_BYTES_MAX: Final = 16 * limits.MB
# The same over all connections, and what each may leave unread also then.
ALL_UNREAD_BYTES_MAX: Final = 128 * limits.MB
UNREAD_BYTES_MIN: Final = 1 * limits.MB
# Lock tokens whose settlement is under way or not answered; frames are not read beyond that.
TOKENS_MAX: Final = 50_000
# What a frame of settlements takes of that at least: its properties and texts have a size too.
TOKENS_A_FRAME: Final = 50

# Frames of sends under way; more wait a moment, and are refused as busy.
FRAMES_MAX: Final = 512
# A refusal costs as much as a send: so many a second are answered on one connection at most.
REFUSALS_A_SECOND: Final = 200
PACE_S: Final = 0.05


class Desk(Protocol):
    """Who hands out what is to be read."""

    def pause(self, owner: Any) -> None:
        """Hand nothing to a connection until `resume`."""

    def resume(self, owner: Any) -> None:
        """Go on after a pause."""


class Account:
    """The account of one connection. On the loop only."""

    def __init__(self, book: "Accounts", owner: Any) -> None:
        self.owner = owner
        self.paused = False
        # Of sends, under way.
        self.frames = 0
        self._pacing = 0
        self._book = book
        self._unread_bytes = 0
        self._tokens = 0
        self._room = asyncio.Event()
        self._read = asyncio.Event()

    def handed(self, size_bytes: int) -> None:
        """Count what waits to be read."""
        self._unread_bytes += size_bytes
        self._book.count(size_bytes)
        if not self.paused and self.behind():
            self.paused = True
            self._book.pause(self)

    def read(self, size_bytes: int) -> None:
        """Uncount what was read, or whose stream has ended."""
        self._unread_bytes -= size_bytes
        self._book.count(-size_bytes)
        if self.paused and not self.behind():
            self.go_on()

    def behind(self) -> bool:
        """Whether so much is unread that there must not be more."""
        if self._unread_bytes >= UNREAD_BYTES_MAX:
            return True
        return self._unread_bytes >= UNREAD_BYTES_MIN and self._book.crowded()

    def go_on(self) -> None:
        """End the pause."""
        self.paused = False
        self._read.set()
        self._book.resume(self)

    async def caught_up(self) -> None:
        """Wait until the connection has read enough of what it was given."""
        while self.paused:
            self._read.clear()
            await self._read.wait()

    async def frame(self) -> bool:
        """Wait until a frame may be taken, but not long; return whether it may."""
        while self.paused:
            await self.caught_up()
        if self.frames >= FRAMES_MAX:
            await self.pace()
        return self.frames < FRAMES_MAX

    async def pace(self) -> None:
        """Let time pass before a frame is refused; the more of them wait, the longer."""
        self._pacing += 1
        try:
            await asyncio.sleep(PACE_S + self._pacing / REFUSALS_A_SECOND)
        finally:
            self._pacing -= 1

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """Hold the share of a stream."""
        share = Share(self)
        try:
            yield share
        finally:
            share.close()

    async def take_tokens(self, count: int) -> int:
        """Wait until so many tokens may be settled; return what to give back when answered."""
        taken = max(count, TOKENS_A_FRAME)
        while self._tokens and self._tokens + taken > TOKENS_MAX:
            self._room.clear()
            await self._room.wait()
        self._tokens += taken
        return taken

    def give_tokens(self, taken: int) -> None:
        """Give back what `take_tokens` returned."""
        self._tokens -= taken
        self._room.set()


class Share:
    """What one stream has of its connection's account; nothing is left when it ends."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._unread_bytes = 0
        self._closed = False

    def handed(self, size_bytes: int) -> None:
        """Count what waits to be read; after the end nobody reads it, and nobody keeps it."""
        if not self._closed:
            self._unread_bytes += size_bytes
            self.account.handed(size_bytes)

    def read(self, size_bytes: int) -> None:
        """Uncount what was read."""
        self._unread_bytes -= size_bytes
        self.account.read(size_bytes)

    def close(self) -> None:
        """Uncount the rest."""
        self._closed = True
        self.account.read(self._unread_bytes)


class Accounts:
    """The accounts of the connections that have a stream open."""

    def __init__(self, desk: Desk | None = None) -> None:
        self._desk = desk
        self._accounts: dict[Any, tuple[Account, int]] = {}
        self._unread_bytes = 0
        # In order.
        self._paused: dict[Account, None] = {}

    @contextmanager
    def of(self, owner: Any) -> Iterator[Account]:
        """Hold the account of a connection."""
        account, users = self._accounts.get(owner, (None, 0))
        account = account or Account(self, owner)
        self._accounts[owner] = (account, users + 1)
        try:
            yield account
        finally:
            account, users = self._accounts.pop(owner)
            if users > 1:
                self._accounts[owner] = (account, users - 1)

    def count(self, size_bytes: int) -> None:
        """Count what all have not read; who waited only for others goes on."""
        crowded = self.crowded()
        self._unread_bytes += size_bytes
        if crowded and not self.crowded():
            for account in list(self._paused):
                if not account.behind():
                    account.go_on()

    def crowded(self) -> bool:
        """Whether there is room only for those who have read nearly all."""
        return self._unread_bytes >= ALL_UNREAD_BYTES_MAX

    def pause(self, account: Account) -> None:
        """Hand nothing to a connection for now."""
        self._paused[account] = None
        if self._desk is not None:
            self._desk.pause(account.owner)

    def resume(self, account: Account) -> None:
        """Go on after a pause."""
        self._paused.pop(account, None)
        if self._desk is not None:
            self._desk.resume(account.owner)
