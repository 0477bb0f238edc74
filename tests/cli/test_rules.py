"""The small rules of `up`: back-off and dealing."""

from bendybus.cli.local import programs
from bendybus.cli.local.child import BACKOFF


def test_the_delay_doubles_up_to_five_seconds() -> None:
    delays = []
    failures = 0
    for _ in range(8):
        failures = BACKOFF.failures_after(failures, lasted_s=0)
        delays.append(BACKOFF.delay_s(failures))

    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_a_run_of_thirty_seconds_starts_the_delays_over() -> None:
    assert BACKOFF.delay_s(BACKOFF.failures_after(7, lasted_s=29.9)) == 5.0
    assert BACKOFF.delay_s(BACKOFF.failures_after(7, lasted_s=30.0)) == 0.2


def test_partitions_are_dealt_in_turn_and_none_is_left_out() -> None:
    assert programs.deal_partitions(4, 2) == [(0, 2), (1, 3)]
    for processes in range(1, 17):
        dealt = programs.deal_partitions(16, processes)
        assert sorted(sum(dealt, ())) == list(range(16))
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
