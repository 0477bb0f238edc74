"""Input that came together is processed in several turns of its connection."""

import pytest

from bendybus.amqp import events
from bendybus.amqp.performatives import Attach, Detach, End, Flow, Source, Target, Transfer
from tests.amqp.peers import Peer, framed, message, transfers

pytestmark = pytest.mark.requirement("R633")


def attach(handle: int) -> Attach:
    """Return an attach of a receiver."""
    return Attach(
        name=f"r{handle}", handle=handle, role=True, source=Source("queue"), target=Target("here")
    )


def test_it_stops_after_the_frame_at_which_the_turn_is_over_and_goes_on_later() -> None:
    peer = Peer()
    peer.open()
    peer.attach_sender()
    sent = [Transfer(0, each, b"%d" % each, 0) for each in range(5)]
    checked = 0

    def is_over() -> bool:
        nonlocal checked
        checked += 1
        return checked == 2

    first = peer.engine.receive(b"".join(framed(each, message()) for each in sent), is_over)
    assert [type(each) for each in first] == [events.Delivered] * 2
    assert peer.engine.has_input
    rest = peer.engine.receive(b"", is_over)

    assert [type(each) for each in rest] == [events.Delivered] * 3
    assert not peer.engine.has_input


def test_it_stops_after_a_frame_that_changes_a_link_so_that_its_event_counts() -> None:
    peer = Peer()
    peer.open()
    data = b"".join(framed(attach(each)) for each in range(3)) + framed(Detach(0, True))

    found = [peer.engine.receive(data, lambda: False)]
    while peer.engine.has_input:
        found.append(peer.engine.receive(b"", lambda: False))

    assert [[type(each) for each in some] for some in found if some] == [
        [events.Attached],
        [events.Attached],
        [events.Attached],
        [events.Detached],
    ]


def test_a_driver_that_knows_no_turns_gets_everything_at_once() -> None:
    peer = Peer()
    peer.open()

    found = peer.engine.receive(b"".join(framed(attach(each)) for each in range(3)))

    assert [type(each) for each in found] == [events.Attached] * 3
    assert not peer.engine.has_input


def test_what_waited_for_a_window_is_written_in_turns_before_the_next_frame_is_taken() -> None:
    peer = Peer()
    peer.open()
    peer.send(End())
    peer.begin(incoming_window=0)
    link = peer.attach_receiver(0)
    peer.flow(0, 100, incoming_window=0)
    for number in range(10):
        link.send(b"%d" % number, message(), settled=True)
    peer.take()
    assert transfers(peer) == []
    opening = Flow(0, 1_000, 0, 0)
    begun = len(peer.events)

    checked = 0

    def is_over() -> bool:
        nonlocal checked
        checked += 1
        return checked % 4 == 0

    found = peer.engine.receive(framed(opening) + framed(Detach(0, True)), is_over)
    peer.take()
    # The flow itself, and three transfers.
    assert len(transfers(peer)) == 3
    while peer.engine.has_input:
        found += peer.engine.receive(b"", is_over)
    peer.take()

    assert [each.delivery_tag for each, _ in transfers(peer)] == [b"%d" % n for n in range(10)]
    assert [type(each) for each in found] == [events.WindowOpened, events.Detached]
    assert (len(peer.events), peer.engine.waiting_bytes) == (begun, 0)


def test_a_window_that_opens_many_times_at_once_is_reported_once() -> None:
    peer = Peer()
    peer.open()
    peer.attach_receiver(0)
    closes, opens = (framed(Flow(0, window, 0, 0)) for window in (0, 1_000))

    found = peer.engine.receive((closes + opens) * 50)
    again = peer.engine.receive(closes + opens)

    assert [type(each) for each in found + again] == [events.WindowOpened] * 2
