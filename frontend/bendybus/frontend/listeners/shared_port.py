"""One port for AMQP, HTTP and gRPC, with TLS and without: the first bytes tell them apart.

    0x16             TLS; inside it the same choice again
    "AMQP"           AMQP 1.0
    "PRI "           HTTP/2, which is gRPC: spliced to the port of the gRPC server
    anything else    HTTP/1: administration, AMQP over WebSockets, health

gRPC takes no accepted socket, so that its connections are copied, byte by byte, to a port on the
loopback interface. Each has a connection of its own there, which is what bounds by connection are
counted by. Certificates of clients end here: who needs mTLS uses the port of gRPC itself.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Hashable
from typing import Final, cast

from bendybus.frontend.core.quota.bounds import SPLICED_BYTES, SPLICED_UNTAKEN_S
from bendybus.frontend.core.quota.doors import Doors
from bendybus.frontend.listeners.accepting import Accepting, Factory

AMQP: Final = b"AMQP"
HTTP2: Final = b"PRI "
_TLS: Final = 0x16
_FIRST_BYTES: Final = 4
# What one read takes before it is known who reads it.
_READ_BYTES: Final = 4 * 1024
# HTTP/1 first: a client that offers both, as Go's does, wants administration. gRPC offers h2 only.
ALPN: Final = ("http/1.1", "h2")


class SharedPort:
    """A port. `amqp`, `http`: make what handles a connection; `grpc`: where gRPC listens.

    `connections_max`: of clients of gRPC, which take no place of others, and of those of which it
    is not known yet what they speak. The handlers bound theirs.
    `known_s`: how long a client may take until it is known what it speaks; `untaken_s`: how long a
    client of gRPC may take nothing of what is written to it. `strangers`: that of the quota.
    """

    def __init__(
        self,
        amqp: Factory,
        http: Factory,
        grpc: str,
        *,
        connections_max: int,
        known_s: float,
        untaken_s: float = SPLICED_UNTAKEN_S,
        strangers: dict[Hashable, Callable[[], None]] | None = None,
    ) -> None:
        self.amqp = amqp
        self.http = http
        self.grpc = grpc
        self.known_s = known_s
        self.untaken_s = untaken_s
        self.strangers = {} if strangers is None else strangers
        self._tls: ssl.SSLContext | None = None
        # Those of which it is not known yet what they speak, and those of gRPC.
        self._accepting = Accepting(self._begin, connections_max=connections_max)
        self._spliced: Doors[Spliced] = Doors(connections_max)

    async def open(self, address: str, tls: ssl.SSLContext | None) -> int:
        """Listen at HOST:PORT; return the port."""
        self._tls = tls
        return await self._accepting.open(address)

    def stop_listening(self) -> None:
        """Accept no more connections."""
        self._accepting.stop_listening()

    async def close(self) -> None:
        """End what is not known yet; gRPC ends its own connections."""
        self._accepting.end_unknown()

    async def _begin(self, accepted: socket.socket) -> None:
        """Find out whether a client begins with TLS, and hand its connection on."""
        async with asyncio.timeout(self.known_s):
            first = await _peek(accepted)
        tls = self._tls if first == _TLS else None
        if first is None or (first == _TLS and tls is None):
            accepted.close()
            return
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: Chooser(self),
            accepted,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else self.known_s,
        )

    def choosing(self, connection: "Chooser") -> None:
        """Take note of a connection that is about to say what it speaks."""
        self._accepting.unknown.enter(connection, connection.cancel)

    def known(self, connection: "Chooser") -> None:
        """Take note that this is known of one, or that it is gone."""
        self._accepting.unknown.leave(connection)

    def hold(self, splice: "Spliced") -> bool:
        """Take note of a spliced connection; return whether there are not too many."""
        if not self._spliced.room():
            return False
        self._spliced.enter(splice, splice.cancel)
        return True

    def connected(self, splice: "Spliced", peer: str) -> None:
        """Take note of what gRPC takes for the connection of a client."""
        self.strangers[peer] = lambda: self._spliced.known(splice)

    def forget(self, splice: "Spliced") -> None:
        """Take note that one is gone."""
        self._spliced.leave(splice)
        self.strangers.pop(splice.peer, None)


async def _peek(accepted: socket.socket) -> int | None:
    """Return the first byte of a connection, which stays there; None: it ended."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(accepted.fileno(), ready)
    try:
        await readable
    finally:
        loop.remove_reader(accepted.fileno())
    first = accepted.recv(1, socket.MSG_PEEK)
    return first[0] if first else None


class Chooser(asyncio.BufferedProtocol):
    """Reads the first bytes of a connection, inside TLS if there is some, and hands it on."""

    def __init__(self, port: SharedPort) -> None:
        self._port = port
        self._buffer = bytearray(_READ_BYTES)
        self._size = 0
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first bytes."""
        # uvloop's are no subclasses of asyncio's.
        self._transport = made = cast(asyncio.Transport, transport)
        self._port.choosing(self)
        self._timer = asyncio.get_running_loop().call_later(self._port.known_s, made.abort)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return what is left of the buffer."""
        return memoryview(self._buffer)[self._size :]

    def buffer_updated(self, nbytes: int) -> None:
        """Choose, once that is possible."""
        self._size += nbytes
        first = bytes(self._buffer[: min(self._size, _FIRST_BYTES)])
        undecided = any(each.startswith(first) for each in (AMQP, HTTP2))
        if len(first) < _FIRST_BYTES and undecided:
            return
        self._end_waiting()
        data = bytes(self._buffer[: self._size])
        if first == HTTP2:
            self._hand_on(Spliced(self._port), data)
        else:
            self._hand_on((self._port.amqp if first == AMQP else self._port.http)(), data)

    def eof_received(self) -> None:
        """End of input: the transport is closed."""

    def connection_lost(self, exc: BaseException | None) -> None:
        """Take note of the end."""
        self._end_waiting()

    def cancel(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _end_waiting(self) -> None:
        self._port.known(self)
        if self._timer is not None:
            self._timer.cancel()

    def _hand_on(self, protocol: asyncio.BaseProtocol, data: bytes) -> None:
        transport = self._transport
        assert transport is not None, "it is made"
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if transport.is_closing():
            # It was refused: what it asks for must not be done.
            return
        if isinstance(protocol, asyncio.BufferedProtocol):
            # As if it had been read into its own buffer.
            while data and not transport.is_closing():
                buffer = memoryview(protocol.get_buffer(len(data)))
                count = min(len(buffer), len(data))
                buffer[:count] = data[:count]
                protocol.buffer_updated(count)
                data = data[count:]
        elif isinstance(protocol, asyncio.Protocol):
            protocol.data_received(data)


class _Side(asyncio.Protocol):
    """One side of a spliced connection: what it reads, the other side writes."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = made = cast(asyncio.Transport, transport)
        made.set_write_buffer_limits(high=SPLICED_BYTES)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        """Let the other side read no more."""
        if self.other is not None and self.other.transport is not None:
            with contextlib.suppress(RuntimeError):
                self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Let the other side read again."""
        if self.other is not None and self.other.transport is not None:
            with contextlib.suppress(RuntimeError):
                self.other.transport.resume_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the other side, once what it was given is written."""
        # That side ends this one in turn: a timer for it would keep its transport, with the buffers
        # of TLS, for a minute.
        self.transport = None
        other, self.other = self.other, None
        if other is not None:
            other.end()

    def end(self) -> None:
        """Close the connection once what it was given is written."""
        if self.transport is not None:
            self.transport.close()


class Spliced(_Side):
    """The side of the client. Connects to gRPC, and reads on when it is connected."""

    def __init__(self, port: SharedPort) -> None:
        super().__init__()
        self._port = port
        self._first = b""
        # The address that gRPC sees; "" before the connection to it.
        self.peer = ""
        self._connecting: asyncio.Task[None] | None = None
        self._untaken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the gRPC server."""
        super().connection_made(transport)
        assert self.transport is not None, "it is made"
        if not self._port.hold(self):
            self.transport.abort()
            return
        self.transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(
            self._connect(), name="shared-port-splice"
        )

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, or keep what was read before there was somewhere to."""
        if self.other is None:
            self._first += data
        else:
            super().data_received(data)

    def pause_writing(self) -> None:
        """Pause the gRPC server, for a bounded time."""
        super().pause_writing()
        self._expect_taken()

    def resume_writing(self) -> None:
        """Go on: the client has taken something."""
        super().resume_writing()
        self._end_timer()

    def cancel(self) -> None:
        """Close the connection now: it makes room for another one."""
        if self.transport is not None:
            self.transport.abort()

    def end(self) -> None:
        """Close the connection once the client has taken what it was given."""
        super().end()
        self._expect_taken()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the connection to the gRPC server."""
        self._end_timer()
        self._port.forget(self)
        if self._connecting is not None:
            self._connecting.cancel()
        super().connection_lost(exc)

    def _expect_taken(self) -> None:
        self._end_timer()
        if self.transport is not None:
            loop = asyncio.get_running_loop()
            self._untaken = loop.call_later(self._port.untaken_s, self.transport.abort)

    def _end_timer(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()

    async def _connect(self) -> None:
        host, _, port = self._port.grpc.rpartition(":")
        other = _Side()
        # STRICTLY BEFORE it connects: gRPC speaks first, and what it says may come before
        # `create_connection` returns.
        other.other = self
        try:
            await asyncio.get_running_loop().create_connection(lambda: other, host, int(port))
        except OSError:
            if self.transport is not None:
                self.transport.abort()
            return
        there, here = other.transport, self.transport
        if there is None or here is None or here.is_closing():
            # One side ended meanwhile.
            other.end()
            return
        self.other = other
        host, port = there.get_extra_info("sockname")[:2]
        self.peer = f"ipv4:{host}:{port}"
        self._port.connected(self, self.peer)
        there.write(self._first)
        self._first = b""
        here.resume_reading()
