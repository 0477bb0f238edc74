"""One port for AMQP, HTTP and gRPC, with TLS and without."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from azure.servicebus import ServiceBusClient as AzureClient
from azure.servicebus import ServiceBusMessage as AzureMessage

from bendybus.amqp import frames
from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.v1 import receiver_pb2
from tests.integration import http2
from tests.integration.web import WebBus
from tests.ports import HOST

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R497")]
QUEUE = "shared"


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBus]:
    made = WebBus(tmp_path_factory.mktemp("bus"))
    with made.azure() as azure:
        azure.create_queue(QUEUE)
    yield made
    made.end()


def plain_string(bus: WebBus) -> str:
    """Return a connection string for the emulator's place: no TLS."""
    return f"{bus.connection_string(address=bus.shared)};UseDevelopmentEmulator=true"


def line(bus: WebBus, *, tls: bool, protocols: tuple[str, ...] = ()) -> socket.socket:
    """Return a connection to the shared port."""
    host, port = bus.shared.split(":")
    made = socket.create_connection((host, int(port)), timeout=30)
    if not tls:
        return made
    context = bus.tls()
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(made, server_hostname=HOST)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_amqp_is_told_by_its_first_bytes(bus: WebBus, tls: bool) -> None:
    with line(bus, tls=tls) as connection:
        for each in frames.SASL_HEADER:
            # One byte after the other: a choice is made when there are enough.
            connection.sendall(bytes([each]))

        assert connection.recv(8) == frames.SASL_HEADER


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_http_is_told_by_its_first_bytes(bus: WebBus, tls: bool) -> None:
    with line(bus, tls=tls) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

        answer = connection.makefile("rb").read()

    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"Service is healthy." in answer


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_grpc_is_told_by_its_first_bytes(bus: WebBus, tls: bool) -> None:
    connection_string = bus.connection_string(address=bus.shared) if tls else plain_string(bus)
    verify = bus.ca_file if tls else None
    with ServiceBusClient.from_connection_string(
        connection_string, connection_verify=verify
    ) as client:
        with client.get_queue_sender(QUEUE) as sender:
            sender.send_messages([ServiceBusMessage("x" * 100_000) for _ in range(2)])
        with client.get_queue_receiver(QUEUE, max_wait_time=5) as receiver:
            found = []
            for message in receiver:
                found.append(len(str(message)))
                receiver.complete_message(message)

    assert found == [100_000] * 2


def test_one_string_of_the_emulator_serves_data_and_administration(bus: WebBus) -> None:
    with bus.azure(address=bus.shared) as azure:
        azure.create_queue("by-one-string")

    with AzureClient.from_connection_string(plain_string(bus)) as client:
        with client.get_queue_sender("by-one-string") as sender:
            sender.send_messages(AzureMessage("one"))
        with client.get_queue_receiver("by-one-string", max_wait_time=5) as receiver:
            [message] = receiver.receive_messages()
            receiver.complete_message(message)

    assert str(message) == "one"


def test_websockets_are_carried_over_it(bus: WebBus) -> None:
    with line(bus, tls=True) as connection:
        connection.sendall(
            b"GET /$servicebus/websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            b"Sec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
        )

        assert connection.recv(4_096).startswith(b"HTTP/1.1 101")


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(("h2", "http/1.1"), "http/1.1"), (("http/1.1",), "http/1.1"), (("h2",), "h2"), ((), None)],
)
def test_who_offers_http_1_and_2_gets_http_1(
    bus: WebBus, offered: tuple[str, ...], chosen: str | None
) -> None:
    with line(bus, tls=True, protocols=offered) as connection:
        assert isinstance(connection, ssl.SSLSocket)
        assert connection.selected_alpn_protocol() == chosen


def test_who_does_not_say_what_it_speaks_is_disconnected(bus: WebBus) -> None:
    said = (b"", b"\x16", b"\x16\x03\x01\x02\x00" + b"x" * 600, b"PRI", b"AM", b"GE")
    began = time.monotonic()
    with ExitStack() as stack:
        lines = [stack.enter_context(line(bus, tls=False)) for _ in said]
        for each, data in zip(lines, said, strict=True):
            each.sendall(data)

        for each in lines:
            with suppress(ConnectionError):
                each.makefile("rb").read()

    assert time.monotonic() - began < 12


def test_what_is_neither_is_answered_as_http_and_closed(bus: WebBus) -> None:
    with line(bus, tls=False) as connection:
        connection.sendall(b"\x00\x01\x02\x03\r\n\r\n")

        assert connection.makefile("rb").read().startswith(b"HTTP/1.0 400")


def test_bounds_by_connection_hold_for_each_connection_of_grpc(bus: WebBus) -> None:
    """A request that does not end holds room for the largest; a connection has room for one."""
    path, token = "/bendybus.v1.SenderService/Send", bus.token()
    one, other = (http2.Http2(bus.shared) for _ in range(2))
    try:
        of_one = one.open(path, token)
        time.sleep(0.3)

        of_other = other.open(path, token)
        second_of_one = one.open(path, token)

        assert one.wait_for(http2.HEADERS, second_of_one, 5)
        assert not other.wait_for(http2.HEADERS, of_other, 1)
        assert (http2.HEADERS, of_one) not in one.heard
    finally:
        one.close()
        other.close()


def test_what_is_not_read_is_not_kept_but_pauses_its_connection(bus: WebBus) -> None:
    """The splice holds little of what a client does not read: gRPC's own flow control acts."""
    made = ServiceBusClient.from_connection_string(plain_string(bus))
    with made as client, client.get_queue_sender(QUEUE) as sender:
        for _ in range(20):
            sender.send_messages([ServiceBusMessage("x" * 100_000) for _ in range(2)])
    front_end = bus.secured.bus.front_end
    before = front_end.rss_bytes()
    lines = [http2.Http2(bus.shared) for _ in range(20)]
    try:
        path = "/bendybus.v1.ReceiverService/Peek"
        request = receiver_pb2.PeekRequest(entity_path=QUEUE, max_messages=100)
        for each in lines:
            # Never again: the windows of its streams stay as they are.
            each.wait_for(http2.SETTINGS, 0, 1)
            for _ in range(3):
                stream = each.open(path, bus.token())
                each.body(stream, http2.message(request.SerializeToString()), end=True)
        time.sleep(1)

        assert front_end.rss_bytes() - before < 60_000_000
    finally:
        for each in lines:
            each.close()
