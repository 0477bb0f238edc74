"""Queues whose numbers name no partition are read, resumed and checked as any other."""

import pytest

from bendybus.spark.errors import DataLossError, OptionError
from bendybus.spark.jobs.runtime import lags_of
from bendybus.spark.source import batch_planner
from tests import sequence_numbers
from tests.spark.memory_bus import MemoryBus, batch_options
from tests.spark.stream_query import Query

pytestmark = pytest.mark.requirement("R649")
HOME = 1
ALL = [f"{HOME}-{n}" for n in range(1, 8)]
OF_BEFORE = sequence_numbers.of(HOME, 3)


def plain(count: int) -> MemoryBus:
    """Return a bus whose messages are in its second partition, numbered from 1."""
    bus = MemoryBus(0, count)
    for each in bus.partitions:
        each.plain = True
    return bus


def test_a_stream_reads_each_message_once_over_restarts() -> None:
    query = Query(plain(4), startingOffsets="earliest", maxMessagesPerTrigger="3")
    query.trigger(dies=True)
    query.restart()
    query.bus.send(HOME, 3)

    query.run()

    assert query.read == ALL


def test_a_partition_that_was_away_at_the_start_is_read_from_its_beginning() -> None:
    bus = plain(4)
    bus.partitions[HOME].away = True
    query = Query(bus, startingOffsets="earliest")
    query.run()

    bus.partitions[HOME].away = False
    bus.send(HOME, 3)
    query.run()

    assert query.read == ALL


def test_a_batch_is_cut_into_parts_of_what_there_is() -> None:
    found = batch_planner.plan(batch_options(minPartitions="3"), plain(7))

    assert [(each.partition, each.after, each.upto) for each in found] == [
        (HOME, 0, 2),
        (HOME, 2, 4),
        (HOME, 4, 7),
    ]


def test_a_stream_settles_what_it_has_read() -> None:
    query = Query(plain(7), startingOffsets="earliest", settle="trailing")

    query.run()
    query.trigger()

    assert query.read == ALL
    assert not query.bus.left()


def test_what_is_gone_before_it_was_read_is_a_loss() -> None:
    query = Query(plain(2), startingOffsets="earliest")
    query.run()
    query.bus.send(HOME, 2)
    query.bus.expire(HOME, 3)

    with pytest.raises(DataLossError, match=r"messages up to 3 \(message 3\) expired"):
        query.run()


@pytest.mark.parametrize("start", [3, OF_BEFORE])
def test_a_start_is_of_the_form_of_the_queue(start: int) -> None:
    bus, other = plain(7), MemoryBus(0, 7)
    if start == OF_BEFORE:
        bus, other = other, bus
    given = f'{{"{HOME}": {start}}}'

    [found] = batch_planner.plan(batch_options(startingOffsets=given), bus)
    assert (found.partition, found.after) == (HOME, start)
    for begin in (
        lambda: batch_planner.plan(batch_options(startingOffsets=given), other),
        lambda: Query(other, startingOffsets=given),
    ):
        with pytest.raises(OptionError, match=f"{start} is not a sequence number of orders"):
            begin()


def test_a_queue_that_was_made_again_with_plain_numbers_is_a_loss_or_read_from_its_beginning() -> (
    None
):
    query = Query(MemoryBus(0, 3), startingOffsets="earliest")
    query.run()
    query.bus = plain(2)
    query.bus.partitions[HOME].incarnation = "b"

    query.restart()
    with pytest.raises(DataLossError, match="recreated"):
        query.run()
    query.restart(failOnDataLoss="false")
    query.run()

    assert query.read == [*ALL[:3], *ALL[:2]]


@pytest.mark.parametrize("start", [3, OF_BEFORE])
def test_a_number_of_another_form_for_a_partition_that_was_away_is_named_when_it_is_there(
    start: int,
) -> None:
    bus = plain(5) if start == OF_BEFORE else MemoryBus(0, 5)
    bus.partitions[HOME].away = True
    query = Query(bus, startingOffsets=f'{{"0": 0, "{HOME}": {start}}}')
    query.run()
    bus.partitions[HOME].away = False

    with pytest.raises(DataLossError, match=f"{start}, which startingOffsets names, is not one of"):
        query.run()
    query.restart(failOnDataLoss="false")
    query.run()

    assert query.read == ALL[:5]
    assert [each.after for each in query.tasks] == [bus.partitions[HOME].number(0)]


@pytest.mark.parametrize("bus", [plain(0), MemoryBus(0, 0)])
def test_a_partition_that_was_away_and_is_empty_has_no_lag(bus: MemoryBus) -> None:
    bus.partitions[HOME].away = True
    bus.send(0)
    query = Query(bus, startingOffsets="earliest")
    query.run()
    bus.partitions[HOME].away = False
    bus.send(0)
    query.run()

    report = query.planner.report()
    assert lags_of({"endOffset": query.log[-1], "latestOffset": report}) == {"0": 0, "1": 0}
