"""Links: attached and detached, credit in both directions, deliveries and what becomes of them."""

import pytest

from bendybus.amqp import events
from bendybus.amqp.connection import ConnectionSettings
from bendybus.amqp.links import OutgoingLink
from bendybus.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Rejected,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from tests.amqp.peers import Peer, framed, message, transfers


@pytest.fixture
def peer() -> Peer:
    """A peer with a session."""
    made = Peer()
    made.open()
    return made


def test_source_target_and_settle_modes_are_echoed(peer: Peer) -> None:
    source, target = Source(address="amqps://host/queue"), Target(address="anything")
    peer.send(
        Attach("l", 3, True, snd_settle_mode=1, rcv_settle_mode=0, source=source, target=target)
    )

    peer.heard(events.Attached)[0].link.accept(max_message_size=1_000)
    peer.take()

    [answer] = peer.said(Attach)
    assert (answer.role, answer.snd_settle_mode, answer.rcv_settle_mode) == (False, 1, 0)
    assert answer.max_message_size == 1_000
    assert answer.initial_delivery_count == 0
    assert answer.source.value[0] == "amqps://host/queue"
    assert answer.target.value[0] == "anything"


def test_a_refused_link_is_attached_without_ends_and_detached(peer: Peer) -> None:
    peer.send(Attach("l", 0, True, source=Source(address="none"), target=Target()))

    peer.heard(events.Attached)[0].link.refuse(Error("amqp:not-found", "no such queue"))
    peer.take()

    [answer], [detach] = peer.said(Attach), peer.said(Detach)
    assert (answer.source, answer.target) == (None, None)
    assert (detach.closed, detach.error.condition) == (True, "amqp:not-found")


def test_what_the_peer_sent_before_it_learned_of_a_detach_is_dropped(peer: Peer) -> None:
    link = peer.attach_sender()
    link.detach(Error("amqp:unauthorized-access"))

    peer.transfer()
    peer.send(Detach(0, True))
    again = peer.attach_sender()

    assert peer.heard(events.Delivered) == []
    assert peer.heard(events.Detached) == []
    assert again.is_open


def test_a_detach_by_the_peer_is_answered_in_kind(peer: Peer) -> None:
    peer.attach_sender()

    peer.send(Detach(0, False))

    assert [each.closed for each in peer.said(Detach)] == [False]
    assert [each.closed for each in peer.heard(events.Detached)] == [False]


def test_a_detach_before_the_answer_to_its_attach_is_answered_with_both(peer: Peer) -> None:
    peer.send(Attach("l", 0, True, source=Source(address="queue"), target=Target()))

    peer.send(Detach(0, True))
    peer.take()

    [answer], [detach] = peer.said(Attach), peer.said(Detach)
    assert (answer.name, answer.source, answer.target) == ("l", None, None)
    assert (detach.handle, detach.closed, detach.error) == (answer.handle, True, None)
    assert len(peer.heard(events.Detached)) == 1


def test_a_delivery_is_reported_whole_and_answered_with_a_state(peer: Peer) -> None:
    link = peer.attach_sender()

    peer.transfer(payload=message(b"one"))
    link.session.settle(0, Accepted())
    peer.take()

    [delivered] = peer.heard(events.Delivered)
    assert (delivered.payload, delivered.settled, delivered.tag) == (
        message(b"one"),
        False,
        bytes(4),
    )
    [told] = peer.said(Disposition)
    assert (told.role, told.first, told.last, told.settled) == (True, 0, 0, True)
    assert link.credit == 9


def test_answers_to_deliveries_that_follow_each_other_share_a_frame(peer: Peer) -> None:
    link = peer.attach_sender()
    for delivery_id in range(4):
        peer.transfer(delivery_id=delivery_id)

    for delivery_id in (0, 1, 3):
        link.session.settle(delivery_id, Accepted())
    link.session.settle(2, Rejected(Error("amqp:not-allowed", "no")))
    peer.take()

    assert [(each.first, each.last) for each in peer.said(Disposition)] == [(0, 1), (3, 3), (2, 2)]


def test_a_delivery_in_parts_is_put_together(peer: Peer) -> None:
    peer.attach_sender()
    payload = message(b"x" * 1_000)

    peer.transfer(payload=payload[:400], more=True)
    peer.send(Transfer(0, more=True), payload=payload[400:800])
    assert peer.heard(events.Delivered) == []
    peer.send(Transfer(0), payload=payload[800:])

    assert [each.payload for each in peer.heard(events.Delivered)] == [payload]


def test_an_aborted_delivery_is_forgotten(peer: Peer) -> None:
    link = peer.attach_sender()

    peer.transfer(payload=b"part", more=True)
    peer.send(Transfer(0, aborted=True))
    peer.transfer(delivery_id=1, payload=message(b"whole"))

    assert [each.payload for each in peer.heard(events.Delivered)] == [message(b"whole")]
    assert link.credit == 8


@pytest.mark.parametrize("parts", [1, 3])
def test_what_is_too_large_is_reported_without_its_bytes_and_the_link_goes_on(
    peer: Peer, parts: int
) -> None:
    payload = message(b"x" * 300)
    peer.attach_sender(limit=len(payload) - 1)

    if parts == 1:
        peer.transfer(payload=payload)
    else:
        peer.transfer(payload=payload[:200], more=True)
        peer.send(Transfer(0, more=True), payload=payload[200:])
        peer.send(Transfer(0), payload=payload)
    peer.transfer(delivery_id=1, payload=message())

    found = [(each.too_large, each.payload) for each in peer.heard(events.Delivered)]
    assert found == [(True, b""), (False, message())]


def test_exactly_as_many_bytes_as_are_allowed_are_taken(peer: Peer) -> None:
    payload = message(b"x" * 300)
    peer.attach_sender(limit=len(payload))

    peer.transfer(payload=payload)

    assert [each.too_large for each in peer.heard(events.Delivered)] == [False]


def test_parts_are_kept_only_where_there_is_room() -> None:
    room = 500

    def reserve(size: int) -> bool:
        return size <= room - len(kept)

    kept = bytearray()
    peer = Peer(reserve=reserve)
    peer.open()
    peer.attach_sender()

    peer.transfer(payload=b"x" * 400, more=True)
    kept += b"x" * 400
    peer.send(Transfer(0, more=True), payload=b"x" * 400)
    peer.send(Transfer(0), payload=b"x")

    assert [each.no_room for each in peer.heard(events.Delivered)] == [True]


def test_a_link_that_is_gone_gives_the_room_of_its_parts_back() -> None:
    held = 0

    def reserve(size: int) -> bool:
        nonlocal held
        held += size
        return True

    def release(size: int) -> None:
        nonlocal held
        held -= size

    peer = Peer(reserve=reserve, release=release)
    peer.open()
    peer.attach_sender(0)
    peer.attach_sender(1)
    peer.transfer(0, payload=b"x" * 100, more=True)
    peer.transfer(1, delivery_id=1, payload=b"x" * 100, more=True)
    assert held == 200

    peer.send(Detach(0, True))
    assert held == 100
    peer.send(End())

    assert held == 0


def test_credit_is_what_is_left_after_what_is_on_its_way(peer: Peer) -> None:
    link = peer.attach_receiver(credit=3)
    for number in range(2):
        link.send(bytes([number]), message(), settled=False)
    peer.take()

    peer.flow(0, 3, delivery_count=1)

    assert link.credit == 2


@pytest.mark.requirement("R488")
def test_credit_that_comes_with_the_attach_is_there_once_it_is_accepted(peer: Peer) -> None:
    asked = Attach("l", 0, True, source=Source(address="queue"), target=Target())
    flow = Flow(0, 1_000, 0, 1_000, handle=0, delivery_count=0, link_credit=7)
    peer.feed(framed(asked) + framed(flow))

    link = peer.heard(events.Attached)[0].link
    link.accept()

    assert isinstance(link, OutgoingLink)
    assert link.credit == 7
    assert peer.heard(events.CreditChanged) == []


@pytest.mark.requirement("R488")
def test_a_drained_link_says_that_its_credit_is_used_up(peer: Peer) -> None:
    link = peer.attach_receiver(credit=5)
    link.send(b"1", message(), settled=True)

    peer.flow(0, 5, drain=True)
    assert link.drain
    link.drained()
    peer.take()

    told = peer.said(Flow)[-1]
    assert (told.delivery_count, told.link_credit, told.drain) == (5, 0, True)
    assert link.credit == 0


def test_a_large_message_goes_in_frames_that_the_peer_takes() -> None:
    peer = Peer()
    peer.open(max_frame_size=512)
    link = peer.attach_receiver(credit=1)
    payload = message(b"x" * 2_000)

    link.send(b"tag", payload, settled=False)
    peer.take()

    found = transfers(peer)
    assert b"".join(part for _, part in found) == payload
    assert [each.more for each, _ in found] == [True] * (len(found) - 1) + [False]
    assert [each.delivery_tag for each, _ in found] == [b"tag"] + [None] * (len(found) - 1)


def test_transfers_wait_for_the_window_of_the_peer(peer: Peer) -> None:
    peer.send(End())
    peer.begin(incoming_window=2)
    link = peer.attach_receiver(credit=10)
    peer.flow(0, 10, incoming_window=2)

    for number in range(4):
        link.send(bytes([number]), message(), settled=False)
    peer.take()
    assert len(transfers(peer)) == 2
    assert peer.engine.waiting_bytes > 2 * len(message())
    peer.flow(0, 8, delivery_count=2, next_incoming_id=2, incoming_window=10)

    assert [each.delivery_id for each, _ in transfers(peer)] == [0, 1, 2, 3]
    assert peer.engine.waiting_bytes == 0


def test_dispositions_of_the_peer_name_the_deliveries(peer: Peer) -> None:
    link = peer.attach_receiver(credit=10)
    for number in range(4):
        link.send(bytes([number]), message(), settled=False, context=number)

    peer.send(Disposition(True, 1, 2, False, Modified(delivery_failed=True)))
    for each in peer.heard(events.Disposed)[0].deliveries:
        link.session.settle(each.delivery_id, Modified(delivery_failed=True), incoming=False)
    peer.take()

    [disposed] = peer.heard(events.Disposed)
    assert [each.context for each in disposed.deliveries] == [1, 2]
    assert disposed.state == Modified(delivery_failed=True)
    [told] = peer.said(Disposition)
    assert (told.role, told.first, told.last, told.settled) == (False, 1, 2, True)
    assert link.session.unsettled == 2


def test_a_range_that_is_larger_than_what_is_unsettled_costs_no_more(peer: Peer) -> None:
    link = peer.attach_receiver(credit=10)
    link.send(b"1", message(), settled=False)

    peer.send(Disposition(True, 0xFFFFFF00, 0x7FFFFE00, True, Accepted()))

    assert [len(each.deliveries) for each in peer.heard(events.Disposed)] == [1]
    assert link.session.unsettled == 0


def test_the_outcome_inside_a_transaction_is_read(peer: Peer) -> None:
    link = peer.attach_receiver(credit=1)
    link.send(b"1", message(), settled=False)

    peer.send(Disposition(True, 0, None, False, TransactionalState(b"id", Rejected())))

    [disposed] = peer.heard(events.Disposed)
    assert disposed.state == TransactionalState(b"id", Rejected())


def test_an_echo_is_answered(peer: Peer) -> None:
    peer.attach_receiver(credit=4)
    before = len(peer.said(Flow))

    peer.flow(0, 4, echo=True)

    assert [each.link_credit for each in peer.said(Flow)[before:]] == [4]


@pytest.mark.parametrize(
    ("performative", "condition"),
    [
        (Transfer(5, 0, b"t"), "amqp:session:unattached-handle"),
        (Transfer(1, 0, b"t"), "amqp:not-allowed"),
        (Transfer(0), "amqp:invalid-field"),
        (Transfer(0, 0, b"t" * 65), "amqp:invalid-field"),
        (Disposition(True, 5, 2), "amqp:invalid-field"),
        (Attach("x", 0, True), "amqp:session:handle-in-use"),
        (Attach("x", 5_000, True), "amqp:connection:framing-error"),
    ],
)
def test_what_breaks_a_rule_of_links_closes_the_connection(
    peer: Peer, performative: Transfer | Disposition | Attach, condition: str
) -> None:
    peer.attach_sender(0)
    peer.attach_receiver(1)

    peer.send(performative)

    assert [each.error.condition for each in peer.said(Close)] == [condition]


@pytest.mark.requirement("R547")
def test_a_session_takes_more_links_than_it_is_told_of(peer: Peer) -> None:
    """The SDK for Java attaches all session receivers of a queue in one session."""
    peer.attach_sender(4_999)

    assert [each.handle_max for each in peer.said(Begin)] == [255]
    assert not peer.said(Close)


def test_a_connection_has_a_bounded_number_of_links() -> None:
    peer = Peer(ConnectionSettings("server", links_max=2))
    peer.open()
    peer.attach_sender(0)
    peer.begin(1)

    peer.send(Attach("a", 0, False), channel=1)
    assert not peer.said(Close)
    peer.send(Attach("b", 1, False), channel=1)

    assert [each.error.condition for each in peer.said(Close)] == ["amqp:resource-limit-exceeded"]
    assert peer.engine.links == 0


def test_the_window_is_opened_again_before_it_is_used_up(peer: Peer) -> None:
    peer.attach_sender(credit=10_000)

    for delivery_id in range(6_000):
        peer.transfer(delivery_id=delivery_id)

    assert len(peer.heard(events.Delivered)) == 6_000
    assert not peer.said(Close)
