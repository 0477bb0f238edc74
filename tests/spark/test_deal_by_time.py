"""Batches of a backlog that advance in time, in all partitions together."""

from datetime import datetime

import pytest

from bendybus.spark.source import deal_by_time
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


def test_what_was_enqueued_in_one_millisecond_is_read_together() -> None:
    def number_at(partition: int, time: datetime) -> int:
        return 50 if time > EPOCH else 0

    assert deal_by_time.ends({0: (0, 80), 1: (0, 80)}, 10, number_at) == {0: 50, 1: 50}
