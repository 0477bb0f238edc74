"""Receiving on one connection of HTTP: its receivers, and the one message under way.

    request ──► receiver of (policy, entity, sub-queue) ──► ask for one message ──► response

A message is always locked first, also for a request that deletes it, which completes it before the
answer: until then it can go back, where the client has gone or there is no room.

Receivers stay until the connection ends: messages that partitions sent ahead wait for its next
request, and go back when it ends. A connection that a proxy shares between callers has a receiver
for each key.
"""

import asyncio
import hashlib
import itertools
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend.core import columns
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota.bounds import HTTP_RECEIVERS_MAX
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.receive import Source
from bendybus.frontend.core.receiver import Delivery, Receiver
from bendybus.frontend.core.settle import SettleRequest, Settling
from bendybus.frontend.listeners.web import message_responses
from bendybus.frontend.listeners.web.message_responses import Parts

_GONE: Final = "the client has gone"
_NO_ROOM: Final = (
    "the memory for messages that clients have not read yet is full. Receive again in a moment."
)
# A message with its response takes this many times its own bytes.
_TIMES: Final = 2


@dataclass(slots=True)
class Received:
    """A message that was handed over, and the room that it has until its client has read it."""

    entity: Entity
    batch: columns.DeliveredBatch
    parts: Parts
    size_bytes: int
    holder: Holder


class ConnectionReceives:
    """The receivers of a connection. Requests of one connection come one after the other."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end
        # The one used last is the last.
        self._receivers: OrderedDict[tuple[str, Source], Receiver] = OrderedDict()
        self._tags = itertools.count(1)
        self._waiting: asyncio.Future[Delivery] | None = None
        # The receiver that it asked.
        self._asking: Receiver | None = None
        self._closed = False
        self._secret = os.urandom(limits.SETTLER_ID_BYTES_MAX)

    def settler_id(self, entity: Entity) -> bytes:
        """Return the name by which repeats of settlements are recognised.

        One for each entity: partitions count what they remember of a settler for one queue.
        """
        made = hashlib.blake2b(
            entity.uid.encode(), key=self._secret, digest_size=limits.SETTLER_ID_BYTES_MAX
        )
        return made.digest()

    async def next(self, source: Source, holder: Holder, wait_ms: int) -> Received | None:
        """Return the next message, for which room is taken; None: there was none in this time.

        Raises why that is not known, or ConnectionError if the connection ended.
        """
        if self._closed:
            raise ConnectionResetError(_GONE)
        room = self._front_end.quota.receives
        if not room.has(holder, 1):
            raise errors.ServerBusy(_NO_ROOM, retry_after_ms=1_000)
        receiver, tag = self._receiver(source, holder), next(self._tags)
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        self._asking = receiver
        receiver.ask(tag, 1, 0, wait_ms)
        try:
            delivery = await waiting
        finally:
            self._waiting = self._asking = None
            if tag in receiver.credits:
                # It was refused, or the request ended: nothing is to be handed over for it.
                receiver.cancel(tag)
        if delivery.error is not None:
            raise delivery.error
        if delivery.drained:
            return None
        [batch] = delivery.batches
        size_bytes = _TIMES * columns.delivered_sizes(batch)[0]
        try:
            made_of = message_responses.parts(batch)
        except BusError:
            self._release(delivery)
            raise
        received = Received(receiver.entity, batch, made_of, size_bytes, holder)
        if not room.take(holder, size_bytes):
            self.release(received)
            raise errors.ServerBusy(_NO_ROOM, retry_after_ms=1_000)
        return received

    def release(self, received: Received) -> None:
        """Give a message back, uncounted: its client does not see it."""
        self._release(Delivery(0, (received.batch,)))

    def answered(self, received: Received, size_bytes: int) -> None:
        """Take note that only a response of this size is left of a message."""
        received.batch = columns.DeliveredBatch()
        more_bytes = received.size_bytes - size_bytes
        if more_bytes > 0:
            received.size_bytes = size_bytes
            self._front_end.quota.receives.give(received.holder, more_bytes)

    def read(self, received: Received) -> None:
        """Take note that the client has read a message, or is gone."""
        self._front_end.quota.receives.give(received.holder, received.size_bytes)

    def stop(self) -> None:
        """End the request that waits: this front end stops."""
        for receiver in self._receivers.values():
            receiver.finish()
        self._end(stopping())

    def refuse(self, error: BusError) -> None:
        """End the request that waits: its token is no longer good."""
        self._end(error)

    def close(self) -> None:
        """Give back what waits for the connection, which has ended."""
        self._closed = True
        receivers, self._receivers = self._receivers, OrderedDict()
        for receiver in receivers.values():
            self._front_end.receives.close(receiver)
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_exception(ConnectionResetError(_GONE))

    def _receiver(self, source: Source, holder: Holder) -> Receiver:
        key = (holder.policy, source)
        receiver, receives = self._receivers.pop(key, None), self._front_end.receives
        known = self._front_end.directory.known(source.entity)
        if receiver is not None and (known is None or known.uid != receiver.entity.uid):
            # It was deleted, and maybe made again.
            receives.close(receiver)
            receiver = None
        if receiver is None:

            def fail(error: BusError) -> None:
                if self._receivers.pop(key, None) is self._asking:
                    self._end(error)

            receiver = receives.open(source, self._hand, fail, owner=holder)
            if len(self._receivers) >= HTTP_RECEIVERS_MAX:
                receives.close(self._receivers.popitem(last=False)[1])
        self._receivers[key] = receiver
        return receiver

    def _hand(self, delivery: Delivery) -> None:
        waiting = self._waiting
        if self._closed or waiting is None or waiting.done():
            # In a turn of its own: the caller is a cache that is not done yet.
            asyncio.get_running_loop().call_soon(self._release, delivery)
        else:
            waiting.set_result(delivery)

    def _end(self, error: BusError) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Delivery(0, (), error))

    def _release(self, delivery: Delivery) -> None:
        """Release messages that the client will not see."""
        for batch in delivery.batches:
            request = SettleRequest(Disposition.RELEASE, batch.lock_tokens)
            self._front_end.settles.start(request, _unheard)


def stopping() -> BusError:
    """Return the error for receives of a front end that stops."""
    return errors.ServerBusy("this front end is stopping. Receive again.", retry_after_ms=500)


def _unheard(_: Settling) -> None:
    """Nobody waits for this outcome."""
