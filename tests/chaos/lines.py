"""A line between two processes that can be cut, held up and mended: a TCP proxy on loopback."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tests.ports import HOST, free_port

_CHUNK_BYTES: Final = 65_536
_BACKLOG: Final = 100


class Lines:
    """All lines of a run, on one event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lines", daemon=True)
        self._thread.start()
        self._made: list[Line] = []

    def add(self, name: str, target: str) -> "Line":
        """Open a line to an address."""
        line = Line(name, target, self.call)
        self.call(line.open())
        self._made.append(line)
        return line

    def call(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something on the loop and wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def close(self) -> None:
        """Close every line, and end the loop."""
        for line in self._made:
            self.call(line.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Line:
    """One address in front of another. `cut`: connections break and none is taken until `mend`.

    `hold`: bytes wait, as on a network that lost its way, until `mend`. `swallow`: what is asked
    arrives and is done, and no answer comes back until `reset` breaks the connections.
    """

    def __init__(
        self, name: str, target: str, call: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:
        self.name = name
        self.address = f"{HOST}:{free_port()}"
        self._target = target
        self._call = call
        # Not an asyncio.Server: that of Python 3.11 leaks what it accepted just before it closes.
        self._listening: socket.socket | None = None
        self._flows: set[asyncio.Task[None]] = set()
        # Whether bytes pass, to the target and back.
        self._asking = asyncio.Event()
        self._answering = asyncio.Event()

    def cut(self) -> None:
        """Break all connections; take none."""
        self._call(self._cut())

    def hold(self) -> None:
        """Let nothing through, and say nothing."""
        self._call(self._hold())

    def swallow(self) -> None:
        """Let nothing back; what is on its way back will be lost."""
        self._call(self._swallow())

    def mend(self) -> None:
        """Let everything through again."""
        self._call(self.open())

    def reset(self) -> None:
        """Break all connections, and take new ones."""
        self._call(self._reset())

    async def open(self) -> None:
        """Take connections."""
        self._asking.set()
        self._answering.set()
        if self._listening is None:
            host, _, port = self.address.rpartition(":")
            self._listening = socket.create_server((host, int(port)), backlog=_BACKLOG)
            self._listening.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listening, self._take, self._listening)

    async def close(self) -> None:
        """Break everything and wait for the end of it."""
        await self._cut()

    async def _cut(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        flows = list(self._flows)
        for flow in flows:
            flow.cancel()
        await asyncio.gather(*flows, return_exceptions=True)

    async def _hold(self) -> None:
        self._asking.clear()
        self._answering.clear()

    async def _swallow(self) -> None:
        self._answering.clear()

    async def _reset(self) -> None:
        await self._cut()
        await self.open()

    def _take(self, listening: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            taken, _ = listening.accept()
            flow = asyncio.get_running_loop().create_task(self._flow(taken))
            self._flows.add(flow)
            flow.add_done_callback(self._flows.discard)
            # Also where the flow was cancelled before its first step.
            flow.add_done_callback(lambda _: taken.close())

    async def _flow(self, taken: socket.socket) -> None:
        host, _, port = self._target.rpartition(":")
        writers: list[asyncio.StreamWriter] = []
        try:
            reader, writer = await asyncio.open_connection(sock=taken)
            writers.append(writer)
            there, there_writer = await asyncio.open_connection(host, int(port))
            writers.append(there_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, there_writer, self._asking))
                both.create_task(self._copy(there, writer, self._answering))
        except* OSError:
            pass
        finally:
            for each in writers:
                each.transport.abort()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passing: asyncio.Event
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await passing.wait()
            writer.write(data)
            await writer.drain()
        # One end is enough for both: gRPC closes connections as a whole.
        raise ConnectionResetError
