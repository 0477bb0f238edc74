"""AMQP over WebSockets.

    GET /$servicebus/websocket    sub-protocol AMQPWSB10, or amqp; messages carry the bytes of
                                  the connection, split anywhere

The SDK for .NET, uamqp and azservicebus of Rust end the path with a slash. Letters may be of either
case, and the dollar sign percent-encoded.

Source: AMQP WebSocket Binding 1.0; programs on the SDK for Go, which choose it themselves, name the
protocol amqp.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from aiohttp import WSMessage, WSMsgType, web

from bendybus.frontend.core.quota.bounds import MESSAGE_FREE_BYTES, WEBSOCKET_BYTES_MAX
from bendybus.frontend.listeners.amqp.client_connection import ClientConnection, Wire
from bendybus.frontend.listeners.output_end import end_output

PROTOCOLS: Final = ("AMQPWSB10", "amqp")
# A pattern of aiohttp's routes.
ROUTE: Final = r"/{_:(?i:(?:\$|%24)servicebus/websocket/?)}"
_CLOSE_S: Final = 2.0

# Makes a connection; None: there are too many.
Admit = Callable[[Wire], ClientConnection | None]


class Line(Protocol):
    """The TCP connection of a WebSocket; reports when it is written or lost."""

    written: Callable[[], None] | None
    at_end: list[Callable[[], None]]
    arrived: Callable[[int], bool] | None

    def known(self, policy: str) -> None:
        """Take note that the client has presented a valid token, of a policy."""


async def serve(request: web.Request, admit: Admit, line: Line) -> web.StreamResponse:
    """Answer a request for a WebSocket, and carry AMQP on it until its end."""
    response = web.WebSocketResponse(
        protocols=PROTOCOLS,
        compress=False,
        max_msg_size=WEBSOCKET_BYTES_MAX,
        timeout=_CLOSE_S,
        # aiohttp answers as many pings at a time as have come.
        autoping=False,
    )
    # Checked here, since aiohttp logs a warning for each client that offers others.
    wanted = request.headers.getall("Sec-WebSocket-Protocol", [])
    offered = {each.strip() for names in wanted for each in names.split(",")}
    if offered.isdisjoint(PROTOCOLS) or not response.can_prepare(request).ok:
        return web.Response(status=426, text=f"a WebSocket with {PROTOCOLS[0]} is expected\n")
    await response.prepare(request)
    await WebSocketWire(response, request).serve(admit, line)
    return response


# The head of a frame of a client, with its mask; and by how much it is longer for a frame of so
# many bytes.
HEAD_BYTES: Final = 6
_LONGER: Final = ((126, 2), (65_536, 6))


def head_bytes(size_bytes: int) -> int:
    """Return the bytes of the head of a client's frame. Source: RFC 6455, 5.2."""
    return HEAD_BYTES + sum(more for least, more in _LONGER if size_bytes >= least)


class WebSocketWire:
    """A WebSocket: the wire of a connection."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self._socket = socket
        self._transport = request.transport
        self._connection: ClientConnection | None = None
        self._line: Line | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._wake = asyncio.Event()
        self._reads = asyncio.Event()
        self._reads.set()
        self._closing = self._ending = self._lost = False
        # The bytes of messages that are not taken yet, and those that are reserved; and how often
        # bytes came.
        self._come_bytes = self._reserved_bytes = self._arrivals = 0

    async def serve(self, admit: Admit, line: Line) -> None:
        """Carry a connection until either side ends it."""
        self._connection = connection = admit(self)
        if connection is not None:
            line.written = self.line_written
            line.at_end.append(self.lost)
            line.arrived, self._line = self.arrived, line
        if self._transport is not None:
            # `resume_writing` is called once all output is written, not earlier.
            self._transport.set_write_buffer_limits(high=0)
        if connection is None:
            await self._socket.close()
            return
        writer = asyncio.get_running_loop().create_task(self._write(), name="amqp-websocket")
        try:
            await self._read(connection)
        finally:
            # Further input is not read.
            line.arrived = None
            self._release(connection, 0)
            connection.lost()
            writer.cancel()

    async def _read(self, connection: ClientConnection) -> None:
        reading = connection.reading
        while not self._socket.closed:
            await self._reads.wait()
            if self._lost and reading.paused:
                # What it still sent would wait for a line that is gone.
                return
            arrivals = self._arrivals
            message = await self._socket.receive()
            self._taken(connection, message, waited=self._arrivals != arrivals)
            # STRICTLY needed: while messages wait, nothing above gives way to others.
            await reading.own_turn()
            if message.type is WSMsgType.PING:
                await self._socket.pong(message.data)
            elif message.type is WSMsgType.BINARY:
                connection.received(message.data)
            elif message.type is not WSMsgType.PONG:
                # Closed, or a text message, which the binding does not allow.
                return

    def _taken(self, connection: ClientConnection, message: WSMessage, *, waited: bool) -> None:
        """Take note that a message is taken; `waited`: none was there, until something came."""
        is_control = message.type in (WSMsgType.PING, WSMsgType.PONG)
        if is_control or not waited:
            # It may have come in the middle of a message, or others may be there behind it.
            size_bytes = len(message.data) if isinstance(message.data, bytes | str) else 0
            left = self._come_bytes - size_bytes - head_bytes(size_bytes)
        else:
            # The rest is the beginning of the next one, of the same read.
            left = 0
        self._release(connection, max(0, left))

    def arrived(self, size_bytes: int) -> bool:
        """Take note of bytes of a message; return whether there is room for them."""
        connection = self._connection
        self._come_bytes += size_bytes
        self._arrivals += 1
        more = self._come_bytes - MESSAGE_FREE_BYTES - self._reserved_bytes
        if self._lost or connection is None or connection.reading.stranger or more <= 0:
            return True
        if not connection.reserve(more):
            return False
        self._reserved_bytes += more
        return True

    def _release(self, connection: ClientConnection, come_bytes: int) -> None:
        """Give back the room of what is taken: so much has come of what is not."""
        self._come_bytes = come_bytes
        surplus = self._reserved_bytes - max(0, come_bytes - MESSAGE_FREE_BYTES)
        if surplus > 0:
            self._reserved_bytes -= surplus
            connection.release(surplus)

    def known(self, policy: str) -> None:
        """Pass on that the client has presented a valid token, of a policy."""
        if self._line is not None:
            self._line.known(policy)

    def lost(self) -> None:
        """Take note that the line is gone, also while nothing is read of it."""
        self._lost = True
        self._reads.set()

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._send()
            except ConnectionError:
                return
            self._waiting_bytes = sum(map(len, self._waiting))
            if self._connection is not None:
                self._connection.written()
            if self._waiting:
                continue
            if self._ending and self._end():
                return
            if self._closing:
                await self._socket.close()
                return

    async def _send(self) -> None:
        # Not in `_write`, which would keep it until something else is written.
        waiting, self._waiting = self._waiting, []
        if waiting:
            await self._socket.send_bytes(b"".join(waiting))

    def _end(self) -> bool:
        """End the output, if all is written; else `line_written` is called when it is."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            if transport.get_write_buffer_size():
                return False
            end_output(transport)
        return True

    def line_written(self) -> None:
        """Take note that the line has written everything."""
        if self._connection is not None:
            self._connection.written()
        if self._ending:
            self._wake.set()

    # Wire

    def write(self, data: bytes) -> None:
        """Write bytes."""
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self._wake.set()

    def unwritten(self) -> int:
        """Return how many bytes wait to be written."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return self._waiting_bytes
        return self._waiting_bytes + transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Read nothing more until `resume_reading`, or the line is gone."""
        if not self._lost:
            self._reads.clear()

    def resume_reading(self) -> None:
        """Read again."""
        self._reads.set()

    def finish(self) -> None:
        """End the output when all is written; what still comes is passed on until its end."""
        self._ending = True
        self._wake.set()

    def close(self) -> None:
        """Close it when all is written."""
        self._closing = True
        self._wake.set()

    def abort(self) -> None:
        """Close it now."""
        if self._transport is not None:
            self._transport.abort()
