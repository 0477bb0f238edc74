"""A start beyond what a partition has is said, and not an empty read."""

import pytest

from bendybus.spark.errors import DataLossError, OptionError
from bendybus.spark.source import batch_planner
from tests.spark.memory_bus import MemoryBus, batch_options
from tests.spark.stream_query import Query

pytestmark = pytest.mark.requirement("R404")
BEYOND = '{"0": 7}'
SENTENCE = (
    r"option startingOffsets: orders, partition 0 ends at 5 \(message 5\), before 7 \(message 7\), "
    "after which to read"
)


def test_a_batch_read_that_starts_beyond_the_end_is_refused() -> None:
    with pytest.raises(OptionError, match=SENTENCE):
        batch_planner.plan(batch_options(startingOffsets=BEYOND), MemoryBus(5))


def test_a_streaming_read_that_starts_beyond_the_end_is_refused() -> None:
    with pytest.raises(OptionError, match=SENTENCE):
        Query(MemoryBus(5), startingOffsets=BEYOND)


def test_a_start_at_the_end_waits_for_what_comes() -> None:
    query = Query(MemoryBus(5), startingOffsets='{"0": 5}')
    query.trigger()
    query.bus.send(0)
    query.run()

    assert query.read == ["0-6"]
    assert batch_planner.plan(batch_options(startingOffsets='{"0": 5}'), MemoryBus(5)) == []


def test_without_fail_on_data_loss_it_is_said_and_what_comes_is_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    query = Query(MemoryBus(5), startingOffsets=BEYOND, failOnDataLoss="false")
    query.trigger()
    query.bus.send(0)
    query.run()

    assert query.read == ["0-6"]
    assert "partition 0 ends at 5 (message 5), before 7" in caplog.text


def test_a_partition_that_was_away_is_checked_when_it_is_there() -> None:
    bus = MemoryBus(5, 5)
    bus.partitions[0].away = True
    query = Query(bus, startingOffsets='{"0": 7, "1": 0}')
    query.trigger()

    bus.partitions[0].away = False

    with pytest.raises(DataLossError, match=r"partition 0: it ends at 5 .*, before 7"):
        query.run()
