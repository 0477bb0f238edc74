"""Each row of a task is stored once, however often the task is repeated."""

import contextlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.client.exceptions import InvalidOperationError, PartitionUnavailableError
from bendybus.spark.errors import RowError, RowsChangedError
from bendybus.spark.sink import lane
from bendybus.spark.sink.lane import Attempt, Fence, Lane
from bendybus.spark.sink.messages import encode
from bendybus.spark.sink.task_writer import TaskWriter
from tests.spark.memory_sender import MemoryEntity, rows, write


@pytest.fixture(autouse=True)
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few rows make several frames."""
    monkeypatch.setattr(lane, "FRAME_MESSAGES", 3)
    monkeypatch.setattr("bendybus.spark.sink.messages.RUN", 2)


BODIES = [f"m{n}" for n in range(40)]


@pytest.mark.requirement("R297")
@given(st.lists(st.integers(0, 8), max_size=4), st.booleans(), st.integers(1, 3))
def test_rows_are_stored_once_whenever_earlier_attempts_broke(
    breaks: list[int], keyed: bool, messages_max: int
) -> None:
    entity = MemoryEntity(messages_max=messages_max)
    given = [
        {"body": body, "partition_key": f"k{n % 7}" if keyed else None}
        for n, body in enumerate(BODIES)
    ]
    for frames in breaks:
        entity.frames, entity.breaks_after = 0, frames
        with contextlib.suppress(PartitionUnavailableError):
            write(entity, given)
    entity.breaks_after = None

    totals = write(entity, given)

    assert Counter(entity.bodies()) == Counter(BODIES)
    assert totals.stored + totals.repeated == totals.rows == len(BODIES)


@pytest.mark.requirement("R284")
def test_frames_of_which_a_topic_would_make_too_many_copies_are_sent_in_parts() -> None:
    entity = MemoryEntity(messages_max=1)

    totals = write(entity, rows(*BODIES))

    assert (totals.stored, entity.frames) == (40, 40)
    assert write(entity, rows(*BODIES)).repeated == 40
    with pytest.raises(InvalidOperationError, match="too many copies"):
        write(MemoryEntity(messages_max=0), rows("a"))


@pytest.mark.requirement("R297")
def test_a_batch_that_is_repeated_as_a_whole_stores_nothing_more() -> None:
    entity = MemoryEntity()
    write(entity, rows(*BODIES))

    totals = write(entity, rows(*BODIES))

    assert (totals.stored, totals.repeated) == (0, 40)
    assert len(entity.bodies()) == 40


@pytest.mark.requirement("R297")
def test_the_next_batch_is_stored_also_where_its_rows_are_the_same() -> None:
    entity = MemoryEntity()
    write(entity, rows(*BODIES), epoch=1)

    totals = write(entity, rows(*BODIES), epoch=2)

    assert totals.stored == 40


@pytest.mark.requirement("R297", "R479")
@pytest.mark.parametrize(("run", "later"), [("", ""), ("one", "one"), ("one", "two")])
def test_an_earlier_batch_is_not_written_after_a_later_one(run: str, later: str) -> None:
    entity = MemoryEntity()
    write(entity, rows(*BODIES), epoch=2, run=run)

    with pytest.raises(RowsChangedError, match="a later batch of this query was written already"):
        write(entity, rows("old"), epoch=1, run=later)


@pytest.mark.requirement("R297")
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(rows(*reversed(BODIES)), id="another order"),
        pytest.param(rows(*BODIES[:-5], "a", "b", "c", "d", "e"), id="other rows"),
        pytest.param(rows(*BODIES[:10]), id="fewer rows"),
        pytest.param(rows(*BODIES, subject="x"), id="another subject"),
        pytest.param(rows(*BODIES, partition_key="x"), id="another partition"),
    ],
)
def test_an_attempt_with_other_rows_is_refused(changed: list[dict[str, Any]]) -> None:
    entity = MemoryEntity()
    write(entity, rows(*BODIES))

    with pytest.raises(RowsChangedError, match="Make the plan deterministic"):
        write(entity, changed)


@pytest.mark.requirement("R297")
def test_a_row_that_an_earlier_attempt_wrote_elsewhere_is_noticed() -> None:
    entity = MemoryEntity()
    keys = {entity.target().partition_of(key): key for key in "abcdefgh"}
    write(entity, rows("x", partition_key=keys[0]))

    with pytest.raises(RowsChangedError, match="orders, partition 0: the rows of this task"):
        write(entity, rows("x", partition_key=keys[1]))


@pytest.mark.requirement("R297")
def test_nothing_is_sent_past_a_row_that_is_missing() -> None:
    first = encode({"body": "1"}, "")
    mine = Lane("orders, partition 0", 1, Fence(1, 2, b"12345678"))
    mine.offer(1, first)

    with pytest.raises(RowsChangedError):
        mine.offer(3, first)

    assert mine.take() is None


@pytest.mark.requirement("R297")
def test_rows_after_those_that_were_stored_may_be_others() -> None:
    entity = MemoryEntity(count=1)
    write(entity, rows("a", "b"))

    totals = write(entity, rows("a", "b", "c"))

    assert entity.bodies() == ["a", "b", "c"]
    assert (totals.stored, totals.repeated) == (1, 2)


@pytest.mark.requirement("R297")
def test_another_attempt_that_writes_at_the_same_time_is_noticed() -> None:
    mine = Lane("orders, partition 0", 1, Fence())
    other = Lane("orders, partition 0", 1, Fence())
    for ordinal in range(1, 6):
        mine.offer(ordinal, encode({"body": str(ordinal)}, ""))
        other.offer(ordinal, encode({"body": str(ordinal)}, ""))
    frame, ahead = mine.take(), other.take()
    assert frame is not None
    assert ahead is not None

    mine.repeated(frame, Fence(1, 5, ahead.mark))
    mine.finish()
    with pytest.raises(RowsChangedError):
        mine.repeated(frame, Fence(1, 5, b"12345678"))


@pytest.mark.requirement("R297")
def test_an_attempt_that_is_behind_another_one_is_compared_where_that_one_is() -> None:
    mine = Lane("orders, partition 0", 1, Fence())
    other = Lane("orders, partition 0", 1, Fence())
    for ordinal in (1, 2, 3, 4):
        other.offer(ordinal, encode({"body": str(ordinal)}, ""))
    ahead = other.take()
    assert ahead is not None
    mine.offer(1, encode({"body": "1"}, ""))
    frame = mine.take()
    assert frame is not None
    mine.repeated(frame, Fence(1, 4, ahead.mark))

    for ordinal in (2, 3):
        mine.offer(ordinal, encode({"body": str(ordinal)}, ""))
    with pytest.raises(RowsChangedError):
        mine.finish()
    with pytest.raises(RowsChangedError):
        mine.offer(4, encode({"body": "another"}, ""))


@pytest.mark.requirement("R297")
def test_a_message_without_an_id_gets_the_same_one_in_every_attempt() -> None:
    first, second = MemoryEntity(), MemoryEntity()
    write(first, rows(*BODIES))
    write(second, rows(*BODIES))

    ids = [message.message_id for messages in first.stored.values() for message in messages]

    assert first.stored == second.stored
    assert len(set(ids)) == 40


@pytest.mark.requirement("R297")
def test_tasks_and_keys_are_producers_of_their_own() -> None:
    entity = MemoryEntity()
    for key, task in (("a", 0), ("a", 1), ("b", 0)):
        write(entity, rows("x"), key=key, task=task)

    assert entity.bodies() == ["x", "x", "x"]


@pytest.mark.requirement("R298")
@given(st.lists(st.text(max_size=5), min_size=1, max_size=30))
def test_rows_with_a_key_are_in_the_partition_of_the_key_in_order(keys: list[str]) -> None:
    entity = MemoryEntity()
    given = [{"body": str(n), "session_id": key} for n, key in enumerate(keys)]

    write(entity, given)

    for partition, messages in entity.stored.items():
        for message in messages:
            assert entity.target().partition_of(message.session_id or "") == partition
    for key in keys:
        found = [
            int(message.body[2:])
            for messages in entity.stored.values()
            for message in messages
            if message.session_id == key
        ]
        assert found == sorted(found)


@pytest.mark.requirement("R298")
def test_rows_without_a_key_are_spread_over_all_partitions() -> None:
    entity = MemoryEntity()

    write(entity, rows(*BODIES))

    assert {partition: len(found) for partition, found in entity.stored.items()} == dict.fromkeys(
        range(4), 10
    )


@pytest.mark.requirement("R298")
def test_where_duplicates_are_detected_the_id_decides_the_partition() -> None:
    entity = MemoryEntity(detects_duplicates=True)

    write(entity, [*rows("a", message_id="one"), *rows("b"), *rows("c", message_id="one")])

    for partition, messages in entity.stored.items():
        for message in messages:
            assert entity.target().partition_of(message.message_id) == partition


@pytest.mark.requirement("R298")
@pytest.mark.parametrize(
    ("row", "entity", "sentence"),
    [
        (
            {"body": "x", "session_id": "a", "partition_key": "b"},
            MemoryEntity(),
            "row 2 of task 0: PartitionKey 'b' differs from SessionId 'a'",
        ),
        ({"body": "x"}, MemoryEntity(requires_session=True), "row 1 of task 0: session_id: is req"),
        ({"body": "x" * 30}, MemoryEntity(message_bytes_max=20), "row 2 of task 0: body: the mess"),
        ({"body": "x", "message_id": "i" * 129}, MemoryEntity(), "row 2 of task 0: message_id: mu"),
        ({"body": "x", "time_to_live_ms": 0}, MemoryEntity(), "row 2 of task 0: time_to_live_ms:"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_named(
    row: dict[str, Any], entity: MemoryEntity, sentence: str
) -> None:
    with pytest.raises(RowError, match=sentence):
        write(entity, [{"body": "ok"}, row])


@pytest.mark.requirement("R298")
def test_each_row_may_name_its_entity() -> None:
    entities = {path: MemoryEntity(path) for path in ("a", "b")}
    writer = TaskWriter(Attempt("query", 0, 1), lambda path: entities[path])

    writer.write(
        [{"body": "1", "topic": "a"}, {"body": "2", "entity": "b"}, {"body": "3", "topic": "A"}]
    )

    assert (entities["a"].bodies(), entities["b"].bodies()) == (["1", "3"], ["2"])


@pytest.mark.requirement("R298")
@pytest.mark.requirement("R405")
def test_a_row_that_names_no_entity_is_refused() -> None:
    writer = TaskWriter(Attempt("query", 0, 1), lambda path: MemoryEntity(path))

    with pytest.raises(RowError, match="row 1 of task 0: topic: must name a queue or topic"):
        writer.write([{"body": "1"}])


@pytest.mark.requirement("R297")
def test_a_partition_that_gets_no_rows_may_be_away() -> None:
    entity = MemoryEntity(away={3})
    row = next(
        {"body": "x", "partition_key": key}
        for key in "abcdefgh"
        if entity.target().partition_of(key) != 3
    )

    assert write(entity, [row]).stored == 1


@pytest.mark.requirement("R362")
def test_another_number_of_tasks_stores_nothing() -> None:
    entity = MemoryEntity()
    for task, body in enumerate("ab"):
        write(entity, rows(body), key="k", task=task, tasks=2)

    for task, bodies in enumerate(("a", "b", "c")):
        with pytest.raises(RowsChangedError, match=r"from a write of 2 tasks \(got 3\)"):
            write(entity, rows(*bodies), key="k", task=task, tasks=3)

    assert sorted(entity.bodies()) == ["a", "b"]


@pytest.mark.requirement("R362")
def test_the_same_number_of_tasks_goes_on() -> None:
    entity = MemoryEntity()
    write(entity, rows("a"), key="k", task=0, tasks=2)

    assert write(entity, rows("a"), key="k", task=0, tasks=2).repeated == 1
    assert write(entity, rows("b"), key="k", task=1, tasks=2).stored == 1
