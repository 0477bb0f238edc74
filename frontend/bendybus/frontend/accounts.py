"""What one connection makes this front end hold: deliveries that it has not read, settlements.

All receivers of a connection share its account, so that a client that opens many of them or never
reads what it is answered gets no more room than another one.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from bendybus.domain import limits
from bendybus.frontend.receive_desk import ReceiveDesk

# Bytes handed over that the client has not taken off the wire; it gets nothing more beyond that.
UNREAD_BYTES_MAX: Final = 16 * limits.MB
# Lock tokens whose settlement is under way or not answered; frames are not read beyond that.
TOKENS_MAX: Final = 50_000
# What a frame of settlements takes of that at least: its properties and texts have a size too.
TOKENS_A_FRAME: Final = 50


class Account:
    """The account of one connection. On the loop only."""

    def __init__(self, desk: ReceiveDesk, owner: Any) -> None:
        self.owner = owner
        self._desk = desk
        self._unread_bytes = 0
        self._tokens = 0
        self._room = asyncio.Event()

    def handed(self, size_bytes: int) -> None:
        """Count a delivery that waits to be read."""
        self._unread_bytes += size_bytes
        if self._unread_bytes >= UNREAD_BYTES_MAX:
            self._desk.pause(self.owner)

    def read(self, size_bytes: int) -> None:
        """Uncount a delivery that was read, or whose stream has ended."""
        behind = self._unread_bytes >= UNREAD_BYTES_MAX
        self._unread_bytes -= size_bytes
        if behind and self._unread_bytes < UNREAD_BYTES_MAX:
            self._desk.resume(self.owner)

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


class Accounts:
    """The accounts of the connections that have a stream open."""

    def __init__(self, desk: ReceiveDesk) -> None:
        self._desk = desk
        self._accounts: dict[Any, tuple[Account, int]] = {}

    @contextmanager
    def of(self, owner: Any) -> Iterator[Account]:
        """Hold the account of a connection."""
        account, users = self._accounts.get(owner, (None, 0))
        account = account or Account(self._desk, owner)
        self._accounts[owner] = (account, users + 1)
        try:
            yield account
        finally:
            account, users = self._accounts.pop(owner)
            if users > 1:
                self._accounts[owner] = (account, users - 1)
