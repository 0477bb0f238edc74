"""The open streams of clients, and when each is moved: ended, and opened again by its client.

That is at the end of the process, at the age that lets new front ends get their share, when its
token expires, and when the policies no longer accept the token. In all cases the stream answers
what it owes and ends with OK; the client library continues on another one, unseen by its
application.

Moved are also streams whose frames are never completed, when they take much memory (`MemoryGuard`).

gRPC reads the frames of streams for us, as many bytes as their senders announce, and tells nothing
before one is whole. So no room can be taken for a frame that is half sent. Memory
that is not accounted for shows it: then no streams are opened, and those are moved of which no
frame was whole for a second; gRPC drops what it has of them. Clients whose streams are silent
because they wait for messages open them again and notice nothing.

So that one caller does not keep others from their streams, that is done to one policy at a time,
whose silent streams are enough to explain it: first to one that was found to be the reason before.
Only where memory grows nonetheless it is done to all at once.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any, Final, Protocol

from bendybus.domain import errors, limits
from bendybus.domain.limits import KB, MB
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.listeners import grpc_methods
from bendybus.frontend.listeners.request_memory import Frames, FrameT
from bendybus.frontend.listeners.request_values import Context
from bendybus.frontend.security.authenticator import Authenticator, Caller
from bendybus.wire import contract_versions, memory
from bendybus.wire.streams import Drain, End

logger = logging.getLogger(__name__)
# gRPC says goodbye to a connection at its age and up to a tenth more; a stream ends after that, so
# that the client's next one is on another connection.
AGE_FACTORS: Final = (1.15, 1.35)
# What an idle one takes, and a connection, with TLS.
STREAM_BYTES: Final = 40 * KB
CONNECTION_BYTES: Final = 60 * KB
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


class StreamContext(Protocol):
    """What is read of the call that a stream is."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """Return what its caller sent before the first frame."""

    def peer(self) -> str:
        """Return the address of its connection."""


class OpenStream:
    """A stream, its caller, and when its last whole frame came."""

    __slots__ = ("_clock", "_frames", "_quota", "caller", "heard_s", "holder", "moved")

    def __init__(
        self,
        caller: Caller,
        quota: Quota,
        holder: Holder,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.caller = caller
        self._quota = quota
        self.holder = holder
        self._frames: Frames[Any] | None = None
        self._clock = clock
        self.heard_s = clock()
        # Asked to end because it was silent.
        self.moved = False

    def heard(self) -> None:
        """Take note of a whole frame."""
        self.heard_s = self._clock()

    def frames(self, context: Context, kind: type[FrameT]) -> Frames[FrameT]:
        """Return the frames of its client. Call it once."""
        made = Frames(self._quota, self.holder, context.read, kind, self.heard)
        self._frames = made
        return made

    def close(self) -> None:
        """Give back what its latest frame holds."""
        if self._frames is not None:
            self._frames.close()


class ClientStreams:
    """All of a front end. On the loop only."""

    def __init__(
        self,
        authenticator: Authenticator,
        max_age_s: float,
        clock: Callable[[], float] = time.time,
        quota: Quota | None = None,
    ) -> None:
        self.authenticator = authenticator
        self._quota = quota or Quota()
        self.drain = Drain()
        self._max_age_s = max_age_s
        self._clock = clock
        self._open: dict[End, OpenStream] = {}
        # More is in memory than anything accounts for; see `MemoryGuard`. Where only some policies
        # are suspected, only theirs are not opened.
        self.pressed = False
        self.suspected: Set[str] | None = None

    @contextmanager
    def opened(self, context: StreamContext) -> Iterator[OpenStream]:
        """Hold a stream that is opened, with its caller.

        gRPC's own count lets a thousand more in when many come at once. Raises Unauthenticated,
        ServerBusy, and InvalidOperation for a client of a version that this one does not work with.
        """
        metadata = context.invocation_metadata()
        caller = self.authenticator.authenticate(grpc_methods.token(metadata))
        contract_versions.CLIENT.check_caller(metadata)
        if self.pressed and (self.suspected is None or caller.policy in self.suspected):
            raise errors.ServerBusy(
                "the front end is short of memory. Retry, or run more front ends.",
                retry_after_ms=1_000,
            )
        holder = Holder(context.peer(), caller.policy)
        self._quota.is_known(holder.connection)
        streams = self._quota.streams
        if not streams.take(holder, 1):
            raise errors.ServerBusy(
                f"{streams.held} streams are open on this front end, as many as are allowed to one "
                "connection, to one policy, or to all. Close some, share clients, or run more "
                "front ends.",
                retry_after_ms=5_000,
            )
        opened = OpenStream(caller, self._quota, holder)
        try:
            yield opened
        finally:
            opened.close()
            streams.give(holder, 1)

    @contextmanager
    def stream(self, opened: OpenStream, end: End) -> Iterator[None]:
        """Hold a stream that `end` asks to end."""
        caller = opened.caller
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []
        if self._max_age_s:
            # Spread, so that streams of one connection do not all come back at once.
            age_s = self._max_age_s * random.uniform(*AGE_FACTORS)
            timers.append(loop.call_later(age_s, end))
        if caller.good_until_s is not None:
            timers.append(loop.call_later(max(0.0, caller.good_until_s - self._clock()), end))
        self._open[end] = opened
        try:
            with self.drain.stream(end):
                yield
        finally:
            del self._open[end]
            for timer in timers:
                timer.cancel()

    def idle_bytes(self) -> int:
        """Return what streams, and connections that have some, take without what they carry."""
        streams = self._quota.streams
        return STREAM_BYTES * streams.held + CONNECTION_BYTES * streams.connections

    def recheck(self) -> None:
        """End the streams whose tokens the policies no longer accept, or allow something else.

        Their clients open them again, with what is allowed now.
        """
        for end, opened in list(self._open.items()):
            if not self.authenticator.allows_the_same(opened.caller):
                end()

    def silent(self, silent_s: float, now_s: float) -> Counter[str]:
        """Return how many streams had no whole frame for so long, by policy."""
        return Counter(
            opened.caller.policy
            for opened in self._open.values()
            if opened.heard_s <= now_s - silent_s
        )

    def move_silent(self, silent_s: float, now_s: float, policies: Set[str]) -> int:
        """Move the streams of policies that had no whole frame for so long; return how many.

        One that was moved and is still there, as its client reads nothing, counts again; it is not
        asked again, since what it is told stays in memory.
        """
        silent = [
            (end, opened)
            for end, opened in self._open.items()
            if opened.caller.policy in policies and opened.heard_s <= now_s - silent_s
        ]
        for end, opened in silent:
            if not opened.moved:
                opened.moved = True
                end()
        return len(silent)


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


async def watch_memory(
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
        found, now_s = memory.resident_bytes(), time.monotonic()
        resident = resident if found is None else found
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
