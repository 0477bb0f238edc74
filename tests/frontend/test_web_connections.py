"""Connections of the HTTP server, when there are too many."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.frontend.amqp_listening import Listening
from tests.integration.processes import eventually
from tests.ports import HOST


@contextmanager
def connected(listening: Listening) -> Iterator[socket.socket]:
    """Give a connection."""
    port = int(listening.http_address.rpartition(":")[2])
    with socket.create_connection((HOST, port), timeout=10) as connection:
        yield connection


def status(connection: socket.socket, path: str, token: str = "") -> int:
    """Return the status of the answer to a request; 0: the connection is closed."""
    authorization = f"Authorization: {token}\r\n" if token else ""
    try:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{authorization}\r\n".encode())
        answer = connection.recv(64 * 1024)
    except ConnectionError:
        return 0
    return int(answer.split()[1]) if answer else 0


@pytest.mark.requirement("R635")
def test_who_has_shown_nothing_makes_room_for_others_over_http(tmp_path: Path) -> None:
    with Listening(tmp_path, connections_max=4) as listening, ExitStack() as stack:
        token = listening.token()
        holders = [stack.enter_context(connected(listening)) for _ in range(2)]
        first = [status(each, "/$namespaceinfo", token) for each in holders]
        strangers = [stack.enter_context(connected(listening)) for _ in range(6)]
        eventually(lambda: len(listening.ask(lambda: list(listening.http._guards))) == 4)

        new = status(stack.enter_context(connected(listening)), "/health")
        again = [status(each, "/$namespaceinfo", token) for each in holders]

        # There is no partition here.
        assert new == 503
        assert len(set(first)) == 1
        assert 0 not in first
        assert again == first
        assert strangers[0].recv(1) == b""
        # Where all have shown a token, the next one is closed.
        others = [stack.enter_context(connected(listening)) for _ in range(2)]
        assert [status(each, "/$namespaceinfo", token) for each in others] == first
        assert status(stack.enter_context(connected(listening)), "/health") == 0
