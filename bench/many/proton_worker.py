"""A client process on Qpid Proton with many connections: each awaits its own message."""

import contextlib
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final

from proton import Delivery, Handler, Link, Message
from proton.handlers import Handshaker
from proton.reactor import Container, LinkOption

from bench.amqp.orders import BROKEN, DONE, READY, Place
from bench.many.orders import REPLIES, Order, Report, Role

# After so long without any answer an order fails.
SILENT_S: Final = 20.0
_TICK_S: Final = 0.1


def serve(pipe: Connection, place: Place, body: bytes) -> None:
    """Carry out orders until the pipe ends, which is also the case when the parent dies."""
    payload: bytes = Message(body=body, inferred=True, durable=place.durable).encode()
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            order: Order = pipe.recv()
            work = _Work(pipe, place, order, payload)
            Container(work).run()
            pipe.send(work.result)


class _Unsettled(LinkOption):  # type: ignore[misc]
    """Deliveries are unsettled; with `second`, a receiver settles them after the sender has."""

    def __init__(self, second: bool) -> None:
        self._second = second

    def apply(self, link: Any) -> None:
        """Set the settle modes of the attach."""
        link.snd_settle_mode = Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_SECOND if self._second else Link.RCV_FIRST


class _Work(Handler):  # type: ignore[misc]
    """All connections of an order."""

    def __init__(self, pipe: Connection, place: Place, order: Order, payload: bytes) -> None:
        self.add(Handshaker())
        self.place, self.payload = place, payload
        self.took_s: array[float] = array("d")
        self.result: tuple[str, Any] = (BROKEN, "the connections ended")
        self.until_s = 0.0
        self._pipe, self._order = pipe, order
        self._began_s = self._heard_s = 0.0
        self._members: list[_Member] = []
        self._attached = 0
        self._container: Any = None
        self._over = False

    def on_reactor_init(self, event: Any) -> None:
        """Connect them all."""
        self._container = event.container
        for number in range(self._order.connections):
            self._members.append(_member(self, self._order.role, number))
        for each in self._members:
            each.connect(event.container)
        self._heard_s = time.monotonic()
        event.container.schedule(_TICK_S, self)

    def on_timer_task(self, event: Any) -> None:
        """End the order when its time is over, or when the server is silent."""
        if self._over:
            return
        now_s = time.monotonic()
        begun = self._began_s > 0
        waits = any(each.waits for each in self._members)
        if begun and now_s >= self.until_s and not (waits and self._order.role is Role.SEND):
            self.end()
        elif now_s - self._heard_s > SILENT_S:
            self.end(f"{self._order.role.value}: {len(self.took_s)} messages, then silence")
        else:
            self._container.schedule(_TICK_S, self)

    def attached(self, links: int) -> None:
        """Begin when the links of all connections are attached, in all processes."""
        self._attached += links
        if self._attached < sum(each.links for each in self._members):
            return
        self._pipe.send((READY, 0))
        self._pipe.recv()
        self._began_s = self._heard_s = time.monotonic()
        self.until_s = self._began_s + self._order.seconds
        for each in self._members:
            each.begin()

    def heard(self, began_s: float) -> bool:
        """Take note of a message that is done; whether there is to be another one."""
        self._heard_s = now_s = time.monotonic()
        if now_s > self.until_s:
            return False
        self.took_s.append(now_s - began_s)
        return True

    def end(self, error: str | None = None) -> None:
        """Report, once, and close everything."""
        if self._over:
            return
        self._over = True
        report = Report(self.took_s, self._heard_s - self._began_s)
        self.result = (DONE, report) if error is None else (BROKEN, error)
        for each in self._members:
            each.connection.close()

    def broke(self, condition: Any) -> None:
        """Report what ended a connection."""
        self.end(f"{condition.name}: {condition.description}" if condition else "closed")


class _Member(Handler, ABC):  # type: ignore[misc]
    """A connection, with a link for each thing that it does."""

    links = 1

    def __init__(self, work: _Work) -> None:
        self.add(Handshaker())
        self.work = work
        # It awaits the answer of the server.
        self.waits = False
        self.connection: Any = None
        self._began_s = 0.0
        self._sent = 0

    def connect(self, container: Any) -> None:
        """Connect, and attach the links."""
        self.connection = container.connect(
            self.work.place.address, allowed_mechs="ANONYMOUS", reconnect=False, handler=self
        )
        self.attach(container)

    @abstractmethod
    def attach(self, container: Any) -> None:
        """Attach the links."""

    @abstractmethod
    def begin(self) -> None:
        """Start with the first message."""

    def sender(self, container: Any, queue: str) -> Any:
        """Return a link to send on."""
        return container.create_sender(
            self.connection, queue, options=_Unsettled(second=False), handler=self
        )

    def receiver(self, container: Any, queue: str) -> Any:
        """Return a link to receive on."""
        return container.create_receiver(
            self.connection, queue, options=_Unsettled(self.work.place.echoes), handler=self
        )

    def send(self, link: Any) -> None:
        """Send one message."""
        self.waits = True
        link.delivery(str(self._sent))
        self._sent += 1
        link.stream(self.work.payload)
        link.advance()

    def on_link_remote_open(self, event: Any) -> None:
        """Take note of a link that is attached."""
        self.work.attached(1)

    def on_delivery(self, event: Any) -> None:
        """Take a message, or the answer of the server to one."""
        delivery, link = event.delivery, event.link
        if link.is_sender:
            if not delivery.updated:
                return
            if delivery.remote_state != Delivery.ACCEPTED:
                self.work.end(f"a send was answered with {delivery.remote_state}")
                return
            delivery.settle()
            self.waits = False
            self.accepted()
        elif delivery.readable and not delivery.partial:
            link.recv(delivery.pending)
            link.advance()
            delivery.update(Delivery.ACCEPTED)
            if not self.work.place.echoes:
                delivery.settle()
                self.settled()
        elif delivery.settled:
            delivery.settle()
            self.settled()

    def accepted(self) -> None:
        """Go on after a send."""

    def settled(self) -> None:
        """Go on after a message was received and settled."""

    def on_transport_error(self, event: Any) -> None:
        """Report what broke the connection."""
        self.work.broke(event.transport.condition)

    def on_connection_remote_close(self, event: Any) -> None:
        """Report why the server closed the connection."""
        self.work.broke(event.connection.remote_condition)

    def on_link_remote_close(self, event: Any) -> None:
        """Report why the server detached a link."""
        self.work.broke(event.link.remote_condition)


class _Sending(_Member):
    """Sends one message after the other."""

    def attach(self, container: Any) -> None:
        self._link = self.sender(container, self.work.place.queue)

    def begin(self) -> None:
        self._next()

    def on_link_flow(self, event: Any) -> None:
        """Send the first message, if there was no credit for it before."""
        if self._began_s < 0 and event.link.credit:
            self._next()

    def accepted(self) -> None:
        if self.work.heard(self._began_s):
            self._next()

    def _next(self) -> None:
        if not self._link.credit:
            self._began_s = -1.0
            return
        self._began_s = time.monotonic()
        self.send(self._link)


class _Receiving(_Member):
    """Asks for one message after the other."""

    def attach(self, container: Any) -> None:
        self._link = self.receiver(container, self.work.place.queue)

    def begin(self) -> None:
        self._next()

    def settled(self) -> None:
        if self.work.heard(self._began_s):
            self._next()

    def _next(self) -> None:
        self._began_s = time.monotonic()
        self._link.flow(1)


class _Requesting(_Member):
    """Sends a request, and awaits a reply: any, since all are alike."""

    links = 2

    def attach(self, container: Any) -> None:
        queue = self.work.place.queue
        self._requests = self.sender(container, queue)
        self._replies = self.receiver(container, queue + REPLIES)

    def begin(self) -> None:
        self._next()

    def on_link_flow(self, event: Any) -> None:
        """Send the first request, if there was no credit for it before."""
        if self._began_s < 0 and self._requests.credit:
            self._next()

    def settled(self) -> None:
        if self.work.heard(self._began_s):
            self._next()

    def _next(self) -> None:
        if not self._requests.credit:
            self._began_s = -1.0
            return
        self._began_s = time.monotonic()
        self._replies.flow(1)
        self.send(self._requests)


class _Replying(_Member):
    """Receives a request, sends a reply, and settles the request."""

    links = 2

    def attach(self, container: Any) -> None:
        queue = self.work.place.queue
        self._requests = self.receiver(container, queue)
        self._replies = self.sender(container, queue + REPLIES)

    def begin(self) -> None:
        self._requests.flow(1)

    def settled(self) -> None:
        self.send(self._replies)

    def accepted(self) -> None:
        self._requests.flow(1)


def _member(work: _Work, role: Role, number: int) -> _Member:
    kinds: dict[Role, Callable[[_Work], _Member]] = {Role.SEND: _Sending, Role.RECEIVE: _Receiving}
    if role in kinds:
        return kinds[role](work)
    return _Replying(work) if number % 2 else _Requesting(work)
