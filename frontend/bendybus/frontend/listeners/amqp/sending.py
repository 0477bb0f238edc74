"""A link on which a client sends: its transfers become requests of the core.

Transfers that were read together go into one request, each with an outcome of its own; a batch is
one atomic unit. Each is answered when its partition has committed it.
"""

from typing import TYPE_CHECKING, Final

from bendybus.amqp import sections
from bendybus.amqp.composites import Composite
from bendybus.amqp.events import Delivered
from bendybus.amqp.links import IncomingLink
from bendybus.amqp.performatives import Accepted, Error, Rejected, TransactionalState
from bendybus.domain import errors, limits
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.send import SendOutcome, SendRequest
from bendybus.frontend.core.transact import Operation
from bendybus.frontend.listeners.amqp import conditions, coordinator, incoming_messages
from bendybus.frontend.listeners.amqp.incoming_messages import Columns
from bendybus.frontend.listeners.amqp.stage import Stage
from bendybus.frontend.security import authenticator
from bendybus.frontend.upstreams.unary_calls import SendPart

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

# Credit of a link; renewed when half of it is used. Bytes are bounded by pausing reading.
CREDIT: Final = 1_000
# Messages and bytes of one request to the core.
MESSAGES_MAX: Final = 1_000
BYTES_MAX: Final = 1 * limits.MB
# Bytes that a batch may have beyond its limit: the SDK for Python does not count the properties of
# the first message, which it repeats around the batch.
ENVELOPE_BYTES: Final = 2 * limits.KB


class _Unit:
    """A delivery, and how many messages it has."""

    __slots__ = ("delivery_id", "messages", "settled")

    def __init__(self, event: Delivered, messages: int) -> None:
        self.delivery_id = event.delivery_id
        self.settled = event.settled
        self.messages = messages


class SendingLink:
    """See the module."""

    def __init__(
        self,
        connection: "ClientConnection",
        link: IncomingLink,
        path: str,
        entity: str,
        limits_bytes: tuple[int, int],
    ) -> None:
        self._connection = connection
        self._link = link
        self._path = path
        self._entity = entity
        # The largest message, and the largest batch, in bytes.
        self._message_bytes_max, self._batch_bytes_max = limits_bytes
        self._messages = Columns()
        self._units: list[_Unit] = []
        self._size_bytes = 0
        self._finishing = False

    @property
    def right(self) -> tuple[authenticator.Operation, str]:
        """The right that the client needs, and the entity path."""
        return authenticator.Operation.SEND, self._path

    def begin(self) -> None:
        """Grant credit."""
        self._finishing = self._connection.stage >= Stage.SENDERS_FINISHED
        self.credit_changed()

    def finish(self, *, takes_back: bool = True) -> None:
        """Grant no more credit, and take back (`takes_back`) what the client has."""
        self._finishing = True
        if takes_back:
            self._link.grant(0)

    def credit_changed(self) -> None:
        """Let more transfers come, if there is little credit left."""
        if self._link.credit < CREDIT // 2 and not self._finishing:
            self._link.grant(CREDIT)

    def delivered(self, event: Delivered) -> None:
        """Take a transfer."""
        self.credit_changed()
        if event.state is not None:
            self._collect(event, event.state)
            return
        try:
            count = self._add(event, self._messages)
        except BusError as error:
            self._connection.front_end.metrics.refused(self._path, error)
            if not event.settled:
                self._reject(event.delivery_id, error)
            return
        self._units.append(_Unit(event, count))
        self._connection.collected[self] = None
        self._size_bytes += len(event.payload)
        if len(self._messages) >= MESSAGES_MAX or self._size_bytes >= BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Send the collected messages."""
        if not self._units:
            return
        units, messages = self._units, self._messages
        self._units, self._messages, self._size_bytes = [], Columns(), 0
        self._connection.sends += 1
        sizes = [unit.messages for unit in units]
        request = SendRequest(
            self._entity,
            SubQueue.MAIN,
            messages.batch(self._connection.new_id),
            group_sizes=sizes if len(sizes) > 1 else (),
            measured=True,
        )
        self._connection.front_end.nameless_sends.submit(
            request, lambda result: self._answered(units, result), self._connection.holder
        )

    def closed(self, *, lost: bool = False) -> None:
        """Take note that the link is detached: what came on it is sent, and not answered."""
        self.flush()

    def _collect(self, event: Delivered, state: TransactionalState) -> None:
        """Add a transfer to its transaction, and answer when it was."""
        try:
            messages = Columns()
            self._add(event, messages)
            batch = messages.batch(self._connection.new_id)
            part = SendPart(batch, True, incoming_messages.via_keys(batch))
            operation = Operation(self._entity, SubQueue.MAIN, part)
            coordinator.collect(self._connection.coordinators, state, operation, self._link)
        except BusError as error:
            self._connection.front_end.metrics.refused(self._path, error)
            coordinator.spoil(self._connection.coordinators, state, error)
            told: Composite = Rejected(coordinator.refusal(error, self._path))
        else:
            told = Accepted()
        if not event.settled:
            answer = TransactionalState(state.txn_id, told) if isinstance(told, Accepted) else told
            self._link.session.settle(event.delivery_id, answer)

    def _add(self, event: Delivered, messages: Columns) -> int:
        """Add the messages of a transfer, all or none; return how many. Raises what is wrong."""
        single = event.message_format != sections.BATCH_FORMAT
        most = self._message_bytes_max if single else self._batch_bytes_max
        accepted = most if single else most + ENVELOPE_BYTES
        if event.too_large or len(event.payload) > accepted:
            raise errors.MessageSizeExceeded(
                f"{self._entity!r}: the message, or batch, is larger than the {most} bytes "
                "allowed. Send less at a time.",
                metadata={"entity": self._entity, "limit": str(most)},
            )
        if event.no_room:
            raise errors.ServerBusy(
                "too many large messages are on their way to the front end. Retry.",
                retry_after_ms=500,
            )
        return messages.add_delivery(event.payload, event.message_format)

    def _answered(self, units: list[_Unit], result: SendOutcome | BusError) -> None:
        connection = self._connection
        connection.answered(sends=1)
        if not self._link.is_open:
            return
        settle = self._link.session.settle
        accepted = Accepted()
        failures = {} if isinstance(result, BusError) else result.failures
        for index, unit in enumerate(units):
            if unit.settled:
                continue
            error = result if isinstance(result, BusError) else failures.get(index)
            if error is None:
                settle(unit.delivery_id, accepted)
            else:
                self._reject(unit.delivery_id, error)
        connection.write_soon()

    def _reject(self, delivery_id: int, error: BusError) -> None:
        told: Error = conditions.of(error, self._path)
        self._link.session.settle(delivery_id, Rejected(told))
