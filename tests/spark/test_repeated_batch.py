"""A batch that an earlier run of a query began: compared as a whole before anything is stored."""

import contextlib
import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.client.exceptions import InvalidRequestError, PartitionUnavailableError
from bendybus.spark.errors import RowsChangedError
from bendybus.spark.sink import lane
from bendybus.spark.sink.lane import Fence
from tests.spark.memory_sender import MemoryEntity, rows, write

pytestmark = pytest.mark.requirement("R402")
BODIES = [f"m{n:02}" for n in range(48)]
WAIT_S = 20.0


@pytest.fixture(autouse=True)
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few rows make several frames."""
    monkeypatch.setattr(lane, "FRAME_MESSAGES", 2)
    monkeypatch.setattr("bendybus.spark.sink.messages.RUN", 2)
    monkeypatch.setattr("bendybus.spark.sink.fences.LOOK_S", 0.01)


def parts(count: int) -> list[list[str]]:
    """Return the rows of so many tasks, dealt as they are read."""
    edges = [len(BODIES) * n // count for n in range(count + 1)]
    return [BODIES[edges[n] : edges[n + 1]] for n in range(count)]


def run(
    entity: MemoryEntity, tasks: list[list[str]], name: str, within_s: float = 0.0
) -> list[Exception]:
    """Make one run of a batch, all tasks at once; return what was raised."""
    raised: list[Exception] = []

    def task(number: int) -> None:
        try:
            write(entity, rows(*tasks[number]), task=number, run=name, within_s=within_s)
        except (RowsChangedError, PartitionUnavailableError) as error:
            raised.append(error)

    threads = [threading.Thread(target=task, args=(n,)) for n in range(len(tasks))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return raised


def interrupted(entity: MemoryEntity, tasks: list[list[str]], frames: int) -> list[str]:
    """Write until so many frames are stored; return the bodies that are."""
    entity.breaks_after = frames
    for number, bodies in enumerate(tasks):
        with contextlib.suppress(PartitionUnavailableError):
            write(entity, rows(*bodies), task=number, run="one")
    # A frame that was on its way when its task failed may still be stored.
    for thread in threading.enumerate():
        if thread.name.startswith("bendybus-write"):
            thread.join(WAIT_S)
    entity.breaks_after = None
    return sorted(entity.bodies())


@pytest.mark.parametrize("tasks", [1, 2, 3, 6, 8])
@pytest.mark.parametrize("frames", [1, 3, 9, 1_000])
def test_a_repeat_with_another_number_of_tasks_stores_nothing(tasks: int, frames: int) -> None:
    entity = MemoryEntity()
    stored = interrupted(entity, parts(4), frames)

    raised = run(entity, parts(tasks), "two")

    assert raised
    assert all(isinstance(each, RowsChangedError) for each in raised)
    assert sorted(entity.bodies()) == stored


@pytest.mark.parametrize("frames", [1, 3, 9, 1_000])
def test_a_repeat_with_the_same_tasks_stores_what_is_missing(frames: int) -> None:
    entity = MemoryEntity()
    interrupted(entity, parts(4), frames)

    raised = run(entity, parts(4), "two", WAIT_S)

    assert raised == []
    assert Counter(entity.bodies()) == Counter(BODIES)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 12)), min_size=1, max_size=4))
def test_whatever_number_of_tasks_each_run_has_nothing_is_stored_twice(
    runs: list[tuple[int, int]],
) -> None:
    entity = MemoryEntity()
    for number, (tasks, frames) in enumerate(runs):
        entity.frames, entity.breaks_after = 0, frames
        for task, bodies in enumerate(parts(tasks)):
            with contextlib.suppress(PartitionUnavailableError, RowsChangedError):
                write(entity, rows(*bodies), task=task, run=f"run {number}")
    entity.breaks_after = None

    assert not [body for body, count in Counter(entity.bodies()).items() if count > 1]


def test_the_first_run_of_a_batch_and_repeats_of_its_tasks_wait_for_nothing() -> None:
    entity = MemoryEntity()
    for number in (3, 0, 3):
        write(entity, rows(*parts(4)[number]), task=number, run="one")
    before = entity.asked
    write(entity, [], task=1, run="one")

    assert len(entity.bodies()) == 24
    # The claim, the note of the task within `move`, and at the end each partition.
    assert entity.asked - before == 1 + 1 + entity.count


def test_a_task_that_has_no_rows_any_more_is_refused() -> None:
    entity = MemoryEntity()
    write(entity, rows("a"), run="one")

    with pytest.raises(RowsChangedError, match="the rows of this task are not those"):
        write(entity, [], run="two")
    with pytest.raises(RowsChangedError, match="the rows of task 0 are not those of the earlier"):
        write(entity, rows("a"), task=1, run="two")

    assert entity.bodies() == ["a"]


def test_a_task_that_is_not_there_is_named() -> None:
    entity = MemoryEntity()
    write(entity, rows("a"), task=5, run="one")

    with pytest.raises(RowsChangedError, match=r"orders: batch 0 .* task 5 of the earlier run is"):
        write(entity, rows("a"), run="two")

    assert entity.bodies() == ["a"]


def test_the_next_batch_of_another_run_is_a_first_one() -> None:
    entity = MemoryEntity()
    run(entity, parts(4), "one")

    write(entity, rows("a"), epoch=2, run="two")

    assert len(entity.bodies()) == 49


def test_a_bus_of_an_earlier_version_is_written_to_without_the_comparison(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Earlier(MemoryEntity):
        def move(self, *_: object, replace: bool = False) -> None:
            raise InvalidRequestError(message="ordinals: has 1 entries for 0 messages.")

    entity = Earlier()

    write(entity, rows("a"), run="one")

    assert entity.bodies() == ["a"]
    assert "version before 0.7.0" in caplog.text


@pytest.mark.requirement("R448")
def test_a_task_asks_once_for_each_task_that_is_confirmed() -> None:
    entity = MemoryEntity(count=16)
    for task in range(50):
        write(entity, rows(f"m{task}"), task=task, run="one")
    for task in range(1, 50):
        write(entity, rows(f"m{task}"), task=task, run="two")
    before = entity.asked

    write(entity, rows("m0", "more"), run="two", within_s=WAIT_S)

    # Of its own there are a few for each partition, and the notes.
    assert entity.asked - before < 50 + 3 * 16
    assert len(entity.bodies()) == 51


def test_an_adopted_batch_is_compared_with_nothing() -> None:
    entity = MemoryEntity()
    interrupted(entity, parts(4), 1_000)
    stored = sorted(entity.bodies())
    for key, known in list(entity.fences.items()):
        if known.mark and known.mark != b"one":
            entity.fences[key] = Fence(known.epoch, lane.ADOPTED_ORDINAL, lane.ADOPTED)

    run(entity, parts(4), "two")

    assert sorted(entity.bodies()) == stored
