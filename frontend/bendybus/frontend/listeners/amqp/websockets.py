"""HTTP for AMQP's sake: AMQP over WebSockets, and a health page, on aiohttp.

    GET /$servicebus/websocket    sub-protocol AMQPWSB10; messages carry the bytes of the
                                  connection, cut anywhere
    GET /health                   200 or 503, with a JSON object

Source: AMQP WebSocket Binding 1.0; the health page is the emulator's.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from aiohttp import WSMsgType, web

from bendybus.domain import limits
from bendybus.frontend.listeners.amqp.client_connection import ClientConnection, Wire

PROTOCOL: Final = "AMQPWSB10"
PATH: Final = "/$servicebus/websocket"
# One message of the client; a frame of AMQP is no larger, and may come in several.
MESSAGE_BYTES_MAX: Final = 4 * limits.MB
# Handshakes and headers.
HEADER_BYTES_MAX: Final = 16 * 1024
_CLOSE_S: Final = 2.0
# Of a connection without a request; and of those that are left at the end.
KEEP_ALIVE_S: Final = 30.0
END_S: Final = 1.0

Admit = Callable[[Wire], ClientConnection | None]


def application(admit: Admit, healthy: Callable[[], bool]) -> web.Application:
    """Return the routes. `admit` makes a connection; None: there are too many."""

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
        if not response.can_prepare(request).ok:
            return web.Response(status=426, text=f"a WebSocket with {PROTOCOL} is expected\n")
        await response.prepare(request)
        await WebSocketWire(response, request).serve(admit)
        return response

    made = web.Application(client_max_size=HEADER_BYTES_MAX)
    made.router.add_get("/health", health)
    made.router.add_get(PATH.replace("$", "{_:\\$}"), websocket)
    return made


class WebSocketServer:
    """A server of these routes."""

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner

    @property
    def port(self) -> int:
        """The port that it listens at."""
        found: int = self._runner.addresses[0][1]
        return found

    async def close(self) -> None:
        """Close it, and the connections that are left."""
        await self._runner.cleanup()


async def serve(
    address: str, admit: Admit, healthy: Callable[[], bool], tls: ssl.SSLContext | None
) -> WebSocketServer:
    """Listen at HOST:PORT."""
    host, _, port = address.rpartition(":")
    runner = web.AppRunner(
        application(admit, healthy),
        access_log=None,
        keepalive_timeout=KEEP_ALIVE_S,
        shutdown_timeout=END_S,
    )
    await runner.setup()
    await web.TCPSite(runner, host.strip("[]"), int(port), ssl_context=tls).start()
    return WebSocketServer(runner)


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
        self._closing = False

    async def serve(self, admit: Admit) -> None:
        """Carry a connection until either side ends it."""
        self._connection = admit(self)
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
            message = await self._socket.receive()
            if message.type is not WSMsgType.BINARY:
                # Closed, or what the binding does not have.
                return
            connection.received(message.data)

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
        """Read nothing more until `resume_reading`."""
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
