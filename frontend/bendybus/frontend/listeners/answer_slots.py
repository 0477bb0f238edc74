"""How many large answers one connection may have made, and not yet read.

An answer that its caller does not read stays in memory, gRPC's, with no bound: a thousand pages of
a megabyte each, asked for and left. So the calls that have such answers take turns on their
connection; a turn ends when the answer is written, or the call is given up.
"""

import asyncio
from typing import Any, Final

import grpc

Context = grpc.aio.ServicerContext[Any, Any]
# Enough to keep a fast link busy.
SLOTS: Final = 8


class AnswerSlots:
    """The turns of all connections. Those without such calls take no room."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def take(self, context: Context) -> None:
        """Wait for a turn of the caller's connection, which lasts until the call is over."""
        peer = context.peer()
        turns = self._turns.setdefault(peer, asyncio.Semaphore(SLOTS))
        self._taken[peer] = self._taken.get(peer, 0) + 1
        try:
            await turns.acquire()
        except asyncio.CancelledError:
            self._left(peer)
            raise

        def over(_: Any) -> None:
            turns.release()
            self._left(peer)

        # The stubs have a class there, which no function is of.
        callback: Any = over
        context.add_done_callback(callback)

    def connections(self) -> int:
        """Return how many connections have calls that take or await turns."""
        return len(self._taken)

    def _left(self, peer: str) -> None:
        self._taken[peer] -= 1
        if not self._taken[peer]:
            del self._taken[peer], self._turns[peer]
