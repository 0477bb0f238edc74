"""WebSockets whose clients read slowly, of an AMQP listener in this process."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.amqp import frames, sections
from bendybus.amqp.performatives import Begin, Open, SaslInit, Transfer
from bendybus.amqp.sections import Message, Properties
from bendybus.frontend.core.quota.bounds import CROWDED_BYTES, UNWRITTEN_MIN
from tests.amqp.peers import framed
from tests.frontend.amqp_listening import KEY, POLICY, Listening
from tests.integration.processes import eventually
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp, attach_of, flow_of

BINARY = 2
HANDSHAKE = (
    b"GET /$servicebus/websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
)


@pytest.fixture
def listening() -> Iterator[Listening]:
    with Listening() as made:
        yield made
    assert made.failures == []


def message_of(data: bytes) -> bytes:
    """Return a message of a WebSocket, masked with zeros."""
    return b"\x82\xfe" + len(data).to_bytes(2) + bytes(4) + data


def opcodes(data: bytes) -> Iterator[int]:
    """Yield the kinds of the messages of a server, each of less than 64 KB."""
    while data:
        size, end = (data[1], 2) if data[1] < 126 else (int.from_bytes(data[2:4]), 4)
        yield data[0] & 0x0F
        data = data[end + size :]


def requests(count: int, first: int) -> bytes:
    """Return requests that are always answered."""
    asked = Message(
        properties=Properties(message_id="x" * 60),
        application_properties={"operation": "put-token", "name": "amqp://x/"},
        value="any",
        has_value=True,
    )
    ids = range(first, first + count)
    sent = [Transfer(0, each, each.to_bytes(4), 0, settled=True) for each in ids]
    return b"".join([framed(each, sections.encode(asked)) for each in sent])


def unread(listening: Listening) -> tuple[RawAmqp, Any]:
    """Return a client that left so much unread that nothing is read of it, and its connection."""

    def crowded() -> None:
        # So much is left unread by others.
        listening.listener.front_end.deliveries.unread_bytes += CROWDED_BYTES
        for guard in listening.http._guards.values():
            line = guard._transport.get_extra_info("socket")
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)

    raw = RawAmqp(listening.http_address, receive_bytes=4_096)
    raw.write(HANDSHAKE)
    for data in (
        frames.SASL_HEADER + framed(SaslInit("ANONYMOUS", b""), kind=frames.SASL),
        frames.AMQP_HEADER + framed(Open("ws")),
        framed(Begin(next_outgoing_id=0, incoming_window=9_999, outgoing_window=9_999)),
        framed(attach_of("$cbs", SENDER, 0)) + framed(attach_of("$cbs", RECEIVER, 1)),
        framed(flow_of(1, 9_999, incoming_window=9_999)),
    ):
        raw.write(message_of(data))
    [connection] = eventually(listening.connections)
    eventually(lambda: listening.ask(lambda: connection._engine.links == 2))
    listening.ask(crowded)
    sent = 0
    transfers = connection.metrics.transfers

    def read_or_paused() -> bool:
        return listening.ask(lambda: transfers.counts["in"] == sent or connection.reading.paused)

    while not listening.ask(lambda: connection.reading.paused):
        # Little by little: what is written at a time is less than what is too much.
        raw.write(message_of(requests(10, sent)))
        sent += 10
        eventually(read_or_paused)
    assert listening.ask(connection._wire.unwritten) >= UNWRITTEN_MIN // 2
    return raw, connection


@pytest.mark.requirement("R543")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/$servicebus/websocket", id="the SDKs for JavaScript, Java, Go and Python"),
        pytest.param("/$servicebus/websocket/", id="the SDKs for .NET and Rust, uamqp"),
        pytest.param("/$ServiceBus/WebSocket/", id="another case"),
        pytest.param("/%24servicebus/websocket", id="percent-encoded"),
    ],
)
def test_a_websocket_has_each_path_that_clients_ask_for(listening: Listening, path: str) -> None:
    asked = HANDSHAKE.replace(b"/$servicebus/websocket", path.encode())
    with RawAmqp(listening.http_address) as raw:
        raw.write(asked)

        assert raw.socket.recv(4_096).startswith(b"HTTP/1.1 101 ")


def test_a_websocket_is_read_again_when_its_client_has_read_everything(
    listening: Listening,
) -> None:
    raw, connection = unread(listening)
    with raw:
        raw.socket.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            while raw.socket.recv(1 << 16):
                pass

        eventually(lambda: listening.ask(lambda: not connection.reading.paused), within_s=5)


def test_a_listener_that_closes_takes_no_new_websockets_while_it_hands_over(
    listening: Listening,
) -> None:
    host, _, port = listening.http_address.rpartition(":")
    with listening.raw().open() as raw:
        closing = listening.start(listening.listener.close(4.0))
        # It does not end its side of the connection: the listener waits for that.
        raw.wait_for_end()

        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
        assert not closing.done()
        closing.result(10)


@pytest.mark.requirement("R518")
def test_a_websocket_is_lost_without_its_close_that_an_sdk_takes_no_notice_of(
    listening: Listening,
) -> None:
    with RawAmqp(listening.http_address) as raw:
        raw.write(HANDSHAKE)
        raw.write(message_of(frames.SASL_HEADER + framed(SaslInit("ANONYMOUS", b""), kind=1)))
        raw.write(message_of(frames.AMQP_HEADER + framed(Open("ws"))))
        eventually(listening.connections)
        listening.start(listening.listener.close(4.0))

        came = b""
        while data := raw.socket.recv(1 << 16):
            came += data

    _, _, messages = came.partition(b"\r\n\r\n")
    assert set(opcodes(messages)) == {BINARY}


def test_a_websocket_that_breaks_while_nothing_is_read_of_it_leaves_nothing(
    listening: Listening,
) -> None:
    raw, _ = unread(listening)
    reset = struct.pack("ii", 1, 0)
    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    raw.socket.close()

    eventually(lambda: not listening.connections(), within_s=5)
    unread_bytes = listening.ask(lambda: listening.listener.front_end.deliveries.unread_bytes)
    assert unread_bytes == CROWDED_BYTES


@pytest.mark.requirement("R635")
def test_what_comes_after_the_end_of_amqp_on_a_websocket_is_not_counted(tmp_path: Path) -> None:
    with Listening(tmp_path) as listening:
        host, port = listening.http_address.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as line:
            line.sendall(HANDSHAKE)
            init = SaslInit("PLAIN", f"\0{POLICY}\0{KEY}".encode())
            for each in (
                frames.SASL_HEADER + framed(init, kind=frames.SASL),
                frames.AMQP_HEADER + framed(Open("x")),
            ):
                line.sendall(message_of(each))
            eventually(lambda: [c for c in listening.connections() if c.holder.policy])
            # A text message ends it; a large message follows, of which a part comes.
            line.sendall(b"\x81\x81" + bytes(4) + b"x")
            line.sendall(b"\x82\xff" + (3_000_000).to_bytes(8) + bytes(4) + bytes(1_000_000))
            eventually(lambda: not listening.connections())
        eventually(lambda: not len(listening.http.doors))
        room = listening.listener.front_end.quota.incomplete
        assert listening.ask(lambda: room.held) == 0


@pytest.mark.requirement("R635")
def test_links_of_strangers_take_no_room_of_others(tmp_path: Path) -> None:
    with Listening(tmp_path) as listening, listening.raw().open() as stranger:
        assert stranger.attach("$cbs", SENDER) is None
        [connection] = listening.connections()
        room = listening.listener.front_end.quota.links
        assert connection.reading.stranger
        assert listening.ask(lambda: room.held) == 0
