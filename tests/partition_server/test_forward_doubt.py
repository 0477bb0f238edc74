"""Messages of frames whose outcome is unknown do not end at the source, whatever the clock says."""

import pytest

from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.broker.partition import CLOCK_HOLD_MS
from bendybus.partition_server.state.lanes import Outgoing
from tests.partition_server.forwarding_driver import bodies, send
from tests.partition_server.partition_pair import NAMES, Pair

pytestmark = pytest.mark.requirement("R272")
LIVES_MS = 5_000


@pytest.fixture
def pair() -> Pair:
    """Return partitions where what ends at the source becomes a dead letter."""
    made = Pair()
    made.describe("target", 6, dead_lettering_on_message_expiration=True)
    return made


def sent(pair: Pair, body: bytes = b"x") -> Outgoing:
    """Send a message of 5 s that goes to the other partition."""
    target = pair.source.partition.state.catalogue.by_uid("t")
    assert target is not None
    key = next(name for name in NAMES if target.partition_of(name) == 1)
    send(pair.source, "source", body, partition_keys=[key], time_to_live_ms=[LIVES_MS])
    [frame] = pair.frames()
    return frame


def later(pair: Pair) -> None:
    """Let the time to live pass; what is sent meanwhile is lost."""
    for value in pair.source.advance(2 * LIVES_MS):
        if isinstance(value, Outgoing):
            pair.answer(value, None)


def dead(pair: Pair) -> list[bytes]:
    return bodies(pair.source, "source", SubQueue.DEAD_LETTER)


def test_a_message_whose_answer_was_lost_does_not_end_at_the_source(pair: Pair) -> None:
    frame = sent(pair)
    pair.deliver(frame)
    pair.answer(frame, None)

    later(pair)
    pair.finish()

    assert pair.stored() == ["x"]
    assert (bodies(pair.source, "source"), dead(pair)) == ([], [])


def test_a_message_that_was_sent_before_a_restart_does_not_end_at_the_source(pair: Pair) -> None:
    pair.deliver(sent(pair))

    pair.restart(0)
    pair.source.partition.state.forward_link = None
    # Until its clock is trusted again nothing expires.
    for _ in range(2):
        pair.source.advance(CLOCK_HOLD_MS)
    assert not pair.source.partition.state.clock.expiry_held(pair.source.now)
    later(pair)
    assert bodies(pair.source, "source") == [b"x"]
    pair.source.partition.state.forward_link = "link"
    pair.finish()

    assert pair.stored() == ["x"]
    assert (bodies(pair.source, "source"), dead(pair)) == ([], [])


def test_a_message_that_did_not_arrive_ends_at_its_destination(pair: Pair) -> None:
    pair.answer(sent(pair), None)

    later(pair)
    pair.finish()
    assert (bodies(pair.source, "source"), dead(pair)) == ([], [])
    assert pair.stored() == ["x"]
    pair.drivers[1].advance(1_000)

    assert pair.stored() == []


def test_a_message_that_was_never_sent_ends_at_the_source(pair: Pair) -> None:
    first = sent(pair)
    # One frame is on its way at a time.
    target = pair.source.partition.state.catalogue.by_uid("t")
    assert target is not None
    key = next(name for name in NAMES if target.partition_of(name) == 1)
    send(pair.source, "source", b"y", partition_keys=[key], time_to_live_ms=[LIVES_MS])

    later(pair)

    assert dead(pair) == [b"y"]
    assert bodies(pair.source, "source") == [b"x"]
    pair.answer(first, pair.deliver(first))
    pair.finish()
    assert (pair.stored(), bodies(pair.source, "source")) == (["x"], [])


@pytest.mark.parametrize("how", ["it forwards no more", "the destination is deleted"])
def test_a_message_whose_destination_is_gone_ends_at_the_source(pair: Pair, how: str) -> None:
    frame = sent(pair)
    pair.answer(frame, None)
    later(pair)
    assert pair.frames() == []
    assert bodies(pair.source, "source") == [b"x"]

    if how == "it forwards no more":
        pair.describe("", 7, dead_lettering_on_message_expiration=True)
    else:
        pair.delete_target()
    pair.source.advance(1_000)

    assert bodies(pair.source, "source") == []
    assert dead(pair) == [b"x"]
