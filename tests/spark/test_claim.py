"""How many tasks a write has: claimed before it stores anything, corrected when it has ended."""

import pytest

from bendybus.spark.errors import RowsChangedError
from bendybus.spark.sink import fences
from bendybus.spark.sink.lane import Attempt
from tests.spark.memory_sender import MemoryEntity, rows, write

pytestmark = pytest.mark.requirement("R447")


def attempt(tasks: int, of_write: str) -> Attempt:
    return Attempt("k", 0, 1, tasks, write=of_write)


def test_a_write_of_more_tasks_than_were_said_is_finished_with_their_number() -> None:
    entity = MemoryEntity()
    for task in range(2):
        write(entity, rows(f"m{task}"), key="k", task=task, tasks=2, of_write="one")

    assert fences.correct_claim(attempt(2, "one"), entity, 4)

    for task in range(4):
        write(entity, rows(f"m{task}"), key="k", task=task, tasks=4, of_write="two")
    assert sorted(entity.bodies()) == ["m0", "m1", "m2", "m3"]
    with pytest.raises(RowsChangedError, match=r"from a write of 4 tasks \(got 2\)"):
        write(entity, rows("m0"), key="k", tasks=2, of_write="three")


def test_a_number_that_another_write_said_is_not_corrected() -> None:
    entity = MemoryEntity()
    write(entity, rows("m0"), key="k", tasks=2, of_write="one")

    assert not fences.correct_claim(attempt(2, "two"), entity, 4)

    with pytest.raises(RowsChangedError, match=r"from a write of 2 tasks \(got 4\)"):
        write(entity, rows("m3"), key="k", task=3, tasks=4, of_write="three")
    assert entity.bodies() == ["m0"]


def test_a_write_that_claimed_nothing_leaves_the_number_open() -> None:
    entity = MemoryEntity()

    assert not fences.correct_claim(attempt(2, "one"), entity, 4)

    assert write(entity, rows("m0"), key="k", tasks=3, of_write="two").stored == 1
