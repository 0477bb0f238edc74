"""The index of a topic's rules: the same answers as trying each rule, and what they cost."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bendybus.domain import limits
from bendybus.domain.errors import EntityAlreadyExists, EntityNotFound, QuotaExceeded
from bendybus.domain.filters import rule
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from bendybus.domain.filters.rule_index import Copy, Matches, Outcome, RuleIndex
from bendybus.domain.filters.values import FilterError, Value
from bendybus.domain.filters.view import Properties

ACTION = SqlRuleAction("SET seen = TRUE")


def index_of(*rules: tuple[str, Rule]) -> RuleIndex[str]:
    index: RuleIndex[str] = RuleIndex()
    for subscription, each in rules:
        index.add(subscription, rule.compiled(each, partitioned=True))
    return index


def shown(matches: Matches[str]) -> list[tuple[str, str | None]]:
    return [
        (copy.subscription, None if copy.rule is None else copy.rule.rule.name)
        for copy in matches.copies
    ]


@pytest.mark.requirement("R69")
def test_rules_without_an_action_make_one_copy_and_each_with_one_its_own() -> None:
    index = index_of(
        ("s", Rule("plain1")),
        ("s", Rule("acting1", SqlFilter("a = 1"), ACTION)),
        ("s", Rule("plain2", CorrelationFilter(properties={"a": 1}))),
        ("s", Rule("acting2", action=ACTION)),
        ("s", Rule("acting3", SqlFilter("a = 2"), ACTION)),
        ("t", Rule("plain", SqlFilter("a > 0"))),
        ("u", Rule("none", FalseFilter())),
        ("v", Rule("acting", TrueFilter(), ACTION)),
    )

    found = index.match(Properties({"a": 1}))

    assert shown(found) == [
        ("s", None), ("s", "acting1"), ("s", "acting2"), ("t", None), ("v", "acting"),
    ]  # fmt: skip
    assert found.failures == ()


@pytest.mark.requirement("R62")
def test_a_filter_that_fails_is_reported_and_the_others_are_not_affected() -> None:
    index = index_of(
        ("s", Rule("bad", SqlFilter("a > 'x'"))),
        ("s", Rule("good")),
        ("t", Rule("bad", SqlFilter("a = 1 AND sys.Nonsense = 1"))),
        ("u", Rule("calm", SqlFilter("a = 2 AND sys.Nonsense = 1"))),
    )

    found = index.match(Properties({"a": 1}))

    assert shown(found) == [("s", None)]
    assert [(each.subscription, each.rule.rule.name) for each in found.failures] == [
        ("s", "bad"), ("t", "bad"),
    ]  # fmt: skip
    assert "cannot be compared" in str(found.failures[0].error)
    assert FilterError.REASON == "FilterException"


def test_a_subscription_without_rules_gets_nothing() -> None:
    index = index_of(("s", Rule("$Default")))
    assert index.match(Properties()).copies == (Copy("s", None),)

    index.remove("s", "$Default")

    assert index.match(Properties()) == Matches(Outcome())
    assert index.rules("s") == []


def test_a_name_is_unique_in_its_subscription() -> None:
    index = index_of(("s", Rule("a")), ("t", Rule("a")))

    with pytest.raises(EntityAlreadyExists, match="rule 'a' exists already in subscription s"):
        index.add("s", rule.compiled(Rule("a", FalseFilter()), partitioned=True))
    with pytest.raises(EntityNotFound, match="rule 'b' does not exist in subscription s"):
        index.remove("s", "b")
    with pytest.raises(EntityNotFound):
        index.remove("x", "a")


@pytest.mark.parametrize(
    ("filter_", "limit"),
    [
        (SqlFilter("a = 1"), "SQL_FILTERS_PER_TOPIC"),
        (CorrelationFilter(to="x"), "CORRELATION_FILTERS_PER_TOPIC"),
        (TrueFilter(), "CORRELATION_FILTERS_PER_TOPIC"),
    ],
)
def test_filters_of_a_topic_are_limited(
    filter_: Filter, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, limit, 2)
    index = index_of(("s", Rule("a", filter_)), ("t", Rule("a", filter_)))

    with pytest.raises(QuotaExceeded, match="of at most 2"):
        index.add("u", rule.compiled(Rule("a", filter_), partitioned=True))
    index.remove("s", "a")
    index.add("u", rule.compiled(Rule("a", filter_), partitioned=True))


NAMES = ["a", "b", "c", "d"]
SMALL: st.SearchStrategy[Any] = st.sampled_from([1, 2, 1.0, "x", True])
FILTERS: st.SearchStrategy[Any] = st.one_of(
    st.just(TrueFilter()),
    st.just(FalseFilter()),
    st.builds(
        CorrelationFilter,
        label=st.none() | st.sampled_from(["x", "y"]),
        properties=st.dictionaries(st.sampled_from(NAMES), SMALL, min_size=1),
    ),
    st.sampled_from(
        [
            "a = 1", "A = 1 AND b = 'x'", "a = 1 AND b > 1", "a = 1 AND a = 2", "c IS NULL",
            "sys.Label = 'x' AND a <> 1", "d > 1 AND a = 1", "a = 1 OR b = 1", "a = TRUE",
            "(a = 1 AND b = 1) AND (c = 1 AND NOT d = 1)", "sys.Nonsense = 1 AND a = 1",
        ]
    ).map(SqlFilter),
)  # fmt: skip
VIEWS = st.builds(
    Properties,
    st.dictionaries(st.sampled_from([*NAMES, "A"]), st.none() | SMALL),
    st.dictionaries(st.just("Label"), st.sampled_from(["x", "y"])),
)


@pytest.mark.requirement("R69")
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(
    filters=st.lists(FILTERS, max_size=8),
    removed=st.sets(st.integers(0, 7)),
    views=st.lists(VIEWS, min_size=1, max_size=4),
)
def test_the_index_finds_what_trying_each_rule_finds(
    filters: list[Filter], removed: set[int], views: list[Properties]
) -> None:
    index = index_of(*((f"s{i}", Rule("r", each)) for i, each in enumerate(filters)))
    for i in removed:
        index.remove_subscription(f"s{i}")

    for view in views:
        expected, failing = [], []
        for i, each in enumerate(filters):
            if i in removed:
                continue
            try:
                if rule.compiled_filter(each).matches(view):
                    expected.append(f"s{i}")
            except FilterError:
                failing.append(f"s{i}")
        found = index.match(view)
        assert [each.subscription for each in found.copies] == expected
        assert [each.subscription for each in found.failures] == failing

    for i in range(len(filters)):
        index.remove_subscription(f"s{i}")
    # Nothing is left behind: an index that rules come to and leave does not grow.
    assert index._root.is_empty
    assert (index.sql_filter_count, index.correlation_filter_count) == (0, 0)


class CountingView:
    """A view that counts how often it is asked; its user properties count look-ups."""

    def __init__(self, user: Mapping[str, Value], system: Mapping[str, Value]) -> None:
        self.asked = 0
        self._system = system
        self.user = _Counting(user, self)

    def system(self, name: str) -> Value:
        self.asked += 1
        return self._system.get(name)

    def new_id(self) -> Any:
        raise AssertionError


class _Counting(Mapping[str, Value]):
    def __init__(self, values: Mapping[str, Value], view: CountingView) -> None:
        self._values, self._view = values, view

    def __getitem__(self, name: str) -> Value:
        self._view.asked += 1
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


MANY = 2_000
SHAPES: dict[str, Any] = {
    "correlation": lambda n: CorrelationFilter(label="order", properties={"customer": f"c{n}"}),
    "sql": lambda n: SqlFilter("type = 'order' AND customer = @c AND price > 5", {"c": f"c{n}"}),
    "each with a property of its own": lambda n: CorrelationFilter(
        label="order", properties={"type": "order", f"p{n}": 1}
    ),
    "system only": lambda n: CorrelationFilter(correlation_id=f"c{n}"),
}


@pytest.mark.requirement("R69")
@pytest.mark.parametrize("shape", list(SHAPES))
def test_filters_that_do_not_match_cost_nothing(shape: str) -> None:
    user: dict[str, Value] = {"type": "order", "customer": "c7", "p7": 1, "price": 9, "other": 1}
    system: dict[str, Value] = {"Label": "order", "CorrelationId": "c7"}
    asked = []
    for count in (10, MANY if shape != "sql" else 200):
        index = index_of(*((f"s{n}", Rule("r", SHAPES[shape](n))) for n in range(count)))
        view = CountingView(user, system)
        assert [copy.subscription for copy in index.match(view).copies] == ["s7"]
        asked.append(view.asked)

    assert asked[1] <= asked[0] + len(user), asked


def test_what_is_kept_of_outcomes_is_in_proportion_to_the_rules() -> None:
    """However many rules each of the messages fits, and in however many ways."""
    chooser, names = random.Random(0), [f"p{number}" for number in range(200)]
    index = index_of(*(("s", Rule(n, CorrelationFilter(properties={n: 1}))) for n in names))

    for _ in range(500):
        index.match(Properties(dict.fromkeys(chooser.sample(names, 100), 1)))

    assert sum(len(name) + len(copies) for name, copies in index._known.items()) < 5 * index.count
