"""The rules of one subscription together, and how they are stored."""

import json

import pytest
from hypothesis import given

from bendybus.domain import errors, limits
from bendybus.domain.filters import rule_json, rule_set
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Rule,
    SqlFilter,
    SqlRuleAction,
)
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.filters.values import Duration, Int
from tests.domain.filters.rule_strategies import RULES

RED = Rule("red", SqlFilter("color = 'red'"))


@given(RULES)
def test_a_stored_rule_comes_back(rule: Rule) -> None:
    stored = json.dumps(rule_json.rule_to_json(rule))

    found = rule_json.rule_from_json(json.loads(stored))

    assert repr(found) == repr(rule)


@pytest.mark.requirement("R110")
def test_a_rule_is_created_updated_and_deleted_by_its_name_in_any_case() -> None:
    one = rule_set.changed(rule_set.DEFAULT, RuleChange(RuleAction.CREATE, RED), "s")
    two = rule_set.changed(one, RuleChange(RuleAction.UPDATE, Rule("RED", FalseFilter())), "s")
    three = rule_set.changed(two, RuleChange(RuleAction.DELETE, Rule("$DEFAULT")), "s")

    assert one == (*rule_set.DEFAULT, RED)
    assert two == (*rule_set.DEFAULT, Rule("red", FalseFilter()))
    assert three == (Rule("red", FalseFilter()),)


@pytest.mark.requirement("R110")
@pytest.mark.parametrize(
    ("action", "name", "error", "sentence"),
    [
        (RuleAction.CREATE, "$default", errors.EntityAlreadyExists, "already exists"),
        (RuleAction.UPDATE, "blue", errors.EntityNotFound, "rule 'blue' of subscription 's' does"),
        (RuleAction.DELETE, "blue", errors.EntityNotFound, "rule 'blue' of subscription 's' does"),
    ],
)
def test_a_change_of_a_rule_that_does_not_fit_is_refused(
    action: RuleAction, name: str, error: type[errors.BusError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        rule_set.changed(rule_set.DEFAULT, RuleChange(action, Rule(name)), "s")


@pytest.mark.requirement("R111")
def test_names_of_rules_are_unique_without_regard_to_case() -> None:
    with pytest.raises(errors.InvalidArgument, match="two with the name 'RED'"):
        rule_set.check([RED, Rule("RED")], (), partitioned=False)


@pytest.mark.requirement("R111")
def test_a_subscription_has_a_bounded_number_of_rules() -> None:
    most = limits.RULES_PER_SUBSCRIPTION
    rules = [Rule(f"r{i}", FalseFilter()) for i in range(most + 1)]

    rule_set.check(rules[:most], (), partitioned=False)
    with pytest.raises(errors.QuotaExceeded, match=f"at most {most} rules"):
        rule_set.check(rules, (), partitioned=False)


@pytest.mark.requirement("R111")
def test_the_rules_of_a_subscription_have_a_bounded_size() -> None:
    text = "x" * limits.RULE_VALUE_LENGTH_MAX
    large = CorrelationFilter(properties={f"p{i}": text for i in range(limits.RULE_VALUES_MAX)})
    count = limits.RULE_CHARS_PER_SUBSCRIPTION // rule_set.size(Rule("r00", large))

    rule_set.check_bounds([Rule(f"r{i:02}", large) for i in range(count)])
    with pytest.raises(errors.QuotaExceeded, match="characters together"):
        rule_set.check_bounds([Rule(f"r{i:02}", large) for i in range(count + 1)])


@pytest.mark.requirement("R111")
def test_every_new_or_changed_rule_is_compiled() -> None:
    known = (RED,)
    bad = Rule("red", SqlFilter("color ="))

    rule_set.check((RED, Rule("blue")), known, partitioned=True)
    with pytest.raises(errors.InvalidArgument, match=r"line 1, column 8"):
        rule_set.check((bad,), known, partitioned=True)
    keyed = Rule("keyed", action=SqlRuleAction("SET sys.PartitionKey = 'a'"))
    with pytest.raises(errors.InvalidOperation, match="PartitionKey"):
        rule_set.check((RED, keyed), known, partitioned=True)


def test_a_rule_keeps_the_time_of_its_creation() -> None:
    old = rule_set.stamped([RED], (), 5)

    new = rule_set.stamped([Rule("Red", FalseFilter()), Rule("blue")], old, 9)

    assert [each.created_at_ms for each in new] == [5, 9]


@pytest.mark.requirement("R564")
def test_a_number_of_32_bits_is_stored_as_one_that_earlier_programs_read() -> None:
    given = Rule("r", CorrelationFilter(properties={"a": Int(5), "b": 5}))

    stored = json.loads(json.dumps(rule_json.rule_to_json(given)))

    found = rule_json.rule_from_json(stored).filter
    assert isinstance(found, CorrelationFilter)
    assert [type(each) for each in found.properties.values()] == [Int, int]
    assert stored["filter"]["values"] == {"a": 5, "b": 5}


@pytest.mark.requirement("R576")
def test_a_duration_is_stored_as_a_null_for_earlier_programs() -> None:
    given = Rule("r", SqlFilter("a = @p", {"@p": Duration(5), "@q": 5}))

    stored = json.loads(json.dumps(rule_json.rule_to_json(given)))

    assert rule_json.rule_from_json(stored).filter == given.filter
    assert stored["filter"]["values"] == {"@p": None, "@q": 5}
