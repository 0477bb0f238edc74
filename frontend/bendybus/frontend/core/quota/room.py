"""Room of one kind: what connections, policies, entities and all hold of it, within its bounds.

A caller takes room before it is used, and gives it back. One that waits for room is served in its
turn: each policy, and each of its connections, one after the other. On the loop only; knows no
protocol.
"""

import asyncio
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from typing import NamedTuple

from bendybus.frontend.core.quota.bounds import UNBOUNDED, Bounds


class Holder(NamedTuple):
    """A connection, and the policy of its caller ("" before it has one)."""

    connection: Hashable
    policy: str


class _Waiting:
    """The calls of one policy that wait for room, by connection; the one served last is the last.

    `least_bytes`: no call that its connection has room for needs less.
    """

    def __init__(self) -> None:
        self.calls: OrderedDict[Holder, deque[tuple[int, asyncio.Future[None]]]] = OrderedDict()
        self.least_bytes = sys.maxsize


class Room:
    """Room of one kind. `by_policy`: whether callers have policies; else all are of one."""

    def __init__(self, bounds: Bounds, *, by_policy: bool = True) -> None:
        # The total.
        self.held = 0
        # A connection that uses two policies is counted as two.
        self._connections = Counter[Holder]()
        self._policies = Counter[str]()
        self._entities = Counter[str]()
        self._by_policy = by_policy
        # By policy; the one that was served last is the last.
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self.use(bounds)

    def use(self, bounds: Bounds) -> None:
        """Go on with other bounds."""
        self._bounds = bounds
        self._policy_max = bounds.policy if self._by_policy else UNBOUNDED

    @property
    def connections(self) -> int:
        """How many connections hold something."""
        return len(self._connections)

    def of(self, holder: Holder) -> int:
        """Return the bytes, or the count, of a connection."""
        return self._connections.get(holder, 0)

    def has(self, holder: Holder, size: int, entity: str = "") -> bool:
        """Whether there is room."""
        mine, theirs = self._connections.get(holder, 0), self._policies.get(holder.policy, 0)
        about, most = self._entities.get(entity, 0), self._bounds
        return not (
            (self.held and self.held + size > most.all)
            or (mine and mine + size > most.connection)
            or (theirs and theirs + size > self._policy_max)
            or (about and about + size > most.entity)
        )

    def take(self, holder: Holder, size: int, entity: str = "") -> bool:
        """Take room if there is some; return whether there was."""
        if not self.has(holder, size, entity):
            return False
        self._count(holder, size, entity)
        return True

    def hold(self, holder: Holder, size: int, entity: str = "") -> bool:
        """Take room even beyond the bounds; return whether it was within them."""
        fits = self.has(holder, size, entity)
        self._count(holder, size, entity)
        return fits

    def waiting(self, holder: Holder) -> int:
        """Return how many calls of a connection wait for room."""
        found = self._waiting.get(holder.policy)
        return 0 if found is None else len(found.calls.get(holder, ()))

    async def wait(self, holder: Holder, size: int) -> None:
        """Take room as soon as there is some."""
        waiting = self._waiting.get(holder.policy)
        if (waiting is None or holder not in waiting.calls) and self.take(holder, size):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if waiting is None:
            waiting = self._waiting[holder.policy] = _Waiting()
        call = (size, future)
        waiting.calls.setdefault(holder, deque()).append(call)
        self._note_least(waiting, holder)
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._gave_up(holder, call)
            else:
                self.give(holder, size)
            raise

    def give(self, holder: Holder, size: int, entity: str = "") -> None:
        """Give room back, to those who wait for it."""
        self._count(holder, -size, entity)
        # Counts of zero are not kept.
        if not self._connections[holder]:
            del self._connections[holder]
        if not self._policies[holder.policy]:
            del self._policies[holder.policy]
        if entity and not self._entities[entity]:
            del self._entities[entity]
        if self._waiting:
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

    def _fits_own(self, holder: Holder, size: int) -> bool:
        mine = self._connections[holder]
        return not mine or mine + size <= self._bounds.connection

    def _note_least(self, waiting: _Waiting, holder: Holder) -> None:
        """Take note of what the first call of a connection needs, if that is what it waits for."""
        size_bytes = waiting.calls[holder][0][0]
        if self._fits_own(holder, size_bytes):
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
        size_bytes = waiting.least_bytes
        theirs = self._policies[policy]
        if (self.held and self.held + size_bytes > self._bounds.all) or (
            theirs and theirs + size_bytes > self._policy_max
        ):
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
            if self._fits_own(holder, size_bytes):
                least_bytes = min(least_bytes, size_bytes)
        waiting.least_bytes = least_bytes
        return False

    def _forget(self, waiting: _Waiting, holder: Holder) -> bool:
        """Forget a connection of which no call waits; return whether others of its policy do."""
        del waiting.calls[holder]
        if not waiting.calls:
            del self._waiting[holder.policy]
        return bool(waiting.calls)

    def _count(self, holder: Holder, size: int, entity: str) -> None:
        if not size:
            # A count of nothing would stay.
            return
        self.held += size
        self._connections[holder] += size
        self._policies[holder.policy] += size
        if entity:
            self._entities[entity] += size
