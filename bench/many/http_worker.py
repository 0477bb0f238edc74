"""A client process with many keep-alive connections of HTTP: each awaits its own request.

Written on bare sockets: a client library would take more of the machine than the server.
"""

import asyncio
import contextlib
import time
from array import array
from multiprocessing.connection import Connection

from bench.amqp.orders import BROKEN, DONE, READY
from bench.many.orders import Order, Report, Role

_LENGTH = b"content-length:"
_LOCATION = b"location:"


class HttpError(Exception):
    """An answer that the load does not expect."""


class _Http:
    """A keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._host = "{}:{}".format(*writer.get_extra_info("peername"))

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
        """Make a request; return the status, and the path of the header Location."""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(head.encode() + b"\r\n" + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        size, location = 0, ""
        for line in answer.split(b"\r\n"):
            lower = line.lower()
            if lower.startswith(_LENGTH):
                size = int(line[len(_LENGTH) :])
            elif lower.startswith(_LOCATION):
                location = "/" + line.decode().split("/", 3)[3]
        if size:
            await self._reader.readexactly(size)
        return int(answer[9:12]), location

    def close(self) -> None:
        """End it."""
        self._writer.close()


def serve(pipe: Connection, address: str, queue: str, body: bytes) -> None:
    """Carry out orders until the pipe ends, which is also the case when the parent dies."""
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            order: Order = pipe.recv()
            try:
                report = asyncio.run(_done(pipe, order, address, f"/{queue}/messages", body))
            except Exception as error:  # the measuring process shows it
                pipe.send((BROKEN, repr(error)))
            else:
                pipe.send((DONE, report))


async def _done(pipe: Connection, order: Order, address: str, path: str, body: bytes) -> Report:
    took_s: array[float] = array("d")
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(order.connections):
            made = _Http(*await asyncio.open_connection(host, int(port)))
            stack.callback(made.close)
            connections.append(made)
        pipe.send((READY, 0))
        pipe.recv()
        began_s = time.monotonic()
        until_s = began_s + order.seconds
        if order.role is Role.SEND:
            work = [_send(each, path, body, until_s, took_s) for each in connections]
        else:
            work = [_receive(each, path, until_s, took_s) for each in connections]
        await asyncio.gather(*work)
        return Report(took_s, time.monotonic() - began_s)


async def _send(
    connection: _Http, path: str, body: bytes, until_s: float, took_s: "array[float]"
) -> None:
    while (began_s := time.monotonic()) < until_s:
        status, _ = await connection.ask("POST", path, body)
        if status != 201:
            raise HttpError(f"a send is answered with {status}")
        took_s.append(time.monotonic() - began_s)


async def _receive(connection: _Http, path: str, until_s: float, took_s: "array[float]") -> None:
    while (began_s := time.monotonic()) < until_s:
        status, location = await connection.ask("POST", f"{path}/head?timeout=1")
        if status == 204:
            continue
        done, _ = await connection.ask("DELETE", location)
        if (status, done) != (201, 200):
            raise HttpError(f"a receive is answered with {status}, and its completion with {done}")
        took_s.append(time.monotonic() - began_s)
