"""Receives, between receivers and partitions' streams: executes the actions of `receive_cache`."""

import asyncio
import itertools
from dataclasses import dataclass
from typing import Final

from bendybus.domain import errors, forwarding, message_access
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns, lease
from bendybus.frontend.core.credit import Credit, Owner
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.partition_asks import AskPartition, GiveBack, HandOver, WithdrawAsk
from bendybus.frontend.core.quota.bounds import CACHED
from bendybus.frontend.core.receive_cache import HeldBytes
from bendybus.frontend.core.receiver import Batches, Delivery, Fail, Hand, Receiver
from bendybus.frontend.core.shared_cache import REASK_S, Key, SharedCache
from bendybus.frontend.upstreams import deliver_frames
from bendybus.frontend.upstreams.upstream import Upstream, now_ms

CHECK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Source:
    """What a receiver receives from, and how."""

    entity: str
    sub_queue: SubQueue = SubQueue.MAIN
    mode: ReceiveMode = ReceiveMode.PEEK_LOCK


class _Pending:
    """A hand-over; in delete mode it waits until the partitions have deleted its messages."""

    __slots__ = ("credit", "messages", "ready", "shared", "waiting")

    def __init__(self, shared: SharedCache, action: HandOver) -> None:
        self.shared = shared
        self.credit = action.credit
        self.messages = action.messages
        # By deliver id: partition, messages, when their locks end.
        self.waiting: dict[int, tuple[int, columns.DeliveredBatch, int]] = {}
        self.ready: list[columns.DeliveredBatch] = []


class ReceiveDispatcher:
    """All receivers of this front end."""

    def __init__(
        self, upstreams: dict[int, Upstream], directory: Directory, metrics: Metrics
    ) -> None:
        self.directory = directory
        self.metrics = metrics
        self.held = HeldBytes()
        self._upstreams = upstreams
        self._caches: dict[Key, SharedCache] = {}
        # Connections that get nothing for now, from no cache.
        self._paused: set[Owner] = set()
        self._asks: dict[int, tuple[SharedCache, int]] = {}
        self._deliveries: dict[int, _Pending] = {}
        self._ids = itertools.count(1)

    def open(self, source: Source, hand: Hand, fail: Fail, *, owner: Owner = None) -> Receiver:
        """Return a receiver of the connection `owner`.

        Raises EntityNotFound, EntityDisabled, InvalidArgument.
        """
        entity = find_receivable(self.directory, source.entity)
        message_access.check_session(entity, source.sub_queue, by_session=False)
        forwarding.check_receives(entity, source.sub_queue)
        shared = self._caches.get((entity.uid, source.sub_queue, source.mode, b""))
        if shared is None:
            shared = SharedCache(self, entity, source.sub_queue, source.mode)
            self._caches[shared.key] = shared
        return self._receiver(shared, hand, fail, owner)

    def open_session(
        self, shared: SharedCache, hand: Hand, fail: Fail, *, owner: Owner = None
    ) -> Receiver:
        """Return the receiver of a session that is locked for it. Ends another one of it."""
        if (before := self._caches.get(shared.key)) is not None:
            self.fail(before, errors.SessionLockLost("the session moved to another stream."))
        self._caches[shared.key] = shared
        return self._receiver(shared, hand, fail, owner)

    def _receiver(self, shared: SharedCache, hand: Hand, fail: Fail, owner: Owner) -> Receiver:
        if owner in self._paused:
            shared.cache.pause(owner)
        receiver = Receiver(shared, owner, hand, fail)
        shared.enter(receiver)
        return receiver

    def close(self, receiver: Receiver) -> None:
        """Close a receiver; the last one of a connection releases what is cached for it."""
        shared = receiver.shared
        if receiver not in shared.receivers:
            return
        receiver.finish()
        if shared.leave(receiver):
            shared.perform(shared.cache.owner_gone(receiver.owner))

    async def receive(self, source: Source, messages: int, wait_ms: int, owner: Owner) -> Batches:
        """Receive once. Raises the domain error that says why there is nothing."""
        future: asyncio.Future[Batches] = asyncio.get_running_loop().create_future()

        def hand(delivery: Delivery) -> None:
            if future.done():
                return
            if delivery.error is None:
                future.set_result(delivery.batches)
            else:
                future.set_exception(delivery.error)

        def fail(error: BusError) -> None:
            hand(Delivery(0, (), error))

        receiver = self.open(source, hand, fail, owner=owner)
        try:
            receiver.ask(0, messages, 0, max(0, wait_ms))
            return await future
        finally:
            # Not `close`: what waits for this caller stays until it was idle for a while.
            receiver.finish()
            receiver.shared.leave(receiver)

    def fail(self, shared: SharedCache, error: BusError) -> None:
        """Close a cache and its receivers."""
        for key, found in list(self._caches.items()):
            if found is shared:
                del self._caches[key]
        shared.close()
        for receiver in list(shared.receivers):
            receiver.fail(error)

    def pause(self, owner: Owner) -> None:
        """Hand nothing to a connection until `resume`."""
        self._paused.add(owner)
        for shared in self._caches.values():
            shared.cache.pause(owner)

    def resume(self, owner: Owner) -> None:
        """Resume after a pause."""
        now = now_ms()
        self._paused.discard(owner)
        for shared in list(self._caches.values()):
            shared.perform(shared.cache.resume(owner, now))

    def cached(self) -> int:
        """Return how many messages are held ready."""
        return sum(shared.cache.cached() for shared in self._caches.values())

    async def run(self) -> None:
        """Close caches that no receiver uses, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            now = now_ms()
            for key, shared in list(self._caches.items()):
                if not shared.receivers and shared.cache.idle(now):
                    del self._caches[key]
                    shared.close()

    # For caches

    def available(self, partition: int) -> bool:
        """Whether a partition can be asked."""
        return self._upstreams[partition].available

    def next_ask_id(self) -> int:
        """Return an id for an ask."""
        return next(self._ids)

    def unreachable(self, entity: Entity, owner: Owner = None) -> BusError:
        """Return the error for a queue of which no partition answered."""
        reasons = [
            f"partition {partition}: {'; '.join(self._upstreams[partition].conditions())}"
            for partition in entity.partitions()
            if not self._upstreams[partition].available
        ]
        why = ", ".join(reasons[:3]) or "none answered in time"
        if owner in self._paused:
            why = "this connection has not read what it was given; receive less at a time"
        return errors.PartitionUnavailable(
            f"{entity.title}: no partition could be reached for messages ({why}). It is "
            "unknown whether there are any; receive again.",
            metadata={"entity": entity.name},
        )

    def open_ask(self, shared: SharedCache, action: AskPartition) -> None:
        """Ask a partition."""
        self._asks[action.ask_id] = (shared, action.partition)
        frame = deliver_frames.ask(
            partition=action.partition,
            ask_id=action.ask_id,
            entity=shared.entity,
            sub_queue=shared.sub_queue,
            mode=shared.mode,
            messages=action.messages,
            size_bytes=action.size_bytes,
            session_token=shared.session_token,
        )
        if not self._upstreams[action.partition].ask(frame):
            del self._asks[action.ask_id]
            busy = errors.ServerBusy(f"partition {action.partition}: request queue is full.")
            loop = asyncio.get_running_loop()
            loop.call_soon(shared.refused, action.ask_id, action.partition, busy)

    def withdraw(self, action: WithdrawAsk) -> None:
        """Withdraw an ask; what still comes for it is cached or released."""
        frame = deliver_frames.withdraw(action.partition, action.ask_id)
        self._upstreams[action.partition].follow(frame)

    def give_back(self, action: GiveBack) -> None:
        """Release messages that no client will see."""
        tokens = columns.tokens(action.data, action.start, action.end)
        frame = deliver_frames.release(action.partition, tokens)
        self._upstreams[action.partition].follow(frame)

    def hand_over(self, shared: SharedCache, action: HandOver) -> None:
        """Tell the partitions, then hand over: at once, or when they have deleted."""
        pending = _Pending(shared, action)
        action.credit.tag[0].handing += 1
        action.credit.handing += 1
        now = now_ms()
        for data, start, end, partition, until_ms in action.slices:
            batch = columns.cut(data, start, end)
            deliver_id = next(self._ids) if shared.confirms else 0
            frame = deliver_frames.deliver(partition, deliver_id, batch.lock_tokens)
            if not self._upstreams[partition].follow(frame):
                # Its stream has ended: the partition gives the messages to another receiver.
                continue
            if shared.confirms:
                pending.waiting[deliver_id] = (partition, batch, until_ms)
                self._deliveries[deliver_id] = pending
            else:
                batch.lock_remaining_ms = max(1, until_ms - now)
                pending.ready.append(batch)
        self._finish(pending)

    # From partitions

    def delivered(self, partition: int, answer: deliver_frames.Answer) -> bool:
        """Take an answer of the deliver stream; False if it is not one for receivers."""
        if isinstance(answer, deliver_frames.Reserved):
            self._reserved(partition, answer)
        elif isinstance(answer, deliver_frames.AskEnded):
            return self._ask_ended(partition, answer)
        elif isinstance(answer, deliver_frames.Deleted):
            self._deleted(answer)
        else:
            return False
        return True

    def lost(self, partition: int) -> None:
        """Take the end of a partition's stream: locks of this boot may be void."""
        self._forget(partition)
        for deliver_id, pending in list(self._deliveries.items()):
            if pending.waiting[deliver_id][0] == partition:
                # Whether they are deleted is unknown: they must not be handed over.
                del self._deliveries[deliver_id]
                _, batch, _ = pending.waiting.pop(deliver_id)
                pending.shared.left_unconfirmed(batch.lock_tokens)
                self._finish(pending)

    def moving(self, partition: int) -> None:
        """Take note that a partition's stream closes cleanly; another one is opened.

        What it reserved goes back; what it is deleting is still answered on the old stream.
        """
        self._forget(partition)
        self.back(partition)

    def back(self, partition: int) -> None:
        """Ask a partition that returned on behalf of the receives that wait."""
        for shared in list(self._caches.values()):
            if shared.cache.waiting():
                shared.again(partition)

    def _forget(self, partition: int) -> None:
        for ask_id, (_, where) in list(self._asks.items()):
            if where == partition:
                del self._asks[ask_id]
        for shared in list(self._caches.values()):
            shared.perform(shared.cache.partition_lost(partition, now_ms()))

    def _ask_ended(self, partition: int, ended: deliver_frames.AskEnded) -> bool:
        known = self._asks.pop(ended.ask_id, None)
        if known is None:
            return False
        shared = known[0]
        if ended.error is not None:
            shared.refused(ended.ask_id, partition, ended.error)
        else:
            shared.perform(shared.cache.ask_ended(ended.ask_id, partition, now_ms()))
        return True

    def _reserved(self, partition: int, reserved: deliver_frames.Reserved) -> None:
        known = self._asks.pop(reserved.ask_id, None)
        batch = reserved.batch
        if known is None or self._caches.get(known[0].key) is not known[0]:
            self.give_back(GiveBack(batch, 0, len(batch.messages), partition))
            return
        shared, now = known[0], now_ms()
        until_ms = lease.end_ms(
            now,
            reserved.lock_remaining_ms,
            reserved.locked_until_monotonic_ms,
            self._upstreams[partition].clock_offset_ms,
        )
        shared.perform(
            shared.cache.reserved(
                reserved.ask_id,
                partition,
                batch,
                columns.delivered_sizes(batch),
                lease=shared.lease_of(until_ms, reserved.lock_remaining_ms, now),
                more=reserved.more,
                now_ms=now,
            )
        )
        self._bound()

    def _bound(self) -> None:
        """Give back what was cached longest ago while the caches hold too much."""
        held = self.held
        if held.total > CACHED.all:
            holding = [shared for shared in self._caches.values() if shared.cache.holds]
            for shared in sorted(holding, key=lambda shared: shared.cache.used_ms):
                if held.total <= CACHED.all:
                    break
                shared.perform(shared.cache.give_back_all())
        # No other connection's has grown since the last check.
        owner = held.grown
        if held.by_owner.get(owner, 0) > CACHED.connection:
            for shared in list(self._caches.values()):
                shared.perform(shared.cache.give_back_of(owner))

    def _deleted(self, deleted: deliver_frames.Deleted) -> None:
        pending = self._deliveries.pop(deleted.deliver_id, None)
        if pending is None:
            return
        partition, batch, until_ms = pending.waiting.pop(deleted.deliver_id)
        if deleted.failed and pending.shared.session_token:
            # It may keep them as delivered; the next ones must not overtake them.
            self.give_back(GiveBack(batch, 0, len(batch.messages), partition))
        if not deleted.failed:
            ready = columns.without(batch, deleted.lost) if deleted.lost else [batch]
            for each in ready:
                if pending.shared.deletes:
                    # Its lock ended as it was deleted: nothing may take it for one that is over.
                    each.ClearField("lock_tokens")
                else:
                    each.lock_remaining_ms = max(1, until_ms - now_ms())
            pending.ready += ready
        self._finish(pending)

    def _finish(self, pending: _Pending) -> None:
        if pending.waiting:
            return
        credit = pending.credit
        receiver, _ = credit.tag
        receiver.handing -= 1
        credit.handing -= 1
        count = sum(len(batch.messages) for batch in pending.ready)
        if count:
            self.metrics.outgoing.counts[pending.shared.entity.name] += count
        lost = pending.messages - count
        again = lost and receiver.has(credit) and not (count and credit.lapses)
        if again:
            # Some were lost before the hand-over: the credit is still good for others.
            credit.messages += 0 if credit.lapses else lost
            loop = asyncio.get_running_loop()
            loop.call_later(REASK_S, self._grant_again, pending.shared, credit)
        if count or (credit.lapses and not again):
            # Without messages for one that was cancelled or is finishing: its stream waits for it.
            receiver.hand(credit, pending.ready)
        if credit.void and not credit.handing:
            receiver.end(credit)

    def _grant_again(self, shared: SharedCache, credit: Credit) -> None:
        receiver, _ = credit.tag
        if receiver not in shared.receivers or not receiver.has(credit):
            if credit.lapses:
                receiver.hand(credit, ())
        elif credit.checks is None or credit not in shared.cache:
            shared.perform(shared.cache.grant(credit, now_ms()))


def find_receivable(directory: Directory, name: str) -> Entity:
    """Return an entity that gives messages. Raises EntityNotFound, EntityDisabled."""
    entity = directory.find(name)
    message_access.check(entity, message_access.Access.RECEIVE)
    if not entity.description.status.receives:
        raise errors.EntityDisabled(
            f"{entity.title} is {entity.description.status}: receiving is disabled. Set its "
            "status to Active.",
            metadata={"entity": entity.name},
        )
    return entity
