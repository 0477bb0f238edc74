"""A WebSocket counts messages until they are taken, and keeps none that it wrote."""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import WSMessage, WSMsgType

from bendybus.frontend.core.quota.bounds import MESSAGE_FREE_BYTES
from bendybus.frontend.listeners.web.websockets import WebSocketWire, head_bytes

pytestmark = pytest.mark.requirement("R635")
MB = 1024 * 1024


class Socket:
    """aiohttp's side: messages that have come, until they are received."""

    closed = False

    def __init__(self) -> None:
        self._come: deque[WSMessage] = deque()
        self._something = asyncio.Event()
        self.sent: list[bytes] = []

    def came(self, kind: WSMsgType, data: bytes) -> None:
        self._come.append(WSMessage(kind, data, None))
        self._something.set()

    async def receive(self) -> WSMessage:
        while not self._come:
            self._something.clear()
            await self._something.wait()
        return self._come.popleft()

    async def pong(self, data: bytes) -> None:
        """Send nothing."""

    async def send_bytes(self, data: bytes) -> None:
        self.sent.append(data)

    async def close(self) -> None:
        self.closed = True


class Reading:
    """Turns that come at once."""

    stranger = paused = False

    async def own_turn(self) -> None:
        await asyncio.sleep(0)


class Connection:
    """AMQP's side: counts what is reserved."""

    def __init__(self) -> None:
        self.reading = Reading()
        self.reserved = 0
        self.messages: list[bytes] = []

    def reserve(self, size_bytes: int) -> bool:
        self.reserved += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        self.reserved -= size_bytes

    def received(self, data: bytes) -> None:
        self.messages.append(data)

    def written(self) -> None:
        """Nothing waits for it."""

    def lost(self) -> None:
        """Nothing is left."""


class Line:
    """The TCP connection."""

    written = arrived = None

    def __init__(self) -> None:
        self.at_end: list[Callable[[], None]] = []


class Request:
    """A request without a transport."""

    transport = None


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[WebSocketWire, Socket, Connection]]:
    socket, connection = Socket(), Connection()
    given: Any = (socket, Request(), connection, Line())
    wire = WebSocketWire(*given[:2])
    task = asyncio.ensure_future(wire.serve(lambda _: given[2], given[3]))
    await idle()
    yield wire, socket, connection
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert connection.reserved == 0


async def idle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def comes(wire: WebSocketWire, socket: Socket, data: bytes) -> None:
    """Let a whole message come, in pieces as a socket reads them."""
    for at in range(0, len(data), 256 * 1024):
        assert wire.arrived(len(data[at : at + 256 * 1024]))
    assert wire.arrived(head_bytes(len(data)))
    socket.came(WSMsgType.BINARY, data)


@pytest.mark.parametrize(("size", "head"), [(125, 6), (126, 8), (65_535, 8), (65_536, 14)])
def test_the_head_of_a_frame_is_as_long_as_the_standard_says(size: int, head: int) -> None:
    assert head_bytes(size) == head


async def test_a_message_that_is_not_complete_keeps_its_room_while_others_are_taken() -> None:
    async with serving() as (wire, socket, connection):
        # Nothing is read while output waits; two messages are there then, and most of a third.
        wire.pause_reading()
        socket.came(WSMsgType.BINARY, b"first")
        wire.arrived(head_bytes(5) + 5)
        await idle()
        comes(wire, socket, bytes(2 * MB))
        wire.arrived(3 * MB)

        wire.resume_reading()
        await idle()

        assert [len(each) for each in connection.messages] == [5, 2 * MB]
        assert connection.reserved == pytest.approx(3 * MB - MESSAGE_FREE_BYTES, abs=64)


async def test_many_messages_that_are_taken_as_they_come_keep_no_room() -> None:
    async with serving() as (wire, socket, connection):
        for size in (1, 200, 70_000, 2 * MB) * 20:
            comes(wire, socket, bytes(size))
            wire.arrived(head_bytes(4) + 4)
            socket.came(WSMsgType.PING, b"ping")
            await idle()

        assert len(connection.messages) == 80
        assert connection.reserved == 0
        assert wire._come_bytes < 100


async def test_what_is_written_is_not_kept() -> None:
    async with serving() as (wire, socket, _):
        data = bytes(range(256)) * 1_000
        held = sys.getrefcount(data)

        wire.write(data)
        await idle()

        assert socket.sent == [data]
        socket.sent.clear()
        assert sys.getrefcount(data) == held
