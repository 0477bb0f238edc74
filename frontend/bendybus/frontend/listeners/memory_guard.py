"""Ends streams whose frames are never completed, when they take much memory.

gRPC reads the frames of streams for us, as many bytes as their senders announce, and tells nothing
before one is whole. So nothing can be taken from a ledger for a frame that is half sent. Memory
that no ledger accounts for shows it: then no streams are opened, and those are moved of which no
frame was whole for a second; gRPC drops what it has of them. Clients whose streams are silent
because they wait for messages open them again and notice nothing.

So that one caller does not keep others from their streams, that is done to one policy at a time,
whose silent streams are enough to explain it: first to one that was found to be the reason before.
Only where memory grows nonetheless it is done to all at once.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Set
from typing import Final

from bendybus.domain import limits
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
# The least part of that free memory that the silent streams of a suspected policy could explain.
SUSPECT_PART: Final = 8
# How long streams that were opened a moment ago are waited for to be silent, too.
PATIENCE_S: Final = 1.5
# How long a policy stays the first that is suspected.
BLAME_S: Final = 600.0
# Moved streams end within a second; their memory is free soon after.
PAUSE_S: Final = 1.5


class MemoryGuard:
    """Decides when no more streams are opened, and when whose silent ones are moved. Pure."""

    def __init__(self, base_bytes: int, request_bytes: int = 0) -> None:
        self._free_bytes = max(FREE_BYTES, FREE_REQUESTS * request_bytes)
        self._frame_bytes = max(request_bytes, limits.SMALL_GRPC_FRAME_BYTES_MAX)
        # Whether more is in memory than is accounted for; and whether much more.
        self.pressed = self._urgent = False
        self._base_bytes = base_bytes
        self._resident_bytes = base_bytes
        self._pressed_s = self._again_s = self._vain_s = 0.0
        # Policies that were moved since it is pressed, and the one of the last move, if it was of
        # one; and until when others are suspected later than those that were the reason.
        self._moved: set[str] = set()
        self._last: str | None = None
        self._blamed: dict[str, float] = {}

    @property
    def suspected(self) -> Set[str] | None:
        """The policies whose streams are not opened now; None: those of all."""
        suspected = {*self._moved, *self._blamed}
        return None if self._urgent or not suspected else suspected

    def look(
        self, resident_bytes: int, accounted_bytes: int, now_s: float, idle_bytes: int = 0
    ) -> bool:
        """Take what is in memory; return whether silent streams are to be moved.

        `idle_bytes`: what connections and streams take without what they carry.
        """
        self._base_bytes = min(self._base_bytes, resident_bytes)
        self._resident_bytes = resident_bytes
        expected = self._base_bytes + COPIES * accounted_bytes + idle_bytes
        over = resident_bytes > expected + self._free_bytes
        self._urgent = resident_bytes > expected + 2 * self._free_bytes
        if over and not self.pressed:
            self._pressed_s = self._again_s = now_s
            self._vain_s = now_s + PAUSE_S
            self._last = None
            self._moved.clear()
        elif self.pressed and not over and self._last is not None:
            self._blamed[self._last] = now_s + BLAME_S
        self._blamed = {each: until_s for each, until_s in self._blamed.items() if until_s > now_s}
        self.pressed = over
        return over and (now_s >= self._again_s or self._urgent)

    def whose(self, silent: Mapping[str, int], now_s: float) -> Set[str]:
        """Return the policies whose silent streams are moved now; `silent`: how many they have."""
        if self._urgent:
            return silent.keys()
        least = self._free_bytes // SUSPECT_PART
        able = [each for each, count in silent.items() if count * self._frame_bytes >= least]
        if able:
            fresh = [each for each in able if each not in self._moved] or able
            return {max(fresh, key=lambda each: (each in self._blamed, silent[each]))}
        return set() if now_s < self._pressed_s + PATIENCE_S else silent.keys()

    def moved(self, policies: Set[str], count: int, now_s: float) -> None:
        """Take note that so many streams of policies were moved.

        As none of theirs is opened meanwhile, what stays when none is silent is not theirs.
        """
        if count:
            self._moved |= policies
            self._last = next(iter(policies)) if len(policies) == 1 else None
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
        if guard.look(resident, accounted_bytes(), now_s, streams.idle_bytes()):
            whose = guard.whose(streams.silent(SILENT_S, now_s), now_s)
            moved = streams.move_silent(SILENT_S, now_s, whose)
            guard.moved(whose, moved, now_s)
            if moved:
                logger.warning(
                    "front end: %d MB in memory: moving %d streams with no whole frame for %.0f s",
                    resident // MB,
                    moved,
                    SILENT_S,
                    extra={"action": "move-silent", "streams": moved, "policies": len(whose)},
                )
        streams.pressed, streams.suspected = guard.pressed, guard.suspected
