"""The walks of the operations stay within their budgets, on a real bus of real processes."""

from pathlib import Path

import pytest

from tools.walk import budgets
from tools.walk.budgets import BUDGETS

# Four measurements at most, of three minutes each.
pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1_200)]


def test_no_walk_is_longer_than_its_budget(tmp_path: Path) -> None:
    walks = budgets.measured(tmp_path)

    assert [walk.name for walk in walks] == list(BUDGETS)
    assert "\n".join(budgets.beyond(walks)) == ""
    # A tracer that saw nothing would be within every budget.
    assert all(walk.file_count > 20 and walk.lines > 300 for walk in walks)
