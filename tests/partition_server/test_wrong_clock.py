"""Messages that expire under a wall clock that is wrong, jumps, or went on during a restart."""

from typing import Any

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.store.records import ClockMark
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver
from tests.partition_server.memory_store import MemoryStore

DAY_MS = 86_400_000


def test_one_send_under_a_wrong_clock_lets_no_later_message_outlive_its_time(
    queue: Driver,
) -> None:
    queue.advance(30 * DAY_MS, wall_only=True)
    queue.send(b"under the wrong clock")
    queue.advance(-30 * DAY_MS, wall_only=True)
    queue.advance(301_000)

    queue.send(b"a", time_to_live_ms=[10_000])
    queue.send(b"b", scheduled_ms=[queue.wall_ms + 5_000], time_to_live_ms=[10_000])
    queue.advance(5_000)
    assert queue.counts().active == 3
    queue.advance(10_001)

    assert [row.payload for row in queue.peek()] == [b"under the wrong clock"]


def test_what_a_receive_passed_over_under_a_wrong_clock_comes_when_it_is_corrected(
    queue: Driver,
) -> None:
    queue.send(b"a", b"locked", b"c", time_to_live_ms=[3_600_000] * 3)
    [(_, first), (_, locked)] = queue.receive(2)
    queue.settle(Disposition.ABANDON, first)
    queue.advance(7_200_000, wall_only=True)
    assert queue.receive(5) == []

    queue.advance(-7_200_000, wall_only=True)

    assert [row.payload for row, _ in queue.receive(5)] == [b"a", b"c"]
    queue.settle(Disposition.ABANDON, locked)
    assert [row.payload for row, _ in queue.receive(5)] == [b"locked"]
    assert queue.receive(5) == []


def test_a_receiver_that_waits_gets_what_a_corrected_clock_brings_back(queue: Driver) -> None:
    queue.send(b"a", time_to_live_ms=[3_600_000])
    queue.advance(7_200_000, wall_only=True)
    queue.reserve(1)

    [reserved] = queue.advance(-7_200_000, wall_only=True)

    assert [row.payload for row in reserved.delivery.rows] == [b"a"]


def test_a_clock_that_jumped_while_the_process_was_away_expires_nothing_for_a_while(
    queue: Driver,
) -> None:
    queue.send(b"a", time_to_live_ms=[3_600_000])
    queue.sweep()

    queue.wall_ms += 30 * DAY_MS
    queue.restart()
    queue.sweep()
    assert queue.counts().active == 1
    assert queue.partition.state.clock.expiry_held(queue.now)

    # Still wrong at the next opening: what was seen last is not what is wrong now.
    queue.restart()
    queue.sweep()
    assert queue.counts().active == 1
    queue.wall_ms -= 30 * DAY_MS
    queue.restart()
    assert [row.payload for row, _ in queue.receive()] == [b"a"]


def test_after_a_restart_that_took_no_time_messages_expire_as_before(queue: Driver) -> None:
    queue.send(b"a", time_to_live_ms=[3_000])
    queue.sweep()

    queue.wall_ms += 5_000
    queue.restart()
    queue.sweep()

    assert queue.counts().active == 0


def test_a_clock_that_went_on_while_the_process_was_away_is_no_jump(queue: Driver) -> None:
    from bendybus.partition_server.state.clock_guard import ClockGuard
    from bendybus.partition_server.state.commands import Now

    seen = ClockMark(1_000_000, 50_000, "boot-1")
    away = Now(1_000_000 + DAY_MS, 50_000 + DAY_MS)

    same = ClockGuard(away, hold_ms=1_000, seen=seen, machine="boot-1")
    other = ClockGuard(away, hold_ms=1_000, seen=seen, machine="boot-2")
    new = ClockGuard(away, hold_ms=1_000, seen=None, machine="boot-2")

    assert not same.expiry_held(away)
    assert other.expiry_held(away)
    assert not new.expiry_held(away)


def test_the_clock_is_noted_while_something_waits_for_it_and_not_otherwise(queue: Driver) -> None:
    assert queue.partition.state.wait_ms(queue.now) is None
    queue.send(b"a", time_to_live_ms=[DAY_MS])
    queue.sweep()

    waits_ms = queue.partition.state.wait_ms(queue.now)

    assert waits_ms is not None
    assert 0 < waits_ms <= 30_000


def test_memory_and_file_note_the_clock_alike(make_store: Any) -> None:
    driver = Driver(make_store())
    stage = driver.partition.note_clock(driver.now)
    driver.store.commit(stage.changes)

    seen = driver.store.open().seen

    assert isinstance(driver.store, MemoryStore | SqliteStore)
    assert seen == ClockMark(driver.wall_ms, driver.mono_ms, "")


def test_the_clock_is_noted_again_after_one_that_was_ahead_is_set_right(queue: Driver) -> None:
    queue.wall_ms += 30 * DAY_MS
    queue.advance(0)
    queue.send(b"a", time_to_live_ms=[DAY_MS])
    queue.advance(301_000)
    queue.wall_ms -= 30 * DAY_MS
    queue.advance(0)

    queue.advance(301_000)

    seen = queue.store.open().seen
    assert seen is not None
    assert abs(seen.wall_ms - queue.wall_ms) < 60_000
