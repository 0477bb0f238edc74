"""Fences of a write that is refused: shown, reset, adopted."""

from typing import Any

import pytest

from bendybus.spark.errors import PipelineError, RowsChangedError
from bendybus.spark.sink.fences import Fences, Write
from tests.spark.memory_sender import MemoryEntity, rows, write

pytestmark = pytest.mark.requirement("R363")


def fences(entity: MemoryEntity, tasks: int = 4) -> Fences:
    return Fences(entity, Write("query", tasks))


@pytest.fixture
def refused() -> MemoryEntity:
    """Return an entity with a batch whose repeat has other rows."""
    entity = MemoryEntity()
    write(entity, rows("a"), epoch=6)
    write(entity, rows("b", "c"), epoch=7)
    with pytest.raises(RowsChangedError):
        write(entity, rows("b", "x"), epoch=7)
    return entity


def test_what_a_task_wrote_is_shown(refused: MemoryEntity) -> None:
    found = fences(refused)

    assert [(each.task, each.fence.epoch, each.fence.ordinal) for each in found.came] == [(0, 7, 2)]
    assert (found.epoch, found.stored_at_most()) == (7, 2)


def test_after_a_reset_the_batch_is_written_whole(refused: MemoryEntity) -> None:
    fences(refused).reset()

    assert write(refused, rows("b", "x", "y"), epoch=7).stored == 3
    assert sorted(refused.bodies()) == ["a", "b", "b", "c", "x", "y"]


def test_after_an_adoption_the_batch_stores_nothing_and_the_next_one_does(
    refused: MemoryEntity,
) -> None:
    fences(refused).adopt()

    for task in range(4):
        given = rows(*(f"{task}{n}" for n in range(3_000)))
        assert write(refused, given, epoch=7, task=task).stored == 0
    assert write(refused, rows("d"), epoch=8).stored == 1
    assert sorted(refused.bodies()) == ["a", "b", "c", "d"]


@pytest.mark.requirement("R449")
@pytest.mark.parametrize("named", [{"run": "one"}, {"tasks": 6}])
def test_tasks_that_the_entity_knows_are_meant_too(named: dict[str, Any]) -> None:
    entity = MemoryEntity()
    for task in range(6):
        write(entity, rows(f"m{task}"), task=task, **named)

    found = fences(entity)
    found.reset()

    assert (found.tasks, found.stored_at_most()) == (6, 6)
    assert write(entity, rows("m5"), task=5, **named).stored == 1


@pytest.mark.parametrize("repair", ["reset", "adopt"])
def test_a_repair_lets_the_number_of_tasks_be_said_anew(repair: str) -> None:
    entity = MemoryEntity()
    write(entity, rows("a"), tasks=2)

    getattr(fences(entity), repair)()

    write(entity, rows("a", "b"), tasks=3)
    with pytest.raises(RowsChangedError, match="a write of 3 tasks"):
        write(entity, rows("a", "b"), task=1, tasks=2)


def test_a_write_that_is_not_known_is_said() -> None:
    with pytest.raises(PipelineError, match="orders: knows no task of this write"):
        fences(MemoryEntity()).reset()


@pytest.mark.requirement("R406")
def test_a_write_that_goes_on_is_not_repaired(refused: MemoryEntity) -> None:
    found = fences(refused)

    found.check_at_rest(lambda seconds: None)

    with pytest.raises(PipelineError, match="orders: the write goes on, and moved within"):
        found.check_at_rest(lambda seconds: _write_on(refused))


def _write_on(entity: MemoryEntity) -> None:
    write(entity, rows("more"), epoch=7, task=1)
