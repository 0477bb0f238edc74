"""The main path, from end to end: a queue is read, drained and written."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.spark.live.queues import Queue

pytestmark = pytest.mark.requirement("R290")


def test_a_batch_read_shows_all_messages_and_removes_none(new_queue: Callable[..., Queue]) -> None:
    queue = new_queue()
    queue.send([f"m{n}" for n in range(50)], subject="s", application_properties={"n": 1})

    rows = queue.read(body="string").collect()

    assert sorted(row.body for row in rows) == sorted(f"m{n}" for n in range(50))
    assert {row.subject for row in rows} == {"s"}
    assert {tuple(row.properties.items()) for row in rows} == {(("n", "1"),)}
    assert {row.partition for row in rows} == {row.sequence_number >> 48 for row in rows}
    assert queue.active() == 50


@pytest.mark.requirement("R292")
def test_a_drain_writes_each_message_once_and_leaves_the_queue_empty(
    new_queue: Callable[..., Queue],
) -> None:
    queue = new_queue()
    queue.send([f"m{n}" for n in range(60)])

    queue.drain()

    assert queue.written() == sorted(f"m{n}" for n in range(60))
    assert queue.active() == 0


def test_rows_that_were_written_are_received(new_queue: Callable[..., Queue]) -> None:
    queue = new_queue()
    frame = queue.spark.range(100).selectExpr("concat('m', id) body", "'s' subject")

    frame.write.format("bendybus").options(**queue.options).mode("append").save()

    assert sorted(queue.received()) == sorted(f"m{n}" for n in range(100))


def test_spark_loads_nothing_heavy_when_it_looks_for_formats() -> None:
    heavy = ("grpc", "google.protobuf", "pyarrow", "pandas", "bendybus.client")
    code = f"import pyspark_bendybus, sys; print([m for m in {heavy} if m in sys.modules])"

    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert ran.stdout.strip() == "[]"
