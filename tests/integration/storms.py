"""Floods a front end from one or a few connections: `python -m tests.integration.storms`.

The argument is a JSON object: the storm, the addresses, and the SASL response of a key. It goes on
until it is ended, and comes back when it is thrown out.
"""

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from bendybus.amqp import frames
from bendybus.amqp.performatives import Begin, Detach, Open, SaslInit
from tests.amqp.peers import framed
from tests.integration.raw_amqp import RECEIVER, attach_of, flow_of

UPGRADE: Final = (
    b"GET /$servicebus/websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
)
BINARY, PING = 2, 9
BLOCK_BYTES: Final = 60_000


def message(data: bytes, kind: int = BINARY) -> bytes:
    """Return a small message of a WebSocket, masked with zeros."""
    return bytes((0x80 | kind, 0x80 | len(data))) + bytes(4) + data


def connected(address: str) -> socket.socket:
    """Return a connection, of which everything is read."""
    host, port = address.rsplit(":", 1)
    made = socket.create_connection((host, int(port)))

    def read() -> None:
        with contextlib.suppress(OSError):
            while made.recv(1 << 16):
                pass

    threading.Thread(target=read, daemon=True).start()
    return made


def flood(make: Callable[[], socket.socket], unit: bytes) -> None:
    """Write a unit without end."""
    block = unit * (BLOCK_BYTES // len(unit))
    while True:
        with contextlib.suppress(OSError), make() as line:
            while True:
                line.sendall(block)
        time.sleep(0.02)


def sign_in(asked: dict[str, Any]) -> list[bytes]:
    """Return the first bytes of a client with a key, in two parts."""
    init = SaslInit("PLAIN", asked["plain"].encode())
    return [
        frames.SASL_HEADER + framed(init, kind=frames.SASL),
        frames.AMQP_HEADER + framed(Open("storm")),
    ]


def small_messages(asked: dict[str, Any]) -> None:
    """With a key: AMQP in messages of a byte."""

    def make() -> socket.socket:
        line = connected(asked["http"])
        line.sendall(UPGRADE)
        for each in sign_in(asked):
            time.sleep(0.1)
            line.sendall(message(each))
        return line

    flood(make, b"".join(message(bytes((each,))) for each in frames.EMPTY))


def pings(asked: dict[str, Any]) -> None:
    """Without one: pings."""

    def make() -> socket.socket:
        line = connected(asked["http"])
        line.sendall(UPGRADE)
        return line

    flood(make, message(b"p", PING))


def links(asked: dict[str, Any]) -> None:
    """With a key: a link that is attached, gets credit, and is detached."""

    def make() -> socket.socket:
        line = connected(asked["amqp"])
        for each in sign_in(asked):
            line.sendall(each)
            time.sleep(0.1)
        begin = Begin(next_outgoing_id=0, incoming_window=5_000, outgoing_window=5_000)
        line.sendall(framed(begin))
        return line

    cycle = (attach_of("orders", RECEIVER, 0, name="s"), flow_of(0, 10), Detach(0, True))
    flood(make, b"".join(map(framed, cycle)))


def chunks(asked: dict[str, Any]) -> None:
    """Without one: the body of a request in pieces of a byte."""

    def make() -> socket.socket:
        line = connected(asked["http"])
        line.sendall(b"POST /q HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        return line

    flood(make, b"1\r\nx\r\n")


def fragments(asked: dict[str, Any]) -> None:
    """Without one: a message of a WebSocket in pieces of nothing."""

    def make() -> socket.socket:
        line = connected(asked["http"])
        line.sendall(UPGRADE + bytes((BINARY, 0x80)) + bytes(4))
        return line

    flood(make, bytes((0, 0x80)) + bytes(4))


def requests(asked: dict[str, Any]) -> None:
    """Without one: requests, one after the other."""
    flood(lambda: connected(asked["http"]), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


# With how many connections each comes.
STORMS: Final = {small_messages: 1, pings: 30, links: 2, chunks: 30, fragments: 10, requests: 60}


def main() -> None:
    """Flood."""
    asked = json.loads(sys.argv[1])
    [(storm, count)] = [each for each in STORMS.items() if each[0].__name__ == asked["storm"]]
    flooding = [threading.Thread(target=storm, args=(asked,)) for _ in range(count)]
    for each in flooding:
        each.start()


if __name__ == "__main__":
    main()
