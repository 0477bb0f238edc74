"""The open streams of clients, and when each is moved: ended, and opened again by its client.

That is at the end of the process, at the age that lets new front ends get their share, when its
token expires, and when the policies no longer accept the token. In all cases the stream answers
what it owes and ends with OK; the client library continues on another one, unseen by its
application.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Any, Final

from bendybus.domain import errors
from bendybus.domain.limits import KB
from bendybus.frontend.core.call_ledger import Places
from bendybus.frontend.listeners import grpc_methods
from bendybus.frontend.security.authenticator import Authenticator, Caller
from bendybus.wire.draining import Drain, End

# gRPC says goodbye to a connection at its age and up to a tenth more; a stream ends after that, so
# that the client's next one is on another connection.
AGE_FACTORS: Final = (1.15, 1.35)
# Open at a time.
STREAMS_MAX: Final = 10_000
# What an idle one takes, and a connection, with TLS.
STREAM_BYTES: Final = 40 * KB
CONNECTION_BYTES: Final = 60 * KB


class OpenStream:
    """A stream, its caller, and when its last whole frame came."""

    __slots__ = ("_clock", "caller", "heard_s", "moved")

    def __init__(self, caller: Caller, clock: Callable[[], float] = time.monotonic) -> None:
        self.caller = caller
        self._clock = clock
        self.heard_s = clock()
        # Asked to end because it was silent.
        self.moved = False

    def heard(self) -> None:
        """Take note of a whole frame."""
        self.heard_s = self._clock()


class ClientStreams:
    """All of a front end. On the loop only."""

    def __init__(
        self, authenticator: Authenticator, max_age_s: float, clock: Callable[[], float] = time.time
    ) -> None:
        self.authenticator = authenticator
        self.drain = Drain()
        self._max_age_s = max_age_s
        self._clock = clock
        self._tokens: dict[End, str] = {}
        self._open: dict[End, OpenStream] = {}
        self._places = Places(STREAMS_MAX)
        self._connections: Counter[str] = Counter()
        # More is in memory than anything accounts for; see `memory_guard`. Where only some policies
        # are suspected, only theirs are not opened.
        self.pressed = False
        self.suspected: Set[str] | None = None

    @contextmanager
    def opened(self, context: Any) -> Iterator[OpenStream]:
        """Hold a stream that is opened, with its caller. Raises Unauthenticated, ServerBusy.

        gRPC's own count lets a thousand more in when many come at once.
        """
        caller = self.authenticator.authenticate(grpc_methods.token(context.invocation_metadata()))
        if self.pressed and (self.suspected is None or caller.policy in self.suspected):
            raise errors.ServerBusy(
                "the front end is short of memory. Retry, or run more front ends.",
                retry_after_ms=1_000,
            )
        if not self._places.take(caller.policy):
            raise errors.ServerBusy(
                f"{self._places.taken} streams are open on this front end, as many as are allowed "
                "to one policy, or to all. Close some, share clients, or run more front ends.",
                retry_after_ms=5_000,
            )
        connection = context.peer()
        self._connections[connection] += 1
        try:
            yield OpenStream(caller)
        finally:
            self._places.give(caller.policy)
            self._connections[connection] -= 1
            if not self._connections[connection]:
                del self._connections[connection]

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
            self._tokens[end] = caller.token
            timers.append(loop.call_later(max(0.0, caller.good_until_s - self._clock()), end))
        self._open[end] = opened
        try:
            with self.drain.stream(end):
                yield
        finally:
            del self._open[end]
            self._tokens.pop(end, None)
            for timer in timers:
                timer.cancel()

    def idle_bytes(self) -> int:
        """Return what streams, and connections that have some, take without what they carry."""
        return STREAM_BYTES * self._places.taken + CONNECTION_BYTES * len(self._connections)

    def recheck(self) -> None:
        """End the streams whose tokens the policies no longer accept."""
        for end, token in list(self._tokens.items()):
            if not self.authenticator.still_good(token):
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
