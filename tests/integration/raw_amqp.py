"""A client that writes any frames over a socket and reads the answers."""

import socket
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from bendybus.amqp import composites, decoding, frames, sections
from bendybus.amqp.composites import Composite, as_written
from bendybus.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Coordinator,
    Declare,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Rejected,
    SaslInit,
    SaslOutcome,
    Source,
    Target,
    Transfer,
)
from bendybus.amqp.sections import Message, Properties
from tests.amqp.peers import framed

CompositeT = TypeVar("CompositeT", bound=Composite)
WITHIN_S = 20.0
SENDER, RECEIVER = False, True


class RawAmqp:
    """A connection. What came is in `frames`: (channel, performative, payload)."""

    def __init__(self, address: str, *, receive_bytes: int = 0) -> None:
        """Connect. `receive_bytes`: what may be on its way to here; 0: as usual."""
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(WITHIN_S)
        self.socket.connect((host, int(port)))
        self.frames: list[tuple[int, Composite, bytes]] = []
        # The other side closed the connection.
        self.ended = False
        self._rest = bytearray()
        self._deliveries = 0
        self.handles: dict[tuple[str, bool], int] = {}

    def __enter__(self) -> "RawAmqp":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def write(self, data: bytes) -> None:
        """Write bytes."""
        self.socket.sendall(data)

    def send(self, *performatives: Composite, payload: bytes = b"", channel: int = 0) -> None:
        """Write frames."""
        self.write(b"".join(framed(each, payload, channel=channel) for each in performatives))

    def read(self, within_s: float = 0.2) -> bool:
        """Take what comes next; False: nothing came, or the connection is over."""
        self.socket.settimeout(within_s)
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            return False
        except ConnectionError:
            data = b""
        finally:
            self.socket.settimeout(WITHIN_S)
        self.ended = self.ended or not data
        self._rest += data
        self._parse()
        return bool(data)

    def _parse(self) -> None:
        while len(self._rest) >= frames.HEADER_BYTES:
            if self._rest[:4] == b"AMQP":
                del self._rest[:8]
                continue
            size = int.from_bytes(self._rest[:4], "big")
            if len(self._rest) < size:
                return
            frame = bytes(self._rest[:size])
            del self._rest[:size]
            if size > frames.HEADER_BYTES:
                value, end = decoding.decode(frame[8:])
                found = composites.composite(value)
                for name in ("error", "state"):
                    if hasattr(found, name):
                        setattr(found, name, composites.known(getattr(found, name)))
                if isinstance(found, Disposition) and isinstance(found.state, Rejected):
                    found.state.error = composites.known(found.state.error)
                self.frames.append((int.from_bytes(frame[6:8], "big"), found, frame[8 + end :]))

    def wait(
        self,
        kind: type[CompositeT],
        where: Callable[[CompositeT], bool] = lambda _: True,
        within_s: float = WITHIN_S,
    ) -> CompositeT:
        """Return the first frame of a kind that is not taken yet, and take it."""
        return self.wait_on_channel(kind, lambda _, found: where(found), within_s)[1]

    def wait_on_channel(
        self,
        kind: type[CompositeT],
        where: Callable[[int, CompositeT], bool],
        within_s: float = WITHIN_S,
    ) -> tuple[int, CompositeT, bytes]:
        """Return the first frame of a kind, with its channel and payload, and take it."""
        deadline = time.monotonic() + within_s
        while True:
            for index, (channel, found, payload) in enumerate(self.frames):
                if isinstance(found, kind) and where(channel, found):
                    del self.frames[index]
                    return channel, found, payload
            left_s = deadline - time.monotonic()
            if self.ended or left_s <= 0:
                raise AssertionError(f"no {kind.__name__}; there are {self.frames}")
            self.read(left_s)

    def wait_for_end(self, within_s: float = WITHIN_S) -> float:
        """Wait until the other side closes the connection; return how long that took."""
        began = time.monotonic()
        while not self.ended and time.monotonic() < began + within_s:
            self.read(0.1)
        assert self.ended, "the connection is still there"
        return time.monotonic() - began

    def sasl(self, mechanism: str = "ANONYMOUS", response: bytes = b"") -> int:
        """Authenticate; return the outcome's code."""
        self.write(frames.SASL_HEADER)
        self.write(framed(SaslInit(mechanism, response), kind=frames.SASL))
        return self.wait(SaslOutcome).code

    def open(self, *, max_frame_size: int = 64 * 1024, **given: Any) -> "RawAmqp":
        """Authenticate as nobody, open, begin a session on channel 0."""
        assert self.sasl() == 0
        return self.opened(max_frame_size=max_frame_size, **given)

    def plain(self, policy: str, key: str) -> "RawAmqp":
        """Open it with the name and the key of a policy."""
        assert self.sasl("PLAIN", f"\0{policy}\0{key}".encode()) == 0
        return self.opened()

    def opened(self, *, max_frame_size: int = 64 * 1024, **given: Any) -> "RawAmqp":
        """Open it once authenticated, and begin a session on channel 0."""
        self.write(frames.AMQP_HEADER)
        self.send(Open("raw", max_frame_size=max_frame_size, **given))
        self.wait(Open)
        self.begin()
        return self

    def begin(self, channel: int = 0, *, incoming_window: int = 5_000) -> None:
        """Begin a session."""
        begin = Begin(next_outgoing_id=0, incoming_window=incoming_window, outgoing_window=5_000)
        self.send(begin, channel=channel)
        self.wait(Begin, lambda each: each.remote_channel == channel)

    def attach(self, address: str, role: bool, **given: Any) -> Detach | None:
        """Attach a link; return why it was refused, None if it was not."""
        handle = len(self.handles)
        self.handles[address, role] = handle
        self.send(attach_of(address, role, handle, **given))
        name = f"link-{handle}"
        answer = self.wait(Attach, lambda each: each.name == name)
        refused = (answer.target if role is SENDER else answer.source) is None
        return self.wait(Detach) if refused else None

    def flow(self, address: str, credit: int, **given: Any) -> None:
        """Say what credit a link has."""
        self.send(flow_of(self.handles[address, RECEIVER], credit, **given))

    def transfer(self, address: str, payload: bytes, **given: Any) -> Any:
        """Send a delivery; return its outcome."""
        number = self._deliveries
        self._deliveries += 1
        transfer = Transfer(
            handle=self.handles[address, SENDER],
            delivery_id=number,
            delivery_tag=number.to_bytes(4, "big"),
            message_format=given.pop("message_format", 0),
            **given,
        )
        self.send(transfer, payload=payload)
        return self.wait(
            Disposition, lambda each: each.first <= number <= (each.last or each.first)
        ).state

    def declare(self) -> Any:
        """Declare a transaction; return the outcome."""
        node = ("coordinator", SENDER)
        if node not in self.handles:
            self.handles[node] = handle = len(self.handles)
            attach = attach_of("coordinator", SENDER, handle, name="coordinator")
            attach.target = Coordinator()
            self.send(attach)
            self.wait(Attach, lambda each: each.name == attach.name)
        asked = Message(value=as_written(Declare()), has_value=True)
        return self.transfer("coordinator", sections.encode(asked))

    def request(self, address: str, properties: dict[str, Any], body: Any) -> Message:
        """Ask a node that answers requests; return the reply."""
        if (address, SENDER) not in self.handles:
            assert self.attach(address, SENDER) is None
            assert self.attach(address, RECEIVER) is None
            self.flow(address, 1_000)
        message_id = uuid.uuid4()
        asked = Message(
            properties=Properties(message_id=message_id),
            application_properties=properties,
            value=body,
            has_value=True,
        )
        self.transfer(address, sections.encode(asked))
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            for index, (_, found, payload) in enumerate(self.frames):
                if isinstance(found, Transfer):
                    reply = sections.decode(payload)
                    if reply.properties and reply.properties.correlation_id == message_id:
                        del self.frames[index]
                        return reply
            self.read()
        raise AssertionError("no reply")

    def put_token(self, token: Any, audience: str, kind: str = "jwt") -> int:
        """Put a token; return the status."""
        properties = {"operation": "put-token", "type": kind, "name": audience}
        reply = self.request("$cbs", properties, token).application_properties
        assert isinstance(reply, dict)
        return int(reply["status-code"])

    def manage(
        self, path: str, operation: str, body: Any, **properties: Any
    ) -> tuple[int, str, Any]:
        """Ask $management of an entity; return status, condition and body of the reply."""
        name = {"operation": f"com.microsoft:{operation}", **properties}
        reply = self.request(f"{path}/$management", name, body)
        found = reply.application_properties
        assert isinstance(found, dict)
        return int(found["statusCode"]), str(found.get("errorCondition") or ""), reply.value

    def said(self, kind: type[CompositeT]) -> list[CompositeT]:
        """Return what came of a kind."""
        return [each for _, each, _ in self.frames if isinstance(each, kind)]

    def close(self) -> None:
        """Close it, and wait for the answer."""
        self.send(Close())
        self.wait(Close)
        self.socket.close()


def attach_of(address: str, role: bool, handle: int, **given: Any) -> Attach:
    """Return an attach of a link in the direction of `role`: that of this side."""
    ours, theirs = Source(address=address), Target(address="raw")
    if role is SENDER:
        ours, theirs = Source(address="raw"), Target(address=address)
    filter_ = given.pop("filter", None)
    if filter_ is not None:
        ours.filter = filter_
    return Attach(
        name=given.pop("name", f"link-{handle}"),
        handle=handle,
        role=role,
        rcv_settle_mode=1 if role is RECEIVER else 0,
        source=ours,
        target=theirs,
        initial_delivery_count=None if role is RECEIVER else 0,
        **given,
    )


def flow_of(handle: int, credit: int, **given: Any) -> Flow:
    """Return the credit of a link."""
    return Flow(
        next_incoming_id=given.pop("next_incoming_id", 0),
        incoming_window=given.pop("incoming_window", 5_000),
        next_outgoing_id=0,
        outgoing_window=5_000,
        handle=handle,
        delivery_count=given.pop("delivery_count", 0),
        link_credit=credit,
        **given,
    )


def ended(channel_or_link: Composite) -> str:
    """Return the condition that something ended with."""
    error = getattr(channel_or_link, "error", None)
    return "" if error is None else str(error.condition)


__all__ = ["RECEIVER", "SENDER", "End", "RawAmqp", "attach_of", "ended", "flow_of"]
