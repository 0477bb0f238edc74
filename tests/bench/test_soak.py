"""What `make soak` says of minutes: growth is seen, noise is not."""

import pytest

from bench import soak
from bench.soak import Minute

TURNS = """\
bendybus_turn_seconds_bucket{le="0.01",partition="0"} 90.0
bendybus_turn_seconds_bucket{le="0.05",partition="0"} 99.0
bendybus_turn_seconds_bucket{le="+Inf",partition="0"} 100.0
bendybus_turn_seconds_bucket{le="0.01",partition="1"} 100.0
bendybus_turn_seconds_bucket{le="0.05",partition="1"} 100.0
bendybus_turn_seconds_bucket{le="+Inf",partition="1"} 100.0
"""


def minute(cpu_us: float = 100.0, memory_mb: float = 60.0, disk_mb: float = 30.0) -> Minute:
    return Minute(1_000, {"front end": cpu_us}, {"front end": memory_mb}, disk_mb)


def growing(*minutes: Minute) -> list[str]:
    return [each.what for each in soak.judge(minutes) if not each.flat]


def test_the_first_minute_does_not_count() -> None:
    assert growing(minute(cpu_us=20, memory_mb=10), minute(), minute(), minute(110, 63, 40)) == []


@pytest.mark.parametrize(
    ("last", "what"),
    [
        (minute(cpu_us=150), "CPU µs a message, front end"),
        (minute(memory_mb=90), "memory MB, front end"),
        (minute(disk_mb=90), "files MB"),
    ],
)
def test_what_grows_from_the_second_minute_to_the_last_is_named(last: Minute, what: str) -> None:
    assert growing(minute(), minute(), minute(), last) == [what]


def test_the_p99_of_turns_is_that_of_all_partitions_together() -> None:
    assert soak.quantile(TURNS, soak.TURN_METRIC, 0.99) == 0.05
    assert soak.quantile(TURNS, soak.TURN_METRIC, 0.999) == float("inf")
    assert soak.quantile("bendybus_commit_seconds_bucket 1.0\n", soak.COMMIT_METRIC, 0.5) is None
