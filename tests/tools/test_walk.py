"""The walks of the operations stay within their budgets, on a real bus of real processes."""

from pathlib import Path

import pytest

from tools.walk import budgets, measure
from tools.walk.budgets import BUDGETS
from tools.walk.measure import Walk

pytestmark = pytest.mark.integration


def test_no_walk_is_longer_than_its_budget(tmp_path: Path) -> None:
    walks = measure.walks(tmp_path)

    assert [walk.name for walk in walks] == list(BUDGETS)
    assert budgets.beyond(walks) == []
    # A tracer that saw nothing would be within every budget.
    assert all(walk.file_count > 20 and walk.lines > 300 for walk in walks)


def test_a_walk_that_enters_one_file_more_is_told_with_the_way_to_see_it() -> None:
    budget = BUDGETS["settle"]
    files = [f"client/core/file_{number}.py" for number in range(budget.files + 1)]
    functions = {"client": tuple((file, "run") for file in files)}

    (told,) = budgets.beyond([Walk("settle", functions, lines=1, depth=1, hand_overs=0)])

    assert told.startswith(f"settle has {budget.files + 1} files, of {budget.files} at most")
    assert "--list=settle" in told
