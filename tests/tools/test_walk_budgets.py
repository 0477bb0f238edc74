"""What is said of a walk that is beyond its budget."""

import pytest

from tools.walk import budgets, measure
from tools.walk.budgets import BUDGETS
from tools.walk.measure import RUNS, Trace, Walk


def test_a_walk_that_enters_one_file_more_is_told_with_the_way_to_see_it() -> None:
    budget = BUDGETS["settle"]
    files = [f"client/core/file_{number}.py" for number in range(budget.files + 1)]
    functions = {"client": tuple((file, "run") for file in files)}

    (told,) = budgets.beyond([Walk("settle", functions, lines=1, depth=1, hand_overs=0)])

    assert told.startswith(f"settle has {budget.files + 1} files, of {budget.files} at most")
    assert "--list=settle" in told


def test_what_two_measurements_have_in_common_is_the_walk() -> None:
    files = [("a.py", "run"), ("retry.py", "again")]
    busy = Walk("send", {"client": tuple(files)}, lines=90, depth=4, hand_overs=3.0)
    quiet = Walk("send", {"client": tuple(files[:1])}, lines=70, depth=5, hand_overs=2.0)

    assert measure.common(busy, quiet) == Walk(
        "send", {"client": (("a.py", "run"),)}, lines=70, depth=4, hand_overs=2.0
    )


@pytest.mark.parametrize("looks", [10, 1_000])
def test_how_often_idling_runs_lengthens_no_walk(looks: int) -> None:
    look, store = ("disk_space.py", "look"), ("send.py", "store")
    idle = {"client": Trace({look: 600}, depth=2, hand_overs=0)}
    walked = {"client": Trace({look: looks, store: 50 * RUNS}, depth=3, hand_overs=2 * RUNS)}

    assert measure.walk_of("send", walked, idle, idle_share=0.2) == Walk(
        "send", {"client": (store,)}, lines=50, depth=3, hand_overs=2
    )
