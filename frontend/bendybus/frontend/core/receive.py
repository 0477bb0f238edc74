"""Receives, between clients' asks and partitions' streams: performs what `receiving` decides."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from bendybus.domain import errors, limits
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns, receive_cache
from bendybus.frontend.core.figures import Figures
from bendybus.frontend.core.receive_cache import (
    AskPartition,
    Cache,
    ClientAsk,
    GiveBack,
    HandOver,
    Held,
    WithdrawAsk,
)
from bendybus.frontend.upstreams.upstream import Upstream, now_ms
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import entity_refs, statuses

REASK_S: Final = 0.05
CHECK_S: Final = 1.0
# Clocks of whole milliseconds: an alarm rings when its time is surely over.
ALARM_LATE_MS: Final = 1
# What all caches of this front end may hold, and those filled for one connection.
HELD_BYTES_MAX: Final = 64 * limits.MB
OWNER_BYTES_MAX: Final = 16 * limits.MB
# Receives of one receiver that wait at the same time.
RECEIVES_MAX: Final = 1_000

Batches = Sequence[message_pb2.DeliveredBatch]
# (tag, messages, why there are none)
Hand = Callable[[Any, Batches, BusError | None], None]
Fail = Callable[[BusError], None]
Key = tuple[str, SubQueue, bool]


class Receiver:
    """One receiver of a client. `hand` answers a receive, `fail` ends the receiver."""

    __slots__ = ("_desk", "_fail", "_hand", "handing", "owner", "shelf", "waiting")

    def __init__(
        self, desk: "ReceiveDesk", shelf: "Shelf", owner: Any, hand: Hand, fail: Fail
    ) -> None:
        self._desk = desk
        self._hand = hand
        self._fail = fail
        self.waiting: set[Any] = set()
        self.shelf = shelf
        self.owner = owner
        # Hand-overs that wait for partitions to delete.
        self.handing = 0

    @property
    def entity(self) -> Entity:
        """What it receives from."""
        return self.shelf.entity

    def ask(self, tag: Any, messages: int, size_bytes: int, wait_ms: int) -> None:
        """Open a receive; `hand` is called once for it. wait_ms < 0: without end."""
        too_many = len(self.waiting) >= RECEIVES_MAX
        if too_many or self.shelf.cache.waiting() >= limits.RECEIVERS_PER_ENTITY:
            most = RECEIVES_MAX if too_many else limits.RECEIVERS_PER_ENTITY
            whose = "this receiver" if too_many else f"queue {self.entity.name!r}"
            busy = errors.ServerBusy(f"{most} receives of {whose} are waiting already.")
            self._hand(tag, (), busy)
            return
        if tag in self.waiting:
            self._fail(errors.InvalidArgument("ask_id", f"{tag} is of a receive that waits."))
            return
        now = now_ms()
        messages = max(1, min(messages, receive_cache.MESSAGES_MAX))
        size_bytes = min(size_bytes or receive_cache.CACHE_BYTES_MAX, receive_cache.CACHE_BYTES_MAX)
        deadline = None if wait_ms < 0 else now + wait_ms
        self.waiting.add(tag)
        ask = ClientAsk((self, tag), messages, size_bytes, deadline, self.owner)
        self.shelf.perform(self.shelf.cache.ask(ask, now))

    def cancel(self, tag: Any) -> None:
        """End a receive; it is answered."""
        actions = self.shelf.cache.cancel((self, tag), now_ms())
        if not actions:
            # Its messages are being deleted: they are its answer, or nothing is.
            self.waiting.discard(tag)
        self.shelf.perform(actions)

    def finish(self) -> None:
        """Receive nothing more; who waits is not answered."""
        waiting, self.waiting = self.waiting, set()
        if waiting:
            tags = [(self, tag) for tag in waiting]
            self.shelf.perform(self.shelf.cache.drop(tags, now_ms()))

    def hand(self, tag: Any, batches: Batches, error: BusError | None = None) -> None:
        """Answer a receive."""
        self.waiting.discard(tag)
        self._hand(tag, batches, error)

    def fail(self, error: BusError) -> None:
        """End: there is nothing to receive from any more."""
        self.waiting.clear()
        self._fail(error)


class Shelf:
    """The cache of one (entity, sub-queue, mode), and what it needs of the world."""

    def __init__(
        self, desk: "ReceiveDesk", entity: Entity, sub_queue: SubQueue, *, delete: bool
    ) -> None:
        self._desk = desk
        self.entity = entity
        self.sub_queue = sub_queue
        self.delete = delete
        self.receivers: set[Receiver] = set()
        self.cache = Cache(
            entity.partitions(), desk.available, desk.next_ask_id, now_ms(), desk.held
        )
        self._timer: asyncio.TimerHandle | None = None

    def refused(self, ask_id: int, partition: int, error: BusError) -> None:
        """Take a partition's refusal of an ask."""
        self.perform(self.cache.ask_ended(ask_id, partition, now_ms(), answered=False))
        if error.retryable and not isinstance(error, errors.EntityDisabled):
            # Another generation, a fence: the front end knows more in a moment.
            asyncio.get_running_loop().call_later(REASK_S, self.again, partition)
        else:
            self._desk.fail(self, error)

    def again(self, partition: int) -> None:
        """Ask a partition again, with the entity as it is known now."""
        current = self._desk.directory.by_uid(self.entity.uid)
        if current is None:
            gone = errors.EntityNotFound(f"queue {self.entity.name!r} was deleted.")
            self._desk.fail(self, gone)
            return
        self.entity = current
        self.perform(self.cache.partition_back(partition, now_ms()))

    def perform(self, actions: Sequence[receive_cache.Action]) -> None:
        """Do what the rules decided, and set the next alarm."""
        for action in actions:
            if isinstance(action, HandOver):
                self._hand_over(action)
            elif isinstance(action, AskPartition):
                self._desk.open_ask(self, action)
            elif isinstance(action, WithdrawAsk):
                self._desk.withdraw(action)
            else:
                assert isinstance(action, GiveBack), action
                self._desk.give_back(action)
        self._set_alarm()

    def close(self) -> None:
        """Give everything back."""
        self.perform(self.cache.close())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hand_over(self, action: HandOver) -> None:
        receiver, tag = action.tag
        if action.slices:
            self._desk.hand_over(self, action)
        elif action.unanswered:
            receiver.hand(tag, (), self._desk.unreachable(self.entity, receiver.owner))
        else:
            receiver.hand(tag, ())

    def _set_alarm(self) -> None:
        due = self.cache.next_due()
        if due is None:
            return
        now = now_ms()
        # What is due already does not put off the alarm that is about to ring.
        ring_ms = max(due, now) + ALARM_LATE_MS
        if self._timer is not None:
            # One that rings too early costs less than to set it anew for every receive.
            if self._timer.when() * 1_000 < ring_ms + 1:
                return
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later((ring_ms - now) / 1_000, self._alarm)

    def _alarm(self) -> None:
        self._timer = None
        self.perform(self.cache.due(now_ms()))


class _Pending:
    """A hand-over in delete mode: waits until the partitions have deleted its messages."""

    __slots__ = ("ask", "ready", "shelf", "waiting")

    def __init__(self, shelf: Shelf, ask: ClientAsk) -> None:
        self.shelf = shelf
        self.ask = ask
        self.waiting: dict[int, tuple[int, message_pb2.DeliveredBatch]] = {}
        self.ready: list[message_pb2.DeliveredBatch] = []


class ReceiveDesk:
    """All receivers of this front end."""

    def __init__(
        self, upstreams: dict[int, Upstream], directory: Directory, figures: Figures
    ) -> None:
        self.directory = directory
        self.figures = figures
        self.held = Held()
        self._upstreams = upstreams
        self._shelves: dict[Key, Shelf] = {}
        # Connections that get nothing for now, from no cache.
        self._paused: set[Any] = set()
        self._asks: dict[int, tuple[Shelf, int]] = {}
        self._deliveries: dict[int, _Pending] = {}
        self._ids = itertools.count(1)

    def open(
        self,
        entity_path: str,
        mode: receiver_pb2.ReceiveMode,
        hand: Hand,
        fail: Fail,
        *,
        owner: Any = None,
    ) -> Receiver:
        """Return a receiver of the connection `owner`.

        Raises EntityNotFound, EntityDisabled, InvalidArgument.
        """
        entity, sub_queue = self.directory.lookup(entity_path)
        if not entity.queue.status.receives:
            raise errors.EntityDisabled(
                f"queue {entity.name!r} is {entity.queue.status}: receiving is disabled. Set its "
                "status to Active.",
                metadata={"entity": entity.name},
            )
        delete = mode == receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE
        key = (entity.uid, sub_queue, delete)
        shelf = self._shelves.get(key)
        if shelf is None:
            shelf = Shelf(self, entity, sub_queue, delete=delete)
            self._shelves[key] = shelf
        if owner in self._paused:
            shelf.cache.pause(owner)
        receiver = Receiver(self, shelf, owner, hand, fail)
        shelf.receivers.add(receiver)
        return receiver

    def close(self, receiver: Receiver) -> None:
        """End a receiver; what waits for its connection goes back with the last one there."""
        shelf = receiver.shelf
        if receiver not in shelf.receivers:
            return
        receiver.finish()
        shelf.receivers.discard(receiver)
        if not any(other.owner == receiver.owner for other in shelf.receivers):
            shelf.perform(shelf.cache.owner_gone(receiver.owner))

    async def receive(
        self, request: receiver_pb2.ReceiveRequest, wait_ms: int, owner: Any
    ) -> Batches:
        """Receive once. Raises the domain error that says why there is nothing."""
        future: asyncio.Future[Batches] = asyncio.get_running_loop().create_future()

        def hand(tag: Any, batches: Batches, error: BusError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(batches)
            else:
                future.set_exception(error)

        receiver = self.open(
            request.entity_path,
            request.receive_mode,
            hand,
            lambda error: hand(0, (), error),
            owner=owner,
        )
        try:
            receiver.ask(0, request.max_messages, 0, max(0, wait_ms))
            return await future
        finally:
            # Not `close`: what waits for this caller stays until it was idle for a while.
            receiver.finish()
            receiver.shelf.receivers.discard(receiver)

    def fail(self, shelf: Shelf, error: BusError) -> None:
        """End a cache and its receivers."""
        for key, found in list(self._shelves.items()):
            if found is shelf:
                del self._shelves[key]
        shelf.close()
        for receiver in list(shelf.receivers):
            receiver.fail(error)

    def pause(self, owner: Any) -> None:
        """Hand nothing to a connection until `resume`."""
        self._paused.add(owner)
        for shelf in self._shelves.values():
            shelf.cache.pause(owner)

    def resume(self, owner: Any) -> None:
        """Go on after a pause."""
        now = now_ms()
        self._paused.discard(owner)
        for shelf in list(self._shelves.values()):
            shelf.perform(shelf.cache.resume(owner, now))

    def cached(self) -> int:
        """Return how many messages are held ready."""
        return sum(shelf.cache.cached() for shelf in self._shelves.values())

    async def run(self) -> None:
        """End caches that nobody uses, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            now = now_ms()
            for key, shelf in list(self._shelves.items()):
                if not shelf.receivers and shelf.cache.idle(now):
                    del self._shelves[key]
                    shelf.close()

    # For caches

    def available(self, partition: int) -> bool:
        """Whether a partition can be asked."""
        return self._upstreams[partition].available

    def next_ask_id(self) -> int:
        """Return an id for an ask."""
        return next(self._ids)

    def unreachable(self, entity: Entity, owner: Any = None) -> BusError:
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
            f"queue {entity.name!r}: no partition could be asked for messages ({why}). Whether "
            "there are any is not known; receive again.",
            metadata={"entity": entity.name},
        )

    def open_ask(self, shelf: Shelf, action: AskPartition) -> None:
        """Ask a partition."""
        self._asks[action.ask_id] = (shelf, action.partition)
        mode = (
            receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE
            if shelf.delete
            else receiver_pb2.RECEIVE_MODE_PEEK_LOCK
        )
        ask = partition_pb2.Ask(
            ask_id=action.ask_id,
            entity=entity_refs.to_proto(shelf.entity, shelf.sub_queue),
            receive_mode=mode,
            max_messages=action.messages,
            max_bytes=action.size_bytes,
        )
        request = partition_pb2.DeliverFramesRequest(partition=action.partition, ask=ask)
        if not self._upstreams[action.partition].ask(request):
            del self._asks[action.ask_id]
            busy = errors.ServerBusy(f"partition {action.partition}: too many frames wait.")
            loop = asyncio.get_running_loop()
            loop.call_soon(shelf.refused, action.ask_id, action.partition, busy)

    def withdraw(self, action: WithdrawAsk) -> None:
        """Take an ask back; what still comes for it is cached or given back."""
        request = partition_pb2.DeliverFramesRequest(
            partition=action.partition, withdraw=partition_pb2.Withdraw(ask_id=action.ask_id)
        )
        self._upstreams[action.partition].follow(request)

    def give_back(self, action: GiveBack) -> None:
        """Release messages that no client will see."""
        tokens = columns.tokens(action.data, action.start, action.end)
        request = partition_pb2.DeliverFramesRequest(
            partition=action.partition, release=partition_pb2.Release(lock_tokens=tokens)
        )
        self._upstreams[action.partition].follow(request)

    def hand_over(self, shelf: Shelf, action: HandOver) -> None:
        """Tell the partitions, then hand over: at once, or when they have deleted."""
        pending = _Pending(shelf, action.ask)
        action.tag[0].handing += 1
        now = now_ms()
        for data, start, end, partition, until_ms in action.slices:
            batch = columns.cut(data, start, end)
            deliver_id = next(self._ids) if shelf.delete else 0
            request = partition_pb2.DeliverFramesRequest(
                partition=partition,
                deliver=partition_pb2.Deliver(deliver_id=deliver_id, lock_tokens=batch.lock_tokens),
            )
            if not self._upstreams[partition].follow(request):
                # Its stream has ended: the partition gives the messages to somebody else.
                continue
            if shelf.delete:
                pending.waiting[deliver_id] = (partition, batch)
                self._deliveries[deliver_id] = pending
            else:
                batch.lock_remaining_ms = max(1, until_ms - now)
                pending.ready.append(batch)
        self._finish(pending)

    # From partitions

    def delivered(self, partition: int, response: partition_pb2.DeliverFramesResponse) -> None:
        """Take a frame of the deliver stream (but not outcomes of settling)."""
        kind = response.WhichOneof("kind")
        if kind == "reserved":
            self._reserved(partition, response.reserved)
        elif kind == "withdrawn":
            ask_id = response.withdrawn.ask_id
            known = self._asks.pop(ask_id, None)
            if known is not None:
                shelf = known[0]
                shelf.perform(shelf.cache.ask_ended(ask_id, partition, now_ms()))
        elif kind == "ask_refused":
            refused = response.ask_refused
            known = self._asks.pop(refused.ask_id, None)
            if known is not None:
                error = statuses.from_error(refused.error)
                known[0].refused(refused.ask_id, partition, error)
        else:
            assert kind == "delivered", kind
            self._deleted(response.delivered)

    def lost(self, partition: int) -> None:
        """Take the end of a partition's stream: locks of this boot may be void."""
        self._forget(partition)
        for deliver_id, pending in list(self._deliveries.items()):
            if pending.waiting[deliver_id][0] == partition:
                # Whether they are deleted is unknown: they must not be handed over.
                del self._deliveries[deliver_id], pending.waiting[deliver_id]
                self._finish(pending)

    def moving(self, partition: int) -> None:
        """Take note that a partition's stream ends in good order; another one is opened.

        What it reserved goes back; what it is deleting is still answered on the old stream.
        """
        self._forget(partition)
        self.back(partition)

    def back(self, partition: int) -> None:
        """Ask a partition that returned on behalf of whoever waits."""
        for shelf in list(self._shelves.values()):
            if shelf.cache.waiting():
                shelf.again(partition)

    def _forget(self, partition: int) -> None:
        for ask_id, (_, where) in list(self._asks.items()):
            if where == partition:
                del self._asks[ask_id]
        for shelf in list(self._shelves.values()):
            shelf.perform(shelf.cache.partition_lost(partition))

    def _reserved(self, partition: int, reserved: partition_pb2.Reserved) -> None:
        known = self._asks.pop(reserved.ask_id, None)
        batch = reserved.batch
        if known is None or self._shelves.get(_key(known[0])) is not known[0]:
            self.give_back(GiveBack(batch, 0, len(batch.messages), partition))
            return
        shelf, now = known[0], now_ms()
        offset_ms = self._upstreams[partition].clock_offset_ms
        # How long the frame was under way or waited to be read shows only on the same clock.
        until_ms = now + reserved.lock_remaining_ms
        if offset_ms is not None and reserved.locked_until_monotonic_ms:
            until_ms = min(until_ms, reserved.locked_until_monotonic_ms - offset_ms)
        shelf.perform(
            shelf.cache.reserved(
                reserved.ask_id,
                partition,
                batch,
                list(map(len, batch.messages)),
                locked_until_ms=until_ms,
                lock_ms=reserved.lock_remaining_ms,
                more=reserved.more,
                now_ms=now,
            )
        )
        self._bound()

    def _bound(self) -> None:
        """Give back what was cached longest ago while the caches hold too much."""
        held = self.held
        if held.total > HELD_BYTES_MAX:
            for shelf in sorted(self._shelves.values(), key=lambda shelf: shelf.cache.used_ms):
                if held.total <= HELD_BYTES_MAX:
                    break
                shelf.perform(shelf.cache.give_back_all())
        # Nobody else's has grown since the last look.
        owner = held.grown
        if held.by_owner.get(owner, 0) > OWNER_BYTES_MAX:
            for shelf in list(self._shelves.values()):
                shelf.perform(shelf.cache.give_back_of(owner))

    def _deleted(self, delivered: partition_pb2.Delivered) -> None:
        pending = self._deliveries.pop(delivered.deliver_id, None)
        if pending is None:
            return
        _, batch = pending.waiting.pop(delivered.deliver_id)
        if not delivered.HasField("error"):
            pending.ready += columns.without(batch, delivered.lost) if delivered.lost else [batch]
        self._finish(pending)

    def _finish(self, pending: _Pending) -> None:
        if pending.waiting:
            return
        receiver, tag = pending.ask.tag
        receiver.handing -= 1
        count = sum(len(batch.messages) for batch in pending.ready)
        if count:
            self.figures.outgoing.labels(pending.shelf.entity.name).inc(count)
        if count or tag not in receiver.waiting:
            # Nothing, for one that was cancelled or takes no more: who ends it waits for that.
            receiver.hand(tag, pending.ready)
        else:
            # All of them were lost on the way: it goes on waiting for others.
            asyncio.get_running_loop().call_later(REASK_S, self._ask_again, pending)

    def _ask_again(self, pending: _Pending) -> None:
        receiver, tag = pending.ask.tag
        if receiver in pending.shelf.receivers and tag in receiver.waiting:
            ask = pending.ask
            again = ClientAsk(ask.tag, ask.messages, ask.size_bytes, ask.deadline_ms, ask.owner)
            pending.shelf.perform(pending.shelf.cache.ask(again, now_ms()))
        else:
            receiver.hand(tag, ())


def _key(shelf: Shelf) -> Key:
    return shelf.entity.uid, shelf.sub_queue, shelf.delete
