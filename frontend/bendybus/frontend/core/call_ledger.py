"""What unary calls make a front end hold: bytes of requests, and of answers that are not read yet.

Each call takes room before memory is taken for it: of its connection, of its policy, and of all. A
holder that has nothing gets room for one thing of any size; so a large message passes, one at a
time. What streams hold is in `flow_control`. On the loop only; knows no protocol.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from typing import Any, Final, NamedTuple

from bendybus.domain.limits import MB


class Holder(NamedTuple):
    """Who holds something: a connection, and the policy of its caller ("" where there is none)."""

    connection: Any
    policy: str


class Bounds(NamedTuple):
    """The bytes that a connection may hold, all connections with one policy, and all together."""

    connection: int
    policy: int
    all: int


# Requests that come slowly, and what was read of requests whose calls are under way.
REQUESTS: Final = Bounds(16 * MB, 64 * MB, 256 * MB)
# Answers that are made, and not written yet.
ANSWERS: Final = Bounds(8 * MB, 64 * MB, 128 * MB)
# What receives that wait may be answered: sixteen of 100 messages each on one connection.
RECEIVES: Final = Bounds(32 * MB, 64 * MB, 128 * MB)
# Unary calls under way.
CALLS_MAX: Final = 10_000


class Room:
    """Room of one kind. Calls that wait for it are served in order, each connection in turn."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._held: Counter[Any] = Counter()
        # By connection; the one that was served last is the last.
        self._waiting: OrderedDict[Holder, deque[tuple[int, asyncio.Future[None]]]] = OrderedDict()

    @property
    def held(self) -> int:
        """Bytes that all hold together."""
        return self._held[None]

    def take(self, holder: Holder, size_bytes: int) -> bool:
        """Take room if there is some; return whether there was."""
        if not self._fits(holder, size_bytes):
            return False
        self._count(holder, size_bytes)
        return True

    async def wait(self, holder: Holder, size_bytes: int) -> None:
        """Take room as soon as there is some."""
        waiting = self._waiting.get(holder)
        if waiting is None and self.take(holder, size_bytes):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(holder, deque()).append((size_bytes, future))
        try:
            await future
        except asyncio.CancelledError:
            if not future.cancelled():
                self.give(holder, size_bytes)
            raise

    def give(self, holder: Holder, size_bytes: int) -> None:
        """Give room back, to those who wait for it."""
        self._count(holder, -size_bytes)
        turn = list(self._waiting)
        while turn:
            turn = [each for each in turn if self._serve(each)]

    def _serve(self, holder: Holder) -> bool:
        """Serve one call of a connection; return whether another one may be served."""
        waiting = self._waiting[holder]
        while waiting and waiting[0][1].cancelled():
            waiting.popleft()
        if waiting:
            size_bytes, future = waiting[0]
            if not self.take(holder, size_bytes):
                return False
            waiting.popleft()
            future.set_result(None)
            self._waiting.move_to_end(holder)
        if not waiting:
            del self._waiting[holder]
        return bool(waiting)

    def _levels(self, holder: Holder) -> tuple[tuple[Any, int], ...]:
        bounds = self._bounds
        return (
            (holder, bounds.connection),
            (holder.policy, bounds.policy),
            (None, bounds.all),
        )

    def _fits(self, holder: Holder, size_bytes: int) -> bool:
        return all(
            not self._held[name] or self._held[name] + size_bytes <= most
            for name, most in self._levels(holder)
        )

    def _count(self, holder: Holder, size_bytes: int) -> None:
        for name, _ in self._levels(holder):
            self._held[name] += size_bytes
            if not self._held[name]:
                del self._held[name]


class Places:
    """Places of one kind, of which one policy may have all but a tenth."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        # By all.
        self.taken = 0

    def take(self, policy: str) -> bool:
        """Take a place if there is one; return whether there was. "": there are no policies."""
        share = self._most - (self._most // 10 if policy else 0)
        if self.taken >= self._most or self._taken[policy] >= share:
            return False
        self._taken[policy] += 1
        self.taken += 1
        return True

    def give(self, policy: str) -> None:
        """Give a place back."""
        self.taken -= 1
        self._taken[policy] -= 1
        if not self._taken[policy]:
            del self._taken[policy]


class CallLedger:
    """The room, and the places, of all unary calls of a front end."""

    def __init__(self) -> None:
        self.requests = Room(REQUESTS)
        self.answers = Room(ANSWERS)
        # Of calls that wait for messages, a minute and more: others do not wait for those.
        self.receives = Room(RECEIVES)
        self.places = Places(CALLS_MAX)
