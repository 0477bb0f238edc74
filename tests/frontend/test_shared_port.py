"""The shared port: connections of which it is not known yet what they speak."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bendybus.frontend.core.quota.bounds import SPLICED_BYTES
from bendybus.frontend.listeners import beside_grpc, shared_port
from bendybus.frontend.listeners.shared_port import SharedPort
from bendybus.frontend.settings import Settings
from tests.ports import HOST

# More than the buffers of sockets hold.
SIZE_BYTES = 40_000_000
pytestmark = [pytest.mark.integration, pytest.mark.requirement("R497")]


class Hello(asyncio.Protocol):
    """Says hello, and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


async def open_port(
    connections_max: int, grpc: str = f"{HOST}:1", untaken_s: float = 60
) -> tuple[SharedPort, int]:
    """Return a port on which a connection may stay unknown for a minute."""
    made = SharedPort(
        Hello, Hello, grpc, connections_max=connections_max, known_s=60, untaken_s=untaken_s
    )
    return made, await made.open(f"{HOST}:0", None)


async def test_connections_that_are_not_known_yet_are_bounded_and_the_oldest_makes_room() -> None:
    port, number = await open_port(2)
    lines = [await asyncio.open_connection(HOST, number) for _ in range(3)]
    try:
        for _, writer in lines:
            writer.write(b"P")
            # Each is the younger one.
            await asyncio.sleep(0.05)
        (oldest, _), (other, _), (youngest, writer) = lines

        writer.write(b"UT")

        async with asyncio.timeout(5):
            assert await youngest.read() == b"hello"
            with suppress(ConnectionError):
                assert await oldest.read() == b""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(other.read(), 0.2)
    finally:
        port.stop_listening()
        await port.close()
        for _, writer in lines:
            writer.close()


async def test_what_is_not_known_yet_ends_with_the_port() -> None:
    port, number = await open_port(9)
    silent, choosing = [await asyncio.open_connection(HOST, number) for _ in range(2)]
    choosing[1].write(b"P")
    await asyncio.sleep(0.1)

    port.stop_listening()
    await port.close()

    async with asyncio.timeout(5):
        for reader, writer in (silent, choosing):
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()


@pytest.mark.parametrize("spliced_bytes", [SPLICED_BYTES, 2 * SIZE_BYTES])
async def test_a_grpc_client_that_takes_nothing_gives_its_place_back(
    monkeypatch: pytest.MonkeyPatch, spliced_bytes: int
) -> None:
    # With much room the port has read the end of the answer before the client is given up.
    monkeypatch.setattr(shared_port, "SPLICED_BYTES", spliced_bytes)
    ended = asyncio.Event()

    async def grpc(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(bytes(SIZE_BYTES))
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(grpc, HOST, 0)
    address = f"{HOST}:{server.sockets[0].getsockname()[1]}"
    port, number = await open_port(1, address, untaken_s=0.3)
    _, writer = await asyncio.open_connection(HOST, number, limit=1)
    writer.write(b"PRI * HTTP/2.0")
    try:
        async with asyncio.timeout(10):
            await ended.wait()
            while not await answered_by_grpc(number):
                pass
    finally:
        port.stop_listening()
        await port.close()
        writer.close()
        server.close()


@asynccontextmanager
async def spliced(
    monkeypatch: pytest.MonkeyPatch, at_once: Callable[[Any, Any], None]
) -> AsyncIterator[asyncio.StreamReader]:
    """Give what a client of gRPC reads.

    `at_once` gets transport and protocol of the connection to gRPC before the splice does.
    """
    server = await asyncio.start_server(lambda _, writer: writer.close(), HOST, 0)
    port, number = await open_port(1, f"{HOST}:{server.sockets[0].getsockname()[1]}")
    loop = asyncio.get_running_loop()
    connect: Any = loop.create_connection

    async def connected(*given: Any) -> Any:
        made = await connect(*given)
        at_once(*made)
        await asyncio.sleep(0)
        return made

    reader, writer = await asyncio.open_connection(HOST, number)
    monkeypatch.setattr(loop, "create_connection", connected)
    writer.write(b"PRI * HTTP/2.0")
    try:
        async with asyncio.timeout(5):
            yield reader
    finally:
        port.stop_listening()
        await port.close()
        writer.close()
        server.close()


async def test_what_grpc_says_first_reaches_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """It speaks before its client does, and may be heard before it is known to be connected."""

    def speak(_: Any, protocol: Any) -> None:
        protocol.data_received(b"settings")

    async with spliced(monkeypatch, speak) as reader:
        assert await reader.read() == b"settings"


async def test_a_grpc_server_that_is_gone_at_once_ends_its_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with spliced(monkeypatch, lambda transport, _: transport.abort()) as reader:
        assert await reader.read() == b""


async def test_nothing_is_kept_of_a_grpc_client_that_is_gone() -> None:
    """A timer would keep its transport and, with TLS, 256 KB of buffers for a minute."""
    ended = asyncio.Event()

    async def grpc(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"settings")
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(grpc, HOST, 0)
    port, number = await open_port(1, f"{HOST}:{server.sockets[0].getsockname()[1]}")
    reader, writer = await asyncio.open_connection(HOST, number)
    try:
        async with asyncio.timeout(5):
            writer.write(b"PRI * HTTP/2.0")
            await reader.read(1)
            [spliced] = port._spliced
            there = spliced.other
            assert there is not None
            writer.close()
            await ended.wait()
            while there.transport is not None or port._spliced:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        assert spliced.transport is None
        assert spliced._untaken is None or spliced._untaken.cancelled()
    finally:
        port.stop_listening()
        await port.close()
        server.close()


class Refusing(Hello):
    """Ends connections at once; keeps what it gets of them nevertheless."""

    got: ClassVar[list[bytes]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()

    def data_received(self, data: bytes) -> None:
        self.got.append(data)


async def test_what_a_refused_connection_asks_for_is_not_done() -> None:
    port, number = await open_port(1)
    port.http = Refusing
    reader, writer = await asyncio.open_connection(HOST, number)
    try:
        async with asyncio.timeout(5):
            writer.write(b"DELETE /orders")
            with suppress(ConnectionError):
                assert await reader.read() == b""
        assert Refusing.got == []
    finally:
        port.stop_listening()
        await port.close()
        writer.close()


async def answered_by_grpc(number: int) -> bool:
    """Return whether a new client of gRPC is served."""
    reader, writer = await asyncio.open_connection(HOST, number)
    try:
        writer.write(b"PRI * HTTP/2.0")
        return bool(await reader.read(1))
    except ConnectionError:
        return False
    finally:
        # Not at once again: the port is on the same event loop.
        await asyncio.sleep(0.05)
        writer.close()


async def serve_silently(served: asyncio.Semaphore) -> asyncio.Server:
    """Stand for a gRPC server; `served` is released at the end of each connection."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"settings")
        await reader.read()
        writer.close()
        served.release()

    return await asyncio.start_server(silent, HOST, 0)


async def test_clients_of_grpc_take_no_place_of_others() -> None:
    served = asyncio.Semaphore(0)
    server = await serve_silently(served)
    port, number = await open_port(2, f"{HOST}:{server.sockets[0].getsockname()[1]}")
    lines = [await asyncio.open_connection(HOST, number) for _ in range(2)]
    try:
        async with asyncio.timeout(5):
            for reader, writer in lines:
                writer.write(b"PRI * HTTP/2.0")
                assert await reader.read(1)
                for known in list(port.strangers.values()):
                    known()

            assert not await answered_by_grpc(number)
            reader, writer = await asyncio.open_connection(HOST, number)
            writer.write(b"PUT ")
            assert await reader.read() == b"hello"
            writer.close()
    finally:
        port.stop_listening()
        await port.close()
        for _, writer in lines:
            writer.close()
            await served.acquire()
        server.close()


@pytest.mark.requirement("R635")
async def test_strangers_of_grpc_make_room_and_who_is_known_stays() -> None:
    served = asyncio.Semaphore(0)
    server = await serve_silently(served)
    port, number = await open_port(4, f"{HOST}:{server.sockets[0].getsockname()[1]}")
    lines: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    try:
        async with asyncio.timeout(5):
            for index in range(5):
                reader, writer = await asyncio.open_connection(HOST, number)
                lines.append((reader, writer))
                writer.write(b"PRI * HTTP/2.0")
                assert await reader.readexactly(8) == b"settings"
                if index == 0:
                    [known] = port.strangers.values()
                    known()

            # Strangers have a half: the second and the third made room for the last two.
            ended = [await reader.read() for reader, _ in lines[1:3]]
            assert ended == [b"", b""]
            assert len(port._spliced) == 3
            assert len(port.strangers) == 3
    finally:
        port.stop_listening()
        await port.close()
        for _, writer in lines:
            writer.close()
            await served.acquire()
        server.close()


def test_files_are_counted_for_all_that_may_listen() -> None:
    """A client of gRPC at a shared port takes three: two are ends of the connection behind it."""
    assert beside_grpc.files_each(Settings()) == 1
    assert beside_grpc.files_each(Settings(amqp_listen="x", amqps_listen="x")) == 3
    assert beside_grpc.files_each(Settings(http_listen="x")) == 3
    assert beside_grpc.files_each(Settings(http_listen="x", tls_directory=Path("x"))) == 4
    assert beside_grpc.files_each(Settings(amqp_listen="x", shared_listen=("x", "y"))) == 3 + 2 * 4
