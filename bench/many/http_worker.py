"""A client process with many keep-alive connections of HTTP: each awaits its own request.

Written on bare sockets: a client library would take more of the machine than the server.
"""

import asyncio
import contextlib
import json
import time
from array import array
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final, Protocol

from bench.amqp.orders import BROKEN, DONE, READY
from bench.many.orders import Order, Report, Role

_LENGTH: Final = b"content-length:"
_LOCATION: Final = b"location:"
_SERVES_S: Final = 30.0


class HttpError(Exception):
    """An answer that the load does not expect."""


class _Http:
    """A keep-alive connection. `headers`: of each request, with their ends."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._headers = "Host: {}:{}\r\n".format(*writer.get_extra_info("peername")) + headers

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, str, bytes]:
        """Make a request; return the status, the path of the header Location, and the body."""
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        size, location = 0, ""
        for line in answer.split(b"\r\n"):
            lower = line.lower()
            if lower.startswith(_LENGTH):
                size = int(line[len(_LENGTH) :])
            elif lower.startswith(_LOCATION):
                location = "/" + line.decode().split("/", 3)[3]
        found = await self._reader.readexactly(size) if size else b""
        return int(answer[9:12]), location, found

    def close(self) -> None:
        """End it."""
        self._writer.close()


class Dialect(Protocol):
    """The requests by which a server's messages are sent, and received."""

    @property
    def headers(self) -> str:
        """Those of each request, with their ends."""

    async def send(self, connection: _Http, body: bytes) -> None:
        """Send a message."""

    async def receive(self, connection: _Http) -> bool:
        """Receive and settle a message; return whether there was one."""


@dataclass(frozen=True, slots=True)
class ServiceBus:
    """The REST interface of Service Bus."""

    queue: str
    headers: str = ""

    async def send(self, connection: _Http, body: bytes) -> None:
        """Send a message."""
        status, _, _ = await connection.ask("POST", f"/{self.queue}/messages", body)
        if status != 201:
            raise HttpError(f"a send is answered with {status}")

    async def receive(self, connection: _Http) -> bool:
        """Lock a message, and complete it."""
        path = f"/{self.queue}/messages/head?timeout=1"
        status, location, _ = await connection.ask("POST", path)
        if status == 204:
            return False
        done, _, _ = await connection.ask("DELETE", location)
        if (status, done) != (201, 200):
            raise HttpError(f"a receive is answered with {status}, and its completion with {done}")
        return True


@dataclass(frozen=True, slots=True)
class RabbitMq:
    """RabbitMQ's management interface: it sends persistently, and deletes what it hands over."""

    queue: str
    headers: str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Type: application/json\r\n"

    async def send(self, connection: _Http, body: bytes) -> None:
        """Send a message."""
        given = {
            "properties": {"delivery_mode": 2},
            "routing_key": self.queue,
            "payload": body.decode("latin-1"),
            "payload_encoding": "string",
        }
        path = "/api/exchanges/%2F/amq.default/publish"
        status, _, said = await connection.ask("POST", path, json.dumps(given).encode())
        if (status, said) != (200, b'{"routed":true}'):
            raise HttpError(f"a send is answered with {status}: {said[:200]!r}")

    async def receive(self, connection: _Http) -> bool:
        """Receive a message, which is acknowledged before it is answered."""
        given = b'{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}'
        path = f"/api/queues/%2F/{self.queue}/get"
        status, _, said = await connection.ask("POST", path, given)
        if status != 200:
            raise HttpError(f"a receive is answered with {status}: {said[:200]!r}")
        return said != b"[]"


async def serves(address: str, dialect: Dialect, body: bytes) -> None:
    """Return once a server takes a message; raise TimeoutError if it does not."""
    async with asyncio.timeout(_SERVES_S):
        while True:
            with contextlib.suppress(OSError, EOFError, HttpError):
                connection = await _connected(address, dialect)
                try:
                    await dialect.send(connection, body)
                    return
                finally:
                    connection.close()
            await asyncio.sleep(0.2)


def serve(pipe: Connection, address: str, dialect: Dialect, body: bytes) -> None:
    """Carry out orders until the pipe ends, which is also the case when the parent dies."""
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            order: Order = pipe.recv()
            try:
                report = asyncio.run(_done(pipe, order, address, dialect, body))
            except Exception as error:  # the measuring process shows it
                pipe.send((BROKEN, repr(error)))
            else:
                pipe.send((DONE, report))


async def _connected(address: str, dialect: Dialect) -> _Http:
    host, _, port = address.rpartition(":")
    return _Http(*await asyncio.open_connection(host, int(port)), dialect.headers)


async def _done(
    pipe: Connection, order: Order, address: str, dialect: Dialect, body: bytes
) -> Report:
    took_s: array[float] = array("d")
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(order.connections):
            made = await _connected(address, dialect)
            stack.callback(made.close)
            connections.append(made)
        pipe.send((READY, 0))
        pipe.recv()
        began_s = time.monotonic()
        until_s = began_s + order.seconds

        async def works(connection: _Http) -> None:
            while (at_s := time.monotonic()) < until_s:
                if order.role is Role.SEND:
                    await dialect.send(connection, body)
                elif not await dialect.receive(connection):
                    continue
                took_s.append(time.monotonic() - at_s)

        await asyncio.gather(*map(works, connections))
        return Report(took_s, time.monotonic() - began_s)
