"""The breaks of tests/requirements.toml fit the code, and a break that nobody notices is seen."""

from pathlib import Path

import pytest

from tests import conformance, mutants
from tests.mutants import Break


def test_every_break_fits_the_code_in_exactly_one_place() -> None:
    assert mutants.stale(mutants.read()) == []


def test_every_requirement_has_a_break() -> None:
    broken = {each.number for each in mutants.read()}

    assert conformance.read().texts.keys() - broken == set()


def test_no_break_leaves_the_code_as_it_is() -> None:
    assert [each.title for each in mutants.read() if each.old == each.new] == []


def small_project(root: Path) -> Path:
    """Write a project with one rule and a test that looks at half of it."""
    (root / "domain").mkdir()
    (root / "domain" / "rule_of_a_small_project.py").write_text(
        "def larger(a, b):\n    return a if a > b else b\n\n\nLIMIT = 10\n"
    )
    (root / "tests").mkdir()
    (root / "tests" / "test_rule.py").write_text(
        "import rule_of_a_small_project as rule\n\n\n"
        "def test_larger():\n    assert rule.larger(1, 2) == 2\n"
    )
    (root / "pytest.ini").write_text("[pytest]\nmarkers = integration\n")
    return root


@pytest.mark.integration
@pytest.mark.parametrize(
    ("old", "new", "killed"),
    [("a > b", "a < b", True), ("LIMIT = 10", "LIMIT = 11", False)],
)
def test_a_break_is_killed_by_a_test_that_fails_or_survives(
    tmp_path: Path, old: str, new: str, killed: bool
) -> None:
    root = small_project(tmp_path)
    rule = root / "domain" / "rule_of_a_small_project.py"
    before = rule.read_text()
    each = Break("R1", "domain/rule_of_a_small_project.py", old, new)

    outcome = mutants.run(each, root, ["tests/test_rule.py::test_larger"])

    assert outcome.killed is killed
    assert ("test_larger" in outcome.text) is killed
    assert rule.read_text() == before


def test_a_break_whose_text_is_gone_or_doubled_is_stale(tmp_path: Path) -> None:
    root = small_project(tmp_path)
    file = "domain/rule_of_a_small_project.py"
    breaks = [Break("R1", file, text, "x") for text in ("b else b", "gone", "a")]

    assert len(mutants.stale(breaks, root)) == 2
