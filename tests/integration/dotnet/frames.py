"""Frames as Microsoft.Azure.Amqp writes them: sessions, links, deliveries, requests."""

import itertools
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.amqp import composites, frames, sections
from bendybus.amqp.links import SND_SETTLED
from bendybus.amqp.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from bendybus.amqp.sections import Message, Properties
from bendybus.amqp.values import Symbol
from tests.amqp.peers import framed
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp

UNLIMITED: Final = 2**32 - 1
WINDOW: Final = 5_000
_REPLY_CREDIT: Final = 50
_OPEN: Final = {
    Symbol("product"): "Azure.Messaging.ServiceBus",
    Symbol("version"): "7.21.0",
    Symbol("framework"): ".NET 8.0.11",
    Symbol("platform"): "Linux",
}


@dataclass(slots=True)
class Session:
    """An AMQP session. `remote`: the channel that the bus writes on."""

    channel: int
    remote: int
    handles: "itertools.count[int]" = field(default_factory=itertools.count)
    # Transfers and deliveries of this side, and transfers of the bus.
    sent: int = 0
    received: int = 0


@dataclass(slots=True)
class Link:
    """A link, and what the bus answered to its attach."""

    session: Session
    handle: int
    name: str
    answer: Attach
    tags: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    received: int = 0

    @property
    def properties(self) -> dict[Any, Any]:
        """The properties of the answer."""
        return self.answer.properties or {}


@dataclass(frozen=True, slots=True)
class Received:
    """A message, and its delivery."""

    link: Link
    delivery_id: int
    tag: bytes
    message: Message

    @property
    def lock_token(self) -> uuid.UUID:
        """The lock token, which .NET makes of the tag in its own order of bytes."""
        return uuid.UUID(bytes_le=self.tag)

    @property
    def sequence_number(self) -> int:
        """The sequence number."""
        assert isinstance(self.message.message_annotations, dict)
        return int(self.message.message_annotations["x-opt-sequence-number"])


class Refused(Exception):
    """Raised when an attach is refused."""

    def __init__(self, error: Any) -> None:
        super().__init__(error)
        self.condition, self.description = str(error.condition), str(error.description)


class Frames:
    """A connection to the bus at an address."""

    def __init__(self, address: str) -> None:
        self.host = address
        self._raw = RawAmqp(address)
        self._channels = itertools.count()
        self._open()

    def disconnect(self) -> None:
        """End the connection without a word."""
        self._raw.socket.close()

    def begin(self, incoming_window: int) -> Session:
        """Begin a session."""
        channel = next(self._channels)
        begin = Begin(None, 0, incoming_window, WINDOW, handle_max=255, properties={})
        self._raw.send(begin, channel=channel)
        remote, _, _ = self._raw.wait_on_channel(
            Begin, lambda _, found: found.remote_channel == channel
        )
        return Session(channel, remote)

    def attach(
        self, session: Session, name: str, role: bool, source: Any, target: Any, **given: Any
    ) -> Link:
        """Attach a link. Raises Refused."""
        handle = next(session.handles)
        asked = Attach(
            name,
            handle,
            role,
            source=source,
            target=target,
            initial_delivery_count=None if role is RECEIVER else 0,
            **given,
        )
        self._raw.send(asked, channel=session.channel)
        answer = self._raw.wait(Attach, lambda found: found.name == name)
        if (answer.source if role is RECEIVER else answer.target) is None:
            _, refusal, _ = self._raw.wait_on_channel(
                Detach,
                lambda channel, found: channel == session.remote and found.handle == answer.handle,
            )
            raise Refused(refusal.error)
        answer.source = composites.known(answer.source)
        return Link(session, handle, name, answer)

    def flow(self, link: Link, credit: int, *, drain: bool = False) -> None:
        """Say what credit a link has."""
        session = link.session
        flow = Flow(
            next_incoming_id=session.received,
            incoming_window=UNLIMITED,
            next_outgoing_id=session.sent,
            outgoing_window=WINDOW,
            handle=link.handle,
            delivery_count=link.received,
            link_credit=credit,
            drain=drain,
        )
        self._raw.send(flow, channel=session.channel)

    def transfer(self, link: Link, payload: bytes, *, tag: bytes, **given: Any) -> int:
        """Send a delivery; return its id."""
        session = link.session
        number, session.sent = session.sent, session.sent + 1
        given.setdefault("message_format", 0)
        if link.answer.snd_settle_mode == SND_SETTLED:
            given["settled"] = True
        transfer = Transfer(link.handle, number, tag, **given)
        self._raw.send(transfer, payload=payload, channel=session.channel)
        return number

    def delivery(self, link: Link) -> Received:
        """Return the next delivery on a link."""
        session = link.session
        _, found, payload = self._raw.wait_on_channel(
            Transfer,
            lambda channel, each: channel == session.remote and each.handle == link.answer.handle,
        )
        session.received += 1
        link.received += 1
        assert found.delivery_id is not None
        return Received(
            link, found.delivery_id, found.delivery_tag or b"", sections.decode(payload)
        )

    def end(self, session: Session) -> None:
        """End a session, and the links on it."""
        self._raw.send(End(), channel=session.channel)
        self._raw.wait_on_channel(End, lambda channel, _: channel == session.remote)

    def dispose(self, found: Received, state: Any) -> Any:
        """Ask for a settlement; return the outcome that the bus confirms."""
        session = found.link.session
        disposition = Disposition(RECEIVER, found.delivery_id, state=state, batchable=True)
        self._raw.send(disposition, channel=session.channel)
        return self.outcome(session, SENDER, found.delivery_id)

    def drained(self, link: Link) -> None:
        """Wait until the bus has used up the credit of a link, which was one."""
        _, answer, _ = self._raw.wait_on_channel(
            Flow,
            lambda channel, found: (
                channel == link.session.remote and found.handle == link.answer.handle
            ),
        )
        # The SDK advances its own count, and only if the answer says that it drains.
        assert answer.drain
        link.received += 1

    def outcome(self, session: Session, role: bool, number: int) -> Any:
        """Return the outcome of a delivery, that of this side or of the bus as `role` says."""
        _, found, _ = self._raw.wait_on_channel(
            Disposition,
            lambda channel, each: (
                channel == session.remote
                and each.role is role
                and each.first <= number <= (each.first if each.last is None else each.last)
            ),
        )
        last = found.first if found.last is None else found.last
        if last > number:
            # For the deliveries after it.
            found.first = number + 1
            self._raw.frames.append((session.remote, found, b""))
        state = found.state
        if isinstance(state, TransactionalState):
            state.outcome = composites.known(state.outcome)
        return state

    def _open(self) -> None:
        raw = self._raw
        raw.write(frames.SASL_HEADER)
        assert "MSSBCBS" in raw.wait(SaslMechanisms).mechanisms
        raw.write(framed(SaslInit("MSSBCBS"), kind=frames.SASL))
        assert raw.wait(SaslOutcome).code == 0
        raw.write(frames.AMQP_HEADER)
        raw.send(
            Open(
                f"amqps://{self.host}/-1a2b3c4d",
                hostname=self.host.rpartition(":")[0],
                max_frame_size=64 * 1024,
                channel_max=8_191,
                idle_time_out=60_000,
                properties=dict(_OPEN),
            )
        )
        raw.wait(Open)


class Requests:
    """A pair of links for requests and replies."""

    def __init__(self, peer: Frames, session: Session, address: str, properties: Any) -> None:
        self._peer = peer
        self._reply_to = uuid.uuid4().hex
        self._ids = itertools.count(1)
        name = f"duplex{session.channel}:{uuid.uuid4().hex[:8]}"
        self._requests = peer.attach(
            session,
            f"{name}:sender",
            SENDER,
            Source(),
            Target(address=address),
            snd_settle_mode=SND_SETTLED,
            properties=properties,
        )
        self._replies = peer.attach(
            session,
            f"{name}:receiver",
            RECEIVER,
            Source(address=address),
            Target(address=self._reply_to),
            snd_settle_mode=SND_SETTLED,
            properties=properties,
        )
        peer.flow(self._replies, _REPLY_CREDIT)

    def request(self, properties: dict[str, Any], body: Any, txn_id: bytes | None = None) -> Any:
        """Ask; return the reply."""
        message_id = f"request{next(self._ids)}"
        asked = Message(
            properties=Properties(message_id=message_id, reply_to=self._reply_to),
            application_properties=properties,
            value=body,
            has_value=True,
        )
        state = None if txn_id is None else TransactionalState(txn_id)
        self._peer.transfer(self._requests, sections.encode(asked), tag=b"", state=state)
        while True:
            found = self._peer.delivery(self._replies)
            assert found.message.properties is not None
            if found.message.properties.correlation_id == message_id:
                return found.message
