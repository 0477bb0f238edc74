"""Batches of a backlog that advance in time, in all partitions together."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.spark.source.positions import Dealer
from tests.spark.memory_bus import EPOCH, MemoryBus
from tests.spark.stream_query import Query

pytestmark = pytest.mark.requirement("R305")


def backlog(*, now: bool = False, **given: str) -> Query:
    """Return a query of 100 messages in 100 s in one partition; another has of the last 5 s."""
    bus = MemoryBus(100, 0)
    bus.partitions[1].tail = 95
    bus.send(1, 5)
    return Query(bus, now=now, maxMessagesPerTrigger="20", **given)


def seconds(bodies: list[str]) -> list[int]:
    """Return when messages were enqueued."""
    return [int(body.partition("-")[2]) for body in bodies]


@pytest.mark.parametrize("now", [False, True])
def test_dealt_by_time_no_batch_has_what_is_older_than_the_one_before(now: bool) -> None:
    query = backlog(startingOffsets="earliest", dealBy="time", now=now)

    latest, batches = 0, 0
    while query.trigger():
        found, query.read = seconds(query.read), []
        batches += bool(found)
        assert len(found) <= 20
        assert not found or min(found) > latest
        latest = max(found, default=latest)
    assert (latest, batches) == (100, 6)


def test_dealt_by_lag_a_batch_has_what_is_new_beside_what_is_old() -> None:
    query = backlog(startingOffsets="earliest")
    query.trigger()
    query.trigger()

    assert {1, 96} <= set(seconds(query.read))


def test_dealt_by_time_nothing_is_read_while_a_partition_is_away() -> None:
    query = backlog(startingOffsets="earliest", dealBy="time")
    query.trigger()
    query.bus.partitions[1].away = True

    assert not query.trigger()

    query.bus.partitions[1].away = False
    query.run()
    assert len(query.read) == 105


def test_what_was_enqueued_in_one_millisecond_is_dealt_by_lag() -> None:
    def number_at(partition: int, time: datetime) -> int:
        return 50 if time > EPOCH else 0

    found = Dealer(number_at).ends({0: (0, 80), 1: (0, 80)}, 10)

    assert found == {0: 5, 1: 5}


def test_a_steady_backlog_takes_few_looks_a_batch() -> None:
    looks: list[datetime] = []

    def number_at(partition: int, time: datetime) -> int:
        looks.append(time)
        return max(0, int((time - EPOCH).total_seconds() * 100))

    dealer, after = Dealer(number_at), 0
    for batch in range(20):
        if batch:
            looks.clear()
        [end] = dealer.ends({0: (after, 1_000_000)}, 1_000).values()
        assert 750 <= end - after <= 1_000
        after = end
        assert len(looks) <= (10 if batch else 50)


@given(
    st.lists(st.lists(st.integers(0, 200), max_size=60), min_size=1, max_size=4),
    st.integers(1, 40),
)
def test_no_batch_has_what_is_older_than_the_one_before_it_and_all_is_read(
    partitions: list[list[int]], limit: int
) -> None:
    times = [sorted(each) for each in partitions]

    def number_at(partition: int, time: datetime) -> int:
        moment_ms = (time - EPOCH) / timedelta(milliseconds=1)
        return sum(1 for each in times[partition] if each < moment_ms)

    dealer, latest = Dealer(number_at), -1
    after = dict.fromkeys(range(len(times)), 0)
    while any(after[p] < len(each) for p, each in enumerate(times)):
        spans = {p: (after[p], len(each)) for p, each in enumerate(times) if after[p] < len(each)}
        ends = dealer.ends(spans, limit)
        batch = [time for p, end in ends.items() for time in times[p][after[p] : end]]
        after |= ends
        assert 0 < len(batch) <= max(limit, len(spans))
        assert min(batch) >= latest
        latest = max(batch)
