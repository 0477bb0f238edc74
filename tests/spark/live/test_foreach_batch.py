"""The recipe of the README: a streaming query whose batches are written under a key each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.live.queues import Queue

NewQueue = Callable[..., Queue]
BODIES = [f"m{n}" for n in range(40)]


@pytest.mark.requirement("R593")
def test_batches_are_written_once_also_the_empty_ones(new_queue: NewQueue, tmp_path: Path) -> None:
    source, target = new_queue(), new_queue()
    source.send(BODIES)
    seen: list[tuple[int, int]] = []

    def write(batch: Any, number: int) -> None:
        batch.persist()
        for _ in range(2):
            # As a batch that is repeated.
            target.write(
                batch.select("body"),
                idempotencyKey=f"orders-{number}",
                tasks=batch.rdd.getNumPartitions(),
            )
        seen.append((number, batch.count()))
        batch.unpersist()

    query = (
        source.stream(settle="trailing")
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(90)

    assert seen[0] == (0, 0)
    assert sorted(target.received()) == sorted(BODIES)


@pytest.mark.requirement("R593")
def test_an_empty_frame_may_be_said_to_have_tasks(new_queue: NewQueue) -> None:
    queue = new_queue()
    none = queue.spark.createDataFrame([], "body string")

    queue.write(none.repartition(4), idempotencyKey="k", tasks=4)
    queue.write(
        queue.spark.range(0, 8, 1, 4).selectExpr("cast(id as string) body"),
        idempotencyKey="k",
        tasks=4,
    )

    assert queue.active() == 8
