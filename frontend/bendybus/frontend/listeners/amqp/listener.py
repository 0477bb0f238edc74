"""The AMQP listener of a front end: its sockets, its connections, and what they share."""

import asyncio
import itertools
import logging
import os
import ssl
import time
from collections.abc import Callable
from typing import Final, Protocol, cast

from prometheus_client import CollectorRegistry, Gauge

from bendybus.amqp.connection import ConnectionSettings
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.metrics import Counts
from bendybus.frontend.core.quota.bounds import IDLE_MS, READ_BYTES, STRANGER_READ_BYTES
from bendybus.frontend.core.quota.doors import Doors
from bendybus.frontend.core.repeated_settles import RepeatedSettles
from bendybus.frontend.listeners.accepting import BACKLOG, TlsPort
from bendybus.frontend.listeners.amqp.client_connection import (
    PLAIN,
    ClientConnection,
    Times,
    Wire,
)
from bendybus.frontend.listeners.amqp.hand_over import MORE_S, hand_over
from bendybus.frontend.listeners.output_end import end_output
from bendybus.frontend.security.authenticator import Authenticator

logger = logging.getLogger(__name__)
# Clients that do not use PLAIN send tokens to $cbs; .NET calls that MSSBCBS. Some clients look for
# EXTERNAL, which the service offers, too; here a client's certificate gives no rights.
MECHANISMS: Final = ("MSSBCBS", "ANONYMOUS", PLAIN, "EXTERNAL")
# At shutdown: the time for load balancers to stop sending new connections (a share of the drain
# time, with a maximum).
LINGER_SHARE: Final = 0.05
LINGER_S_MAX: Final = 1.0


class Server(Protocol):
    """Another server, on whose connections AMQP is spoken, too."""

    def stop_listening(self) -> None:
        """Accept no more connections."""

    async def close(self) -> None:
        """Close the open connections."""


class AmqpListener:
    """See the module."""

    def __init__(
        self,
        front_end: FrontEnd,
        authenticator: Authenticator,
        *,
        connections_max: int,
        times: Times | None = None,
    ) -> None:
        self.front_end = front_end
        self.authenticator = authenticator
        self.repeated_settles = RepeatedSettles(front_end.settles)
        self.clock = time.time
        self.new_id = message_ids()
        self.times = times or Times()
        self.turns = front_end.quota.turns
        self._connections_max = connections_max
        self._doors: Doors[ClientConnection] = Doors(connections_max)
        self._names = itertools.count(1)
        self._ports: list[asyncio.Server | TlsPort] = []
        self._others: list[Server] = []
        # Its connections are being handed over; it takes no others.
        self._handing_over = False
        self.metrics = AmqpMetrics(front_end.metrics.registry)
        # Shared by all connections: input is copied out of it before the next read.
        self.buffer = memoryview(bytearray(READ_BYTES))
        self._settings = ConnectionSettings(
            container_id="bendybus", mechanisms=MECHANISMS, idle_time_out_ms=IDLE_MS
        )

    async def open(self, address: str, tls: ssl.SSLContext | None = None) -> int:
        """Listen at HOST:PORT; return the port."""
        if tls is not None:
            port = TlsPort(
                lambda: AmqpProtocol(self),
                tls,
                connections_max=self._connections_max,
                handshake_s=self.times.open_s,
            )
            self._ports.append(port)
            return await port.open(address)
        host, _, number = address.rpartition(":")
        server = await asyncio.get_running_loop().create_server(
            lambda: AmqpProtocol(self), host.strip("[]"), int(number), backlog=BACKLOG
        )
        self._ports.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    def serve_also(self, server: "Server") -> None:
        """Close another server, whose connections carry AMQP, too, together with this listener."""
        self._others.append(server)

    async def close(self, drain_s: float) -> None:
        """Accept no more connections, let open ones finish requests, and hand them over.

        For clients their connection is lost then: they connect again, to another front end.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + drain_s
        await asyncio.sleep(min(LINGER_S_MAX, drain_s * LINGER_SHARE))
        for port in self._ports:
            port.close()
        for each in self._others:
            each.stop_listening()
        # STRICTLY TOGETHER with the list of those that are handed over: a TCP connection may be
        # there that speaks its first words later, on a port of several protocols or in HTTP.
        self._handing_over = True
        ending = [
            loop.create_task(hand_over(each, until_s), name="amqp-hand-over")
            for each in self._doors
        ]
        if ending:
            await asyncio.wait(ending, timeout=max(0.0, until_s - loop.time()) + MORE_S)
        for each in self._others:
            await each.close()

    def recheck(self) -> None:
        """Let connections detach the links whose tokens are no longer good."""
        for connection in self._doors:
            connection.recheck()

    # For connections

    def next_name(self) -> str:
        """Return a name for a connection."""
        return f"amqp:{next(self._names)}"

    def admit(self, wire: Wire) -> ClientConnection | None:
        """Return a new connection; None: there are too many, or the listener is being closed."""
        if self._handing_over or not self._doors.room():
            return None
        connection = ClientConnection(self, wire, self._settings)
        self._doors.enter(connection, connection.give_up)
        self.metrics.connections.inc()
        return connection

    def known(self, connection: ClientConnection) -> None:
        """Take note that a client has presented a valid token."""
        self._doors.known(connection)

    def forget(self, connection: ClientConnection) -> None:
        """Take note that a connection is gone."""
        self._doors.leave(connection)
        self.metrics.connections.dec()


def message_ids() -> Callable[[], str]:
    """Return what gives each message that comes without a message-id one: 32 digits.

    A random prefix and a count: random ids cost more than all the rest of a small message.
    """
    prefix, count = os.urandom(10).hex(), itertools.count(1)
    return lambda: f"{prefix}{next(count):012x}"


class AmqpMetrics:
    """Metrics that only AMQP has."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.connections = Gauge(
            "bendybus_amqp_connections", "Open AMQP connections", registry=registry
        )
        self.transfers = Counts(
            "bendybus_amqp_transfers",
            "Deliveries over AMQP, from clients (in) and to them (out)",
            ["direction"],
            registry=registry,
        )
        for direction in ("in", "out"):
            self.transfers.counts[direction] = 0


class AmqpProtocol(asyncio.BufferedProtocol):
    """A TCP connection, with TLS or without: the wire of a connection."""

    def __init__(self, listener: AmqpListener) -> None:
        self._listener = listener
        self._connection: ClientConnection | None = None
        self._transport: asyncio.Transport | None = None
        # The output ends when everything is written.
        self._ending = False

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        # uvloop's are no subclasses of asyncio's.
        self._transport = made = cast(asyncio.Transport, transport)
        # `resume_writing` is called when the buffer is empty: each buffered byte is accounted for.
        made.set_write_buffer_limits(high=0)
        self._connection = self._listener.admit(self)
        if self._connection is None:
            made.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        stranger = self._connection is None or self._connection.reading.stranger
        return self._listener.buffer[: STRANGER_READ_BYTES if stranger else READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Take input."""
        if self._connection is not None:
            self._connection.received(bytes(self._listener.buffer[:nbytes]))

    def eof_received(self) -> None:
        """End of input: the transport is closed."""

    def resume_writing(self) -> None:
        """Take note that everything is written."""
        if self._ending and self._transport is not None:
            end_output(self._transport)
        if self._connection is not None:
            self._connection.written()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note of the end."""
        if self._connection is not None:
            self._connection.lost()

    # Wire

    def write(self, data: bytes) -> None:
        """Write bytes."""
        if self._transport is not None:
            self._transport.write(data)

    def unwritten(self) -> int:
        """Return how many bytes wait to be written."""
        transport = self._transport
        if transport is None or transport.is_closing():
            # A transport of TLS that is closing may not know its buffer any more.
            return 0
        return transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Read nothing more until `resume_reading`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def known(self, policy: str) -> None:
        """The client has presented a valid token; `AmqpListener.known` is all that matters."""

    def finish(self) -> None:
        """End the output when all is written; what still comes is passed on until its end."""
        if self._transport is not None and not self._transport.is_closing():
            if self.unwritten():
                self._ending = True
            else:
                end_output(self._transport)

    def close(self) -> None:
        """Close it when all is written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it now."""
        if self._transport is not None:
            self._transport.abort()
