"""A client process on Qpid Proton: one connection, one link, transfers and dispositions one by one.

`clients` starts three of these and sends them orders over a pipe. Messages are encoded once and not
decoded, so that the program takes little of the cores that it shares with the server.
"""

import contextlib
import time
from abc import ABC, abstractmethod
from multiprocessing.connection import Connection
from typing import Any, Final

from proton import Delivery, Handler, Link, Message
from proton.handlers import Handshaker
from proton.reactor import Container, LinkOption

from bench.amqp.orders import BROKEN, DONE, READY, WINDOW, Order, Place, Role

# After so long without any answer an order fails.
SILENT_S: Final = 20.0
_TICK_S: Final = 0.5


def serve(pipe: Connection, counter: Any, place: Place, body: bytes) -> None:
    """Do what the pipe says until it ends, which it also does when the parent dies."""
    message = Message(body=body, inferred=True, durable=place.durable)
    payload: bytes = message.encode()
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            order: Order = pipe.recv()
            work = (
                _Sending(pipe, counter, place, order, payload)
                if order.role is Role.SEND
                else _Receiving(pipe, counter, place, order, body_bytes=len(body))
            )
            Container(work).run()
            work.report("the connection ended")


class _Unsettled(LinkOption):  # type: ignore[misc]
    """Deliveries are unsettled; with `second`, a receiver settles them after the sender has."""

    def __init__(self, second: bool) -> None:
        self._second = second

    def apply(self, link: Any) -> None:
        """Set the settle modes of the attach."""
        link.snd_settle_mode = Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_SECOND if self._second else Link.RCV_FIRST


class _Work(Handler, ABC):  # type: ignore[misc]
    """A connection with one link, opened for one order."""

    def __init__(self, pipe: Connection, counter: Any, place: Place, order: Order) -> None:
        self.add(Handshaker())
        self._done = 0
        self._reported = False
        self._pipe, self._counter, self._place = pipe, counter, place
        self._role = order.role
        self._count = order.count or 2**63
        self._seconds = order.seconds
        self._heard_s = 0.0
        self._until_s = float("inf")
        self._under_way = 0
        self._link: Any = None
        self._timer: Any = None
        self._container: Any = None
        self._connection: Any = None

    def on_reactor_init(self, event: Any) -> None:
        """Connect, and attach the link."""
        self._container = event.container
        self._connection = event.container.connect(
            self._place.address, allowed_mechs="ANONYMOUS", reconnect=False
        )
        self._heard_s = time.monotonic()
        self._link = self._attach()
        self._timer = self._container.schedule(_TICK_S, self)

    @abstractmethod
    def _attach(self) -> Any:
        """Attach the link, and return it."""

    @abstractmethod
    def begin(self) -> None:
        """Start sending or receiving."""

    def on_link_remote_open(self, event: Any) -> None:
        """Wait until the links of all processes are attached."""
        self._pipe.send((READY, 0))
        self._pipe.recv()
        self._heard_s = now_s = time.monotonic()
        if self._seconds:
            self._until_s = now_s + self._seconds
        self.begin()

    def on_timer_task(self, event: Any) -> None:
        """End the order when its time is over, or when the server is silent."""
        if self._connection is None:
            return
        now_s = time.monotonic()
        if now_s >= self._until_s and not self._under_way:
            self._end()
        elif now_s - self._heard_s > SILENT_S:
            self._end(f"{self._role.value}: {self._state()}, then nothing for {SILENT_S:.0f} s")
        else:
            self._timer = self._container.schedule(_TICK_S, self)

    def _state(self) -> str:
        return f"{self._done} messages, {self._under_way} unsettled, credit {self._link.credit}"

    def _counted(self) -> None:
        self._done += 1
        self._under_way -= 1
        self._counter.value = self._done
        if self._done & 255 == 0 or not self._under_way:
            self._heard_s = time.monotonic()
        if self._done == self._count or (not self._under_way and self._heard_s >= self._until_s):
            self._end()

    def _end(self, error: str | None = None) -> None:
        if self._connection is not None:
            self.report(error)
            self._timer.cancel()
            self._connection.close()
            self._connection = None

    def report(self, error: str | None) -> None:
        """Report the result, once; before the connection is closed, which is not measured."""
        if not self._reported:
            self._reported = True
            self._pipe.send((DONE, self._done) if error is None else (BROKEN, error))

    def on_transport_error(self, event: Any) -> None:
        """Report what broke the connection."""
        self._broke(event.transport.condition)

    def on_connection_remote_close(self, event: Any) -> None:
        """Report why the server closed the connection."""
        self._broke(event.connection.remote_condition)

    def on_session_remote_close(self, event: Any) -> None:
        """Report why the server ended the session."""
        self._broke(event.session.remote_condition)

    def on_link_remote_close(self, event: Any) -> None:
        """Report why the server detached the link."""
        self._broke(event.link.remote_condition)

    def _broke(self, condition: Any) -> None:
        if self._connection is not None:
            self._end(f"{condition.name}: {condition.description}" if condition else "closed")


class _Sending(_Work):
    """Sends one message a transfer, unsettled; settles each when it was accepted."""

    def __init__(
        self, pipe: Connection, counter: Any, place: Place, order: Order, payload: bytes
    ) -> None:
        super().__init__(pipe, counter, place, order)
        self._payload = payload
        self._sent = 0
        self._begun = False

    def _attach(self) -> Any:
        return self._container.create_sender(
            self._connection, self._place.queue, options=_Unsettled(second=False)
        )

    def begin(self) -> None:
        self._begun = True
        self._fill()

    def on_link_flow(self, event: Any) -> None:
        """Send when there is credit."""
        if self._begun:
            self._fill()

    def _fill(self) -> None:
        if self._connection is None or self._heard_s >= self._until_s:
            return
        link, payload, sent = self._link, self._payload, self._sent
        room = min(link.credit, WINDOW - self._under_way, self._count - sent)
        for number in range(sent, sent + room):
            link.delivery(str(number))
            link.stream(payload)
            link.advance()
        if room > 0:
            self._sent += room
            self._under_way += room

    def on_delivery(self, event: Any) -> None:
        """Settle a send with the outcome that the server reported."""
        delivery = event.delivery
        if not delivery.updated:
            return
        if delivery.remote_state != Delivery.ACCEPTED:
            self._end(f"a send was answered with {delivery.remote_state}")
            return
        delivery.settle()
        self._counted()
        if self._under_way <= WINDOW // 2:
            self._fill()


class _Receiving(_Work):
    """Accepts each delivery by itself, and settles it when the server has settled it.

    Where the server does not echo, it is accepted and settled at once.
    """

    def __init__(
        self, pipe: Connection, counter: Any, place: Place, order: Order, *, body_bytes: int
    ) -> None:
        super().__init__(pipe, counter, place, order)
        self._body_bytes = body_bytes
        self._joined = order.role is Role.RECEIVE_JOINED
        self._asked = 0
        self._transport: Any = None

    def _attach(self) -> Any:
        return self._container.create_receiver(
            self._connection, self._place.queue, options=_Unsettled(self._place.echoes)
        )

    def begin(self) -> None:
        if self._place.echoes and self._link.remote_rcv_settle_mode != Link.RCV_SECOND:
            self._end("the server does not support rcv-settle-mode second")
            return
        self._transport = self._connection.transport
        self._ask()

    def _ask(self) -> None:
        """Grant credit up to the window, and for no more messages than are wanted."""
        if self._connection is None or self._heard_s >= self._until_s:
            return
        more = min(WINDOW - (self._asked - self._done), self._count - self._asked)
        if more > 0:
            self._asked += more
            self._link.flow(more)

    def on_delivery(self, event: Any) -> None:
        """Accept a message, or take note that the server has settled one."""
        if self._connection is None:
            # RabbitMQ 3.10 sends more than the credit allows; what is not accepted goes back.
            return
        delivery = event.delivery
        if delivery.readable and not delivery.partial:
            link = event.link
            payload = link.recv(delivery.pending)
            assert len(payload) >= self._body_bytes, "a message is incomplete"
            link.advance()
            delivery.update(Delivery.ACCEPTED)
            self._under_way += 1
            if not self._place.echoes:
                delivery.settle()
            if not self._joined:
                # Encodes the disposition now. Later ones could still become part of it otherwise.
                self._transport.pending()
            if not self._place.echoes:
                self._accounted()
        elif delivery.settled:
            delivery.settle()
            self._accounted()

    def _accounted(self) -> None:
        self._counted()
        if self._asked - self._done <= WINDOW // 2:
            self._ask()
