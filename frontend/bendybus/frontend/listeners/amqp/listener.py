"""The AMQP listener of a front end: its sockets, its connections, and what they share."""

import asyncio
import itertools
import logging
import os
import ssl
import time
from collections import Counter as Counter_
from collections.abc import Callable
from typing import Final, Protocol, cast

from prometheus_client import CollectorRegistry, Counter, Gauge

from bendybus.amqp.connection import ConnectionSettings
from bendybus.domain import limits
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.repeated_sends import RepeatedSends
from bendybus.frontend.core.repeated_settles import RepeatedSettles
from bendybus.frontend.listeners.amqp.client_connection import (
    PLAIN,
    ClientConnection,
    Times,
    Wire,
)
from bendybus.frontend.listeners.amqp.hand_over import hand_over
from bendybus.frontend.listeners.amqp.turns import Turns
from bendybus.frontend.listeners.output_end import end_output
from bendybus.frontend.security.authenticator import Authenticator

logger = logging.getLogger(__name__)
# Clients that do not use PLAIN send tokens to $cbs; .NET calls that MSSBCBS. Some clients look for
# EXTERNAL, which the service offers, too; here a client's certificate gives no rights.
MECHANISMS: Final = ("MSSBCBS", "ANONYMOUS", PLAIN, "EXTERNAL")
# Bytes of incomplete deliveries of all connections: at least PARTS_BYTES_MIN, and room for
# LARGEST_MIN of the largest messages. One connection may have a third of that, one policy two.
PARTS_BYTES_MIN: Final = 32 * limits.MB
LARGEST_MIN: Final = 3
# Bytes that one read takes, and so the most that waits for a turn. Strangers: see `turns`.
READ_BYTES: Final = 32 * 1024
STRANGER_READ_BYTES: Final = 4 * 1024
# Strangers may have at most this part of all connections: a half.
STRANGERS_PART: Final = 2
# A client that sends nothing for twice this time is disconnected.
IDLE_MS: Final = 120_000
# At shutdown: the time for load balancers to stop sending new connections (a share of the drain
# time, with a maximum), and the extra time to release sessions and for clients to close.
LINGER_SHARE: Final = 0.05
LINGER_S_MAX: Final = 1.0
HAND_OVER_S: Final = 2.0


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
        self.repeated_sends = RepeatedSends(front_end.sends)
        self.repeated_settles = RepeatedSettles(front_end.settles)
        self.clock = time.time
        self.new_id = message_ids()
        self.times = times or Times()
        self.turns = Turns()
        self._connections: set[ClientConnection] = set()
        # Those of strangers, the oldest one first.
        self._strangers: dict[ClientConnection, None] = {}
        self._connections_max = connections_max
        self._names = itertools.count(1)
        self.parts_bytes = 0
        # By policy; "" before the first token.
        self._parts: Counter_[str] = Counter_()
        self._parts_bytes_max = PARTS_BYTES_MIN
        self._servers: list[asyncio.Server] = []
        self._others: list[Server] = []
        self.metrics = AmqpMetrics(front_end.metrics.registry)
        # Shared by all connections: input is copied out of it before the next read.
        self.buffer = memoryview(bytearray(READ_BYTES))
        self._settings = ConnectionSettings(
            container_id="bendybus", mechanisms=MECHANISMS, idle_time_out_ms=IDLE_MS
        )

    async def open(self, address: str, tls: ssl.SSLContext | None = None) -> int:
        """Listen at HOST:PORT; return the port."""
        host, _, port = address.rpartition(":")
        server = await asyncio.get_running_loop().create_server(
            lambda: AmqpProtocol(self),
            host.strip("[]"),
            int(port),
            ssl=tls,
            # The time that a client without TLS has to open its connection.
            ssl_handshake_timeout=None if tls is None else self.times.open_s,
        )
        self._servers.append(server)
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
        for server in self._servers:
            server.close()
        for each in self._others:
            each.stop_listening()
        ending = [
            loop.create_task(hand_over(each, until_s), name="amqp-hand-over")
            for each in self._connections
        ]
        if ending:
            await asyncio.wait(ending, timeout=max(0.0, until_s - loop.time()) + HAND_OVER_S)
        for each in self._others:
            await each.close()

    def recheck(self) -> None:
        """Let connections detach the links whose tokens are no longer good."""
        for connection in list(self._connections):
            connection.recheck()

    # For connections

    def next_name(self) -> str:
        """Return a name for a connection."""
        return f"amqp:{next(self._names)}"

    def admit(self, wire: Wire) -> ClientConnection | None:
        """Return a new connection; None: there are too many.

        If there are too many, or too many strangers, the oldest stranger is disconnected.
        """
        full = len(self._connections) >= self._connections_max
        if full or len(self._strangers) >= max(1, self._connections_max // STRANGERS_PART):
            if not self._strangers:
                return None
            next(iter(self._strangers)).give_up()
        connection = ClientConnection(self, wire, self._settings)
        self._connections.add(connection)
        self._strangers[connection] = None
        self.metrics.connections.inc()
        return connection

    def known(self, connection: ClientConnection) -> None:
        """Take note that a client has presented a valid token."""
        self._strangers.pop(connection, None)

    def forget(self, connection: ClientConnection) -> None:
        """Take note that a connection is gone."""
        self._strangers.pop(connection, None)
        self._connections.discard(connection)
        self.metrics.connections.dec()

    def expect(self, message_bytes_max: int) -> None:
        """Make room for the largest message that a link may bring."""
        self._parts_bytes_max = max(self._parts_bytes_max, LARGEST_MIN * message_bytes_max)

    def reserve(self, size_bytes: int, held_bytes: int, policy: str) -> bool:
        """Reserve bytes for incomplete deliveries; return whether there is room.

        `held_bytes`: what the connection has reserved already.
        """
        most = self._parts_bytes_max
        theirs = self._parts[policy] + size_bytes
        if (
            self.parts_bytes + size_bytes > most
            or held_bytes + size_bytes > most // 3
            or (self.authenticator.required and theirs > most * 2 // 3)
        ):
            return False
        self.parts_bytes += size_bytes
        self._parts[policy] = theirs
        return True

    def release(self, size_bytes: int, policy: str) -> None:
        """Release reserved bytes."""
        self.parts_bytes -= size_bytes
        self._parts[policy] -= size_bytes
        if not self._parts[policy]:
            del self._parts[policy]


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
        self.transfers = Counter(
            "bendybus_amqp_transfers",
            "Deliveries over AMQP, from clients (in) and to them (out)",
            ["direction"],
            registry=registry,
        )
        self.received = self.transfers.labels("in")
        self.sent = self.transfers.labels("out")


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
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Read nothing more until `resume_reading`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

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
