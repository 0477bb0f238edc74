"""All rooms of a front end, the turns of its loop, and a lock per policy for walking requests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Hashable

from bendybus.frontend.core.quota import bounds
from bendybus.frontend.core.quota.room import Room
from bendybus.frontend.core.quota.turns import Turns


class Quota:
    """The rooms of a front end. `by_policy`: whether its callers have policies."""

    def __init__(self, *, by_policy: bool = True) -> None:
        def room(of: bounds.Bounds) -> Room:
            return Room(of, by_policy=by_policy)

        self.requests, self.frames = room(bounds.REQUESTS), room(bounds.FRAMES)
        self.answers = room(bounds.ANSWERS)
        # Calls that wait for messages, a minute and more, have their own: others do not wait for
        # those.
        self.receives = room(bounds.RECEIVES)
        self.calls, self.streams = room(bounds.CALLS), room(bounds.STREAMS)
        self.open_calls = room(bounds.OPEN_CALLS)
        self.sends, self.settling = room(bounds.SENDS), room(bounds.TOKENS)
        self.transactions = room(bounds.TRANSACTIONS)
        self.transaction_bytes = room(bounds.TRANSACTION_BYTES)
        self.incomplete, self.links = room(bounds.INCOMPLETE), room(bounds.LINKS)
        self._largest_bytes = 0
        self.turns = Turns()
        # By connection of gRPC: called when its client has presented a valid token.
        self.strangers: dict[Hashable, Callable[[], None]] = {}
        # By policy: held while a request is walked element by element, and how many wait.
        self._walking: dict[str, tuple[asyncio.Lock, int]] = {}

    def accounted_bytes(self) -> int:
        """Return the bytes that are held, except by links."""
        rooms = (self.requests, self.frames, self.answers, self.receives, self.sends)
        return sum(each.held for each in (*rooms, self.transaction_bytes, self.incomplete))

    def is_known(self, connection: Hashable) -> None:
        """Take note that a client of gRPC has presented a valid token."""
        known = self.strangers.pop(connection, None)
        if known is not None:
            known()

    def expect(self, message_bytes: int) -> None:
        """Make room for messages of this size to come in pieces."""
        if message_bytes > self._largest_bytes:
            self._largest_bytes = message_bytes
            self.incomplete.use(bounds.incomplete(message_bytes))

    @contextlib.asynccontextmanager
    async def walking(self, policy: str) -> AsyncIterator[None]:
        """Walk one request of a policy at a time; those of other policies go on beside it."""
        lock, users = self._walking.get(policy, (asyncio.Lock(), 0))
        self._walking[policy] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._walking.pop(policy)
            if users > 1:
                self._walking[policy] = lock, users - 1
