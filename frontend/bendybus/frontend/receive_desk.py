"""Receives, between clients' asks and partitions' streams: performs what `receiving` decides."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from bendybus.domain import errors
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend import batches, receiving
from bendybus.frontend.figures import Figures
from bendybus.frontend.receiving import (
    AskPartition,
    ClientAsk,
    GiveBack,
    HandOver,
    Link,
    WithdrawAsk,
)
from bendybus.frontend.upstreams import Upstream, now_ms
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import statuses

REASK_S: Final = 0.05

Hand = Callable[[Any, Sequence[message_pb2.DeliveredBatch]], None]
Fail = Callable[[BusError], None]


class Receiver:
    """One link with what it needs of the world. `hand` gets (tag, batches), `fail` ends it."""

    def __init__(
        self,
        desk: "ReceiveDesk",
        entity: Entity,
        *,
        dead_letter: bool,
        delete: bool,
        hand: Hand,
        fail: Fail,
    ) -> None:
        self._desk = desk
        self.entity = entity
        self.dead_letter = dead_letter
        self.delete = delete
        self._hand = hand
        self._fail = fail
        # Hand-overs that wait for partitions to delete.
        self.handing = 0
        self._timer: asyncio.TimerHandle | None = None
        self.link = Link(entity.partitions(), desk.available, desk.next_ask_id, now_ms())

    def ask(self, tag: Any, messages: int, size_bytes: int, wait_ms: int) -> None:
        """Open a receive; `hand` is called once for it. wait_ms < 0: without end."""
        if self.link.waiting() >= receiving.ASKS_MAX:
            self._fail(
                errors.ServerBusy(
                    f"queue {self.entity.name!r}: {receiving.ASKS_MAX} receives of this receiver "
                    "are waiting already."
                )
            )
            return
        now = now_ms()
        deadline = None if wait_ms < 0 else now + wait_ms
        messages = max(1, min(messages, receiving.MESSAGES_MAX))
        size_bytes = min(size_bytes or receiving.LINK_BYTES_MAX, receiving.LINK_BYTES_MAX)
        self.perform(self.link.ask(ClientAsk(tag, messages, size_bytes, deadline), now))

    def pause(self) -> None:
        """Hand nothing over until `resume`."""
        self.link.pause()

    def resume(self) -> None:
        """Go on after a pause."""
        self.perform(self.link.resume(now_ms()))

    def cancel(self, tag: Any) -> None:
        """End a receive."""
        self.perform(self.link.cancel(tag, now_ms()))

    def close(self) -> None:
        """End the receiver; what it holds ready goes back."""
        self.perform(self.link.close())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def refused(self, ask_id: int, partition: int, error: BusError) -> None:
        """Take a partition's refusal of an ask."""
        self.perform(self.link.ask_ended(ask_id, partition, now_ms()))
        if error.retryable and not isinstance(error, errors.EntityDisabled):
            # Another generation, a fence: the front end knows more in a moment.
            asyncio.get_running_loop().call_later(REASK_S, self.again, partition)
        else:
            self._fail(error)

    def again(self, partition: int) -> None:
        """Ask a partition again, with the entity as it is known now."""
        current = self._desk.directory.by_uid(self.entity.uid)
        if current is None:
            self._fail(errors.EntityNotFound(f"queue {self.entity.name!r} was deleted."))
            return
        self.entity = current
        self.perform(self.link.partition_back(partition, now_ms()))

    def perform(self, actions: Sequence[receiving.Action]) -> None:
        """Do what the rules decided, and set the next alarm."""
        for action in actions:
            if isinstance(action, AskPartition):
                self._desk.open_ask(self, action)
            elif isinstance(action, WithdrawAsk):
                self._desk.withdraw(action)
            elif isinstance(action, GiveBack):
                self._desk.give_back(action)
            else:
                assert isinstance(action, HandOver), action
                self._hand_over(action)
        self._set_alarm()

    def hand(self, tag: Any, handed: Sequence[message_pb2.DeliveredBatch]) -> None:
        """Hand messages to the caller of a receive; none when its wait is over."""
        count = sum(len(batch.messages) for batch in handed)
        if count:
            self._desk.figures.outgoing.labels(self.entity.name).inc(count)
        self._hand(tag, handed)

    def _hand_over(self, action: HandOver) -> None:
        if not action.slices:
            self.hand(action.tag, ())
        else:
            self._desk.hand_over(self, action)

    def _set_alarm(self) -> None:
        due = self.link.next_due()
        if self._timer is not None:
            if due is not None and abs(self._timer.when() * 1000 - due) < 1:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0, due - now_ms()) / 1000 + 0.001, self._alarm)

    def _alarm(self) -> None:
        self._timer = None
        self.perform(self.link.due(now_ms()))


class _Pending:
    """A hand-over in delete mode: waits until the partitions have deleted its messages."""

    def __init__(self, receiver: Receiver, tag: Any) -> None:
        self.receiver = receiver
        self.tag = tag
        self.waiting: dict[int, tuple[int, message_pb2.DeliveredBatch]] = {}
        self.ready: list[message_pb2.DeliveredBatch] = []


class ReceiveDesk:
    """All receivers of this front end."""

    def __init__(
        self, upstreams: dict[int, Upstream], directory: Directory, figures: Figures
    ) -> None:
        self.directory = directory
        self.figures = figures
        self._upstreams = upstreams
        self._asks: dict[int, tuple[Receiver, int]] = {}
        self._deliveries: dict[int, _Pending] = {}
        self._receivers: set[Receiver] = set()
        self._ids = itertools.count(1)

    def open(
        self, entity_path: str, mode: receiver_pb2.ReceiveMode, hand: Hand, fail: Fail
    ) -> Receiver:
        """Return a receiver. Raises EntityNotFound, EntityDisabled, InvalidArgument."""
        entity, dead_letter = self.directory.lookup(entity_path)
        if not entity.queue.status.receives:
            raise errors.EntityDisabled(
                f"queue {entity.name!r} is {entity.queue.status}: it gives no messages. Set its "
                "status to Active.",
                metadata={"entity": entity.name},
            )
        receiver = Receiver(
            self,
            entity,
            dead_letter=dead_letter,
            delete=mode == receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE,
            hand=hand,
            fail=fail,
        )
        self._receivers.add(receiver)
        return receiver

    def close(self, receiver: Receiver) -> None:
        """End a receiver."""
        receiver.close()
        self._receivers.discard(receiver)

    def cached(self) -> int:
        """Return how many messages are held ready."""
        return sum(receiver.link.cached() for receiver in self._receivers)

    # For receivers

    def available(self, partition: int) -> bool:
        """Whether a partition can be asked."""
        return self._upstreams[partition].available

    def next_ask_id(self) -> int:
        """Return an id for an ask."""
        return next(self._ids)

    def open_ask(self, receiver: Receiver, action: AskPartition) -> None:
        """Ask a partition."""
        self._asks[action.ask_id] = (receiver, action.partition)
        mode = (
            receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE
            if receiver.delete
            else receiver_pb2.RECEIVE_MODE_PEEK_LOCK
        )
        ask = partition_pb2.Ask(
            ask_id=action.ask_id,
            entity=partition_pb2.EntityRef(
                uid=receiver.entity.uid,
                generation=receiver.entity.generation,
                dead_letter=receiver.dead_letter,
            ),
            receive_mode=mode,
            max_messages=action.messages,
            max_bytes=action.size_bytes,
        )
        request = partition_pb2.DeliverFramesRequest(partition=action.partition, ask=ask)
        if not self._upstreams[action.partition].deliver(request):
            del self._asks[action.ask_id]
            busy = errors.ServerBusy(f"partition {action.partition} has too much waiting.")
            loop = asyncio.get_running_loop()
            loop.call_soon(receiver.refused, action.ask_id, action.partition, busy)

    def withdraw(self, action: WithdrawAsk) -> None:
        """Take an ask back; what still comes for it is cached or given back."""
        request = partition_pb2.DeliverFramesRequest(
            partition=action.partition, withdraw=partition_pb2.Withdraw(ask_id=action.ask_id)
        )
        self._upstreams[action.partition].deliver(request)

    def give_back(self, action: GiveBack) -> None:
        """Release messages that the client will not see."""
        tokens = batches.tokens(action.data, action.start, action.end)
        request = partition_pb2.DeliverFramesRequest(
            partition=action.partition, release=partition_pb2.Release(lock_tokens=tokens)
        )
        self._upstreams[action.partition].deliver(request)

    def hand_over(self, receiver: Receiver, action: HandOver) -> None:
        """Tell the partitions, then hand over: at once, or when they have deleted."""
        pending = _Pending(receiver, action.tag)
        receiver.handing += 1
        for data, start, end, partition in action.slices:
            batch = batches.cut(data, start, end)
            deliver_id = next(self._ids) if receiver.delete else 0
            request = partition_pb2.DeliverFramesRequest(
                partition=partition,
                deliver=partition_pb2.Deliver(deliver_id=deliver_id, lock_tokens=batch.lock_tokens),
            )
            accepted = self._upstreams[partition].deliver(request)
            if not receiver.delete:
                pending.ready.append(batch)
            elif accepted:
                pending.waiting[deliver_id] = (partition, batch)
                self._deliveries[deliver_id] = pending
        self._finish(pending)

    # From partitions

    def delivered(self, partition: int, response: partition_pb2.DeliverFramesResponse) -> None:
        """Take a frame of the deliver stream (but not outcomes of settling)."""
        kind = response.WhichOneof("kind")
        if kind == "reserved":
            self._reserved(partition, response.reserved)
        elif kind == "withdrawn":
            self._ended(response.withdrawn.ask_id, partition)
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
        for ask_id, (_, where) in list(self._asks.items()):
            if where == partition:
                del self._asks[ask_id]
        for receiver in list(self._receivers):
            receiver.perform(receiver.link.partition_lost(partition))
        for deliver_id, pending in list(self._deliveries.items()):
            if pending.waiting[deliver_id][0] == partition:
                # Whether they are deleted is unknown: they must not be handed over.
                del self._deliveries[deliver_id], pending.waiting[deliver_id]
                self._finish(pending)

    def moving(self, partition: int) -> None:
        """Take note that a partition's stream ends in good order; another one is opened.

        What it reserved goes back; what it is deleting is still answered on the old stream.
        """
        for ask_id, (_, where) in list(self._asks.items()):
            if where == partition:
                del self._asks[ask_id]
        for receiver in list(self._receivers):
            receiver.perform(receiver.link.partition_lost(partition))
        self.back(partition)

    def back(self, partition: int) -> None:
        """Ask a partition that returned on behalf of whoever waits."""
        for receiver in list(self._receivers):
            if receiver.link.waiting():
                receiver.again(partition)

    def _reserved(self, partition: int, reserved: partition_pb2.Reserved) -> None:
        known = self._asks.get(reserved.ask_id)
        batch = reserved.batch
        if known is None:
            give_back = GiveBack(batch, 0, len(batch.messages), partition)
            self.give_back(give_back)
            return
        if reserved.complete:
            del self._asks[reserved.ask_id]
        receiver = known[0]
        receiver.perform(
            receiver.link.reserved(
                reserved.ask_id,
                partition,
                batch,
                list(map(len, batch.messages)),
                lock_remaining_ms=reserved.lock_remaining_ms,
                complete=reserved.complete,
                now_ms=now_ms(),
            )
        )

    def _ended(self, ask_id: int, partition: int) -> None:
        known = self._asks.pop(ask_id, None)
        if known is not None:
            known[0].perform(known[0].link.ask_ended(ask_id, partition, now_ms()))

    def _deleted(self, delivered: partition_pb2.Delivered) -> None:
        pending = self._deliveries.pop(delivered.deliver_id, None)
        if pending is None:
            return
        _, batch = pending.waiting.pop(delivered.deliver_id)
        if not delivered.HasField("error"):
            pending.ready += batches.without(batch, delivered.lost) if delivered.lost else [batch]
        self._finish(pending)

    def _finish(self, pending: _Pending) -> None:
        if not pending.waiting:
            pending.receiver.handing -= 1
            pending.receiver.hand(pending.tag, pending.ready)
