"""A cache that the receivers of one queue share, with its timer and its way to the partitions."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from bendybus.domain import errors
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.credit import Owner
from bendybus.frontend.core.lease import Lease, SessionLease, lease_of_messages
from bendybus.frontend.core.partition_asks import (
    Action,
    AskPartition,
    GiveBack,
    HandOver,
    WithdrawAsk,
)
from bendybus.frontend.core.receive_cache import Cache, HeldBytes
from bendybus.frontend.upstreams.upstream import now_ms

if TYPE_CHECKING:
    from bendybus.frontend.core.receiver import Receiver

REASK_S: Final = 0.05
# Clocks of whole milliseconds: an alarm rings when its time is surely over.
ALARM_LATE_MS: Final = 1

# Entity, sub-queue, mode, session.
Key = tuple[str, SubQueue, ReceiveMode, bytes]


class CacheHost(Protocol):
    """What a cache needs of the front end."""

    directory: Directory
    held: HeldBytes

    def available(self, partition: int) -> bool:
        """Whether a partition can be asked."""

    def next_ask_id(self) -> int:
        """Return an id for an ask."""

    def open_ask(self, shared: "SharedCache", action: AskPartition) -> None:
        """Ask a partition."""

    def withdraw(self, action: WithdrawAsk) -> None:
        """Take an ask back."""

    def give_back(self, action: GiveBack) -> None:
        """Release messages that no client will see."""

    def hand_over(self, shared: "SharedCache", action: HandOver) -> None:
        """Tell the partitions, then hand over."""

    def unreachable(self, entity: Entity, owner: Owner = None) -> BusError:
        """Return the error for a queue of which no partition answered."""

    def fail(self, shared: "SharedCache", error: BusError) -> None:
        """End a cache and its receivers."""


class SharedCache:
    """The cache of one (entity, sub-queue, mode): executes its actions, keeps its timer."""

    # Of a cache that is one session's; see `sessions`.
    session_token = b""

    def __init__(
        self,
        host: CacheHost,
        entity: Entity,
        sub_queue: SubQueue,
        mode: ReceiveMode,
        *,
        partitions: Sequence[int] | None = None,
        available: Callable[[int], bool] | None = None,
        lease: SessionLease | None = None,
    ) -> None:
        self._host = host
        self.entity = entity
        self.sub_queue = sub_queue
        self.mode = mode
        self.closed = False
        # Those of clients that are open.
        self.receivers: set[Receiver] = set()
        # How many of them each connection has.
        self._owners: Counter[Owner] = Counter()
        # Whether what is handed over waits for the partition's confirmation.
        self.confirms = self.deletes
        self.cache = Cache(
            partitions or entity.partitions(),
            available or host.available,
            host.next_ask_id,
            now_ms(),
            host.held,
            lease,
        )
        # Its time is kept here: the handle of uvloop has none for a time that is over already.
        self._timer: asyncio.Handle | None = None
        self._rings_ms = 0

    def enter(self, receiver: "Receiver") -> None:
        """Take note of a receiver that is open."""
        self.receivers.add(receiver)
        self._owners[receiver.owner] += 1

    def leave(self, receiver: "Receiver") -> bool:
        """Take note that one is closed; return whether its connection has no other one here."""
        if receiver in self.receivers:
            self.receivers.discard(receiver)
            self._owners[receiver.owner] -= 1
            if not self._owners[receiver.owner]:
                del self._owners[receiver.owner]
        return receiver.owner not in self._owners

    @property
    def key(self) -> Key:
        """What it is the cache of."""
        return self.entity.uid, self.sub_queue, self.mode, self.session_token

    @property
    def deletes(self) -> bool:
        """Whether messages are deleted as they are handed over."""
        return self.mode is ReceiveMode.RECEIVE_AND_DELETE

    def lease_of(self, until_ms: int, lock_ms: int, now_ms: int) -> Lease:
        """Return the lease of messages whose locks end then, and last so long."""
        return lease_of_messages(until_ms, lock_ms)

    def left_unconfirmed(self, tokens: bytes) -> None:
        """Take messages of which it is unknown whether they are delivered: their locks end."""

    def unanswered(self, owner: Owner) -> BusError:
        """Return why it is not known whether there are messages."""
        return self._host.unreachable(self.entity, owner)

    def refused(self, ask_id: int, partition: int, error: BusError) -> None:
        """Take a partition's refusal of an ask."""
        self.perform(self.cache.ask_ended(ask_id, partition, now_ms(), answered=False))
        if error.retryable and not isinstance(error, errors.EntityDisabled):
            # Another generation, a fence: the front end knows more in a moment.
            asyncio.get_running_loop().call_later(REASK_S, self.again, partition)
        else:
            self._host.fail(self, error)

    def again(self, partition: int) -> None:
        """Ask a partition again, with the entity as it is known now."""
        current = self._host.directory.by_uid(self.entity.uid)
        if current is None:
            gone = errors.EntityNotFound(f"{self.entity.title} was deleted.")
            self._host.fail(self, gone)
            return
        self.entity = current
        self.perform(self.cache.partition_back(partition, now_ms()))

    def perform(self, actions: Sequence[Action]) -> None:
        """Do what the rules decided, and set the next alarm."""
        for action in actions:
            if isinstance(action, HandOver):
                self._hand_over(action)
            elif isinstance(action, AskPartition):
                self._host.open_ask(self, action)
            elif isinstance(action, WithdrawAsk):
                self._host.withdraw(action)
            else:
                assert isinstance(action, GiveBack), action
                self._host.give_back(action)
        self._set_alarm()

    def close(self) -> None:
        """Give everything back."""
        self.closed = True
        self.perform(self.cache.close())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hand_over(self, action: HandOver) -> None:
        if action.slices:
            self._host.hand_over(self, action)
            return
        receiver, _ = action.credit.tag
        error = None
        if action.unanswered:
            error = self.unanswered(receiver.owner)
        receiver.end(action.credit, error)

    def _set_alarm(self) -> None:
        due = self.cache.next_due()
        if due is None:
            return
        now = now_ms()
        # What is due already does not put off the alarm that is about to ring.
        ring_ms = max(due, now) + ALARM_LATE_MS
        if self._timer is not None:
            # One that rings too early costs less than setting it again for every receive.
            if self._rings_ms <= ring_ms:
                return
            self._timer.cancel()
        self._rings_ms = ring_ms
        # At a time, not after one: a pause right here would make it late, and be set again.
        self._timer = asyncio.get_running_loop().call_at(ring_ms / 1_000, self._alarm)

    def _alarm(self) -> None:
        self._timer = None
        self.perform(self.cache.due(now_ms()))
