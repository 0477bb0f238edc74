"""Expiry, and clocks that jump."""

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state import budget
from tests.partition_server.driver import Driver


def test_an_expired_message_is_dropped(queue: Driver) -> None:
    queue.send(b"a", b"b", time_to_live_ms=[1_000, 0])

    queue.advance(1_001)

    assert queue.counts().active == 1
    assert [row.payload for row, _ in queue.receive(5)] == [b"b"]


def test_an_expired_message_is_not_delivered_before_it_is_swept(queue: Driver) -> None:
    queue.send(b"a", time_to_live_ms=[1_000])
    queue.wall_ms += 1_001

    assert queue.receive() == []


def test_an_expired_message_is_dead_lettered_where_the_queue_says_so(driver: Driver) -> None:
    driver.create(dead_lettering_on_message_expiration=True)
    driver.send(b"a", time_to_live_ms=[1_000])

    driver.advance(1_001)

    [(row, _)] = driver.receive(dead_letter=True)
    assert row.dead_letter_reason == "TTLExpiredException"
    assert row.expires_ms is None


def test_the_default_time_to_live_is_a_ceiling(driver: Driver) -> None:
    driver.create(default_message_time_to_live_ms=5_000)
    driver.send(b"a", b"b", b"c", time_to_live_ms=[1_000, 60_000, 0])

    lives = [row.time_to_live_ms for row in driver.peek()]

    assert lives == [1_000, 5_000, 5_000]


def test_a_locked_message_expires_when_its_lock_ends_not_before(queue: Driver) -> None:
    queue.send(b"a", b"b", time_to_live_ms=[1_000, 1_000])
    [(_, a), (_, b)] = queue.receive(2)
    queue.advance(2_000)
    assert queue.counts().active == 2

    assert not queue.settle(Disposition.COMPLETE, a).failures
    queue.settle(Disposition.ABANDON, b)

    assert queue.counts().active == 0
    assert queue.counts().dead_letter == 0


def test_a_deferred_message_expires_too(queue: Driver) -> None:
    queue.send(b"a", time_to_live_ms=[1_000])
    [(_, token)] = queue.receive()
    queue.settle(Disposition.DEFER, token)

    queue.advance(1_001)

    assert queue.counts().deferred == 0


def test_many_expiries_are_bounded_too(queue: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 10)
    queue.send(*[b"x"] * 35, time_to_live_ms=[1_000] * 35)

    queue.advance(1_001)

    assert queue.counts().active == 0


def test_a_clock_that_jumps_ahead_expires_nothing_for_a_while(queue: Driver) -> None:
    queue.send(b"a", time_to_live_ms=[3_600_000])

    queue.advance(7_200_000, wall_only=True)
    assert queue.counts().active == 1

    queue.advance(-7_200_000, wall_only=True)
    queue.advance(301_000)
    assert [row.payload for row, _ in queue.receive()] == [b"a"]


def test_a_clock_that_stays_ahead_expires_after_the_hold(queue: Driver) -> None:
    queue.send(b"a", time_to_live_ms=[3_600_000])
    queue.advance(7_200_000, wall_only=True)

    queue.advance(301_000)

    assert queue.counts().active == 0


def test_locks_do_not_care_about_the_wall_clock(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()

    queue.advance(7_200_000, wall_only=True)

    assert not queue.settle(Disposition.COMPLETE, token).failures


def test_an_idle_partition_has_nothing_due(queue: Driver) -> None:
    assert queue.partition.state.wait_ms(queue.now) is None


def test_a_message_that_was_deferred_after_its_time_expires(queue: Driver) -> None:
    queue.send(b"a", time_to_live_ms=[1_000])
    [(_, token)] = queue.receive()
    queue.advance(2_000)

    queue.settle(Disposition.DEFER, token)
    queue.sweep()

    assert queue.counts().deferred == 0
