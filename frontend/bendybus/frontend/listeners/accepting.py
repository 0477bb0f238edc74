"""Listening sockets whose connections count from their first moment on.

A connection is *unknown* until what handles it has it: while it is not known what its client
speaks, and while its TLS handshake is not over. Each is begun in a task of its own. When there are
too many, the oldest is closed: who never says a word takes no file that others need.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Final

from bendybus.frontend.core.quota.doors import Doors

# Connections that wait to be accepted: what comes beyond them is tried again after a second.
BACKLOG: Final = 1_024
# Before the next try, where no file is left for a connection.
_PAUSE_S: Final = 0.05
Factory = Callable[[], asyncio.BaseProtocol]


class Accepting:
    """The sockets of one address. `begin` hands a connection on; it closes the socket if it fails.

    `connections_max`: how many may be unknown, in `unknown`, where `begin` may keep them longer.
    """

    def __init__(
        self, begin: Callable[[socket.socket], Awaitable[None]], *, connections_max: int
    ) -> None:
        self._begin = begin
        self.unknown: Doors[Hashable] = Doors(connections_max, 1)
        self._sockets: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, address: str) -> int:
        """Listen at HOST:PORT; return the port."""
        host, _, text = address.rpartition(":")
        loop, number = asyncio.get_running_loop(), int(text)
        for found in await loop.getaddrinfo(
            host.strip("[]"), number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            made = socket.socket(found[0], socket.SOCK_STREAM)
            self._sockets.append(made)
            try:
                number = _listen(made, found[4], number)
            except OSError:
                self.stop_listening()
                raise
        self._tasks = [
            loop.create_task(self._accept(each), name="accepting") for each in self._sockets
        ]
        return number

    def stop_listening(self) -> None:
        """Accept no more connections."""
        for task in self._tasks:
            task.cancel()
        for each in self._sockets:
            each.close()

    def end_unknown(self) -> None:
        """Close what is unknown."""
        while self.unknown:
            self.unknown.end_oldest()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:
                # No file is left for it, or it is gone already: others may still come.
                await asyncio.sleep(_PAUSE_S)
                continue
            self.unknown.room()
            task = loop.create_task(self._hand_on(accepted), name="accepted-connection")
            self.unknown.enter(task, task.cancel)
            task.add_done_callback(partial(self._handed_on, accepted))

    async def _hand_on(self, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._begin(accepted)
        except (OSError, TimeoutError, ssl.SSLError):
            accepted.close()

    def _handed_on(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self.unknown.leave(task)
        if task.cancelled():
            # Maybe before its first step.
            accepted.close()


class TlsPort:
    """A port of which all connections begin with TLS. `handshake_s`: how long that may take."""

    def __init__(
        self, factory: Factory, tls: ssl.SSLContext, *, connections_max: int, handshake_s: float
    ) -> None:
        self._factory = factory
        self._tls = tls
        self._handshake_s = handshake_s
        self._accepting = Accepting(self._begin, connections_max=connections_max)

    async def open(self, address: str) -> int:
        """Listen at HOST:PORT; return the port."""
        return await self._accepting.open(address)

    def close(self) -> None:
        """Accept no more connections, and end handshakes that are not over."""
        self._accepting.stop_listening()
        self._accepting.end_unknown()

    async def _begin(self, accepted: socket.socket) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            self._factory, accepted, ssl=self._tls, ssl_handshake_timeout=self._handshake_s
        )


def _listen(made: socket.socket, address: Any, port: int) -> int:
    """Bind a socket to an address of `getaddrinfo`, with this port; return the port."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if made.family == socket.AF_INET6:
        with contextlib.suppress(AttributeError):
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.setblocking(False)
    made.bind((address[0], port, *address[2:]))
    made.listen(BACKLOG)
    number: int = made.getsockname()[1]
    return number
