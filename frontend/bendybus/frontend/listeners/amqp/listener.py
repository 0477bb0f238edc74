"""The AMQP listener of a front end: its sockets, its connections, and what they share."""

import asyncio
import itertools
import logging
import ssl
import time
from typing import Final, cast

from aiohttp import web

from bendybus.amqp.connection import ConnectionSettings
from bendybus.amqp.performatives import Error
from bendybus.domain import limits
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.repeated_sends import RepeatedSends
from bendybus.frontend.listeners.amqp import websockets
from bendybus.frontend.listeners.amqp.client_connection import PLAIN, ClientConnection, Wire
from bendybus.frontend.security.authenticator import Authenticator

logger = logging.getLogger(__name__)
# Anonymous clients put tokens to $cbs. MSSBCBS is what .NET calls that.
MECHANISMS: Final = ("MSSBCBS", "ANONYMOUS", PLAIN)
# Parts of deliveries that are not complete, of all connections.
PARTS_BYTES_MAX: Final = 256 * limits.MB
# The peer is closed if it sends nothing for twice this time.
IDLE_MS: Final = 240_000


class AmqpListener:
    """See the module."""

    def __init__(
        self, front_end: FrontEnd, authenticator: Authenticator, *, connections_max: int
    ) -> None:
        self.front_end = front_end
        self.authenticator = authenticator
        self.repeated_sends = RepeatedSends(front_end.sends)
        self.clock = time.time
        self._connections: set[ClientConnection] = set()
        self._connections_max = connections_max
        self._names = itertools.count(1)
        self._parts_bytes = 0
        self._servers: list[asyncio.Server] = []
        self._runners: list[web.AppRunner] = []
        self._settings = ConnectionSettings(
            container_id="bendybus", mechanisms=MECHANISMS, idle_time_out_ms=IDLE_MS
        )

    async def open(self, address: str, tls: ssl.SSLContext | None = None) -> int:
        """Listen at HOST:PORT; return the port."""
        host, _, port = address.rpartition(":")
        server = await asyncio.get_running_loop().create_server(
            lambda: AmqpProtocol(self), host.strip("[]"), int(port), ssl=tls
        )
        self._servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def open_http(self, address: str, tls: ssl.SSLContext | None = None) -> int:
        """Listen at HOST:PORT for WebSockets, and show the health; return the port."""
        host, _, port = address.rpartition(":")
        made = websockets.application(self.admit, self.front_end.ready)
        runner = web.AppRunner(made, access_log=None, keepalive_timeout=30.0)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, host.strip("[]"), int(port), ssl_context=tls)
        await site.start()
        found: int = runner.addresses[0][1]
        return found

    async def close(self) -> None:
        """Take no more connections, and close those that there are."""
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.end(Error("amqp:connection:forced", "the front end stops; connect again"))
        await asyncio.sleep(0)
        for runner in self._runners:
            await runner.cleanup()

    def recheck(self) -> None:
        """Let connections detach the links whose tokens are no longer good."""
        for connection in list(self._connections):
            connection.recheck()

    def unwritten_bytes(self) -> int:
        """Return the bytes of deliveries that are not complete."""
        return self._parts_bytes

    # For connections

    def next_name(self) -> str:
        """Return a name for a connection."""
        return f"amqp:{next(self._names)}"

    def admit(self, wire: Wire) -> ClientConnection | None:
        """Return a new connection; None: there are too many."""
        if len(self._connections) >= self._connections_max:
            return None
        connection = ClientConnection(self, wire, self._settings)
        self._connections.add(connection)
        return connection

    def forget(self, connection: ClientConnection) -> None:
        """Take note that a connection is gone."""
        self._connections.discard(connection)

    def reserve(self, size_bytes: int) -> bool:
        """Take room for parts of deliveries; return whether there is some."""
        if self._parts_bytes + size_bytes > PARTS_BYTES_MAX:
            return False
        self._parts_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """Give room back."""
        self._parts_bytes -= size_bytes


class AmqpProtocol(asyncio.Protocol):
    """A TCP connection, with TLS or without: the wire of a connection."""

    def __init__(self, listener: AmqpListener) -> None:
        self._listener = listener
        self._connection: ClientConnection | None = None
        self._transport: asyncio.Transport | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        # uvloop's are no subclasses of asyncio's.
        self._transport = made = cast(asyncio.Transport, transport)
        # Every byte that waits is accounted for: whoever is behind is told when none does.
        made.set_write_buffer_limits(high=0)
        self._connection = self._listener.admit(self)
        if self._connection is None:
            made.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        if self._connection is not None:
            self._connection.received(data)

    def resume_writing(self) -> None:
        """Take note that everything is written."""
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

    def close(self) -> None:
        """Close it when all is written."""
        if self._transport is not None:
            self._transport.close()
