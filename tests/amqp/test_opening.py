"""Connections are opened layer by layer, and refused with what is expected."""

import pytest

from bendybus.amqp import events, frames
from bendybus.amqp.connection import ConnectionSettings
from bendybus.amqp.performatives import (
    Begin,
    Close,
    Disposition,
    End,
    Error,
    Open,
    Rejected,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
)
from tests.amqp.peers import Peer, framed


def test_the_server_offers_its_mechanisms_and_then_opens() -> None:
    peer = Peer(ConnectionSettings("server", mechanisms=("MSSBCBS", "ANONYMOUS")))

    peer.open()

    assert peer.headers == [frames.SASL_HEADER, frames.AMQP_HEADER]
    assert peer.said(SaslMechanisms) == [SaslMechanisms(("MSSBCBS", "ANONYMOUS"))]
    assert peer.said(SaslOutcome) == [SaslOutcome(0)]
    [opened] = peer.said(Open)
    assert (opened.container_id, opened.channel_max) == ("server", 4_999)
    assert peer.engine.is_open


def test_bytes_may_come_one_by_one() -> None:
    peer = Peer()
    peer.authenticate()
    data = frames.AMQP_HEADER + framed(Open("peer"))

    for at in range(len(data)):
        peer.feed(data[at : at + 1])

    assert len(peer.heard(events.Opened)) == 1


def test_what_a_client_sends_before_it_is_authenticated_waits() -> None:
    peer = Peer()
    peer.feed(frames.SASL_HEADER + framed(SaslInit("ANONYMOUS"), kind=frames.SASL))
    peer.feed(frames.AMQP_HEADER + framed(Open("peer")))
    assert not peer.heard(events.Opened)

    peer.engine.authenticate(True)
    peer.feed(b"")

    assert len(peer.heard(events.Opened)) == 1


def test_a_mechanism_that_is_not_offered_is_refused() -> None:
    peer = Peer()

    peer.feed(frames.SASL_HEADER + framed(SaslInit("GSSAPI"), kind=frames.SASL))

    assert peer.said(SaslOutcome) == [SaslOutcome(1)]
    assert peer.engine.is_closed


def test_a_client_that_may_not_enter_is_told_so_and_closed() -> None:
    peer = Peer()
    peer.feed(frames.SASL_HEADER + framed(SaslInit("ANONYMOUS"), kind=frames.SASL))

    peer.engine.authenticate(False)
    peer.take()

    assert peer.said(SaslOutcome) == [SaslOutcome(1)]
    assert peer.engine.is_closed


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n", id="HTTP"),
        pytest.param(b"AMQP\x00\x00\x09\x01", id="AMQP 0-9-1"),
        pytest.param(b"AMQP\x02\x01\x00\x00", id="TLS inside AMQP"),
    ],
)
def test_another_protocol_is_answered_with_the_header_that_is_spoken(data: bytes) -> None:
    peer = Peer()

    peer.feed(data)

    assert peer.headers == [frames.SASL_HEADER]
    assert peer.engine.is_closed


@pytest.mark.requirement("R540")
def test_a_client_may_open_without_sasl_where_it_may_stay_anonymous() -> None:
    peer = Peer(ConnectionSettings("server", mechanisms=("PLAIN", "ANONYMOUS")))

    peer.feed(frames.AMQP_HEADER + framed(Open("peer")))

    assert peer.headers == [frames.AMQP_HEADER]
    assert len(peer.said(Open)) == 1
    assert peer.engine.is_open


def test_a_client_cannot_open_without_sasl_where_nobody_stays_anonymous() -> None:
    peer = Peer(ConnectionSettings("server", mechanisms=("PLAIN",)))

    peer.feed(frames.AMQP_HEADER + framed(Open("peer")))

    assert peer.headers == [frames.SASL_HEADER]
    assert peer.engine.is_closed


def test_a_client_that_was_refused_cannot_open_without_sasl() -> None:
    peer = Peer(ConnectionSettings("server", mechanisms=("PLAIN", "ANONYMOUS")))
    peer.feed(frames.SASL_HEADER + framed(SaslInit("PLAIN"), kind=frames.SASL))
    peer.engine.authenticate(False)

    peer.feed(frames.AMQP_HEADER + framed(Open("peer")))

    assert peer.said(Open) == []
    assert peer.engine.is_closed


def test_a_session_is_answered_on_a_channel_of_its_own() -> None:
    peer = Peer()
    peer.open()

    peer.begin(7)

    assert [each.remote_channel for each in peer.said(Begin)] == [0, 7]
    assert len({channel for channel, each, _ in peer.frames if isinstance(each, Begin)}) == 2


def test_a_channel_is_used_again_after_its_session() -> None:
    peer = Peer()
    peer.open()

    peer.send(End())
    peer.begin()

    assert len(peer.said(End)) == 1
    assert len(peer.heard(events.Ended)) == 1
    assert len(peer.engine.sessions) == 1


def test_more_sessions_than_are_allowed_close_the_connection() -> None:
    peer = Peer(ConnectionSettings("server", sessions_max=2))
    peer.open()
    peer.begin(1)

    peer.begin(2)

    [closed] = peer.said(Close)
    assert closed.error.condition == "amqp:resource-limit-exceeded"
    assert peer.engine.is_closed


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        pytest.param(b"\x00\x00\x00\x07\x02\x00\x00\x00", "framing-error", id="too small"),
        pytest.param(b"\x7f\xff\xff\xff\x02\x00\x00\x00", "framing-error", id="too large"),
        pytest.param(b"\x00\x00\x00\x10\x01\x00\x00\x00", "framing-error", id="data offset"),
        pytest.param(b"\x00\x00\x00\x08\x02\x07\x00\x00", "framing-error", id="type"),
        pytest.param(b"\x00\x00\x00\x09\x02\x00\x00\x00\x40", "decode-error", id="no list"),
        pytest.param(framed(Open("again")), "not-allowed", id="open again"),
        pytest.param(framed(Begin(None, 0, 1, 1)), "not-allowed", id="channel in use"),
        pytest.param(framed(SaslInit("ANONYMOUS")), "not-allowed", id="SASL too late"),
    ],
)
def test_what_breaks_a_rule_closes_the_connection_and_says_why(data: bytes, condition: str) -> None:
    peer = Peer()
    peer.open()

    peer.feed(data)

    [closed] = peer.said(Close)
    assert condition in closed.error.condition
    assert [each.by_peer for each in peer.heard(events.Closed)] == [False]
    assert peer.engine.is_closed


def test_a_close_is_answered_and_nothing_is_read_after_it() -> None:
    peer = Peer()
    peer.open()

    peer.send(Close(), Open("again"))

    assert len(peer.said(Close)) == 1
    assert [each.by_peer for each in peer.heard(events.Closed)] == [True]


def test_a_close_from_here_waits_for_that_of_the_peer() -> None:
    peer = Peer()
    peer.open()

    peer.engine.close()
    peer.take()
    assert not peer.engine.is_closed
    peer.send(Begin(None, 0, 1, 1), channel=9)
    peer.send(Close())

    assert peer.engine.is_closed
    assert len(peer.said(Begin)) == 1


def test_an_empty_frame_only_says_that_its_sender_is_alive() -> None:
    peer = Peer()
    peer.open()
    before = len(peer.events)

    peer.feed(frames.EMPTY)
    peer.engine.heartbeat()

    assert len(peer.events) == before
    assert peer.engine.output() == frames.EMPTY


@pytest.mark.requirement("R568")
@pytest.mark.parametrize(("characters", "taken"), [(200_000, True), (300_000, False)])
def test_a_disposition_may_be_larger_than_the_frames_that_are_asked_for(
    characters: int, taken: bool
) -> None:
    """SDKs write a whole stack trace in one frame, also above the limit that they know."""
    peer = Peer()
    peer.open()
    trace = Rejected(Error("com.microsoft:dead-letter", "x" * characters))

    peer.send(Disposition(role=True, first=0, settled=True, state=trace))

    [answered] = peer.said(Open)
    assert answered.max_frame_size == 65_536
    assert [each.error.condition for each in peer.said(Close)] == (
        [] if taken else ["amqp:connection:framing-error"]
    )


@pytest.mark.requirement("R568")
@pytest.mark.parametrize("ending", ["complete", "lost", "no room"])
def test_a_frame_that_is_larger_than_asked_for_is_counted_until_it_is_complete(
    ending: str,
) -> None:
    held: list[int] = []

    def reserve(size_bytes: int) -> bool:
        held.append(size_bytes)
        return ending != "no room"

    peer = Peer(reserve=reserve, release=lambda size_bytes: held.append(-size_bytes))
    peer.open()
    trace = Rejected(Error("com.microsoft:dead-letter", "x" * 100_000))
    frame = framed(Disposition(role=True, first=0, settled=True, state=trace))

    peer.feed(frame[:-1])

    if ending == "no room":
        [closed] = peer.said(Close)
        assert closed.error.condition == "amqp:resource-limit-exceeded"
        assert held == [len(frame)]
        return
    assert held == [len(frame)]
    if ending == "complete":
        peer.feed(frame[-1:])
    else:
        peer.engine.lost()
    assert held == [len(frame), -len(frame)]
    assert not peer.said(Close)
