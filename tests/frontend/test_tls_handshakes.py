"""Connections to ports with TLS count before their handshake is over."""

import asyncio
import resource
import socket
import ssl
from pathlib import Path

import pytest

from bendybus.frontend.listeners.accepting import TlsPort
from bendybus.wire import memory, tls
from tests.certificates import Authority, mount
from tests.frontend.amqp_listening import Listening
from tests.ports import HOST

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R636")]
CONNECTIONS_MAX = 3


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def context(tmp_path: Path, authority: Authority) -> ssl.SSLContext:
    folder = mount(tmp_path / "tls", *authority.issue(), authority.pem)
    return tls.server_context(tls.Directory(folder))


def silent(count: int, port: int) -> list[socket.socket]:
    return [socket.create_connection((HOST, port), 5) for _ in range(count)]


def is_closed(line: socket.socket) -> bool:
    line.settimeout(0.2)
    try:
        return line.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def hello_over_tls(authority: Authority, port: int) -> bytes:
    trusted = ssl.create_default_context(cadata=authority.pem.decode())
    with (
        socket.create_connection((HOST, port), 5) as plain,
        trusted.wrap_socket(plain, server_hostname=HOST) as line,
    ):
        line.sendall(b"AMQP\x03\x01\x00\x00")
        return line.recv(8)


@pytest.mark.parametrize("protocol", ["amqp", "http"])
def test_who_never_begins_its_handshake_makes_room_for_others(
    protocol: str, context: ssl.SSLContext, authority: Authority
) -> None:
    with Listening(connections_max=CONNECTIONS_MAX) as listening:
        server = listening.listener if protocol == "amqp" else listening.http
        port = listening.run(server.open(f"{HOST}:0", context))
        lines = silent(3 * CONNECTIONS_MAX, port)

        assert [is_closed(each) for each in lines] == [True] * 6 + [False] * 3
        said = hello_over_tls(authority, port)

    assert said.startswith(b"AMQP" if protocol == "amqp" else b"HTTP")
    assert all(map(is_closed, lines))
    for line in lines:
        line.close()


async def test_a_handshake_that_takes_too_long_is_ended(context: ssl.SSLContext) -> None:
    port = TlsPort(asyncio.Protocol, context, connections_max=9, handshake_s=0.1)
    number = await port.open(f"{HOST}:0")
    reader, writer = await asyncio.open_connection(HOST, number)

    async with asyncio.timeout(5):
        assert await reader.read() == b""

    assert len(port._accepting.unknown) == 0
    port.close()
    writer.close()


def test_a_process_that_may_open_no_file_does_not_fail_for_it() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        found = memory.resident_bytes()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert found is None
    assert memory.resident_bytes()


async def test_memory_is_given_back_again_when_files_are_left_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = iter([10, None, 10, None, memory.GROWN_PAGES * 2, 20, 20])
    trimmed: list[int] = []
    done = asyncio.Event()
    monkeypatch.setattr(memory, "EVERY_S", 0.0)
    monkeypatch.setattr(memory, "_trimmer", lambda: trimmed.append)

    def look() -> int | None:
        found = next(pages, 20)
        if trimmed:
            done.set()
        return found

    monkeypatch.setattr(memory, "_pages", look)
    task = asyncio.ensure_future(memory.give_back())

    async with asyncio.timeout(5):
        await done.wait()

    assert trimmed == [0]
    assert not task.done()
    task.cancel()
