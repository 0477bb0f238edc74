"""An address in front of front ends, as a Service of Kubernetes is: a connection goes to one."""

import asyncio
import contextlib
import threading
from typing import Final

from tests.ports import HOST

_CHUNK_BYTES: Final = 65_536
_CLOSE_S: Final = 0.1


class Balancer:
    """Takes connections on `address` until the end of `with`; new ones go to `target`."""

    def __init__(self, target: str, address: str = f"{HOST}:0") -> None:
        self.target = target
        self.address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._flows: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> "Balancer":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _open(self) -> None:
        host, _, port = self.address.rpartition(":")
        self._server = await asyncio.start_server(self._take, host, int(port))
        self.address = f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def _close(self) -> None:
        self._server.close()
        # A flow ends with its connections; one that is just opening them has more a moment later.
        while self._flows:
            for each in self._writers:
                each.transport.abort()
            await asyncio.wait(self._flows, timeout=_CLOSE_S)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        flow = asyncio.current_task()
        assert flow is not None
        self._flows.add(flow)
        writers = {writer}
        self._writers |= writers
        host, _, port = self.target.rpartition(":")
        try:
            there, there_writer = await asyncio.open_connection(host, int(port))
            writers.add(there_writer)
            self._writers.add(there_writer)
            await asyncio.gather(_copy(reader, there_writer), _copy(there, writer))
        except OSError:
            pass
        finally:
            self._flows.discard(flow)
            self._writers -= writers
            for each in writers:
                each.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes, and then the end of them: the other direction goes on."""
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
