"""The end of a connection's output comes after everything that was written before it."""

import asyncio
import socket
import ssl
import time
from pathlib import Path
from typing import cast

import pytest
import uvloop

from bendybus.frontend.listeners.output_end import end_output
from bendybus.wire import tls
from tests.certificates import Authority, mount
from tests.ports import HOST

SIZE_BYTES = 60_000
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class Writer(asyncio.Protocol):
    """Writes much to a client that reads slowly; ends its output when all is written."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        line = made.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        made.set_write_buffer_limits(high=0)
        made.write(bytes(SIZE_BYTES))
        if not made.get_write_buffer_size():
            end_output(made)

    def resume_writing(self) -> None:
        assert self._transport is not None
        end_output(self._transport)


@pytest.mark.integration
@pytest.mark.requirement("R581")
@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_reads_slowly_gets_all_of_it_over_tls(loop: object, tmp_path: Path) -> None:
    authority = Authority()
    folder = mount(tmp_path / "tls", *authority.issue(), authority.pem)
    context = tls.server_context(tls.Directory(folder))
    trusted = ssl.create_default_context(cadata=authority.pem.decode())

    async def run() -> bytes:
        server = await asyncio.get_running_loop().create_server(Writer, HOST, 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        found = await asyncio.to_thread(read_slowly, trusted, port)
        server.close()
        return found

    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]
        assert len(runner.run(run())) == SIZE_BYTES


def read_slowly(trusted: ssl.SSLContext, port: int) -> bytes:
    found = b""
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_304)
        plain.settimeout(10)
        plain.connect((HOST, port))
        with trusted.wrap_socket(plain, server_hostname=HOST, suppress_ragged_eofs=True) as line:
            while data := line.recv(1_024):
                found += data
                # As slow as a program that does something with it.
                time.sleep(0.002)
    return found
