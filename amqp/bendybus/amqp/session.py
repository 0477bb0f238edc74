"""Sessions: windows, handles of links, and unsettled deliveries.

The incoming window is renewed when half of it is used; the outgoing window is the peer's, and
transfers wait here while it is closed. Settlements of consecutive deliveries with the same state
share a frame.
"""

import copy
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from bendybus.amqp import encoding, events, serial, values
from bendybus.amqp.composites import Composite, known
from bendybus.amqp.errors import DecodeError, ProtocolError
from bendybus.amqp.links import (
    RECEIVER,
    IncomingLink,
    Link,
    LinkState,
    OutgoingDelivery,
    OutgoingLink,
)
from bendybus.amqp.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Received,
    Rejected,
    TransactionalState,
    Transfer,
)
from bendybus.amqp.values import Uint

if TYPE_CHECKING:
    from bendybus.amqp.connection import Connection

# The incoming window, in transfers.
INCOMING_WINDOW: Final = 5_000
OUTGOING_WINDOW: Final = 0x7FFFFFFF
# Bounds of delivery tags and transaction ids. The specification's is 32 bytes, but the first SDK
# for Java (azure-servicebus 3) sends tags of 36, the text of a UUID.
TAG_BYTES_MAX: Final = 64
TXN_ID_BYTES_MAX: Final = 32
# Bounds of what is kept of an attached link: name, source and target.
NAME_BYTES_MAX: Final = 1_024
ATTACH_BYTES_MAX: Final = 4 * 1024
# Look-ups by dispositions that find no unsettled delivery: a minimum, and more for each delivery.
MISSES_MIN: Final = 200_000
MISSES_A_DELIVERY: Final = 16
# Memory of a waiting transfer beside its bytes.
_WAITING_BYTES: Final = 200
# The most that a disposition adds to its state: head, constructors, role, first, last, flag.
_DISPOSITION_BYTES: Final = 8 + 12 + 1 + 5 + 5 + 1
# The most that a transfer adds to its payload: head, constructors, handle, id, tag, flags.
_TRANSFER_BYTES: Final = 8 + 8 + 5 + 5 + 2 + TAG_BYTES_MAX + 5 + 2
_TRANSFER: Final = b"\x00\x53\x14\xc0"
_DISPOSITION: Final = b"\x00\x53\x15\xc0"


class Session:
    """One session."""

    def __init__(self, connection: "Connection", channel: int, begin: Begin) -> None:
        self.connection = connection
        # Our channel; the connection finds the session by the peer's.
        self.channel = channel
        # Ended by this side; frames that the peer sent before it learned of that are dropped.
        self.ending = False
        # By the peer's handle, and by our handle.
        self._links: dict[int, Link] = {}
        self._handles: dict[int, Link] = {}
        # Our handles that are free again.
        self._freed: list[int] = []
        # Links whose state the peer has asked for; None: the session's.
        self._echoes: dict[Link | None, None] = {}
        self._next_incoming_id = begin.next_outgoing_id
        self._incoming_window = INCOMING_WINDOW
        # The next transfer, and the next delivery, which may take several transfers.
        self._next_outgoing_id = 0
        self._delivery_id = 0
        self._remote_window = begin.incoming_window
        # Deliveries that are not settled, by id: those without a decision of the peer, and those
        # with one that is not answered yet. The peer decides on each delivery once.
        self._unsettled: dict[int, OutgoingDelivery] = {}
        self._decided: dict[int, OutgoingDelivery] = {}
        self._misses = self._deliveries = 0
        # Deliveries with transfers that wait for the peer's window.
        self._waiting: deque[OutgoingDelivery] = deque()
        self._dropped = 0
        self.waiting_bytes = 0
        # A settlement that the next ones may join: our role, first and last id, encoded state.
        self._run: tuple[bool, int, int, bytes] | None = None

    @property
    def links(self) -> Sequence[Link]:
        """All its links, also those that are being attached or detached."""
        return tuple(self._links.values())

    @property
    def is_writable(self) -> bool:
        """Whether what is sent now is written at once: the peer's window is open, nothing waits."""
        return self._remote_window > 0 and not self._waiting

    @property
    def unsettled(self) -> int:
        """How many deliveries the peer has not settled."""
        return len(self._unsettled) + len(self._decided)

    # Commands

    def settle(self, delivery_id: int, state: Composite | None, *, incoming: bool = True) -> None:
        """Settle an incoming delivery, or with `incoming=False` an outgoing one, with a state."""
        encoded = b"" if state is None else self._fitting(state)
        if not incoming:
            delivery = self._decided.pop(delivery_id, None)
            if delivery is None:
                delivery = self._unsettled.pop(delivery_id, None)
            if delivery is None:
                # The peer has settled it, or has detached its link.
                return
            delivery.settled = True
            delivery.link.unsettled -= 1
        run = self._run
        if run is not None:
            if run[0] is incoming and run[3] == encoded and delivery_id == serial.after(run[2]):
                self._run = (incoming, run[1], delivery_id, encoded)
                return
            self.flush()
        self._run = (incoming, delivery_id, delivery_id, encoded)
        self.connection.flush_later(self)

    def update(self, delivery_id: int, state: Composite) -> None:
        """Send a state of an outgoing delivery, and leave it unsettled."""
        delivery = self._decided.pop(delivery_id, None)
        if delivery is not None:
            # The peer may decide again.
            self._unsettled[delivery_id] = delivery
        if delivery_id in self._unsettled:
            self.write(Disposition(False, delivery_id, None, False, state))

    def flush(self) -> None:
        """Write the pending settlement, and the flows that the peer has asked for."""
        if self._echoes:
            echoes, self._echoes = self._echoes, {}
            for link in echoes:
                if isinstance(link, (IncomingLink, OutgoingLink)) and link.is_open:
                    self.write_flow(link)
                else:
                    self.write_flow()
        run, self._run = self._run, None
        if run is not None and not self.ending:
            role, first, last, state = run
            body = bytearray(b"\x41" if role else b"\x42")
            encoding.write(Uint(first), body)
            encoding.write(Uint(last), body)
            body += b"\x41"
            if state:
                body += state
            self.connection.write_body(self.channel, _listed(_DISPOSITION, body, 5 if state else 4))

    def end(self, error: Error | None = None) -> None:
        """End it, with its links."""
        if not self.ending:
            self.write(End(error))
            self.ending = True
            self.ended()

    # For links

    def write(self, performative: Composite) -> None:
        """Write a frame of this session."""
        self.flush()
        if not self.ending:
            performative = fitting(performative, self.connection.body_bytes_max)
            self.connection.write_body(self.channel, performative.encoded())

    def emit(self, event: events.Event) -> None:
        """Report something."""
        self.connection.emit(event)

    def write_flow(self, link: IncomingLink | OutgoingLink | None = None) -> None:
        """Write a flow: the state of the session, and of a link."""
        flow = Flow(
            next_incoming_id=self._next_incoming_id,
            incoming_window=self._incoming_window,
            next_outgoing_id=self._next_outgoing_id,
            outgoing_window=OUTGOING_WINDOW,
        )
        if link is not None:
            link.flow_fields(flow)
        self.write(flow)

    def send(
        self,
        link: OutgoingLink,
        tag: bytes,
        payload: bytes,
        settled: bool,
        message_format: int,
        context: Any,
    ) -> OutgoingDelivery:
        """Send a delivery, in as many transfers as the peer's frames need."""
        delivery_id = self._next_delivery_id()
        delivery = OutgoingDelivery(link, delivery_id, tag, context)
        if settled:
            delivery.settled = True
        else:
            self._unsettled[delivery_id] = delivery
            self._deliveries += 1
            link.unsettled += 1
        fields = bytearray()
        encoding.write(Uint(link.handle), fields)
        encoding.write(Uint(delivery_id), fields)
        fields += bytes((values.BINARY8, len(tag)))
        fields += tag
        encoding.write(Uint(message_format), fields)
        fields.append(values.TRUE if settled else values.FALSE)
        most = self.connection.frame_bytes_max - _TRANSFER_BYTES
        if len(payload) <= most:
            self._transfer(delivery, _listed(_TRANSFER, fields, 5), payload)
            return delivery
        first = _listed(_TRANSFER, fields + b"\x41", 6)
        handle = encoding.encode(Uint(link.handle))
        further = _listed(_TRANSFER, bytearray(handle + b"\x40\x40\x40\x40\x41"), 6)
        last = _listed(_TRANSFER, bytearray(handle), 1)
        self._transfer(delivery, first, payload[:most])
        for at in range(most, len(payload), most):
            body = further if at + most < len(payload) else last
            self._transfer(delivery, body, payload[at : at + most])
        if delivery.waiting is not None:
            delivery.waiting.reverse()
        return delivery

    def drop_waiting(self, delivery: OutgoingDelivery) -> None:
        """Forget what of a delivery waits for the peer's window."""
        for body, payload in delivery.waiting or ():
            self._count_waiting(-(len(body) + len(payload) + _WAITING_BYTES))
        delivery.waiting = None
        self._dropped += 1
        if 2 * self._dropped > len(self._waiting):
            # Not when the window opens: it may stay closed while links come and go.
            self._waiting = deque(each for each in self._waiting if each.waiting)
            self._dropped = 0

    def write_waiting(self) -> bool:
        """Write the next transfer that waits; return whether the peer's window had room for one."""
        while self._waiting and self._remote_window > 0:
            delivery = self._waiting[0]
            if not delivery.waiting:
                self._dropped -= 1
                self._waiting.popleft()
                continue
            body, payload = delivery.waiting.pop()
            self._count_waiting(-(len(body) + len(payload) + _WAITING_BYTES))
            self._write_transfer(body, payload)
            if not delivery.waiting:
                delivery.waiting = None
                delivery.link.written()
                self._waiting.popleft()
            return True
        if self.is_writable:
            self.connection.window_opened(self)
        return False

    def _fitting(self, state: Composite) -> bytes:
        """Return the encoding of a state, shortened if it does not fit into a frame."""
        encoded, most = encoded_state(state), self.connection.body_bytes_max - _DISPOSITION_BYTES
        if len(encoded) <= most:
            return encoded
        if isinstance(state, Rejected):
            return fitting(state, most).encoded()
        if isinstance(state, Modified):
            return Modified(state.delivery_failed, state.undeliverable_here).encoded()
        assert isinstance(state, TransactionalState), state
        return TransactionalState(state.txn_id).encoded()

    def _next_delivery_id(self) -> int:
        found = self._delivery_id
        self._delivery_id = serial.after(found)
        return found

    def _transfer(self, delivery: OutgoingDelivery, body: bytes, payload: bytes) -> None:
        if self._waiting or self._remote_window < 1:
            if delivery.waiting is None:
                delivery.waiting = []
                self._waiting.append(delivery)
                delivery.link.waiting.append(delivery)
            delivery.waiting.append((body, payload))
            self._count_waiting(len(body) + len(payload) + _WAITING_BYTES)
            return
        self._write_transfer(body, payload)

    def _write_transfer(self, body: bytes, payload: bytes) -> None:
        self.flush()
        self._remote_window -= 1
        self._next_outgoing_id = serial.after(self._next_outgoing_id)
        self.connection.write_body(self.channel, body, payload)

    # From the peer

    def take(self, performative: Composite, payload: bytes) -> None:
        """Take a frame of the peer. Raises ProtocolError."""
        if isinstance(performative, Transfer):
            self._take_transfer(performative, payload)
        elif isinstance(performative, Disposition):
            self._take_disposition(performative)
        elif isinstance(performative, Flow):
            self._take_flow(performative)
        elif isinstance(performative, Attach):
            self._take_attach(performative)
        elif isinstance(performative, Detach):
            self._take_detach(performative)
        else:
            name = type(performative).__name__.lower()
            raise ProtocolError("amqp:not-allowed", f"a session has no frames of type {name}")

    def ended(self) -> None:
        """Take note that the session has ended, and its links with it."""
        for link in self._links.values():
            link.ended()
        self.connection.links -= len(self._links)
        self._links.clear()
        self._handles.clear()
        self._unsettled.clear()
        self._decided.clear()
        self._echoes.clear()
        self._waiting.clear()
        self._count_waiting(-self.waiting_bytes)
        self._dropped = self._remote_window = 0
        self._run = None

    def _count_waiting(self, size_bytes: int) -> None:
        self.waiting_bytes += size_bytes
        self.connection.waiting_bytes += size_bytes

    def _take_transfer(self, transfer: Transfer, payload: bytes) -> None:
        self._next_incoming_id = serial.after(self._next_incoming_id)
        self._incoming_window -= 1
        if self._incoming_window < 0:
            raise ProtocolError(
                "amqp:session:window-violation", f"the window was {INCOMING_WINDOW} transfers"
            )
        link = self._link(transfer.handle)
        if not isinstance(link, IncomingLink):
            raise ProtocolError("amqp:not-allowed", "a receiver sends no transfers")
        if self._incoming_window <= INCOMING_WINDOW // 2:
            self._incoming_window = INCOMING_WINDOW
            self.write_flow()
        if transfer.delivery_tag is not None and len(transfer.delivery_tag) > TAG_BYTES_MAX:
            raise ProtocolError("amqp:invalid-field", f"a tag has {TAG_BYTES_MAX} bytes at most")
        if transfer.state is not None:
            state = _state(transfer.state)
            # Other states mean nothing for a new delivery.
            transfer.state = state if isinstance(state, TransactionalState) else None
        link.transfer(transfer, payload)

    def _take_disposition(self, disposition: Disposition) -> None:
        if disposition.role is not RECEIVER:
            # About deliveries to us, which we settle with our answer.
            return
        first = disposition.first
        last = first if disposition.last is None else disposition.last
        count = serial.distance(first, last) + 1
        if count < 1:
            raise ProtocolError("amqp:invalid-field", f"last {last} is before first {first}")
        state = _state(disposition.state)
        if not disposition.settled and (state is None or isinstance(state, Received)):
            # The peer has not decided yet.
            return
        found = self._found(first, count)
        for delivery in found:
            del self._unsettled[delivery.delivery_id]
            if disposition.settled:
                delivery.settled = True
                delivery.link.unsettled -= 1
            else:
                self._decided[delivery.delivery_id] = delivery
        if found:
            self.emit(events.Disposed(self, found, state, disposition.settled))

    def _found(self, first: int, count: int) -> list[OutgoingDelivery]:
        """Return the deliveries of a range that the peer has not decided on. Raises ProtocolError.

        The work is bounded by the deliveries, and that of fruitless look-ups by MISSES_MIN.
        """
        unsettled = self._unsettled
        if count == 1:
            each = unsettled.get(first)
            return [] if each is None else [each]
        if count > len(unsettled):
            found = [each for id_, each in unsettled.items() if (id_ - first) & serial.MASK < count]
            self._misses += len(unsettled) - len(found)
        else:
            ids = (serial.after(first, step) for step in range(count))
            found = [unsettled[id_] for id_ in ids if id_ in unsettled]
            self._misses += count - len(found)
        if self._misses > MISSES_MIN + MISSES_A_DELIVERY * self._deliveries:
            raise ProtocolError(
                "amqp:resource-limit-exceeded",
                "dispositions name too many deliveries that are settled already",
            )
        return found

    def _take_flow(self, flow: Flow) -> None:
        seen = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        in_flight = max(0, serial.distance(seen, self._next_outgoing_id))
        was_writable = self.is_writable
        self._remote_window = flow.incoming_window - in_flight
        if not was_writable and self._remote_window > 0:
            self.connection.write_waiting_of(self)
        link = None
        if flow.handle is not None:
            link = self._link(flow.handle)
            if isinstance(link, OutgoingLink):
                link.flow(flow)
        if flow.echo:
            self._echoes[link] = None
            self.connection.flush_later(self)

    def _take_attach(self, attach: Attach) -> None:
        if attach.handle in self._links:
            raise ProtocolError(
                "amqp:session:handle-in-use", f"handle {attach.handle} is attached already"
            )
        settings = self.connection.settings
        if attach.handle > max(settings.handle_max, settings.handle_taken):
            most = settings.handle_max
            raise ProtocolError("amqp:connection:framing-error", f"handles are at most {most}")
        most = self.connection.links_max
        if self.connection.links >= most:
            raise ProtocolError(
                "amqp:resource-limit-exceeded", f"at most {most} links may be attached"
            )
        attach.source, attach.target = _terminus(attach.source), _terminus(attach.target)
        _check_size(attach, self.connection.body_bytes_max)
        handle = self._freed.pop() if self._freed else len(self._handles)
        kind = OutgoingLink if attach.role is RECEIVER else IncomingLink
        link = kind(self, attach, handle)
        self._links[attach.handle] = self._handles[handle] = link
        self.connection.links += 1
        self.emit(events.Attached(link, attach))

    def _take_detach(self, detach: Detach) -> None:
        link = self._links.get(detach.handle)
        if link is None:
            # Both sides detached the link at the same time.
            return
        was = link.state
        self._forget(detach.handle, link)
        link.ended()
        if was is LinkState.DETACHING:
            return
        if was is LinkState.ATTACHING:
            # The peer did not wait for our attach, and expects it and a detach now.
            self.write(link.attach_without_ends())
        self.write(Detach(link.handle, detach.closed))
        error = error_of(detach.error)
        self.emit(events.Detached(link, detach.closed, error))

    def _forget(self, handle: int, link: Link) -> None:
        del self._links[handle]
        del self._handles[link.handle]
        self._freed.append(link.handle)
        self._echoes.pop(link, None)
        self.connection.links -= 1
        if isinstance(link, OutgoingLink) and link.unsettled:
            for kept in (self._unsettled, self._decided):
                gone = [id_ for id_, each in kept.items() if each.link is link]
                for delivery_id in gone:
                    del kept[delivery_id]
            link.unsettled = 0

    def _link(self, handle: int) -> Link:
        link = self._links.get(handle)
        if link is None:
            raise ProtocolError(
                "amqp:session:unattached-handle", f"handle {handle} is not attached"
            )
        return link


def _check_size(attach: Attach, body_bytes_max: int) -> None:
    """Raise ProtocolError for an attach that is too large to keep, or to answer."""
    if len(attach.name.encode()) > min(NAME_BYTES_MAX, body_bytes_max - 64):
        raise ProtocolError("amqp:invalid-field", f"a name has {NAME_BYTES_MAX} bytes at most")
    # Not used.
    attach.unsettled = attach.offered_capabilities = attach.desired_capabilities = None
    if len(attach.encoded()) > ATTACH_BYTES_MAX:
        raise ProtocolError(
            "amqp:resource-limit-exceeded", f"an attach has {ATTACH_BYTES_MAX} bytes at most"
        )


def fitting(performative: Composite, bytes_max: int) -> Composite:
    """Return a frame's body, or a state, with its error's description cut so that it fits."""
    error = getattr(performative, "error", None)
    if isinstance(error, Error) and error.description:
        over = len(performative.encoded()) - bytes_max
        if over > 0:
            text = error.description.encode()
            cut = text[: max(0, len(text) - over)].decode(errors="ignore")
            made = copy.copy(performative)
            made.error = Error(error.condition, cut)  # type: ignore[attr-defined]
            return made
    return performative


def _listed(head: bytes, fields: bytes | bytearray, count: int) -> bytes:
    """Return a performative whose fields are encoded, and take less than 255 bytes."""
    if len(fields) < 255:
        return head + bytes((len(fields) + 1, count)) + fields
    wide = (len(fields) + 4).to_bytes(4, "big") + count.to_bytes(4, "big")
    return head[:-1] + bytes((values.LIST32,)) + wide + fields


_STATES: Final[dict[type, bytes]] = {}


def encoded_state(state: Composite) -> bytes:
    """Return the encoding of a state; cached for states without fields."""
    kind = type(state)
    if kind not in _STATES:
        encoded = state.encoded()
        if kind._TYPES:
            return encoded
        _STATES[kind] = encoded
    return _STATES[kind]


def _state(value: Any) -> Any:
    """Return a delivery state, and the outcome in it, as composites. Raises ProtocolError."""
    if value is None:
        return None
    try:
        state = outcome = known(value)
        if hasattr(state, "outcome"):
            outcome = state.outcome = known(state.outcome)
        if hasattr(outcome, "error"):
            outcome.error = known(outcome.error)
    except DecodeError as error:
        raise ProtocolError("amqp:decode-error", str(error)) from None
    if isinstance(state, TransactionalState) and len(state.txn_id) > TXN_ID_BYTES_MAX:
        raise ProtocolError(
            "amqp:invalid-field", f"a transaction's id has {TXN_ID_BYTES_MAX} bytes at most"
        )
    return state


def _terminus(value: Any) -> Any:
    try:
        return known(value)
    except DecodeError as error:
        raise ProtocolError("amqp:decode-error", str(error)) from None


def error_of(value: Any) -> Error | None:
    """Return the error of a detach, end or close; None if it cannot be decoded."""
    try:
        found = known(value)
    except DecodeError:
        return None
    return found if isinstance(found, Error) else None
