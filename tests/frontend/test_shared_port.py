"""The shared port: connections of which it is not known yet what they speak."""

import asyncio
from contextlib import suppress

import pytest

from bendybus.frontend.listeners.shared_port import SharedPort
from tests.ports import HOST

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R497")]


class Hello(asyncio.Protocol):
    """Says hello, and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


async def open_port(connections_max: int) -> tuple[SharedPort, int]:
    """Return a port on which a connection may stay unknown for a minute."""
    made = SharedPort(Hello, Hello, f"{HOST}:1", connections_max=connections_max, known_s=60)
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
