"""Transfers that wait for the window of the peer's session: their order, and what ends them."""

import pytest

from bendybus.amqp.links import OutgoingLink
from bendybus.amqp.performatives import Detach, End, Error, Flow
from tests.amqp.peers import Peer, transfers


@pytest.fixture
def peer() -> Peer:
    """A peer whose session takes one transfer."""
    made = Peer()
    made.open(max_frame_size=512)
    made.send(End())
    made.begin(incoming_window=1)
    return made


def sent(peer: Peer, *, count: int = 3, size: int = 10) -> OutgoingLink:
    """Return a link on which messages were sent, of which the peer's window has room for one."""
    link = peer.attach_receiver(0)
    peer.flow(0, 10, incoming_window=1)
    for number in range(count):
        link.send(b"%d" % number, b"x" * size, settled=False, context=number)
    peer.take()
    return link


def open_window(peer: Peer, handle: int = 0) -> None:
    peer.flow(handle, 10, next_incoming_id=1, incoming_window=100)


def test_what_waits_does_not_go_to_another_link_of_the_same_handle(peer: Peer) -> None:
    link = sent(peer)
    peer.send(Detach(0, True))
    again = peer.attach_receiver(0)
    open_window(peer)
    again.send(b"new", b"y", settled=False)
    peer.take()

    assert again.handle == link.handle
    assert [each.delivery_tag for each, _ in transfers(peer)] == [b"0", b"new"]
    assert [each.context for each in link.withdraw()] == [1, 2]
    assert link.withdraw() == []
    assert peer.engine.waiting_bytes == 0


def test_nothing_is_sent_after_a_detach_from_this_side(peer: Peer) -> None:
    link = sent(peer)
    link.detach(Error("amqp:link:detach-forced"))
    open_window(peer)

    assert [each.delivery_tag for each, _ in transfers(peer)] == [b"0"]
    assert [each.context for each in link.withdraw()] == [1, 2]


def test_of_a_delivery_in_several_transfers_the_rest_is_not_sent(peer: Peer) -> None:
    link = sent(peer, count=2, size=1_200)
    others = peer.attach_receiver(1)
    peer.send(Detach(0, True))
    others.send(b"other", b"y", settled=False)
    open_window(peer, 1)

    assert [(each.delivery_tag, each.more) for each, _ in transfers(peer)] == [
        (b"0", True),
        (b"other", False),
    ]
    assert [each.context for each in link.withdraw()] == [0, 1]
    assert peer.engine.waiting_bytes == 0


def test_several_links_wait_in_the_order_in_which_they_sent(peer: Peer) -> None:
    one, other = sent(peer), peer.attach_receiver(1)
    peer.flow(1, 10, incoming_window=0, next_incoming_id=1)
    other.send(b"other", b"y" * 1_200, settled=False)
    one.send(b"last", b"x", settled=False)
    open_window(peer)

    tags = [each.delivery_tag for each, _ in transfers(peer)]
    assert tags == [b"0", b"1", b"2", b"other", None, None, b"last"]
    assert one.withdraw() == other.withdraw() == []


def test_a_drain_is_answered_after_what_waits(peer: Peer) -> None:
    sent(peer)
    peer.flow(0, 10, incoming_window=0, next_incoming_id=1, drain=True)
    link = peer.engine.sessions[0].links[0]
    assert isinstance(link, OutgoingLink)
    link.drained()
    peer.take()
    assert peer.said(Flow) == []

    peer.flow(0, 10, incoming_window=10, next_incoming_id=1, drain=True)

    [(_, drained, _)] = peer.frames[-1:]
    assert isinstance(drained, Flow)
    assert (drained.delivery_count, drained.link_credit, drained.drain) == (10, 0, True)
    assert len(transfers(peer)) == 3


def test_links_that_come_and_go_behind_a_closed_window_leave_nothing(peer: Peer) -> None:
    kept = sent(peer)
    session = peer.engine.sessions[0]
    for _ in range(50):
        link = peer.attach_receiver(1)
        peer.flow(1, 10, incoming_window=0, next_incoming_id=1)
        for number in range(10):
            link.send(b"%d" % number, b"x", settled=False)
        peer.send(Detach(1, True))

    assert len(session._waiting) <= 2 * len(kept.waiting) + 10
    open_window(peer)
    assert [each.delivery_tag for each, _ in transfers(peer)] == [b"0", b"1", b"2"]
