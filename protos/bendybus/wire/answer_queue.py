"""Answers that wait to be written to one stream of a server, and the draining of the stream.

The same for every stream that can be moved (see `draining`): what was read is answered, then the
stream ends. The owner of a queue counts what it still owes. On the loop only.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from bendybus.domain.errors import BusError
from bendybus.wire.draining import MOVE_S

Entry = TypeVar("Entry")


class AnswerQueue(Generic[Entry]):
    """See the module. `outstanding`: whether answers must still come before it may end.

    Unbounded itself: the owner bounds what is asked for, or waits for `room` before it reads more.
    """

    def __init__(self, outstanding: Callable[[], bool]) -> None:
        # The stream is to end: nothing more is taken from its caller.
        self.finishing = False
        self._outstanding = outstanding
        self._waiting: deque[Entry | BusError | None] = deque()
        self._writer: asyncio.Future[None] | None = None
        self._written = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, entry: Entry | BusError | None) -> None:
        """Add an answer; an error, or None, ends the stream after what was added before."""
        self._waiting.append(entry)
        self.wake()

    def wake(self) -> None:
        """Let the writer look again whether something waits, or the stream may end."""
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def move(self, moving: Entry, finish: Callable[[], None] | None = None) -> None:
        """Ask the caller to half-close; call `finish` in any case when it does not."""
        self.put(moving)
        asyncio.get_running_loop().call_later(MOVE_S, finish or self.finish)

    def finish(self) -> None:
        """End the stream as soon as all is written and no answer is outstanding."""
        self.finishing = True
        self.wake()

    async def next(self) -> Entry | None:
        """Return the next answer, once the one before is written; None at the end.

        Raises the error that ends the stream.
        """
        self._written.set()
        while not self._waiting:
            if self.finishing and not self._outstanding():
                return None
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer
        entry = self._waiting.popleft()
        if isinstance(entry, BusError):
            raise entry
        return entry

    def take(self, fits: Callable[[Entry], bool]) -> Entry | None:
        """Return the answer that waits next if it fits; None if it does not, or nothing waits."""
        entry = self._waiting[0] if self._waiting else None
        if entry is None or isinstance(entry, BusError) or not fits(entry):
            return None
        self._waiting.popleft()
        return entry

    async def room(self, waiting_max: int) -> None:
        """Wait while so many answers wait to be written."""
        while len(self._waiting) >= waiting_max:
            self._written.clear()
            await self._written.wait()
