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
        self._opened = 0

    @contextmanager
    def opened(self, context: Any) -> Iterator[Caller]:
        """Hold a stream that is opened, for its caller. Raises Unauthenticated, ServerBusy.

        gRPC's own count lets a thousand more in when many come at once.
        """
        caller = self.authenticator.authenticate(grpc_methods.token(context.invocation_metadata()))
        if self._opened >= STREAMS_MAX:
            raise errors.ServerBusy(
                f"{STREAMS_MAX} streams are open on this front end. Close some, share clients, or "
                "run more front ends.",
                retry_after_ms=5_000,
            )
        self._opened += 1
        try:
            yield caller
        finally:
            self._opened -= 1

    @contextmanager
    def stream(self, caller: Caller, end: End) -> Iterator[None]:
        """Hold a stream of `caller` that `end` asks to end."""
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []
        if self._max_age_s:
            # Spread, so that streams of one connection do not all come back at once.
            age_s = self._max_age_s * random.uniform(*AGE_FACTORS)
            timers.append(loop.call_later(age_s, end))
        if caller.good_until_s is not None:
            self._tokens[end] = caller.token
            timers.append(loop.call_later(max(0.0, caller.good_until_s - self._clock()), end))
        try:
            with self.drain.stream(end):
                yield
        finally:
            self._tokens.pop(end, None)
            for timer in timers:
                timer.cancel()

    def recheck(self) -> None:
        """End the streams whose tokens the policies no longer accept."""
        for end, token in list(self._tokens.items()):
            if not self.authenticator.still_good(token):
                end()
