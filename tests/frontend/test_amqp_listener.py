"""The AMQP listener in this process: how long clients may take, and what they leave behind."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bendybus.amqp import frames, sections
from bendybus.amqp.composites import Composite
from bendybus.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Flow,
    Open,
    Rejected,
    SaslInit,
    Transfer,
)
from bendybus.amqp.sections import Message, Properties
from bendybus.frontend.core.quota.bounds import CBS_BYTES_MAX, LINK_BYTES, LINKS, UNWRITTEN_MAX
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.listeners.amqp import hand_over as handing_over
from bendybus.frontend.listeners.amqp import management
from bendybus.frontend.listeners.amqp.client_connection import Times
from bendybus.frontend.listeners.amqp.fields import Fields
from bendybus.frontend.listeners.amqp.management import ManagementLink, Reply
from bendybus.frontend.security.authenticator import Operation
from tests.amqp.peers import framed
from tests.frontend.amqp_listening import KEY, POLICY, Listening
from tests.integration.processes import eventually
from tests.integration.raw_amqp import SENDER, RawAmqp, attach_of, ended

TIMES = Times(open_s=0.4, token_s=0.8, close_s=0.5)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    with Listening(tmp_path, times=TIMES) as made:
        yield made
    assert made.failures == []


def test_a_connection_opens_in_time_or_is_closed(listening: Listening) -> None:
    with listening.raw() as silent, listening.raw() as half:
        half.sasl()

        assert silent.wait_for_end(3) < 1.5
        half.wait_for_end(3)


def test_a_connection_without_a_token_is_closed_also_if_it_never_answers(
    listening: Listening,
) -> None:
    with listening.raw().open() as stranger, listening.raw().open() as holder:
        assert holder.put_token(listening.token(), "amqp://x/") == 202

        assert ended(stranger.wait(Close, within_s=3)) == "amqp:connection:forced"
        stranger.wait_for_end(3)
        holder.read(0.5)
        assert not holder.ended


def test_a_connection_whose_last_token_ended_is_closed_after_the_same_time(
    listening: Listening,
) -> None:
    with listening.raw().open() as peer, listening.raw().plain(POLICY, KEY) as other:
        assert peer.put_token(listening.token(1.5), "amqp://x/") == 202

        assert ended(peer.wait(Close, within_s=6)) == "amqp:connection:forced"
        other.read(0.2)
        assert not other.ended


def test_tokens_that_are_put_again_and_again_leave_nothing_behind(listening: Listening) -> None:
    with listening.raw().open() as peer:
        for number in range(300):
            assert peer.put_token(listening.token(600 + number), f"amqp://x/q{number % 7}") == 202
        [connection] = listening.connections()

        assert listening.ask(lambda: len(connection._timers)) < 5
        assert listening.ask(lambda: len(connection.claims._tokens)) == 7


@pytest.mark.requirement("R491")
def test_what_is_read_after_the_last_look_at_a_hand_over_is_not_done(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "MOMENT_S", 0.0)
    request = Message(
        properties=Properties(message_id="late"),
        application_properties={"operation": "put-token", "name": "amqp://x/late"},
        value=listening.token(),
        has_value=True,
    )
    late = Transfer(handle=0, delivery_id=1, delivery_tag=b"late", message_format=0)

    async def late_request(connection: Any) -> int:
        loop = asyncio.get_running_loop()
        handing = loop.create_task(handing_over.hand_over(connection, loop.time() + 1))
        await asyncio.sleep(0)
        connection.received(framed(late, sections.encode(request)))
        await handing
        return len(connection.claims._tokens)

    with listening.raw().open() as peer:
        assert peer.put_token(listening.token(), "amqp://x/") == 202
        [connection] = listening.connections()

        assert listening.run(late_request(connection)) == 1
        peer.wait_for_end()
        assert peer.said(Disposition) == []


@pytest.mark.requirement("R491")
def test_a_hand_over_lasts_until_its_client_ends_the_connection_too(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "GOODBYE_S", 30.0)
    with listening.raw().open() as peer:
        [connection] = listening.connections()
        handed = listening.start(handing_over.hand_over(connection, 0.0))
        peer.wait_for_end()
        assert not handed.done()

        peer.socket.close()

        handed.result(10)


@pytest.mark.requirement("R635")
def test_who_has_shown_nothing_makes_room_for_others(tmp_path: Path) -> None:
    with Listening(tmp_path, connections_max=8, times=Times(token_s=30)) as listening:
        holders = [listening.raw().plain(POLICY, KEY) for _ in range(6)]
        strangers = [listening.raw().open() for _ in range(6)]
        last = listening.raw().plain(POLICY, KEY)

        for each in (*holders, last):
            each.read(0.1)
            assert not each.ended
        assert len(listening.connections()) <= 8
        strangers[0].wait_for_end(3)
        # With holders alone, the next one is closed.
        more = listening.raw().plain(POLICY, KEY)
        with listening.raw() as refused:
            refused.wait_for_end(3)
        for each in (*holders, *strangers, last, more):
            each.socket.close()


def test_a_stranger_has_few_links_sessions_and_frames(listening: Listening) -> None:
    begin = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    links = [attach_of("$cbs", SENDER, handle) for handle in range(17)]
    refused = [each for n in range(9) for each in (attach_of("q", SENDER, n), Detach(n, True))]
    storms: dict[str, Sequence[Composite]] = {
        "links": links,
        "frames": [Flow(0, 1, 0, 1)] * 61,
        "refused": refused,
    }
    for name, storm in storms.items():
        with listening.raw().open() as peer:
            peer.send(*storm)
            close = peer.wait(Close, within_s=3)
            wanted = "unauthorized-access" if name == "refused" else "resource-limit-exceeded"
            assert ended(close) == f"amqp:{wanted}", name
    with listening.raw().open() as peer:
        for channel in range(1, 9):
            peer.send(begin, channel=channel)
        assert ended(peer.wait(Close)) == "amqp:resource-limit-exceeded"


@pytest.mark.requirement("R547")
def test_a_holder_has_many_links_and_sessions_and_a_clean_end_beyond(listening: Listening) -> None:
    begin, most = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), 5_000
    with listening.raw().plain(POLICY, KEY) as peer:
        peer.write(b"".join(framed(begin, channel=each) for each in range(1, most)))
        peer.wait(Begin, lambda each: each.remote_channel == most - 1)
        attach = framed(attach_of("$cbs", SENDER, 0))
        peer.write(b"".join(attach[:6] + each.to_bytes(2) + attach[8:] for each in range(most)))
        eventually(lambda: peer.read() and len(peer.said(Attach)) == most)
        peer.send(attach_of("$cbs", SENDER, 1), channel=1)
        assert ended(peer.wait(Close)) == "amqp:resource-limit-exceeded"
    with listening.raw().plain(POLICY, KEY) as peer:
        peer.write(b"".join(framed(begin, channel=each) for each in range(1, most + 1)))
        assert ended(peer.wait(Close)) == "amqp:resource-limit-exceeded"
    eventually(lambda: not listening.connections())
    assert listening.ask(lambda: listening.listener.front_end.quota.links.held) == 0


def test_links_of_all_connections_are_bounded(listening: Listening) -> None:
    others = (Holder("others", POLICY), LINKS.policy - 100 * LINK_BYTES)
    listening.ask(lambda: listening.listener.front_end.quota.links.take(*others))
    with listening.raw().plain(POLICY, KEY) as greedy, listening.raw().plain(POLICY, KEY) as other:
        greedy.send(*(attach_of("$cbs", SENDER, handle) for handle in range(190)))

        assert ended(greedy.wait(Close)) == "amqp:resource-limit-exceeded"
        assert other.attach("$cbs", SENDER) is None


def test_nothing_is_read_of_a_client_that_does_not_read(listening: Listening) -> None:
    with listening.raw(receive_bytes=4_096).plain(POLICY, KEY) as peer:
        storm = b"".join(
            framed(each)
            for n in range(200)
            for each in (attach_of("x" * 200, SENDER, 5, name="n" * 200), Detach(5, True))
        )
        peer.socket.settimeout(0.5)
        sent = 0
        with contextlib.suppress(TimeoutError):
            for _ in range(1_000):
                sent += peer.socket.send(storm)
        [connection] = listening.connections()

        assert sent < 60_000_000
        held = listening.ask(connection._wire.unwritten)
        assert held < 2 * UNWRITTEN_MAX
        # Others are read, and this one again when it reads.
        with listening.raw().plain(POLICY, KEY) as other:
            assert other.attach("$cbs", SENDER) is None
        before = len(peer.frames)
        deadline = time.monotonic() + 20
        while len(peer.frames) < before + 1_000 and time.monotonic() < deadline:
            peer.read(0.2)
        assert len(peer.frames) >= before + 1_000


def test_a_client_that_sends_much_does_not_keep_others_waiting(listening: Listening) -> None:
    storm = framed(Flow(0, 1, 0, 1, echo=True)) * 10_000
    stop = threading.Event()

    def flood(peer: RawAmqp) -> None:
        with contextlib.suppress(OSError):
            while not stop.is_set():
                peer.socket.send(storm)

    peers = [listening.raw().plain(POLICY, KEY) for _ in range(4)]
    threads = [threading.Thread(target=flood, args=(peer,)) for peer in peers]
    with listening.raw().plain(POLICY, KEY) as other:
        for thread in threads:
            thread.start()
        began = time.monotonic()
        for number in range(10):
            assert other.attach(f"$cbs{number}", SENDER) is not None
        took_s = time.monotonic() - began
    stop.set()
    for peer in peers:
        peer.socket.close()
    for thread in threads:
        thread.join()

    assert took_s < 10


def test_a_token_is_put_in_a_request_of_bounded_size(listening: Listening) -> None:
    with listening.raw().open() as peer:
        assert peer.put_token("wrong", "amqp://x/") == 401
        part, tag = b"x" * 30_000, bytes([0, 0, 0, 1])
        first = Transfer(peer.handles["$cbs", SENDER], 1, tag, more=True)
        for _ in range(CBS_BYTES_MAX // len(part)):
            peer.send(first, payload=part)

        assert isinstance(peer.transfer("$cbs", part), Rejected)
        assert peer.put_token(listening.token(), "amqp://x/") == 202


def upgrade(listening: Listening, *headers: str, path: str = "/$servicebus/websocket") -> RawAmqp:
    """Return what asked for a WebSocket."""
    made = RawAmqp(listening.http_address)
    lines = (f"GET {path} HTTP/1.1", "Host: x", *headers, "", "")
    made.write("\r\n".join(lines).encode())
    return made


WEBSOCKET = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
OURS = "Sec-WebSocket-Protocol: AMQPWSB10"


def first_line(peer: RawAmqp) -> bytes:
    return peer.socket.recv(4_096).split(b"\r\n")[0]


def test_a_websocket_has_its_path_and_its_protocol(listening: Listening) -> None:
    for headers, path, wanted in (
        ((*WEBSOCKET, OURS), "/$servicebus/websocket", b"101"),
        ((*WEBSOCKET, "Sec-WebSocket-Protocol: x, amqp"), "/$servicebus/websocket", b"101"),
        ((*WEBSOCKET, OURS), "/%24servicebus/../etc/passwd", b"401"),
        ((*WEBSOCKET, OURS), "/" + "x" * 6_000, b"401"),
        (WEBSOCKET, "/$servicebus/websocket", b"426"),
        ((*WEBSOCKET, "Sec-WebSocket-Protocol: mqtt"), "/$servicebus/websocket", b"426"),
        ((), "/$servicebus/websocket", b"426"),
        ((f"X: {'x' * 20_000}",), "/health", b"400"),
    ):
        with upgrade(listening, *headers, path=path) as peer:
            assert wanted in first_line(peer), (path[:60], headers)


def test_a_websocket_that_sends_text_or_too_much_before_a_token_is_closed(
    listening: Listening,
) -> None:
    large = b"\x82\xff" + (3_000_000).to_bytes(8) + b"mask" + b"x" * 200_000
    for data in (b"\x81\x84mask\x19\x04\x00\x1f", large, b"\x82\xff" + b"\xff" * 12):
        with upgrade(listening, *WEBSOCKET, OURS) as peer:
            assert b"101" in first_line(peer)
            with contextlib.suppress(ConnectionError):
                peer.write(data)
            peer._parse = lambda: None  # type: ignore[method-assign]
            peer.wait_for_end(4)


def test_a_request_that_comes_slowly_is_not_waited_for(tmp_path: Path) -> None:
    with Listening(tmp_path, connections_max=6, times=Times(open_s=0.5)) as listening:
        slow = [RawAmqp(listening.http_address) for _ in range(6)]
        for each in slow:
            each.write(b"GET /health HT")
        with RawAmqp(listening.http_address):
            slow[0].wait_for_end(0.4)
        for each in slow:
            each.wait_for_end(3)
            each.socket.close()

        with upgrade(listening, path="/health") as peer:
            assert b"503" in first_line(peer)
            peer.read(0.8)
            assert not peer.ended


@pytest.mark.requirement("R635")
def test_a_websocket_with_a_token_carries_large_messages(listening: Listening) -> None:
    plain = framed(SaslInit("PLAIN", f"\0{POLICY}\0{KEY}".encode()), kind=frames.SASL)
    opening = frames.SASL_HEADER + plain + frames.AMQP_HEADER + framed(Open("ws"))
    url = f"http://{listening.http_address}/$servicebus/websocket"

    async def run() -> bytes:
        said = b""
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, protocols=("AMQPWSB10",)) as socket,
        ):
            assert socket.protocol == "AMQPWSB10"
            # Cut anywhere, then many frames in one message.
            for at in range(0, len(opening), 7):
                await socket.send_bytes(opening[at : at + 7])
            while b"bendybus" not in said:
                said += await socket.receive_bytes(timeout=5)
            # It makes no room for others.
            assert (len(listening.http.doors), listening.http.doors._strangers) == (1, {})
            await socket.send_bytes(frames.EMPTY * 130_000)
            await socket.send_bytes(framed(Close()))
            while message := await socket.receive(timeout=5):
                if message.type is not aiohttp.WSMsgType.BINARY:
                    break
                said += message.data
        return said

    assert framed(Close()) in listening.run(run())
    eventually(lambda: not listening.connections())


@pytest.mark.requirement("R491")
def test_a_request_in_flight_is_answered_before_a_connection_is_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = threading.Event()

    async def slow(_: ManagementLink, __: Fields) -> Reply:
        started.set()
        await asyncio.sleep(0.3)
        return {"done": True}

    rows = {**management.OPERATIONS, "slow": management.Row(Operation.PEEK, slow)}
    monkeypatch.setattr(management, "OPERATIONS", rows)
    replies: list[object] = []
    with Listening() as listening, listening.raw().open() as client:
        asking = threading.Thread(
            target=lambda: replies.append(client.manage("orders", "slow", {}))
        )
        asking.start()
        assert started.wait(5)

        began_s = time.monotonic()
        listening.run(listening.listener.close(5.0))
        took_s = time.monotonic() - began_s
        asking.join(5)

    assert replies == [(200, "", {"done": True})]
    assert took_s < 2
