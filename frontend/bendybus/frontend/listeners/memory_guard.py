"""Ends streams whose frames are never completed, when they take much memory.

gRPC reads the frames of streams for us, as many bytes as their senders announce, and tells nothing
before one is whole. So nothing can be taken from a ledger for a frame that is half sent. Memory
that no ledger accounts for shows it: then no streams are opened, and those are moved of which no
frame was whole for a second; gRPC drops what it has of them. Clients whose streams are silent
because they wait for messages open them again and notice nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from bendybus.domain.limits import MB
from bendybus.frontend.listeners.client_streams import ClientStreams
from bendybus.wire import memory

logger = logging.getLogger(__name__)
CHECK_S: Final = 0.25
# What a process may hold beside what it had when it was ready, and beside what is accounted for;
# and as many requests on their way as this, where they may be large.
FREE_BYTES: Final = 256 * MB
FREE_REQUESTS: Final = 16
# In memory a byte of a request is there as it came and as it was parsed.
COPIES: Final = 2
# A stream without a whole frame for so long may hold part of one.
SILENT_S: Final = 1.0
# Moved streams end within a second; their memory is free soon after.
PAUSE_S: Final = 1.5


class MemoryGuard:
    """Decides when no more streams are opened, and when silent ones are moved. Pure."""

    def __init__(self, base_bytes: int, request_bytes: int = 0) -> None:
        self._free_bytes = max(FREE_BYTES, FREE_REQUESTS * request_bytes)
        # Whether more is in memory than is accounted for.
        self.pressed = False
        self._base_bytes = base_bytes
        self._resident_bytes = base_bytes
        self._again_s = 0.0
        self._vain_s = 0.0

    def look(self, resident_bytes: int, accounted_bytes: int, now_s: float) -> bool:
        """Take what is in memory; return whether silent streams are to be moved."""
        self._base_bytes = min(self._base_bytes, resident_bytes)
        self._resident_bytes = resident_bytes
        over = resident_bytes > self._base_bytes + COPIES * accounted_bytes + self._free_bytes
        if over and not self.pressed:
            self._again_s, self._vain_s = now_s, now_s + PAUSE_S
        self.pressed = over
        return over and now_s >= self._again_s

    def moved(self, count: int, now_s: float) -> None:
        """Take note that so many streams were moved.

        As none is opened meanwhile, what stays when none is silent is not theirs.
        """
        if count:
            self._again_s = self._vain_s = now_s + PAUSE_S
        elif now_s >= self._vain_s:
            self.pressed, self._base_bytes = False, self._resident_bytes


async def run(
    streams: ClientStreams, accounted_bytes: Callable[[], int], request_bytes: int
) -> None:
    """Look at the memory of this process until cancelled; nothing where the system tells none.

    `request_bytes`: the largest request that the server takes.
    """
    resident = memory.resident_bytes()
    if resident is None:
        return
    guard = MemoryGuard(resident, request_bytes)
    while True:
        await asyncio.sleep(CHECK_S)
        if streams.pressed:
            await asyncio.to_thread(memory.trim)
        resident, now_s = memory.resident_bytes() or 0, time.monotonic()
        moves = guard.look(resident, accounted_bytes(), now_s)
        if moves:
            moved = streams.move_silent(SILENT_S, now_s)
            guard.moved(moved, now_s)
            logger.warning(
                "front end: %d MB in memory: moving %d streams that had no whole frame for %.0f s",
                resident // MB,
                moved,
                SILENT_S,
                extra={"action": "move-silent", "streams": moved},
            )
        streams.pressed = guard.pressed
