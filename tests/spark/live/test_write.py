"""Writes: each row once, through tasks that fail, batches that are repeated and partitions away."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.processes import Bus
from tests.spark.live.queues import Queue

NewQueue = Callable[..., Queue]
BODIES = [f"m{n}" for n in range(4_000)]


def frame(queue: Queue, count: int = 4_000, *, parts: int = 3) -> Any:
    return queue.spark.range(0, count, 1, parts).selectExpr("concat('m', id) body")


def write(queue: Queue, given: Any, **options: str) -> None:
    given.write.format("bendybus").options(**queue.options, **options).mode("append").save()


def breaks_once(marker: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a step that passes most rows of one task on and then fails, the first time."""
    path = str(marker)

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        import os

        from pyspark import TaskContext

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if number == 2 and context is not None and context.partitionId() == 1:
                try:
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    raise RuntimeError("injected")
            yield batch

    return step


def breaks_in(task: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a step that fails in one task, always."""

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        for batch in batches:
            if TaskContext.get().partitionId() == task:
                raise RuntimeError("injected")
            yield batch

    return step


@pytest.mark.requirement("R298")
def test_columns_of_rows_are_properties_of_messages(new_queue: NewQueue) -> None:
    queue = new_queue()
    row = queue.spark.range(1).selectExpr(
        "'text' body", "'i' message_id", "'k' partition_key", "'s' subject", "'c' content_type",
        "'r' correlation_id", "'t' `to`", "'y' reply_to", "map('a', 'b') properties",
        "60000L time_to_live_ms", "timestamp'2126-01-01 00:00:00' scheduled_enqueue_time",
    )  # fmt: skip

    write(queue, row)
    found = queue.read(states="scheduled", body="string").collect()[0]

    assert (found.body, found.message_id, found.partition_key) == ("text", "i", "k")
    assert (found.subject, found.content_type, found.correlation_id) == ("s", "c", "r")
    assert (found.to, found.reply_to, found.properties) == ("t", "y", {"a": "b"})
    assert found.scheduled_at.year == 2126


@pytest.mark.requirement("R298")
def test_rows_that_were_read_are_written_as_they_are(new_queue: NewQueue) -> None:
    source, target = new_queue(), new_queue()
    source.send(["a", "b"], subject="s", application_properties={"n": 5})

    write(target, source.read())

    rows = target.read(body="string").collect()
    assert sorted(row.body for row in rows) == ["a", "b"]
    assert {row.subject for row in rows} == {"s"}
    assert {row.entity for row in rows} == {target.name}


@pytest.mark.requirement("R298")
def test_sessions_keep_their_order_and_each_row_may_name_its_queue(new_queue: NewQueue) -> None:
    one, two = new_queue(requires_session=True), new_queue(requires_session=True)
    connection = {"connectionStringFile": one.options["connectionStringFile"]}
    rows = one.spark.range(60).selectExpr(
        "cast(id as string) body",
        "concat('s', id % 3) session_id",
        f"if(id % 2 = 0, '{one.name}', '{two.name}') topic",
    )

    rows.repartition(1).sortWithinPartitions("body").write.format("bendybus").options(
        **connection
    ).mode("append").save()

    found = one.read(body="string").collect() + two.read(body="string").collect()
    assert sorted(int(row.body) for row in found) == list(range(60))
    for row in found:
        assert int(row.body) % 2 == (row.entity == two.name)
    for session in {row.session_id for row in found}:
        mine = [row for row in found if row.session_id == session and row.entity == one.name]
        mine.sort(key=lambda row: row.sequence_number)
        assert [row.body for row in mine] == sorted(row.body for row in mine)


@pytest.mark.requirement("R297")
def test_a_task_that_fails_after_it_wrote_is_repeated_without_duplicates(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    queue.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "200")
    rows = frame(queue).mapInArrow(breaks_once(tmp_path / "broken"), "body string")

    write(queue, rows)

    queue.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert (tmp_path / "broken").exists()
    assert Counter(queue.received()) == Counter(BODIES)


@pytest.mark.requirement("R297")
def test_a_write_that_is_repeated_under_its_key_stores_nothing_twice(new_queue: NewQueue) -> None:
    queue = new_queue()

    for _ in range(2):
        write(queue, frame(queue, 300), idempotencyKey="load 2026-01-31", tasks="3")
    once = queue.active()
    write(queue, frame(queue, 300))

    assert once == 300
    assert queue.active() == 600


@pytest.mark.requirement("R362")
def test_a_repeat_with_another_number_of_tasks_is_refused(new_queue: NewQueue) -> None:
    queue = new_queue()
    write(queue, frame(queue, 300), idempotencyKey="k", tasks="3")

    for parts in (2, 8):
        with pytest.raises(Exception, match="from a write of 3 tasks"):
            write(queue, frame(queue, 300, parts=parts), idempotencyKey="k", tasks=str(parts))
    with pytest.raises(Exception, match="option tasks: is required with idempotencyKey"):
        write(queue, frame(queue, 300, parts=8), idempotencyKey="k")
    with pytest.raises(Exception, match=r"more tasks than 3|rows of this task"):
        write(queue, frame(queue, 300, parts=8), idempotencyKey="k", tasks="3")

    assert queue.active() == 300


@pytest.mark.requirement("R447")
@pytest.mark.parametrize("said", ["2", "8"])
def test_a_write_with_a_wrong_number_of_tasks_is_finished_with_the_right_one(
    new_queue: NewQueue, said: str
) -> None:
    queue = new_queue()

    with pytest.raises(Exception, match=r"more tasks than 2|had 4\..* set tasks to 4"):
        write(queue, frame(queue, 300, parts=4), idempotencyKey="k", tasks=said)
    write(queue, frame(queue, 300, parts=4), idempotencyKey="k", tasks="4")
    with pytest.raises(Exception, match="from a write of 4 tasks"):
        write(queue, frame(queue, 300, parts=2), idempotencyKey="k", tasks="2")

    assert Counter(queue.received()) == Counter(f"m{n}" for n in range(300))


@pytest.mark.requirement("R297")
def test_a_key_that_named_other_rows_is_refused(new_queue: NewQueue) -> None:
    queue = new_queue()
    write(queue, frame(queue, 30), idempotencyKey="k", tasks="3")

    other = frame(queue, 30).selectExpr("concat(body, '!') body")
    with pytest.raises(Exception, match="an idempotencyKey names one write only"):
        write(queue, other, idempotencyKey="k", tasks="3")

    assert sorted(queue.received()) == sorted(f"m{n}" for n in range(30))


@pytest.mark.requirement("R297")
def test_a_streaming_write_that_is_repeated_as_a_whole_stores_each_row_once(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    source, target = new_queue(), new_queue()
    source.send([f"m{n}" for n in range(200)])
    checkpoint = tmp_path / "c"

    def run() -> None:
        query = (
            source.stream(startingOffsets="earliest", maxMessagesPerTrigger="50")
            .writeStream.format("bendybus")
            .options(**target.options)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(90)

    run()
    # As if Spark had died after the last batch was written, before it was noted.
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    source.send(["more"])
    run()

    assert Counter(target.received()) == Counter([*(f"m{n}" for n in range(200)), "more"])


@pytest.mark.requirement("R402")
def test_a_streaming_batch_that_broke_off_is_finished_by_as_many_tasks_and_no_others(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    source, target = new_queue(), new_queue()
    source.send([f"m{n}" for n in range(400)])

    def run(tasks: int, step: Callable[[Iterator[Any]], Iterator[Any]] | None = None) -> None:
        frame = source.stream(startingOffsets="earliest", maxMessagesPerTrigger="400")
        frame = frame.selectExpr("body").repartition(tasks)
        query = (
            (frame.mapInArrow(step, "body binary") if step else frame)
            .writeStream.format("bendybus")
            .options(**target.options, timeout="5s")
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(90)

    with pytest.raises(Exception, match="injected"):
        run(4, breaks_in(task=3))
    stored = target.active()
    for tasks in (1, 2, 7):
        with pytest.raises(Exception, match=r"not those of|earlier run is not there") as error:
            run(tasks)
        assert target.name in str(error.value).splitlines()[0]
        assert target.active() == stored
    run(4)

    assert 0 < stored < 400
    assert Counter(target.received()) == Counter(f"m{n}" for n in range(400))


@pytest.mark.requirement("R297")
def test_a_partition_that_dies_during_a_write_is_waited_for(
    make_bus: Callable[..., Bus], spark: Any, tmp_path: Path
) -> None:
    bus = make_bus(partitions=2)
    queue = Queue(bus, spark, "orders", tmp_path)
    queue.create()
    bus.partitions[1].kill()
    bus.start_partition(1, wait=False)

    write(queue, frame(queue, 500))

    bus.partitions[1].ready()
    assert Counter(queue.received()) == Counter(f"m{n}" for n in range(500))


@pytest.mark.requirement("R291")
@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ("id body", {}, "column body: must be binary or string (got bigint); cast it"),
        ("'x' body, id other", {}, "column other: is unknown to the bus; allowed are message_id"),
        ("'x' subject", {}, "column body: is required"),
        ("'x' body, 'y' BODY", {}, "column body: is there more than once"),
        ("'x' body", {"startingOffsets": "latest"}, "is not an option of a batch write"),
        ("'x' body, map('a', 1) properties", {}, "must be map<string,string> (got map<string,i"),
    ],
)
def test_rows_that_cannot_be_messages_are_refused_before_any_is_written(
    new_queue: NewQueue, columns: str, options: dict[str, str], sentence: str
) -> None:
    queue = new_queue()

    with pytest.raises(Exception, match=r"column|option") as error:
        write(queue, queue.spark.range(1).selectExpr(*columns.split(", ", 1)), **options)

    assert sentence in str(error.value).strip().splitlines()[0]


@pytest.mark.requirement("R291")
def test_overwriting_a_queue_is_refused(new_queue: NewQueue) -> None:
    queue = new_queue()

    with pytest.raises(Exception, match="mode: overwrite is not for a bus"):
        frame(queue, 1).write.format("bendybus").options(**queue.options).mode("overwrite").save()


@pytest.mark.requirement("R298")
def test_a_row_that_cannot_be_a_message_is_named(new_queue: NewQueue) -> None:
    queue = new_queue(requires_session=True)

    with pytest.raises(Exception, match="row 1 of task 0: session_id: is required"):
        write(queue, frame(queue, 1, parts=1))


@pytest.mark.requirement("R405")
@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (("'x' body", "repeat('s', 129) session_id"), "session_id: must be at most 128 character"),
        (("'x' body", "0L time_to_live_ms"), "time_to_live_ms: must be positive, or null for none"),
        (("'x' body", "X'ff' head"), "head: must be what a read returned in this column"),
        (
            ("'x' body", "map('a', repeat('v', 70000)) properties"),
            "properties: must be at most 65536 bytes",
        ),
        (("repeat('x', 2000000) body",), "body: the message has 2000004 bytes"),
    ],
)
def test_an_error_begins_with_the_row_its_column_and_the_cause(
    new_queue: NewQueue, columns: tuple[str, ...], sentence: str
) -> None:
    queue = new_queue()
    rows = queue.spark.range(0, 4, 1, 1).selectExpr(*columns)

    with pytest.raises(Exception, match=r"row 1 of task 0") as error:
        write(queue, rows)

    # The first line is Spark's: "An exception was thrown from the Python worker:".
    begins = str(error.value).strip().splitlines()[:2]
    assert f"row 1 of task 0: {sentence}" in begins[-1]


@pytest.mark.requirement("R405")
def test_writes_are_started_in_other_threads_several_at_once(new_queue: NewQueue) -> None:
    queue = new_queue()
    raised: list[BaseException] = []

    def one(number: int) -> None:
        try:
            # Only where Spark is: `make mutants` imports this file without it.
            from bendybus.spark import data_source

            data_source.activate(queue.spark)
            rows = queue.spark.range(0, 100, 1, 2).selectExpr(f"concat('m{number}-', id) body")
            write(queue, rows, idempotencyKey=f"load {number}", tasks="2")
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in (0, 1, 2, 2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)

    assert raised == []
    assert queue.read().count() == 300
    assert Counter(queue.received()) == Counter(f"m{n}-{m}" for n in range(3) for m in range(100))


@pytest.mark.requirement("R298")
def test_a_streaming_write_that_cannot_be_done_says_why_in_the_first_line(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    source, target = new_queue(), new_queue(requires_session=True)
    source.send(["without a session"])
    query = (
        source.stream(startingOffsets="earliest")
        .writeStream.format("bendybus")
        .options(**target.options)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )

    with pytest.raises(Exception, match="session_id") as error:
        query.awaitTermination(60)

    assert "session_id: is required" in str(error.value).splitlines()[0]
    assert target.active() == 0
