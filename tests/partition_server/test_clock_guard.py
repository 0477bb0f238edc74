"""What the clock guard takes for a jump and for standing still."""

from bendybus.partition_server.state.clock_guard import ClockGuard
from bendybus.partition_server.state.commands import Now


def test_a_steady_clock_is_nothing() -> None:
    guard = ClockGuard(Now(1_000_000, 0), hold_ms=60_000)

    gaps = [guard.observe(Now(1_000_000 + ms, ms)) for ms in range(0, 900_000, 500)]

    assert not any(gaps)
    assert not guard.expiry_held(Now(1_900_000, 900_000))


def test_a_clock_that_is_corrected_slowly_does_not_jump() -> None:
    guard = ClockGuard(Now(1_000_000, 0), hold_ms=60_000)

    for second in range(600):
        guard.observe(Now(1_000_000 + second * 1_400, second * 1_000))

    assert not guard.expiry_held(Now(1_840_000, 600_000))


def test_a_jump_holds_expiry_for_a_while() -> None:
    guard = ClockGuard(Now(1_000_000, 0), hold_ms=60_000)
    guard.observe(Now(1_061_000, 500))

    assert guard.expiry_held(Now(1_062_000, 1_500))
    assert not guard.expiry_held(Now(1_122_000, 60_501))


def test_a_jump_back_is_a_jump_too() -> None:
    guard = ClockGuard(Now(1_000_000, 0), hold_ms=60_000)

    guard.observe(Now(900_000, 500))

    assert guard.expiry_held(Now(900_100, 600))


def test_waiting_as_planned_is_not_standing_still() -> None:
    guard = ClockGuard(Now(0, 0), hold_ms=1)
    guard.observe(Now(0, 0))

    guard.waiting(0, 30_000)

    assert guard.observe(Now(30_010, 30_010)) == 0


def test_waking_up_late_is_standing_still() -> None:
    guard = ClockGuard(Now(0, 0), hold_ms=1)
    guard.waiting(0, 1_000)

    assert guard.observe(Now(9_000, 9_000)) == 8_000


def test_standing_still_in_the_middle_of_work_counts_although_a_wait_follows() -> None:
    guard = ClockGuard(Now(0, 0), hold_ms=1)
    guard.observe(Now(100, 100))

    guard.waiting(6_100, 7_100)

    assert guard.observe(Now(7_100, 7_100)) == 6_000
