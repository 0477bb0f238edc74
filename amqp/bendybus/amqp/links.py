"""Links: credit, deliveries, and how links are attached and detached.

    Attached event ──► accept ──► open ──► detach (ours, or the peer's)
                 └───► refuse

An incoming link carries messages from the peer, an outgoing link to the peer. Frames that the peer
sent before it learned of a detach are dropped.
"""

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from bendybus.amqp import events, serial
from bendybus.amqp.errors import ProtocolError
from bendybus.amqp.performatives import Attach, Detach, Error, Flow, Transfer

if TYPE_CHECKING:
    from bendybus.amqp.session import Session

SENDER: Final = False
RECEIVER: Final = True
# Settle modes.
SND_UNSETTLED: Final = 0
SND_SETTLED: Final = 1
SND_MIXED: Final = 2
RCV_FIRST: Final = 0
RCV_SECOND: Final = 1
_KEEP: Final = object()


class LinkState(Enum):
    """The state of a link."""

    # Attached by the peer; neither accepted nor refused yet.
    ATTACHING = "attaching"
    OPEN = "open"
    # Detached by this side; the peer has not answered.
    DETACHING = "detaching"
    DETACHED = "detached"


class Link:
    """What links of both directions have in common. `context` belongs to the caller."""

    def __init__(self, session: "Session", attach: Attach, handle: int) -> None:
        self.session = session
        self.attach = attach
        self.name = attach.name
        self.handle = handle
        self.state = LinkState.ATTACHING
        self.context: Any = None

    @property
    def is_open(self) -> bool:
        """Whether it is attached on both sides."""
        return self.state is LinkState.OPEN

    def accept(
        self,
        *,
        max_message_size: int | None = None,
        source: Any = _KEEP,
        target: Any = _KEEP,
        properties: dict[Any, Any] | None = None,
    ) -> None:
        """Answer the attach: with the peer's source, target and settle modes, unless given.

        If the answer does not fit into a frame of the peer, the link is refused: see `is_open`.
        """
        asked = self.attach
        source = asked.source if source is _KEEP else source
        target = asked.target if target is _KEEP else target
        answer = self._made(source, target, max_message_size, properties)
        if len(answer.encoded()) > self.session.connection.body_bytes_max:
            self.refuse(Error("amqp:frame-size-too-small", "the attach is larger than a frame"))
            return
        self._answer(answer)

    def refuse(self, error: Error) -> None:
        """Refuse it: with an attach without source and target, then a detach with the error."""
        self._answer(self.attach_without_ends())
        self.detach(error)

    def attach_without_ends(self) -> Attach:
        """Return the answer to an attach that is refused."""
        return self._made(None, None, None, None)

    def detach(self, error: Error | None = None, *, closed: bool = True) -> None:
        """Detach it."""
        if self.state is not LinkState.OPEN:
            return
        self.state = LinkState.DETACHING
        self._let_go()
        self.session.write(Detach(self.handle, closed, error))

    def ended(self) -> None:
        """Take note that the peer, its session or its connection ended it."""
        self.state = LinkState.DETACHED
        self._let_go()

    def _answer(self, attach: Attach) -> None:
        self.session.write(attach)
        self.state = LinkState.OPEN
        asked = self.attach
        # The rest is needed only for the answer.
        self.attach = Attach(
            asked.name, asked.handle, asked.role, asked.snd_settle_mode, asked.rcv_settle_mode
        )

    def _made(
        self,
        source: Any,
        target: Any,
        max_message_size: int | None,
        properties: dict[Any, Any] | None,
    ) -> Attach:
        asked = self.attach
        return Attach(
            name=asked.name,
            handle=self.handle,
            role=not asked.role,
            snd_settle_mode=asked.snd_settle_mode,
            rcv_settle_mode=asked.rcv_settle_mode,
            source=source,
            target=target,
            initial_delivery_count=0 if asked.role is RECEIVER else None,
            max_message_size=max_message_size,
            properties=properties,
        )

    def _let_go(self) -> None:
        """Drop the state that only an open link needs."""


class IncomingLink(Link):
    """A link on which the peer sends."""

    def __init__(self, session: "Session", attach: Attach, handle: int) -> None:
        super().__init__(session, attach, handle)
        self.delivery_count = attach.initial_delivery_count or 0
        self.credit = 0
        self.max_message_size = 0
        # An incomplete delivery: its first transfer, its bytes, and why they are not kept.
        self._first: Transfer | None = None
        self._parts = bytearray()
        self._dropped = self._no_room = False
        # A transfer came before the answer to the attach.
        self._early = False

    def accept(self, **given: Any) -> None:
        """Attach it; see `Link.accept`. max_message_size 0 or None: without a limit.

        It is detached if a transfer came already: the peer had no credit for it.
        """
        self.max_message_size = given.get("max_message_size") or 0
        super().accept(**given)
        if self._early:
            self.detach(
                Error(
                    "amqp:link:transfer-limit-exceeded",
                    "a transfer came before there was credit for it; wait for a flow",
                )
            )

    def grant(self, credit: int) -> None:
        """Set the credit: how many deliveries may follow."""
        self.credit = credit
        if self.is_open:
            self.session.write_flow(self)

    def flow_fields(self, flow: Flow) -> None:
        """Set the fields of the link in a flow."""
        flow.handle = self.handle
        flow.delivery_count = self.delivery_count
        flow.link_credit = max(0, self.credit)

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Take a transfer of the peer. Raises ProtocolError."""
        if self.state is not LinkState.OPEN:
            self._early = self.state is LinkState.ATTACHING
            return
        if self._first is None:
            if not transfer.more and not transfer.aborted:
                # The fast path: the delivery is a single frame.
                too_large = bool(self.max_message_size) and len(payload) > self.max_message_size
                self._arrived(transfer, b"" if too_large else payload, too_large, False)
                return
            self._first = transfer
        self._add(payload)
        if transfer.aborted:
            self._let_go()
            self._count()
            self.session.connection.credit_changed(self)
        elif not transfer.more:
            first, parts = self._first, bytes(self._parts)
            dropped, no_room = self._dropped, self._no_room
            first.state = first.state if transfer.state is None else transfer.state
            first.settled = first.settled or transfer.settled
            self._let_go()
            self._arrived(first, parts, dropped, no_room)

    def _add(self, payload: bytes) -> None:
        if self._dropped or self._no_room:
            return
        size = len(self._parts) + len(payload)
        if self.max_message_size and size > self.max_message_size:
            self._give_back()
            self._dropped = True
        elif not self.session.connection.reserve(len(payload)):
            self._give_back()
            self._no_room = True
        else:
            self._parts += payload

    def _give_back(self) -> None:
        if self._parts:
            self.session.connection.release(len(self._parts))
            self._parts = bytearray()

    def _let_go(self) -> None:
        self._give_back()
        self._first = None
        self._dropped = self._no_room = False

    def _count(self) -> None:
        self.delivery_count = serial.after(self.delivery_count)
        self.credit -= 1

    def _arrived(self, first: Transfer, payload: bytes, too_large: bool, no_room: bool) -> None:
        if first.delivery_id is None or first.delivery_tag is None:
            raise ProtocolError(
                "amqp:invalid-field", "the first transfer of a delivery has an id and a tag"
            )
        self._count()
        settled = first.settled is True or self.attach.snd_settle_mode == SND_SETTLED
        self.session.emit(
            events.Delivered(
                self,
                first.delivery_id,
                first.delivery_tag,
                first.message_format or 0,
                payload,
                settled,
                first.state,
                too_large,
                no_room,
            )
        )


class OutgoingDelivery:
    """A delivery to the peer. `context` belongs to the caller."""

    __slots__ = ("context", "delivery_id", "link", "settled", "tag", "waiting")

    def __init__(self, link: "OutgoingLink", delivery_id: int, tag: bytes, context: Any) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.tag = tag
        self.settled = False
        self.context = context
        # Its transfers that wait for the peer's window, the last one first: body and payload; None:
        # none does.
        self.waiting: list[tuple[bytes, bytes]] | None = None


class OutgoingLink(Link):
    """A link on which messages go to the peer. Its credit is known once it is accepted."""

    def __init__(self, session: "Session", attach: Attach, handle: int) -> None:
        super().__init__(session, attach, handle)
        self.delivery_count = 0
        self.credit = 0
        self.drain = False
        # How often the peer has given credit.
        self.flows = 0
        # Deliveries that are not settled.
        self.unsettled = 0
        # Those that wait for the peer's window, in order, or waited when the link ended; and that
        # the peer is to be told after them that its credit is used up.
        self.waiting: deque[OutgoingDelivery] = deque()
        self._drained = False

    def flow(self, flow: Flow) -> None:
        """Take a flow of the peer, which may arrive before the link is accepted."""
        if self.state not in (LinkState.ATTACHING, LinkState.OPEN):
            return
        if flow.link_credit is not None:
            # A peer that has not seen our attach yet sends no count; ours starts at 0.
            seen = flow.delivery_count or 0
            in_flight = max(0, serial.distance(seen, self.delivery_count))
            self.credit = max(0, flow.link_credit - in_flight)
            self.flows += 1
        self.drain = flow.drain
        if self.is_open:
            self.session.connection.credit_changed(self)

    def send(
        self,
        tag: bytes,
        payload: bytes,
        *,
        settled: bool,
        message_format: int = 0,
        context: Any = None,
    ) -> OutgoingDelivery:
        """Send a message, which uses one credit. Raises ValueError if the link is not open.

        It is sent even without credit, which violates the protocol: for messages that cannot be
        returned, when the peer has lowered the credit meanwhile.
        """
        if not self.is_open:
            raise ValueError(f"link {self.name!r} is not open")
        self.credit = max(0, self.credit - 1)
        self.delivery_count = serial.after(self.delivery_count)
        return self.session.send(self, tag, payload, settled, message_format, context)

    def drained(self) -> None:
        """Answer a drain: advance the delivery count by the remaining credit."""
        self.delivery_count = serial.after(self.delivery_count, self.credit)
        self.credit = 0
        if self.is_open:
            self._say_drained()
        self.drain = False

    def written(self) -> None:
        """Take note that the first of what waited is written."""
        self.waiting.popleft()
        if self._drained:
            self._say_drained()

    def withdraw(self) -> list[OutgoingDelivery]:
        """Take back, and return once, what waits for the peer's window, or did at the end."""
        self._let_go()
        found = list(self.waiting)
        self.waiting.clear()
        return found

    def _let_go(self) -> None:
        # Not sent under a handle that is free, or another link's by then.
        for each in self.waiting:
            if each.waiting:
                self.session.drop_waiting(each)

    def _say_drained(self) -> None:
        """Say so STRICTLY AFTER the deliveries that used up the rest."""
        self._drained = bool(self.waiting)
        if not self._drained:
            # Not if there is credit again: the peer did not wait for the answer.
            drain, self.drain = self.drain, not self.credit
            self.session.write_flow(self)
            self.drain = drain

    def flow_fields(self, flow: Flow) -> None:
        """Set the fields of the link in a flow."""
        flow.handle = self.handle
        flow.delivery_count = self.delivery_count
        flow.link_credit = self.credit
        flow.drain = self.drain
