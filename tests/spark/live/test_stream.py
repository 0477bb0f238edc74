"""Streaming reads: what Spark's checkpoint makes of them, through failures and restarts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bendybus.client.exceptions import MessagingEntityDrainedError
from tests.spark.live.queues import Queue

NewQueue = Callable[..., Queue]
BODIES = [f"m{n}" for n in range(40)]


class Injected(Exception):
    """Raised in the middle of a batch, once."""


def collected(frame: Any, checkpoint: Path, rows: list[str], *, dies_in: int | None = None) -> Any:
    """Append the bodies of each batch; in one batch die after the rows were seen."""

    def take(batch: Any, number: int) -> None:
        found = [row.body for row in batch.select("body").collect()]
        if number == dies_in:
            raise Injected(f"batch {number}: {len(found)} rows")
        rows.extend(found)

    query = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    if dies_in is None:
        query.awaitTermination(60)
    else:
        with pytest.raises(Exception, match="Injected"):
            query.awaitTermination(60)
    return query


@pytest.mark.requirement("R292")
def test_a_drain_that_dies_in_the_middle_of_a_batch_reads_it_again_and_ends_with_nothing_left(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    queue.send(BODIES)
    rows: list[str] = []
    options = {"settle": "trailing", "body": "string", "maxMessagesPerTrigger": "12"}

    collected(queue.stream(**options), tmp_path / "c", rows, dies_in=2)
    left = queue.active()
    collected(queue.stream(**options), tmp_path / "c", rows)

    assert 0 < left < 40
    assert sorted(rows) == sorted(BODIES)
    assert queue.active() == 0


@pytest.mark.requirement("R292")
def test_receivers_are_refused_while_a_drain_runs_and_served_when_it_has_ended(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    queue.send(BODIES)
    refused: list[Exception] = []

    def take(batch: Any, number: int) -> None:
        if batch.count():
            try:
                queue.received()
            except MessagingEntityDrainedError as error:
                refused.append(error)

    query = (
        queue.stream(settle="trailing")
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    queue.send(["after"])

    assert refused
    assert queue.received() == ["after"]


@pytest.mark.requirement("R292")
def test_a_second_drain_of_the_same_queue_is_refused_by_name(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    queue.send(BODIES)
    refused: list[str] = []

    def take(batch: Any, number: int) -> None:
        if batch.count() and not refused:
            other = queue.stream(settle="trailing", timeout="2s")
            query = queue.start(other, "other")
            with pytest.raises(Exception, match="is drained by the data pipeline") as error:
                query.awaitTermination(60)
            refused.append(str(error.value).splitlines()[0])

    query = (
        queue.stream(settle="trailing", owner="first")
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(90)

    assert "is drained by the data pipeline 'first'" in refused[0]


@pytest.mark.requirement("R293")
def test_a_tap_reads_what_comes_after_its_start_also_when_its_first_batch_fails(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    queue.send(["before"])
    rows: list[str] = []

    collected(queue.stream(body="string"), tmp_path / "c", rows, dies_in=0)
    queue.send(["after"])
    collected(queue.stream(body="string"), tmp_path / "c", rows)

    assert rows == ["after"]
    assert queue.active() == 2


@pytest.mark.requirement("R295")
def test_batches_keep_to_the_limit_and_the_progress_shows_offsets(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    queue.send(BODIES)
    rows: list[str] = []

    options = {"startingOffsets": "earliest", "body": "string"}
    query = collected(queue.stream(**options, maxMessagesPerTrigger="10"), tmp_path / "c", rows)

    counts = [progress.numInputRows for progress in query.recentProgress]
    last = json.loads(query.recentProgress[-1].sources[0].endOffset)
    assert max(counts) <= 10
    assert sorted(rows) == sorted(BODIES)
    assert sorted(last["seq"]) == ["0", "1", "2", "3"]
    again = queue.read(startingOffsets=json.dumps(last))
    assert again.count() == 0


@pytest.mark.requirement("R293")
def test_the_checkpoint_continues_where_it_ended(new_queue: NewQueue) -> None:
    queue = new_queue()
    options = {"startingOffsets": "earliest"}
    queue.send(BODIES[:20])
    queue.start(queue.stream(**options)).awaitTermination(60)
    queue.send(BODIES[20:])

    queue.start(queue.stream(**options)).awaitTermination(60)

    assert queue.written() == sorted(BODIES)


@pytest.mark.requirement("R296")
def test_a_partition_that_dies_while_it_is_read_is_waited_for(
    make_bus: Callable[..., Any], spark: Any, tmp_path: Path
) -> None:
    bus = make_bus(partitions=2)
    queue = Queue(bus, spark, "orders", tmp_path)
    queue.create()
    queue.send([f"m{n}" for n in range(200)])
    rows: list[str] = []
    restarted: list[int] = []

    def take(batch: Any, number: int) -> None:
        # The plan is made, nothing is read yet.
        if number == 1:
            bus.partitions[1].kill()
            bus.start_partition(1, wait=False)
            restarted.append(1)
        rows.extend(row.body for row in batch.select("body").collect())

    query = (
        queue.stream(settle="trailing", body="string")
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(90)
    bus.partitions[1].ready()

    assert restarted
    assert sorted(rows) == sorted(f"m{n}" for n in range(200))


@pytest.mark.requirement("R291")
def test_a_wrong_option_of_a_stream_is_in_the_first_line(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    query = queue.start(queue.stream(settle="trailing", startingOffsets="latest"))

    with pytest.raises(Exception, match="option settle") as error:
        query.awaitTermination(60)

    assert "option settle: trailing removes everything" in str(error.value).splitlines()[0]
