"""Jobs of Spark on plain queues of both forms of numbers, in a partition that is not the first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.spark.jobs import redrive
from bendybus.spark.jobs.redrive import Redrive
from tests.integration import plain_entities
from tests.integration.processes import Bus
from tests.spark.live.queues import Queue
from tests.spark.live.test_redrive import dead, fail
from tests.spark.live.test_stream import collected

pytestmark = pytest.mark.requirement("R650")
BODIES = [f"m{n}" for n in range(40)]


@pytest.fixture(scope="module", params=["plain", "before"])
def plain_bus(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bus]:
    made = plain_entities.started(tmp_path_factory.mktemp("numbers"), request.param)
    yield made
    made.end()


@pytest.fixture
def queue(plain_bus: Bus, spark: Any, tmp_path: Path) -> Queue:
    made = Queue(plain_bus, spark, plain_entities.QUEUE, tmp_path)
    made.received()
    return made


@pytest.fixture
def base(request: pytest.FixtureRequest) -> int:
    return plain_entities.BASES[request.node.callspec.params["plain_bus"]]


def test_a_stream_that_dies_reads_each_message_and_leaves_nothing(
    queue: Queue, tmp_path: Path
) -> None:
    queue.send(BODIES)
    rows: list[str] = []
    options = {"settle": "trailing", "body": "string", "maxMessagesPerTrigger": "12"}

    collected(queue.stream(**options), tmp_path / "c", rows, dies_in=2)
    collected(queue.stream(**options), tmp_path / "c", rows)

    assert sorted(rows) == sorted(BODIES)
    assert queue.active() == 0


def test_a_read_shows_numbers_and_begins_after_one(queue: Queue, base: int) -> None:
    queue.send(BODIES)
    found = sorted((row.sequence_number, row.partition) for row in queue.read().collect())
    numbers = [number for number, _ in found]
    assert {partition for _, partition in found} == {plain_entities.HOME}
    assert 0 < numbers[0] - base < 1_000
    assert numbers == list(range(numbers[0], numbers[0] + 40))

    start = f'{{"{plain_entities.HOME}": {numbers[29]}}}'
    rest = queue.read(startingOffsets=start, body="string").collect()
    assert sorted(row.body for row in rest) == sorted(BODIES[30:])
    wanted = queue.read(body="string").where(f"sequence_number > {numbers[34]}").collect()
    assert sorted(row.body for row in wanted) == sorted(BODIES[35:])

    other = 1 if base else plain_entities.BASES["before"] + 1
    with pytest.raises(Exception, match=f"{other} is not a sequence number of"):
        queue.read(startingOffsets=f'{{"{plain_entities.HOME}": {other}}}').collect()


def test_dead_letters_are_sent_again_by_number(queue: Queue) -> None:
    fail(queue, [str(number) for number in range(12)])

    done = redrive.redrive(queue.spark, Redrive(queue.options))

    assert (done.moved.sent, done.moved.removed) == (12, 12)
    assert dead(queue) == []
    assert sorted(queue.received(), key=int) == [str(number) for number in range(12)]


def test_a_queue_that_is_made_again_in_the_middle_of_a_batch_is_a_loss_or_read_from_its_beginning(
    queue: Queue, tmp_path: Path
) -> None:
    queue.send(BODIES)
    rows: list[str] = []
    options = {
        "body": "string",
        "startingOffsets": "earliest",
        "maxMessagesPerTrigger": "12",
        "settle": "trailing",
    }
    collected(queue.stream(**options), tmp_path / "c", rows, dies_in=2)
    read = len(rows)
    with queue.bus.administration() as administration:
        administration.delete_queue(queue.name)
    # It has the present form, whichever the former one had.
    queue.create()
    queue.send(["new1", "new2"])

    with pytest.raises(Exception, match="recreated or restored"):
        collected(queue.stream(**options), tmp_path / "c", rows)
    assert len(rows) == read
    collected(queue.stream(**options, failOnDataLoss="false"), tmp_path / "c", rows)

    assert sorted(rows[read:]) == ["new1", "new2"]
    assert queue.active() == 0
