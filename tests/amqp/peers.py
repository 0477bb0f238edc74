"""The client end of a connection: writes any frames, and reads those of the engine."""

from collections.abc import Sequence
from typing import Any, TypeVar

from bendybus.amqp import composites, decoding, frames, sections
from bendybus.amqp import events as engine_events
from bendybus.amqp.composites import Composite
from bendybus.amqp.connection import Connection, ConnectionSettings
from bendybus.amqp.links import IncomingLink, OutgoingLink
from bendybus.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    End,
    Flow,
    Open,
    SaslInit,
    Source,
    Target,
    Transfer,
)

EventT = TypeVar("EventT")
CompositeT = TypeVar("CompositeT", bound=Composite)


def framed(
    performative: Composite, payload: bytes = b"", *, channel: int = 0, kind: int = 0
) -> bytes:
    """Return the bytes of a frame."""
    out = bytearray()
    frames.write(kind, channel, performative.encoded(), out, payload)
    return bytes(out)


def message(body: bytes = b"body") -> bytes:
    """Return the bytes of a message."""
    return sections.encode(sections.Message(data=(body,)))


class Peer:
    """A client and the engine that serves it, without anything between them."""

    def __init__(self, settings: ConnectionSettings | None = None, **hooks: Any) -> None:
        self.engine = Connection(settings or ConnectionSettings("server"), **hooks)
        # What the engine reported, and what it wrote: performatives with channel and payload.
        self.events: list[engine_events.Event] = []
        self.frames: list[tuple[int, Composite, bytes]] = []
        self.headers: list[bytes] = []
        self._rest = bytearray()

    def feed(self, data: bytes) -> None:
        """Let the engine read bytes; take what it writes for them."""
        self.events += self.engine.receive(data)
        self.take()

    def take(self) -> None:
        """Take what the engine writes."""
        self._rest += self.engine.output()
        while len(self._rest) >= frames.HEADER_BYTES:
            if self._rest[:4] == b"AMQP":
                self.headers.append(bytes(self._rest[:8]))
                del self._rest[:8]
                continue
            size = int.from_bytes(self._rest[:4], "big")
            assert len(self._rest) >= size, "the engine writes whole frames"
            frame = bytes(self._rest[:size])
            del self._rest[:size]
            if size > frames.HEADER_BYTES:
                value, end = decoding.decode(frame[8:])
                channel = int.from_bytes(frame[6:8], "big")
                self.frames.append((channel, _read(value), frame[8 + end :]))

    def send(self, *performatives: Composite, payload: bytes = b"", channel: int = 0) -> None:
        """Send frames on a channel; the payload goes with each of them."""
        self.feed(b"".join(framed(each, payload, channel=channel) for each in performatives))

    def said(self, kind: type[CompositeT]) -> list[CompositeT]:
        """Return what the engine wrote of a kind, in order."""
        return [each for _, each, _ in self.frames if isinstance(each, kind)]

    def heard(self, kind: type[EventT]) -> list[EventT]:
        """Return what the engine reported of a kind, in order."""
        return [each for each in self.events if isinstance(each, kind)]

    def authenticate(self, mechanism: str = "ANONYMOUS") -> None:
        """Go through SASL."""
        self.feed(frames.SASL_HEADER)
        self.feed(framed(SaslInit(mechanism), kind=frames.SASL))
        self.engine.authenticate(True)

    def open(self, *, max_frame_size: int = 64 * 1024, **given: Any) -> None:
        """Open the connection, and a session on channel 0."""
        self.authenticate()
        self.feed(frames.AMQP_HEADER + framed(Open("peer", max_frame_size=max_frame_size, **given)))
        self.begin()

    def begin(self, channel: int = 0, *, incoming_window: int = 1_000) -> None:
        """Begin a session."""
        begin = Begin(next_outgoing_id=0, incoming_window=incoming_window, outgoing_window=1_000)
        self.send(begin, channel=channel)

    def attach_sender(self, handle: int = 0, *, credit: int = 10, limit: int = 0) -> IncomingLink:
        """Attach a link on which the peer sends, which the engine's driver accepts."""
        attach = Attach(
            name=f"sender-{handle}",
            handle=handle,
            role=False,
            source=Source(address="here"),
            target=Target(address="queue"),
            initial_delivery_count=0,
        )
        self.send(attach)
        link = self.heard(engine_events.Attached)[-1].link
        assert isinstance(link, IncomingLink), link
        link.accept(max_message_size=limit or None)
        link.grant(credit)
        self.take()
        return link

    def attach_receiver(
        self, handle: int = 0, *, credit: int = 0, snd_settle_mode: int = 0
    ) -> OutgoingLink:
        """Attach a link on which the peer receives, which the engine's driver accepts."""
        attach = Attach(
            name=f"receiver-{handle}",
            handle=handle,
            role=True,
            snd_settle_mode=snd_settle_mode,
            rcv_settle_mode=1,
            source=Source(address="queue"),
            target=Target(address="here"),
        )
        self.send(attach)
        link = self.heard(engine_events.Attached)[-1].link
        assert isinstance(link, OutgoingLink), link
        link.accept()
        self.take()
        if credit:
            self.flow(handle, credit)
        return link

    def flow(self, handle: int, credit: int, *, delivery_count: int = 0, **given: Any) -> None:
        """Say what credit a link has."""
        self.send(
            Flow(
                next_incoming_id=given.pop("next_incoming_id", 0),
                incoming_window=given.pop("incoming_window", 1_000),
                next_outgoing_id=0,
                outgoing_window=1_000,
                handle=handle,
                delivery_count=delivery_count,
                link_credit=credit,
                **given,
            )
        )

    def transfer(
        self, handle: int = 0, delivery_id: int = 0, payload: bytes = b"", **given: Any
    ) -> None:
        """Send a transfer."""
        self.send(
            Transfer(
                handle=handle,
                delivery_id=delivery_id,
                delivery_tag=given.pop("tag", delivery_id.to_bytes(4, "big")),
                message_format=0,
                **given,
            ),
            payload=payload or message(),
        )


def _read(value: Any) -> Composite:
    """Return a performative with its error, if it has one, as a composite."""
    found = composites.composite(value)
    if isinstance(found, (Close, Detach, End)):
        found.error = composites.known(found.error)
    return found


def transfers(peer: Peer) -> Sequence[tuple[Transfer, bytes]]:
    """Return the transfers that the engine wrote, with their payloads."""
    return [(each, payload) for _, each, payload in peer.frames if isinstance(each, Transfer)]
