"""Draining of streams: each open one can be asked to end cleanly.

    server                     caller
      │  moving = true           │
      ├─────────────────────────►│  writes nothing more
      │              half-close  │
      │◄─────────────────────────┤
      │  answers that it owes    │
      ├─────────────────────────►│
      │  OK                      │
      ├─────────────────────────►│  opens the stream again, elsewhere

So everything that was written is answered, and nothing is lost or done twice. Without the first
step, a caller that writes just as the stream ends would lose answers that are on their way to it.
A caller that does not half-close within `MOVE_S` is an old one, or hangs: the server then takes
nothing more, answers what it owes, and ends.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

End = Callable[[], None]
MOVE_S: Final = 1.0
# In the metadata of a stream: the caller knows `moving`.
MOVES: Final = "bendybus-moves"


class Drain:
    """The open streams of a server. On the loop only."""

    def __init__(self) -> None:
        self.begun = False
        self._streams: set[End] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def begin(self) -> None:
        """Ask all streams to end, and those that open from now on at once."""
        self.begun = True
        for end in list(self._streams):
            end()

    async def ended(self, timeout_s: float) -> bool:
        """Wait until no stream is open; return whether that came true in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    @contextmanager
    def stream(self, end: End) -> Iterator[None]:
        """Hold a stream that `end` asks to end."""
        self._streams.add(end)
        self._empty.clear()
        if self.begun:
            end()
        try:
            yield
        finally:
            self._streams.discard(end)
            if not self._streams:
                self._empty.set()
