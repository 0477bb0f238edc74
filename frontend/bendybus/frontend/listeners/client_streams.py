"""The open streams of clients, and when each is moved: ended, and opened again by its client.

That is at the end of the process, at the age that lets new front ends get their share, when its
token expires, and when the policies no longer accept the token. In all cases the stream answers
what it owes and ends with OK; the client library continues on another one, unseen by its
application.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from bendybus.domain import errors
from bendybus.frontend.listeners import grpc_methods
from bendybus.frontend.security.authenticator import Authenticator, Caller
from bendybus.wire.draining import Drain, End

# gRPC says goodbye to a connection at its age and up to a tenth more; a stream ends after that, so
# that the client's next one is on another connection.
AGE_FACTORS: Final = (1.15, 1.35)
# Open at a time; each takes 35 KB.
STREAMS_MAX: Final = 10_000


class OpenStream:
    """A stream, its caller, and when its last whole frame came."""

    __slots__ = ("_clock", "caller", "heard_s")

    def __init__(self, caller: Caller, clock: Callable[[], float] = time.monotonic) -> None:
        self.caller = caller
        self._clock = clock
        self.heard_s = clock()

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
        self._opened = 0
        # More is in memory than anything accounts for; see `memory_guard`.
        self.pressed = False

    @contextmanager
    def opened(self, context: Any) -> Iterator[OpenStream]:
        """Hold a stream that is opened, with its caller. Raises Unauthenticated, ServerBusy.

        gRPC's own count lets a thousand more in when many come at once.
        """
        caller = self.authenticator.authenticate(grpc_methods.token(context.invocation_metadata()))
        if self.pressed:
            raise errors.ServerBusy(
                "the front end is short of memory. Retry, or run more front ends.",
                retry_after_ms=1_000,
            )
        if self._opened >= STREAMS_MAX:
            raise errors.ServerBusy(
                f"{STREAMS_MAX} streams are open on this front end. Close some, share clients, or "
                "run more front ends.",
                retry_after_ms=5_000,
            )
        self._opened += 1
        try:
            yield OpenStream(caller)
        finally:
            self._opened -= 1

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

    def recheck(self) -> None:
        """End the streams whose tokens the policies no longer accept."""
        for end, token in list(self._tokens.items()):
            if not self.authenticator.still_good(token):
                end()

    def move_silent(self, silent_s: float, now_s: float) -> int:
        """Move the streams that had no whole frame for so long; return how many."""
        silent = [end for end, opened in self._open.items() if opened.heard_s <= now_s - silent_s]
        for end in silent:
            end()
        return len(silent)
