"""Until when messages are handed over under a lock, and when a session's partition is asked."""

from typing import Any

import pytest

from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import lease
from bendybus.frontend.core.lease import SessionLease
from bendybus.frontend.core.receive import Source
from bendybus.frontend.upstreams.upstream import now_ms
from tests.frontend.receiver import Receiver
from tests.frontend.test_sessions import Bus


@pytest.mark.requirement("R320")
@pytest.mark.parametrize(("duration_ms", "left_ms"), [(30_000, 1_000), (5_000, 500)])
def test_a_session_is_received_from_until_little_of_its_lock_is_left(
    duration_ms: int, left_ms: int
) -> None:
    held = SessionLease(1_000_000 + duration_ms, duration_ms, 1_000_000)
    assert held.hand_over_until_ms == held.until_ms - left_ms

    held.heard(held.until_ms + 7_000, held.until_ms - 10)

    assert held.hand_over_until_ms == 1_000_000 + duration_ms + 7_000 - left_ms


@pytest.mark.requirement("R320")
def test_the_end_of_a_lock_is_asked_for_once_when_little_is_left_and_again_when_it_is_over() -> (
    None
):
    held = SessionLease(30_000, 30_000, 0)
    assert held.askable(28_999)
    # It may have been renewed through another front end.
    assert held.askable(29_000)

    held.heard(30_000, 29_010)

    assert not held.askable(29_020)
    assert held.ending(29_020)
    assert held.askable(30_000)
    assert not held.ending(30_000)


@pytest.mark.requirement("R320")
def test_messages_of_a_session_are_handed_over_in_the_second_half_of_its_lock() -> None:
    receiver = Receiver(partitions=1, session=SessionLease(40_000, 30_000, 10_000))
    receiver.pass_time(16_000)

    tag = receiver.ask(2)
    receiver.reserve(0, "a", "b")

    assert receiver.handed == [(tag, ["a", "b"])]


@pytest.mark.requirement("R320")
async def test_what_a_partition_says_of_the_lock_moves_that_of_all_messages_of_the_session() -> (
    None
):
    receiver: Any = Bus().open()
    shared, now = receiver.shared, now_ms()

    # 12 s are left when they are reserved; then the lock is renewed for 30 s.
    first = shared.lease_of(now + 12_000, 12_000, now)
    assert first.hand_over_until_ms == now + 11_000
    second = shared.lease_of(now + 30_000, 30_000, now)

    assert first is second
    assert first.hand_over_until_ms == now + 29_000


@pytest.mark.requirement("R320")
def test_what_comes_when_little_is_left_of_a_lock_waits_for_a_renewal() -> None:
    held = SessionLease(40_000, 30_000, 10_000)
    receiver = Receiver(partitions=1, session=held)
    receiver.pass_time(29_500)
    tag = receiver.ask(1, wait_ms=60_000)
    held.heard(40_000, receiver.now)
    receiver.reserve(0, "a")
    assert (receiver.handed, receiver.given_back) == ([], ["a"])
    # Not asked for over and over.
    assert not receiver.asked

    held.heard(69_500, receiver.now)
    receiver.pass_time(1)
    receiver.reserve(0, "a")

    assert receiver.handed == [(tag, ["a"])]


@pytest.mark.requirement("R320")
def test_the_partition_is_asked_again_when_the_lock_is_over() -> None:
    held = SessionLease(40_000, 30_000, 10_000)
    receiver = Receiver(partitions=1, session=held)
    receiver.pass_time(29_500)
    held.heard(40_000, receiver.now)
    receiver.ask(1, wait_ms=60_000)
    assert not receiver.asked

    assert receiver.cache.next_due() == 40_000
    receiver.pass_time(500)

    assert set(receiver.asked) == {0}


def test_the_end_of_a_lock_is_known_on_the_clock_of_its_partition_where_that_is_known() -> None:
    # Under way for 300 ms.
    assert lease.end_ms(10_300, 5_000, 115_000, 100_000) == 15_000
    assert lease.end_ms(10_300, 5_000, 115_000, None) == 15_300
    assert lease.end_ms(10_300, 5_000, 0, 100_000) == 15_300


@pytest.mark.requirement("R321")
async def test_what_is_deleted_as_it_is_handed_over_has_no_lock_that_could_be_over() -> None:
    bus = Bus()
    source = Source("audit", SubQueue.MAIN, ReceiveMode.RECEIVE_AND_DELETE)
    receiver = bus.receives.open(source, bus.handed.append, bus.failed.append, owner="me")
    receiver.ask(1, 2, 0, -1)
    home = next(each.partition for each in bus.upstreams if each.of("ask"))

    bus.reserve(home, 5, 6)
    bus.confirm_delivery(home)

    assert bus.got() == [b"5", b"6"]
    assert [batch.lock_tokens for handed in bus.handed for batch in handed.batches] == [b""]
