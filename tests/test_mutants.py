"""The breaks of tests/requirements.toml fit the code, and a break that nobody notices is seen."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tests import conformance, mechanical_breaks, mutants
from tests.mutants import Break, Outcome, Verdict


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


def outcome_of(root: Path, old: str, new: str, tests: str = "tests/test_rule.py") -> Outcome:
    each = Break("R1", "domain/rule_of_a_small_project.py", old, new)
    return mutants.run(each, root, [[tests]], mutants.Unbroken())


@pytest.mark.integration
@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("a > b", "a < b", Verdict.KILLED),
        ("a > b", "a >", Verdict.KILLED),
        ("LIMIT = 10", "LIMIT = 11", Verdict.SURVIVED),
    ],
)
def test_a_break_is_killed_by_a_test_that_fails_or_survives(
    tmp_path: Path, old: str, new: str, verdict: Verdict
) -> None:
    root = small_project(tmp_path)
    rule = root / "domain" / "rule_of_a_small_project.py"
    before = rule.read_text()

    outcome = outcome_of(root, old, new)

    assert (outcome.verdict, rule.read_text()) == (verdict, before)
    assert ("test_rule" in outcome.text) is (verdict is Verdict.KILLED)


@pytest.mark.integration
def test_a_test_that_fails_unbroken_kills_nothing(tmp_path: Path) -> None:
    root = small_project(tmp_path)
    (root / "tests" / "test_rule.py").write_text("def test_larger():\n    assert False\n")

    outcome = outcome_of(root, "a > b", "a < b")

    assert outcome.verdict is Verdict.ERROR
    assert "without the break" in outcome.text
    assert mutants.is_wrong(outcome)


@pytest.mark.integration
def test_a_test_that_does_not_end_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = small_project(tmp_path)
    unbroken = mutants.Unbroken()
    each = Break(
        "R1", "domain/rule_of_a_small_project.py", "return a", "while a: pass\n    return a"
    )
    assert unbroken.fault(root, ["tests"]) is None
    monkeypatch.setattr(mutants, "TEST_S_MAX", 3.0)

    outcome = mutants.run(each, root, [["tests"]], unbroken)

    assert outcome.verdict is Verdict.UNKNOWN
    assert mutants.is_wrong(outcome)
    # A loop that a mechanical break leaves without an end is not called a survivor.
    assert not mutants.is_wrong(replace(outcome, of=replace(each, number=mutants.MECHANICAL)))


@pytest.mark.integration
def test_a_stage_without_tests_does_not_judge(tmp_path: Path) -> None:
    root = small_project(tmp_path)
    each = Break("R1", "domain/rule_of_a_small_project.py", "a > b", "a < b")
    stages = mutants.stages_of(each, ["tests/test_rule.py"])

    # None of its tests is of the second stage, which alone is asked.
    outcome = mutants.run(each, root, stages[1:], mutants.Unbroken())

    assert outcome.verdict is Verdict.SURVIVED


def test_tests_with_real_spark_come_last() -> None:
    live, own = "tests/spark/live/test_write.py::test_a", "tests/spark/test_claim.py::test_b"
    each = Break("R1", "file", "old", "new")

    assert mutants.stages_of(each, [live, own])[2:] == [[live]]
    assert [live not in stage for stage in mutants.stages_of(each, [live, own])[:2]] == [True] * 2
    assert mutants.stages_of(each, [live]) == [[live]]


def test_tests_that_need_a_cluster_do_not_judge() -> None:
    own, each = "tests/spark/test_claim.py::test_b", Break("R1", "file", "old", "new")
    stages = mutants.stages_of(each, ["tests/e2e/test_keda.py", own])
    assert not any("tests/e2e/test_keda.py" in stage for stage in stages)
    assert mutants.stages_of(each, ["tests/e2e/test_keda.py"]) == []


@pytest.mark.parametrize(
    ("verdict", "number", "strict", "wrong"),
    [
        (Verdict.KILLED, "R1", True, False),
        (Verdict.SURVIVED, "R1", False, True),
        (Verdict.UNKNOWN, "R1", False, True),
        (Verdict.ERROR, "R1", False, True),
        (Verdict.SURVIVED, mutants.MECHANICAL, False, False),
        (Verdict.SURVIVED, mutants.MECHANICAL, True, True),
        (Verdict.UNKNOWN, mutants.MECHANICAL, True, False),
        (Verdict.ERROR, mutants.MECHANICAL, False, True),
    ],
)
def test_what_fails_a_run(verdict: Verdict, number: str, strict: bool, wrong: bool) -> None:
    outcome = Outcome(Break(number, "file", "old", "new"), verdict, "", 0.0)

    assert mutants.is_wrong(outcome, strict=strict) is wrong


def test_a_break_whose_text_is_gone_or_doubled_is_stale(tmp_path: Path) -> None:
    root = small_project(tmp_path)
    file = "domain/rule_of_a_small_project.py"
    breaks = [Break("R1", file, text, "x") for text in ("b else b", "gone", "a")]

    assert len(mutants.stale(breaks, root)) == 2


RULES = """
SIZE = 2 * 3


def first(a, b, c):
    assert a and b
    if (a
            or b) and c > 1:
        raise ValueError("x" * a)
    return a * b, 1 < a <= b
"""


def test_mechanical_breaks_drop_parts_and_move_bounds_of_what_functions_compute() -> None:
    broken = [
        RULES[:at] + new + RULES[at + len(old) :] for at, old, new in mechanical_breaks.of(RULES)
    ]

    for each in broken:
        ast.parse(each)
    changed = [
        " ".join(ast.unparse(ast.parse(each)).split()).partition("assert a and b ")[2]
        for each in broken
    ]
    as_it_is = "if (a or b) and c > 1: raise ValueError('x' * a) return (a * b, 1 < a <= b)"
    condition, product = "(a or b) and c > 1", "a * b, 1 < a <= b"
    assert sorted(changed) == sorted(
        [as_it_is.replace(condition, new) for new in ("c > 1", "a or b")]
        + [as_it_is.replace("(a or b)", new) for new in ("a", "b")]
        + [as_it_is.replace("c > 1", "c >= 1")]
        + [as_it_is.replace(product, f"{new}, 1 < a <= b") for new in ("a", "b")]
        + [as_it_is.replace("1 < a", "1 <= a"), as_it_is.replace("a <= b", "a < b")]
    )


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    first = mechanical_breaks.sample(20, 1)

    assert mechanical_breaks.sample(20, 1) == first
    assert mechanical_breaks.sample(20, 2) != first
    assert len(set(first)) == 20


def test_every_mechanical_break_fits_the_code_and_has_tests_of_its_room() -> None:
    for cut in mechanical_breaks.every():
        text = (mechanical_breaks.ROOT / cut.file).read_text(encoding="utf-8")
        assert text.startswith(cut.old, cut.at), cut
        assert cut.old != cut.new, cut
        room = cut.file.partition("/")[0]
        stages = mechanical_breaks.stages_of(cut.file)
        assert any(f"tests/{room}" in stage for stage in stages), cut


def test_equivalent_breaks_are_breaks_of_today_and_have_a_reason() -> None:
    known = mechanical_breaks.equivalents()
    found = {(each.file, mechanical_breaks.line_of(each)) for each in mechanical_breaks.every()}

    assert known.keys() - found == set()
    assert all(known.values())
