"""The HTTP server: AMQP over WebSockets, and a health page, on aiohttp.

    GET /$servicebus/websocket    sub-protocol AMQPWSB10; messages carry the bytes of the
                                  connection, split anywhere
    GET /health                   200 or 503, with a JSON object

Source: AMQP WebSocket Binding 1.0; the health page is the emulator's.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, cast

from aiohttp import WSMsgType, web

from bendybus.domain import limits
from bendybus.frontend.listeners.amqp.client_connection import ClientConnection, Wire

PROTOCOL: Final = "AMQPWSB10"
PATH: Final = "/$servicebus/websocket"
# The largest WebSocket message. An AMQP frame may be split over several.
MESSAGE_BYTES_MAX: Final = 4 * limits.MB
# The largest request headers.
HEADER_BYTES_MAX: Final = 16 * 1024
_CLOSE_S: Final = 2.0
# Of a connection between requests; and of open connections at shutdown.
KEEP_ALIVE_S: Final = 30.0
END_S: Final = 1.0
# Bytes that a client may send before its first request, and then before a valid token.
UNKNOWN_BYTES_MAX: Final = 96 * 1024

# Makes a connection; None: there are too many.
Admit = Callable[[Wire], ClientConnection | None]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Guard(asyncio.Protocol):
    """A connection of the HTTP server, closed if its first request does not arrive in time.

    aiohttp waits for a first request without a limit, and buffers a message until it is complete.
    """

    def __init__(self, server: "WebSocketServer", handler: web.RequestHandler) -> None:
        self._server = server
        self._handler = handler
        self._size_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        # Set once the WebSocket carries AMQP; `lost` is called when its line is gone.
        self.connection: ClientConnection | None = None
        self.lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        self._transport = cast(asyncio.Transport, transport)
        self._handler.connection_made(transport)
        if not self._server.take(self._handler, self):
            self._transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(
            self._server.request_s, self._transport.abort
        )

    def heard(self) -> None:
        """Take note of a request."""
        self._size_bytes = 0
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, unless a client without a valid token has sent too many."""
        self._size_bytes += len(data)
        if self._size_bytes <= UNKNOWN_BYTES_MAX or (
            self.connection is not None and not self.connection.reading.stranger
        ):
            self._handler.data_received(data)
        elif self._transport is not None:
            self._transport.abort()

    def eof_received(self) -> bool | None:
        """Pass it on."""
        self._handler.eof_received()
        return None

    def pause_writing(self) -> None:
        """Pass it on."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on; everything is written."""
        self._handler.resume_writing()
        if self.connection is not None:
            self.connection.written()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Take note of the end."""
        if self._timer is not None:
            self._timer.cancel()
        self._server.forget(self._handler)
        self._handler.connection_lost(exc)
        if self.lost is not None:
            self.lost()


def application(server: "WebSocketServer", healthy: Callable[[], bool]) -> web.Application:
    """Return the routes."""

    @web.middleware
    async def heard(request: web.Request, handler: Handler) -> web.StreamResponse:
        guard = server.guard(request)
        if guard is not None:
            guard.heard()
        return await handler(request)

    async def health(_: web.Request) -> web.Response:
        if healthy():
            return web.json_response({"status": "healthy", "message": "Service is healthy."})
        said = {"status": "unhealthy", "message": "No partition answers."}
        return web.json_response(said, status=503)

    async def websocket(request: web.Request) -> web.StreamResponse:
        response = web.WebSocketResponse(
            protocols=(PROTOCOL,),
            compress=False,
            max_msg_size=MESSAGE_BYTES_MAX,
            timeout=_CLOSE_S,
        )
        # Checked here, since aiohttp logs a warning for each client that offers others.
        wanted = request.headers.getall("Sec-WebSocket-Protocol", [])
        offered = {each.strip() for line in wanted for each in line.split(",")}
        if PROTOCOL not in offered or not response.can_prepare(request).ok:
            return web.Response(status=426, text=f"a WebSocket with {PROTOCOL} is expected\n")
        await response.prepare(request)
        await WebSocketWire(response, request).serve(server.admit, server.guard(request))
        return response

    made = web.Application(client_max_size=HEADER_BYTES_MAX, middlewares=[heard])
    made.router.add_get("/health", health)
    made.router.add_get(PATH.replace("$", "{_:\\$}"), websocket)
    return made


class WebSocketServer:
    """A server for these routes. `request_s`: how long the first request may take."""

    def __init__(self, admit: Admit, *, connections_max: int, request_s: float) -> None:
        self.admit = admit
        self.request_s = request_s
        self._connections_max = connections_max
        self._guards: dict[web.RequestHandler, Guard] = {}
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(
        self, address: str, healthy: Callable[[], bool], tls: ssl.SSLContext | None
    ) -> None:
        """Listen at HOST:PORT."""
        host, _, port = address.rpartition(":")
        self._runner = runner = web.AppRunner(
            application(self, healthy),
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_S,
            shutdown_timeout=END_S,
        )
        await runner.setup()
        handlers = runner.server
        assert handlers is not None, "the runner is set up"
        self._server = server = await asyncio.get_running_loop().create_server(
            lambda: Guard(self, handlers()),
            host.strip("[]"),
            int(port),
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else self.request_s,
        )
        self.port = server.sockets[0].getsockname()[1]

    def take(self, handler: web.RequestHandler, guard: Guard) -> bool:
        """Take note of a connection; return whether there are not too many."""
        self._guards[handler] = guard
        return len(self._guards) <= self._connections_max

    def forget(self, handler: web.RequestHandler) -> None:
        """Take note that a connection is gone."""
        self._guards.pop(handler, None)

    def guard(self, request: web.Request) -> Guard | None:
        """Return the guard of a request's connection."""
        return self._guards.get(request.protocol)

    def stop_listening(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Close the open connections. Call `stop_listening` first."""
        if self._runner is not None:
            await self._runner.cleanup()


async def serve(
    address: str,
    admit: Admit,
    healthy: Callable[[], bool],
    tls: ssl.SSLContext | None,
    *,
    connections_max: int,
    request_s: float,
) -> WebSocketServer:
    """Listen at HOST:PORT."""
    made = WebSocketServer(admit, connections_max=connections_max, request_s=request_s)
    await made.open(address, healthy, tls)
    return made


class WebSocketWire:
    """A WebSocket: the wire of a connection."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self._socket = socket
        self._transport = request.transport
        self._connection: ClientConnection | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._wake = asyncio.Event()
        self._reads = asyncio.Event()
        self._reads.set()
        self._closing = self._lost = False

    async def serve(self, admit: Admit, guard: Guard | None) -> None:
        """Carry a connection until either side ends it."""
        self._connection = admit(self)
        if guard is not None:
            guard.connection, guard.lost = self._connection, self.lost
        if self._transport is not None:
            # `resume_writing` is called once all output is written, not earlier.
            self._transport.set_write_buffer_limits(high=0)
        if self._connection is None:
            await self._socket.close()
            return
        writer = asyncio.get_running_loop().create_task(self._write(), name="amqp-websocket")
        try:
            await self._read(self._connection)
        finally:
            self._connection.lost()
            writer.cancel()

    async def _read(self, connection: ClientConnection) -> None:
        while not self._socket.closed:
            await self._reads.wait()
            if self._lost and connection.reading.paused:
                # What it still sent would wait for a line that is gone.
                return
            message = await self._socket.receive()
            if message.type is not WSMsgType.BINARY:
                # Closed, or a text message, which the binding does not allow.
                return
            connection.received(message.data)

    def lost(self) -> None:
        """Take note that the line is gone, also while nothing is read of it."""
        self._lost = True
        self._reads.set()

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting, self._waiting = self._waiting, []
            try:
                if waiting:
                    await self._socket.send_bytes(b"".join(waiting))
            except ConnectionError:
                return
            self._waiting_bytes = sum(map(len, self._waiting))
            if self._connection is not None:
                self._connection.written()
            if self._closing and not self._waiting:
                await self._socket.close()
                return

    # Wire

    def write(self, data: bytes) -> None:
        """Write bytes."""
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self._wake.set()

    def unwritten(self) -> int:
        """Return how many bytes wait to be written."""
        transport = self._transport
        sent = 0 if transport is None else transport.get_write_buffer_size()
        return self._waiting_bytes + sent

    def pause_reading(self) -> None:
        """Read nothing more until `resume_reading`, or the line is gone."""
        if not self._lost:
            self._reads.clear()

    def resume_reading(self) -> None:
        """Read again."""
        self._reads.set()

    def close(self) -> None:
        """Close it when all is written."""
        self._closing = True
        self._wake.set()

    def abort(self) -> None:
        """Close it now."""
        if self._transport is not None:
            self._transport.abort()
