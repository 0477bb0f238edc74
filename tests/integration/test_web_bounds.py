"""What HTTP clients send and do not read: each holds little, and any request is answered."""

import socket
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.integration.secured import ROOT, policy
from tests.integration.test_administration_over_http import detail, entry, raw
from tests.integration.web import WebBus
from tests.ports import HOST

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R498")]
UPGRADE = (
    b"GET /$servicebus/websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
)


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBus]:
    made = WebBus(tmp_path_factory.mktemp("bus"), (ROOT, policy("listen", ["Listen"], ["key"])))
    with made.azure() as azure:
        azure.create_queue("here")
        azure.create_topic("topic")
        azure.create_subscription("topic", "all")
    yield made
    made.end()


def websocket_frame(data: bytes, *, last: bool = True) -> bytes:
    """Return a frame of a binary message, masked with zeros."""
    return bytes([0x82 if last else 0x02, 0xFF]) + struct.pack(">QI", len(data), 0) + data


def amqp_frame(kind: int, performative: bytes) -> bytes:
    """Return a frame of AMQP."""
    return struct.pack(">IBBH", len(performative) + 8, 2, kind, 0) + performative


def test_messages_that_do_not_end_share_a_bound(bus: WebBus) -> None:
    """The least right is enough to be known."""
    said = b"\0listen\0key"
    fields = b"\xa3\x05PLAIN\xa0" + bytes([len(said)]) + said
    sign_in = b"\0\x53\x41\xc0" + bytes([len(fields) + 1, 2]) + fields
    front_end = bus.secured.bus.front_end
    with ExitStack() as stack:
        lines = [stack.enter_context(raw(bus)) for _ in range(40)]
        for each in lines:
            each.sendall(UPGRADE)
            assert each.recv(4_096).startswith(b"HTTP/1.1 101")
            each.sendall(websocket_frame(b"AMQP\3\1\0\0" + amqp_frame(1, sign_in)))
            answer = b""
            while b"\0\x53\x44\xc0\x03\x01\x50\0" not in answer:
                more = each.recv(4_096)
                assert more, answer
                answer += more
            opened = amqp_frame(0, b"\0\x53\x10\xc0\x04\x01\xa1\x01c")
            each.sendall(websocket_frame(b"AMQP\0\1\0\0" + opened))
            assert each.recv(4_096)
        before = front_end.rss_bytes()

        for each in lines:
            with suppress(OSError):
                each.sendall(websocket_frame(b"x" * 3_900_000, last=False))
        time.sleep(1)

        assert front_end.rss_bytes() - before < 80_000_000


def test_a_body_that_is_allowed_is_read_however_fast_it_comes(bus: WebBus) -> None:
    body = entry(f"<UserMetadata>{'x' * 500_000}</UserMetadata>")

    answers = [bus.ask("PUT", "/refused", body) for _ in range(30)]

    assert {answer.status for answer in answers} == {400}


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compressed_bodies_are_refused(bus: WebBus, coding: str) -> None:
    body = zlib.compress(entry("").encode(), wbits=31 if coding == "gzip" else 15)
    with raw(bus) as connection:
        connection.sendall(
            b"PUT /compressed HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: "
            + coding.encode() + b"\r\nContent-Length: " + str(len(body)).encode()
            + b"\r\nAuthorization: " + bus.token().encode() + b"\r\n\r\n" + body
        )  # fmt: skip
        answer = connection.makefile("rb").read()

    assert answer.startswith(b"HTTP/1.1 400")
    assert b"Content-Encoding: compressed bodies are not accepted." in answer


def test_compressed_bodies_are_not_decompressed(bus: WebBus) -> None:
    """A client without a token sends 300 MB in 300 KB, many times."""
    body = zlib.compress(bytes(300_000_000), wbits=31)
    request = (
        b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    )
    front_end = bus.secured.bus.front_end
    before_s = front_end.cpu_s()

    for _ in range(8):
        with raw(bus) as connection, suppress(OSError):
            connection.sendall(request)
            assert connection.makefile("rb").read().startswith(b"HTTP/1.1 200")

    assert front_end.cpu_s() - before_s < 1


def test_answers_that_are_not_taken_have_room_and_are_not_kept_twice(bus: WebBus) -> None:
    """A page of rules of 1,024 characters: the front end holds a little of it for each client."""
    for number in range(100):
        rule = (
            f"<Filter i:type=\"SqlFilter\"><SqlExpression>a = '{'x' * 1_000}'</SqlExpression>"
            "</Filter>"
        )
        path = f"/topic/subscriptions/all/rules/long-{number}"
        assert bus.ask("PUT", path, entry(rule, "Rule")).status == 201
    request = (
        b"GET /topic/subscriptions/all/rules HTTP/1.1\r\nHost: x\r\nAuthorization: "
        + bus.token().encode() + b"\r\n\r\n"
    )  # fmt: skip
    front_end = bus.secured.bus.front_end
    before = front_end.rss_bytes()
    with ExitStack() as stack:
        for _ in range(150):
            host, port = bus.https.split(":")
            made = stack.enter_context(socket.socket())
            # Of what the kernel keeps, little.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            made.connect((host, int(port)))
            made = stack.enter_context(bus.tls().wrap_socket(made, server_hostname=HOST))
            made.sendall(request * 2)
        time.sleep(3)

        assert front_end.rss_bytes() - before < 80_000_000


@pytest.mark.parametrize("host", [b"x:99999999", b"\xff", b"[", b"x y"])
def test_any_host_is_answered(bus: WebBus, host: bytes) -> None:
    with raw(bus) as connection:
        connection.sendall(
            b"GET /nothing HTTP/1.1\r\nConnection: close\r\nAuthorization: "
            + bus.token().encode() + b"\r\nHost: " + host + b"\r\n\r\n"
        )  # fmt: skip

        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 200")


def test_a_host_that_is_longer_than_any_name_is_not_repeated(bus: WebBus) -> None:
    """Answers name it for each entry, four times longer or more where it has to be escaped."""
    longest = "x" * 253 + ":65535"

    assert bus.ask("GET", "/here", Host=longest).text.count(longest) == 2
    for path in ("/here", "/nothing", "/$Resources/queues", "/topic/subscriptions"):
        answer = bus.ask("GET", path, Host="&" * 8_000)
        assert answer.status == 400
        assert len(answer.text) < 1_000


def test_a_token_that_is_no_text_is_refused_as_any_other(bus: WebBus) -> None:
    token = bus.token().encode().replace(b"sr=", b"sr=\xff")
    with raw(bus) as connection:
        connection.sendall(
            b"GET /here HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: "
            + token + b"\r\n\r\n"
        )  # fmt: skip

        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 401")


TOKEN = b"{token}"
NOT_ADMINISTRATION = {
    "CONNECT": (b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n" + TOKEN, 404),
    "the whole server": (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n" + TOKEN, 404),
    "expectation": (b"PUT /new HTTP/1.1\r\nHost: x\r\nExpect: more\r\n" + TOKEN, 417),
    "method": (b"FETCH /here HTTP/1.1\r\nHost: x\r\n", 400),
    "version": (b"GET /here HTTP/9.9\r\nHost: x\r\n", 400),
    "no host": (b"GET /here HTTP/1.1\r\n" + TOKEN, 400),
    "two hosts": (b"GET /here HTTP/1.1\r\nHost: x\r\nHost: y\r\n", 400),
    "header": (b"GET /here HTTP/1.1\r\nHost : x\r\n", 400),
    "long header": (b"GET /here HTTP/1.1\r\nHost: x\r\nX: " + b"secret" * 2_000 + b"\r\n", 400),
    "long URL": (b"GET /" + b"secret" * 2_000 + b" HTTP/1.1\r\nHost: x\r\n", 400),
    "chunk": (b"PUT /new HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz", 400),
}  # fmt: skip


@pytest.mark.parametrize(
    ("request_bytes", "status"), NOT_ADMINISTRATION.values(), ids=NOT_ADMINISTRATION
)
def test_what_the_library_refuses_has_the_form_of_all_errors(
    bus: WebBus, request_bytes: bytes, status: int
) -> None:
    token = f"Authorization: {bus.token()}\r\n".encode()
    with raw(bus) as connection:
        connection.sendall(request_bytes.replace(TOKEN, token) + b"Connection: close\r\n\r\n")
        answer = connection.makefile("rb").read().decode()

    head, _, body = answer.partition("\r\n\r\n")
    assert head.split()[1] == str(status), answer
    assert "\r\nServer: Bendybus" in head
    assert f"<Error><Code>{status}</Code>" in body, answer
    assert detail(body).startswith(f"SubCode={status}00. ")
    assert "secret" not in body
