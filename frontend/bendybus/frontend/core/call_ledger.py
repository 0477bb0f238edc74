"""What unary calls make a front end hold: bytes of requests, and of answers that are not read yet.

And what AMQP connections do: the state of their sessions and links.

Each call takes room before memory is taken for it: of its connection, of its policy, and of all. A
holder that has nothing gets room for one thing of any size; so a large message passes, one at a
time. What streams hold is in `flow_control`. On the loop only; knows no protocol.
"""

import asyncio
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from typing import Final, NamedTuple

from bendybus.domain.limits import KB, MB


class Holder(NamedTuple):
    """Who holds something: a connection, and the policy of its caller ("" where there is none)."""

    connection: Hashable
    policy: str


# What bytes are counted by: a connection of a policy, a policy, and None: all.
_Level = Holder | str | None


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
# Sessions and links of AMQP, by what the state of each takes while it is idle (measured: 2.5 KB for
# both together). A connection may have 5,000 of each.
LINK_BYTES: Final = 4 * KB
LINKS: Final = Bounds(10_000 * LINK_BYTES, 36_000 * LINK_BYTES, 40_000 * LINK_BYTES)
# Unary calls under way.
CALLS_MAX: Final = 10_000


class _Waiting:
    """The calls of one policy that wait for room, by connection; the one served last is the last.

    `least_bytes`: no call that its connection has room for needs less.
    """

    def __init__(self) -> None:
        self.calls: OrderedDict[Holder, deque[tuple[int, asyncio.Future[None]]]] = OrderedDict()
        self.least_bytes = sys.maxsize


class Room:
    """Room of one kind.

    Calls that wait for it are served in order: each policy, and each of its connections, in turn.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._held: Counter[_Level] = Counter()
        # By policy; the one that was served last is the last.
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()

    @property
    def held(self) -> int:
        """Bytes that all hold together."""
        return self._held[None]

    def take(self, holder: Holder, size_bytes: int) -> bool:
        """Take room if there is some; return whether there was."""
        if not self._fits(self._levels(holder), size_bytes):
            return False
        self._count(holder, size_bytes)
        return True

    def hold(self, holder: Holder, size_bytes: int) -> bool:
        """Take room, whether there is some or not; return whether there was."""
        fits = self._fits(self._levels(holder), size_bytes)
        self._count(holder, size_bytes)
        return fits

    async def wait(self, holder: Holder, size_bytes: int) -> None:
        """Take room as soon as there is some."""
        waiting = self._waiting.get(holder.policy)
        if (waiting is None or holder not in waiting.calls) and self.take(holder, size_bytes):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if waiting is None:
            waiting = self._waiting[holder.policy] = _Waiting()
        call = (size_bytes, future)
        waiting.calls.setdefault(holder, deque()).append(call)
        self._note_least(waiting, holder)
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._gave_up(holder, call)
            else:
                self.give(holder, size_bytes)
            raise

    def give(self, holder: Holder, size_bytes: int) -> None:
        """Give room back, to those who wait for it."""
        self._count(holder, -size_bytes)
        waiting = self._waiting.get(holder.policy)
        if waiting is not None and holder in waiting.calls:
            self._note_least(waiting, holder)
        self._serve()

    def _gave_up(self, holder: Holder, call: "tuple[int, asyncio.Future[None]]") -> None:
        """Forget a call that waits no longer; what is behind it may need less."""
        waiting = self._waiting[holder.policy]
        calls = waiting.calls[holder]
        first = calls[0] is call
        calls.remove(call)
        if calls and first:
            self._note_least(waiting, holder)
            self._serve()
        elif not calls:
            self._forget(waiting, holder)

    def _note_least(self, waiting: _Waiting, holder: Holder) -> None:
        """Take note of what the first call of a connection needs, if that is what it waits for."""
        size_bytes = waiting.calls[holder][0][0]
        if self._fits(((holder, self._bounds.connection),), size_bytes):
            waiting.least_bytes = min(waiting.least_bytes, size_bytes)

    def _serve(self) -> None:
        turn = list(self._waiting)
        while turn:
            turn = [each for each in turn if self._serve_one(each)]

    def _serve_one(self, policy: str) -> bool:
        """Serve one call of a policy; return whether another one may be served.

        Costs nothing while there is no room for the smallest, however many connections wait.
        """
        waiting = self._waiting[policy]
        shared = self._levels(Holder(None, policy))[1:]
        if not self._fits(shared, waiting.least_bytes):
            return False
        least_bytes = sys.maxsize
        for holder, calls in waiting.calls.items():
            size_bytes, future = calls[0]
            # One that is cancelled is about to be forgotten.
            if not future.cancelled() and self.take(holder, size_bytes):
                calls.popleft()
                future.set_result(None)
                if not calls:
                    return self._forget(waiting, holder)
                waiting.calls.move_to_end(holder)
                self._waiting.move_to_end(policy)
                self._note_least(waiting, holder)
                return True
            if self._fits(((holder, self._bounds.connection),), size_bytes):
                least_bytes = min(least_bytes, size_bytes)
        waiting.least_bytes = least_bytes
        return False

    def _forget(self, waiting: _Waiting, holder: Holder) -> bool:
        """Forget a connection of which no call waits; return whether others of its policy do."""
        del waiting.calls[holder]
        if not waiting.calls:
            del self._waiting[holder.policy]
        return bool(waiting.calls)

    def _levels(self, holder: Holder) -> tuple[tuple[_Level, int], ...]:
        bounds = self._bounds
        return (
            (holder, bounds.connection),
            (holder.policy, bounds.policy),
            (None, bounds.all),
        )

    def _fits(self, levels: tuple[tuple[_Level, int], ...], size_bytes: int) -> bool:
        return all(
            not self._held[name] or self._held[name] + size_bytes <= most for name, most in levels
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
        self.links = Room(LINKS)
        self.places = Places(CALLS_MAX)
