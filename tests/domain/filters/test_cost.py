"""What a rule may cost: counted from its text, refused when it is made, true on the machine."""

import time
from typing import Any

import pytest

from bendybus.domain import limits
from bendybus.domain.errors import QuotaExceeded
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters import rule_set, sql_text
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction
from bendybus.domain.filters.rule_index import RuleIndex
from bendybus.domain.filters.view import Properties

pytestmark = pytest.mark.requirement("R357")
DEAR = " OR ".join(["n LIKE '%a_b%'"] * 40)
# The longest property; the test of its characters is the dearest where they are not ASCII.
LONG = "é" * (limits.PROPERTY_BYTES_MAX // 2 - 1) + "a"
OTHER = LONG[:-1] + "b"
# A loop, and what it takes on the machine of the figures.
REFERENCE_LOOPS, REFERENCE_S = 50_000, 2.0e-3


def test_a_filter_that_may_cost_too_much_is_refused_with_its_count() -> None:
    with pytest.raises(QuotaExceeded) as refused:
        rules.check(Rule("r", SqlFilter(DEAR)), partitioned=False)

    assert str(refused.value) == (
        "filter.sqlExpression may take 28081 steps for one message, of at most 20000: a LIKE with "
        "_ in its pattern counts 700, one whose pattern is computed 2000, property() 50. Use fewer "
        "of them, or divide the rule."
    )


def test_so_is_an_action(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RULE_STEPS_MAX", 3)
    rules.check(Rule("r", action=SqlRuleAction("SET a = b")), partitioned=False)

    with pytest.raises(QuotaExceeded, match=r"action\.sqlExpression may take 5 steps"):
        rules.check(Rule("r", action=SqlRuleAction("SET a = b; REMOVE c")), partitioned=False)


def test_one_that_exists_stays_beside_new_ones_and_is_evaluated() -> None:
    old, new = Rule("old", SqlFilter(DEAR)), Rule("new", SqlFilter("n = 1"))
    rule_set.check([old, new], [old], partitioned=False)
    index: RuleIndex[str] = RuleIndex()
    index.add("a", rules.compiled(old, partitioned=False))

    assert index.match(Properties({"n": "xaxbx"})).copies


def test_a_dear_filter_is_followed_by_a_moment_to_stop() -> None:
    index: RuleIndex[str] = RuleIndex()
    for i in range(20):
        index.add(
            "a", rules.compiled(Rule(f"r{i}", SqlFilter("n LIKE '%a_b%'")), partitioned=False)
        )

    stops = sum(1 for _ in index.matching(Properties({"n": "x"})))

    # By their number alone there would be one or two.
    assert stops >= 20


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(["a LIKE '%a_b%'"] * 20),
        " OR ".join([f"a LIKE '%{'a_' * 30}b%'"] * 10),
        " OR ".join(["a LIKE '%xy%'"] * 40),
        " OR ".join(["a LIKE b"] * 20),
        " OR ".join(["a LIKE '%' + c + '%'"] * 20),
        " OR ".join(["p(a) = 1"] * 60),
        " OR ".join(["a = b"] * 80),
        " OR ".join(["a > b"] * 80),
        " OR ".join(["a IN (b, 'x', b)"] * 40),
        " OR ".join(["NOT EXISTS(a)"] * 50),
        " OR ".join(["n + n * n - n / 3 > 100"] * 30),
    ],
)
def test_no_filter_costs_more_than_is_counted(text: str) -> None:
    counted = sql_text.compiled_filter(text, {}, "filter").steps
    given = {"a": LONG, "b": OTHER[: limits.LIKE_PATTERN_CHARS_MAX], "c": "a_" * 500, "n": 3}
    made = sql_text.compiled_filter(text, {}, "filter")

    # Steps are 1 µs on the machine of the figures; the best of some, and room for other work.
    assert _best_s(lambda view: made.matches(view), given) < 3e-6 * counted + 1e-3


def test_no_action_costs_more_than_is_counted() -> None:
    made = sql_text.compiled_action("; ".join(["SET a = c + c"] * 32), {}, "action")

    took = _best_s(lambda view: made.changes(view), {"a": LONG, "c": "é" * 8_000})

    assert took < 3e-6 * (made.steps + 1_000)


def _best_s(work: Any, given: dict[str, Any]) -> float:
    """Return what it takes in seconds of the machine of the figures, which this one may not be."""
    times = []
    for _ in range(5):
        view = Properties(given)
        began = time.thread_time()
        work(view)
        took = time.thread_time() - began
        times.append(took / max(1.0, _slowness()))
    return min(times)


def _slowness() -> float:
    """Return how many times slower this machine is now than that of the figures."""
    began = time.thread_time()
    for number in range(REFERENCE_LOOPS):
        number * 3 % 7
    return (time.thread_time() - began) / REFERENCE_S
