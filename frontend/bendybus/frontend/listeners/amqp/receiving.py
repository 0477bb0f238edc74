"""A link on which a client receives: passes credit to the core, and dispositions as settlements.

flow ──► credit of the core ──► delivery ──► transfer
disposition ──► settlement ──► disposition with the same outcome, settled
"""

import asyncio
import os
import sys
import time
import uuid
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bendybus.amqp.composites import Composite
from bendybus.amqp.links import SND_SETTLED, OutgoingDelivery, OutgoingLink
from bendybus.amqp.performatives import (
    Accepted,
    Error,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from bendybus.domain import bounds, limits, lock_token
from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import BusError
from bendybus.frontend.core import columns, transact
from bendybus.frontend.core.quota.bounds import TRANSFERS_A_TURN, UNSETTLED_MAX
from bendybus.frontend.core.receiver import Delivery, Receiver
from bendybus.frontend.core.settle import SettleOutcome, SettleRequest, Settling
from bendybus.frontend.core.shared_cache import SharedCache
from bendybus.frontend.core.transact import Operation
from bendybus.frontend.listeners.amqp import (
    conditions,
    coordinator,
    incoming_messages,
    lock_names,
    outgoing_messages,
)
from bendybus.frontend.listeners.amqp.coordinator import Sequel
from bendybus.frontend.listeners.amqp.receive_calls import RECEIVES_BY_CALL, ReceiveCalls
from bendybus.frontend.listeners.amqp.stage import Stage
from bendybus.frontend.security import authenticator
from bendybus.wire import delivered_properties

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

DEAD_LETTER: Final = "com.microsoft:dead-letter"
# The max-message-size of every link on which a client receives: it fits a signed integer of 32
# bits. The SDK for .NET drops a delivery that is larger, and those behind it. The limit of the
# entity would be too small, since annotations, properties that receivers or rule actions changed
# and the reason of a dead letter (each bounded where it is added) come on top of it.
MESSAGE_BYTES_MAX: Final = 2**31 - 1


class ReceivingLink:
    """See the module."""

    def __init__(self, connection: "ClientConnection", link: OutgoingLink, path: str) -> None:
        self._connection = connection
        self._link = link
        self._path = path
        self._receiver: Receiver | None = None
        # The credit that the core has: its tag, and how much of it is left.
        self._tag = 0
        self._granted = 0
        self._taking_back = False
        self._finishing = False
        # What the core handed over and is not sent yet, in order: messages from a place on, and the
        # ends of credit.
        self._unsent: deque[_Unsent | Delivery] = deque()
        # Repeats of settlements are recognised by it.
        self._settler_id = os.urandom(limits.SETTLER_ID_BYTES_MAX)
        self._settled = link.attach.snd_settle_mode == SND_SETTLED
        # For clients that give credit at each receive.
        self.calls = ReceiveCalls() if connection.product == RECEIVES_BY_CALL else None

    @property
    def right(self) -> tuple[authenticator.Operation, str]:
        """The right that the client needs, and the entity path."""
        return authenticator.Operation.RECEIVE, self._path

    @property
    def path(self) -> str:
        """The path of the entity or sub-queue."""
        return self._path

    @property
    def handing(self) -> bool:
        """Whether messages are being deleted, and follow then."""
        return self._receiver is not None and bool(self._receiver.handing)

    def begin(self, receiver: Receiver) -> None:
        """Start to pass deliveries of a receiver to the client."""
        self._receiver = receiver
        if self._connection.stage >= Stage.RECEIVERS_FINISHED:
            self.finish()
        elif self._link.credit or self._link.drain:
            # It arrived together with the attach.
            self.credit_changed()

    def hand(self, delivery: Delivery) -> None:
        """Take a delivery of the core, or the end of its credit."""
        if not self._link.is_open:
            self._give_back(delivery.batches)
            return
        waits = bool(self._unsent)
        self._unsent.extend(map(_Unsent, delivery.batches))
        if delivery.drained:
            self._unsent.append(delivery)
        if not waits:
            self._send_turn()

    def _send_turn(self, most: int = TRANSFERS_A_TURN) -> None:
        """Send a part of what waits; the rest follows in the next turns of the loop."""
        while self._unsent and most > 0 and self._link.is_open:
            first = self._unsent[0]
            if isinstance(first, _Unsent):
                most -= self._send(first, most)
                if first.sent < len(first.messages):
                    break
                self._unsent.popleft()
            else:
                self._unsent.popleft()
                if first.tag == self._tag:
                    self._ended(first.error)
        if self._unsent and self._link.is_open:
            self._connection.soon(self._send_turn)
        elif self._finishing:
            self._finish_drain()
        self._connection.write_soon()

    def _ended(self, error: BusError | None) -> None:
        """Take the end of the core's credit: drained, taken back, or without an answer."""
        taken_back, self._taking_back = self._taking_back, False
        self._granted = 0
        self._tag += 1
        if self._link.drain and not taken_back:
            self._link.drained()
        elif self._link.credit or self._link.drain:
            # If it is not known whether there are messages, partitions are on their way back. Else
            # there is less credit now, or the client does not want it drained any more.
            self._connection.later(0.0 if error is None else 1.0, self.credit_changed)

    def fail(self, error: BusError) -> None:
        """Detach the link: there is nothing to receive from any more."""
        # Not now: the caller is a cache that is not done yet.
        self._connection.soon(self._end, error)

    def _end(self, error: BusError) -> None:
        self._connection.detach(self._link, conditions.of(error, self._path))

    def credit_changed(self) -> None:
        """Pass the credit of the link on."""
        receiver = self._receiver
        if receiver is None or not self._link.is_open:
            return
        if self.calls is not None and self._link.credit:
            now_s = asyncio.get_running_loop().time()
            self.calls.asked(now_s, self._link.flows, self._link.delivery_count)
        if self._finishing:
            self._finish_drain()
            return
        wanted = self._link.credit
        room = max(0, UNSETTLED_MAX - self._link.session.unsettled)
        if wanted > room:
            wanted = room
            # By then the client may have settled some deliveries.
            self._connection.later_once(1.0, self.credit_changed)
        if wanted < self._granted and not self._taking_back:
            self._taking_back = True
            receiver.cancel(self._tag)
        if self._taking_back:
            # What partitions are giving for it counts: see `_ended`.
            return
        if wanted > self._granted:
            more, self._granted = wanted - self._granted, wanted
            receiver.grant(self._tag, more)
        if self._link.drain:
            receiver.drain(self._tag)

    def finish(self) -> None:
        """Send what was handed over, and nothing more."""
        self._send_turn(sys.maxsize)
        if self._receiver is not None:
            self._receiver.finish()
        self._granted = 0
        self._finishing = True
        # The core does not answer one that it works on. The SDK for .NET would wait a minute for
        # it, whatever becomes of the connection, and then fail to close its receiver.
        self._finish_drain()

    def _finish_drain(self) -> None:
        """Answer a drain, unless messages are being deleted, which follow."""
        if self._link.drain and not self.handing:
            self._link.drained()

    def disposed(self, deliveries: Sequence[OutgoingDelivery], state: Any, settled: bool) -> None:
        """Settle deliveries as the client has decided."""
        if self._receiver is None or self._settled:
            return
        self._connection.settled_s = asyncio.get_running_loop().time()
        most = bounds.TOKENS_A_FRAME_MAX
        for start in range(0, len(deliveries), most):
            self._settle(self._receiver, deliveries[start : start + most], state, settled)

    def _settle(
        self,
        receiver: Receiver,
        deliveries: Sequence[OutgoingDelivery],
        state: Any,
        settled: bool,
    ) -> None:
        tokens = b"".join([each.context for each in deliveries])
        if isinstance(state, TransactionalState):
            self._collect(deliveries, state, tokens, settled)
            return
        self._connection.settlements += 1
        try:
            request = _request(state, tokens)
            request.entity_uid = receiver.entity.uid
            request.session_token = receiver.shared.session_token
            answer = partial(self._answer, deliveries, state, settled)
            request.settler_id = self._settler_id
            self._connection.repeated_settles.start(request, answer)
        except BusError as error:
            self._connection.settlements -= 1
            if not settled:
                for each in deliveries:
                    self._say(each, Rejected(conditions.of(error, self._path)))
                self._connection.write_soon()

    def _collect(
        self,
        deliveries: Sequence[OutgoingDelivery],
        state: TransactionalState,
        tokens: bytes,
        settled: bool,
    ) -> None:
        """Add settlements to their transaction, and confirm that."""
        assert self._receiver is not None, "it receives"
        shared = self._receiver.shared
        # The SDK for .NET takes an outcome that comes back with an error for a failure.
        confirmed = TransactionalState(state.txn_id, _echo(state.outcome))
        try:
            request = _request(state.outcome, tokens)
            request.session_token = shared.session_token
            part = transact.settle_part(request)
            operation = Operation(shared.entity.name, shared.sub_queue, part)
            sequel = Sequel(
                committed=partial(self._committed, deliveries, confirmed),
                rolled_back=partial(self._rolled_back, shared, tokens if settled else b""),
            )
            coordinator.collect(self._connection.coordinators, state, operation, self._link, sequel)
        except BusError as error:
            coordinator.spoil(self._connection.coordinators, state, error)
            refused = Rejected(coordinator.refusal(error, self._path))
            for each in () if settled else deliveries:
                self._say(each, refused)
        else:
            for each in deliveries:
                self._link.session.update(each.delivery_id, confirmed)
        self._connection.write_soon()

    def _committed(self, deliveries: Sequence[OutgoingDelivery], state: TransactionalState) -> None:
        if self._link.is_open:
            for each in deliveries:
                self._say(each, state)

    def _rolled_back(self, shared: SharedCache, tokens: bytes) -> None:
        """Abandon what the client cannot settle any more."""
        if tokens and not self._connection.gone:
            request = SettleRequest(Disposition.ABANDON, tokens)
            request.entity_uid = shared.entity.uid
            request.session_token = shared.session_token
            request.settler_id = self._settler_id
            self._connection.settlements += 1
            self._connection.repeated_settles.start(request, self._abandoned)

    def _abandoned(self, _: SettleOutcome) -> None:
        self._connection.answered(settlements=1)

    def stop(self) -> None:
        """Receive nothing more for a link that has ended; `closed` follows."""
        if self._receiver is not None:
            self._receiver.stop()

    def closed(self, *, lost: bool = False) -> None:
        """Take note that the link is detached."""
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            self._connection.front_end.receives.close(receiver)
        handed, self._unsent = self._unsent, deque()
        for each in handed:
            if isinstance(each, _Unsent):
                self._release(columns.tokens(each.batch, each.sent, len(each.messages)))
        unsent = b"".join([each.context for each in self._link.withdraw() if not each.settled])
        most = bounds.TOKENS_A_FRAME_MAX * lock_token.TOKEN_BYTES
        for start in range(0, len(unsent), most):
            self._release(unsent[start : start + most])

    def _send(self, unsent: "_Unsent", most: int) -> int:
        """Send some messages; return how many. Messages beyond the credit are given back."""
        link, messages, start = self._link, unsent.messages, unsent.sent
        end = min(len(messages), start + most)
        for index in range(start, end):
            if link.credit < 1 and not self._settled:
                self._release(columns.tokens(unsent.batch, index, len(messages)))
                unsent.sent = len(messages)
                return index - start
            name = messages.lock_name(index)
            tag = lock_names.tag_of(name) if name else uuid.uuid4().bytes
            payload, token = messages.encode(index, name), messages.lock_token(index)
            self._connection.metrics.transfers.counts["out"] += 1
            link.send(tag, payload, settled=self._settled, context=token)
            self._granted -= 1
        self._connection.delivered_s = time.monotonic()
        unsent.sent = end
        return end - start

    def _give_back(self, batches: Sequence[columns.DeliveredBatch]) -> None:
        for batch in batches:
            self._release(columns.tokens(batch, 0, len(batch.messages)))

    def _release(self, tokens: bytes) -> None:
        """Release messages that the client has no credit for any more, or never got."""
        if tokens:
            request = SettleRequest(Disposition.RELEASE, tokens)
            self._connection.front_end.settles.start(request, _unheard)

    def _answer(
        self,
        deliveries: Sequence[OutgoingDelivery],
        state: Any,
        settled: bool,
        outcome: SettleOutcome,
    ) -> None:
        self._connection.answered(settlements=1)
        if settled or not self._link.is_open:
            return
        failed = {index: error for indexes, error in outcome.failures for index in indexes}
        echoed = _echo(state)
        for index, each in enumerate(deliveries):
            error = failed.get(index)
            if error is None:
                self._say(each, echoed)
            else:
                self._say(each, Rejected(conditions.of(error, self._path)))
        self._connection.write_soon()

    def _say(self, delivery: OutgoingDelivery, state: Composite) -> None:
        self._link.session.settle(delivery.delivery_id, state, incoming=False)


class _Unsent:
    """Messages that were handed over together; those up to `sent` are sent."""

    __slots__ = ("batch", "messages", "sent")

    def __init__(self, batch: columns.DeliveredBatch) -> None:
        self.batch = batch
        self.messages = outgoing_messages.Delivery(batch, by_link=True)
        self.sent = 0


def _unheard(_: Settling) -> None:
    """Ignore the outcome of a release: the messages are not the client's."""


def _request(state: Any, tokens: bytes) -> SettleRequest:
    """Return the settlement that an outcome asks for. Raises InvalidArgument."""
    if isinstance(state, Accepted):
        return SettleRequest(Disposition.COMPLETE, tokens)
    if isinstance(state, Modified):
        changed = _changes(state.message_annotations)
        if state.undeliverable_here:
            return SettleRequest(Disposition.DEFER, tokens, changed)
        # Also without delivery-failed: the SDK for Go abandons so, and expects it to count.
        return SettleRequest(Disposition.ABANDON, tokens, changed)
    if isinstance(state, Rejected):
        return _dead_letter(state, tokens)
    return SettleRequest(Disposition.RELEASE, tokens)


def _dead_letter(state: Rejected, tokens: bytes) -> SettleRequest:
    error = state.error if isinstance(state.error, Error) else None
    if error is None:
        return SettleRequest(Disposition.DEAD_LETTER, tokens)
    info = dict(error.info or {})
    # A value that is no text stays a property, as in Service Bus.
    reason, description = (
        info.pop(name) if isinstance(info.get(name), str) else None
        for name in (delivered_properties.REASON, delivered_properties.DESCRIPTION)
    )
    if error.condition != DEAD_LETTER:
        # Other AMQP clients: the condition of the error is the reason.
        reason = error.condition if reason is None else reason
        description = error.description if description is None else description
    return SettleRequest(
        Disposition.DEAD_LETTER,
        tokens,
        _changes(info),
        incoming_messages.dead_letter_text(reason),
        incoming_messages.dead_letter_text(description),
    )


def _changes(given: dict[Any, Any] | None) -> columns.Properties | None:
    return incoming_messages.changed_properties(given) if given else None


def _echo(state: Any) -> Composite:
    """Return the outcome that confirms one: the same, without an error."""
    if isinstance(state, (Accepted, Modified)):
        return state
    return Rejected() if isinstance(state, Rejected) else Released()
