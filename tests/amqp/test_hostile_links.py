"""What one client can make the engine hold, write and do with sessions, links and dispositions."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from bendybus.amqp import events
from bendybus.amqp.connection import ConnectionSettings
from bendybus.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Error,
    Flow,
    Modified,
    Open,
    Received,
    Rejected,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from tests.amqp.peers import Peer, framed, message
from tests.work import steps

LONG = "why " * 500


def opened(**given: Any) -> Peer:
    peer = Peer()
    peer.open(**given)
    peer.frames.clear()
    peer.events.clear()
    return peer


def attach(name: str = "n", handle: int = 0, **given: Any) -> Attach:
    ends = {"source": Source(address="a"), "target": Target(address="b")}
    return Attach(name=name, handle=handle, role=True, **{**ends, **given})


def delivered(count: int, *, links: int = 1) -> Peer:
    """Return a peer that was given messages and has settled none."""
    peer = opened()
    for handle in range(links):
        link = peer.attach_receiver(handle, credit=count)
        for number in range(count):
            link.send(number.to_bytes(4), b"x", settled=False)
        peer.take()
    peer.frames.clear()
    return peer


def feed(peer: Peer, data: bytes, times: int) -> None:
    for _ in range(times):
        peer.feed(data)


# What is written


def test_echoes_that_are_asked_for_together_are_answered_together() -> None:
    peer = opened()
    peer.attach_receiver(0)
    peer.frames.clear()
    storm = [Flow(incoming_window=9, next_outgoing_id=0, outgoing_window=1, echo=True)] * 500
    of_link = [Flow(0, 9, 0, 1, handle=0, delivery_count=0, link_credit=5, echo=True)] * 500

    peer.send(*storm, *of_link, *storm)

    flows = peer.said(Flow)
    assert [flow.handle for flow in flows] == [None, 0]
    assert flows[1].link_credit == 5
    assert len(peer.heard(events.CreditChanged)) == 1


@pytest.mark.parametrize("size", [512, 1_024])
def test_descriptions_are_cut_to_the_frames_of_the_peer(size: int) -> None:
    peer = opened(max_frame_size=size)
    sender, receiver = peer.attach_sender(0), peer.attach_receiver(1, credit=5)
    peer.transfer(0)
    sent = receiver.send(b"t", b"x", settled=False)
    peer.take()

    for umlaut in ("", "ä" * 900):
        told = Rejected(Error("amqp:not-found", umlaut + LONG))
        sender.session.settle(0, told)
        receiver.session.settle(sent.delivery_id, told, incoming=False)
        sent = receiver.send(b"t", b"x", settled=False)
    changes = Modified(True, False, {"key": "x" * 900})
    receiver.session.settle(sent.delivery_id, changes, incoming=False)
    receiver.detach(Error("amqp:not-found", LONG))
    peer.send(attach(handle=5))
    peer.heard(events.Attached)[-1].link.refuse(Error("amqp:not-found", LONG))
    peer.engine.close(Error("amqp:not-found", LONG))
    peer.take()

    assert {each.error.condition for each in peer.said(Detach)} == {"amqp:not-found"}
    [close] = peer.said(Close)
    assert len(close.error.description) > size // 2
    written = peer.said(Disposition)
    assert len(written) == 5
    for each in (*written, *peer.said(Detach), close):
        assert len(framed(each)) <= size


def test_an_attach_whose_answer_is_too_large_for_the_peer_is_refused() -> None:
    peer = opened(max_frame_size=512)
    peer.send(attach(source=Source(address="a" * 600)))
    [event] = peer.heard(events.Attached)
    event.link.accept(max_message_size=5)
    peer.take()

    assert not event.link.is_open
    [answer] = peer.said(Attach)
    assert answer.source is None
    [refused] = peer.said(Detach)
    assert refused.error.condition == "amqp:frame-size-too-small"


# What is held


@pytest.mark.parametrize(
    "given",
    [
        {"name": "n" * 2_000},
        {"source": Source(address="a" * 5_000)},
        {"properties": {f"key {n}": n for n in range(800)}},
    ],
    ids=["name", "source", "properties"],
)
def test_an_attach_that_takes_too_much_to_keep_ends_the_connection(given: Any) -> None:
    peer = opened()

    peer.send(attach(**given))

    [close] = peer.said(Close)
    assert close.error.condition in ("amqp:invalid-field", "amqp:resource-limit-exceeded")


def held_bytes(run: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        kept = run()
        found = tracemalloc.get_traced_memory()[0]
        del kept
        return found
    finally:
        tracemalloc.stop()


def test_links_hold_nothing_of_their_attach_that_is_not_needed() -> None:
    heavy = {f"{n:04}": [None] * 10 for n in range(150)}

    def links() -> Peer:
        peer = opened()
        for handle in range(60):
            peer.send(attach(f"link {handle}", handle, unsettled=heavy, properties=heavy))
            peer.events.pop().link.accept()  # type: ignore[union-attr]
            peer.take()
            peer.frames.clear()
        return peer

    assert held_bytes(links) < 60 * 3_000 + 200_000


def test_a_connection_holds_nothing_of_its_open_that_is_not_needed() -> None:
    heavy = {f"{n:04}": [None] * 20 for n in range(130)}

    def connection() -> Peer:
        peer = Peer()
        peer.authenticate()
        peer.feed(b"AMQP\0\1\0\0" + framed(Open("peer", properties=heavy)))
        peer.events.clear()
        peer.frames.clear()
        return peer

    assert held_bytes(connection) < 30_000


def test_a_delivery_that_is_not_complete_holds_no_state_but_that_of_a_transaction() -> None:
    heavy = Modified(True, True, {f"{n:04}": [None] * 10 for n in range(1_500)})

    def partial() -> Peer:
        peer = opened()
        peer.attach_sender(0)
        first = Transfer(handle=0, delivery_id=0, delivery_tag=b"t", more=True, state=heavy)
        peer.send(first, payload=b"x")
        return peer

    assert held_bytes(partial) < 80_000


def test_an_id_of_a_transaction_is_short() -> None:
    peer = opened()
    peer.attach_sender(0)

    peer.transfer(0, state=TransactionalState(b"x" * 33))

    assert [each.error.condition for each in peer.said(Close)] == ["amqp:invalid-field"]


def test_transfers_that_wait_are_counted_with_what_they_take() -> None:
    peer = opened()
    peer.begin(1, incoming_window=0)
    link = peer.attach_receiver(0, credit=1)
    peer.flow(0, 2**32 - 1, incoming_window=0)

    for _ in range(100):
        link.send(b"t", b"x", settled=True)

    assert peer.engine.waiting_bytes > 100 * 200


def test_a_client_that_has_shown_nothing_has_fewer_sessions_and_links() -> None:
    for over in ("sessions", "links"):
        peer = opened()
        peer.engine.sessions_max, peer.engine.links_max = 3, 4
        if over == "sessions":
            begin = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)
            for channel in range(1, 4):
                peer.send(begin, channel=channel)
        else:
            peer.send(*(attach(f"{n}", n) for n in range(5)))

        [close] = peer.said(Close)
        assert close.error.condition == "amqp:resource-limit-exceeded"


# What is done


def test_a_delivery_is_decided_on_once() -> None:
    peer = delivered(3)
    every = Disposition(role=True, first=0, last=2, state=Accepted())

    peer.send(*[every] * 50)
    peer.send(Disposition(role=True, first=0, last=2, settled=True, state=Accepted()))

    [disposed] = peer.heard(events.Disposed)
    assert len(disposed.deliveries) == 3
    link = disposed.deliveries[0].link
    for each in disposed.deliveries:
        link.session.settle(each.delivery_id, Accepted(), incoming=False)
    peer.take()
    assert [(each.first, each.last) for each in peer.said(Disposition)] == [(0, 2)]
    assert link.unsettled == link.session.unsettled == 0


def test_what_a_transaction_took_may_be_decided_on_again() -> None:
    peer = delivered(1)
    state = TransactionalState(b"1", Accepted())
    peer.send(Disposition(role=True, first=0, state=state))
    [disposed] = peer.heard(events.Disposed)
    disposed.session.update(0, state)

    peer.send(Disposition(role=True, first=0, state=Accepted()))

    assert len(peer.heard(events.Disposed)) == 2


@pytest.mark.parametrize("state", [None, Received(0, 0)])
def test_a_disposition_that_says_nothing_changes_nothing(state: Any) -> None:
    peer = delivered(2)

    peer.send(Disposition(role=True, first=0, last=1, state=state))

    assert peer.heard(events.Disposed) == []


@pytest.mark.parametrize("spread", [(0, 2**31 - 1), (3_000, 5_500), (2_001, 3_999)])
def test_ranges_that_name_nothing_are_not_looked_for_for_ever(spread: tuple[int, int]) -> None:
    peer = delivered(6_000)
    some = Disposition(role=True, first=2_000, last=4_000, settled=True, state=Accepted())
    peer.send(some)
    peer.send(Disposition(role=True, first=0, last=5_999, state=Accepted()))
    storm = framed(Disposition(role=True, first=spread[0], last=spread[1], state=Accepted()))

    work = steps(lambda: feed(peer, storm * 10, 100))

    assert work < 12_000_000, work


def test_links_that_come_and_go_cost_the_same_whatever_others_hold() -> None:
    def work(count: int) -> int:
        peer = delivered(count)
        both = framed(attach(handle=7)) + framed(Detach(7, True))
        return steps(lambda: feed(peer, both, 20))

    assert work(2_000) < 1.5 * work(20)


def test_links_that_come_cost_the_same_however_many_there_are() -> None:
    def work(links: int) -> int:
        peer = opened()
        for handle in range(links):
            peer.send(attach(f"{handle}", handle))
        both = framed(attach(handle=250)) + framed(Detach(250, True))
        return steps(lambda: feed(peer, both, 20))

    assert work(240) < 1.5 * work(10)


def test_handles_are_used_again() -> None:
    settings = ConnectionSettings("server", links_max=8)
    peer = Peer(settings)
    peer.open()
    for turn in range(20):
        peer.send(*(attach(f"{turn} {n}", n) for n in range(5)))
        for event in peer.heard(events.Attached)[-5:]:
            event.link.accept()
        peer.take()
        handles = [each.handle for each in peer.said(Attach)[-5:]]
        assert sorted(handles) == [0, 1, 2, 3, 4]
        peer.send(*(Detach(n, True) for n in (3, 1, 4, 0, 2)))


@pytest.mark.requirement("R541")
@pytest.mark.parametrize("more", [False, True])
def test_a_tag_may_be_longer_than_the_specification_has_it(more: bool) -> None:
    peer = Peer()
    peer.open()
    peer.attach_sender()
    tag = b"6f5902ac-237e-42d1-a2c7-3bb1d1ae3d45" + b"t" * 28

    peer.transfer(tag=tag, more=more)
    if more:
        peer.send(Transfer(0), payload=b"")

    [delivered] = peer.heard(events.Delivered)
    assert delivered.tag == tag


@pytest.mark.requirement("R588")
@pytest.mark.parametrize("early", [0, 1, 3])
def test_a_transfer_that_comes_before_the_answer_to_its_attach_is_answered(early: int) -> None:
    """With one read: attach and transfers, before there can be credit for them."""
    peer = opened()
    attach = Attach("s", 0, False, source=Source("here"), target=Target("queue"))
    attach.initial_delivery_count = 0
    transfers = [framed(Transfer(0, n, b"t%d" % n), message()) for n in range(early)]

    peer.feed(framed(attach) + b"".join(transfers))
    link = peer.heard(events.Attached)[-1].link
    link.accept()
    peer.take()

    told = [each.error.condition for each in peer.said(Detach)]
    assert told == ["amqp:link:transfer-limit-exceeded"] * bool(early)
    assert link.is_open is not bool(early)
    assert not peer.heard(events.Delivered)
