"""Changes of one rule among those of a subscription, and what is derived of all rules."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain.filters import rule_json, rule_set
from bendybus.domain.filters.rule import FalseFilter, Rule, SqlFilter, SqlRuleAction
from bendybus.domain.filters.rule_set import RuleAction, RuleChange, RuleSet
from bendybus.domain.filters.values import Int
from tests.domain.filters.rule_strategies import RULES

pytestmark = pytest.mark.requirement("R622")
NAMES = st.sampled_from(["a", "b", "c", "d", "E"])
CHANGES = st.tuples(st.sampled_from(RuleAction), NAMES, RULES)


def after(known: RuleSet, action: RuleAction, name: str, rule: Rule) -> RuleSet:
    """Return the rules after a change, or as they are where it does not fit."""
    exists = rule_set.find(known, name) is not None
    if exists is (action is RuleAction.CREATE):
        return known
    named = Rule(name, rule.filter, rule.action, rule.created_at_ms)
    return rule_set.changed(known, RuleChange(action, named), "s")


def test_the_stored_form_follows_each_change() -> None:
    known = RuleSet([Rule("a"), Rule("b"), Rule("c")])
    assert [json.loads(each)["name"] for each in known.texts] == ["a", "b", "c"]

    for action, name, names in (
        (RuleAction.CREATE, "d", ["a", "b", "c", "d"]),
        (RuleAction.DELETE, "b", ["a", "c", "d"]),
        (RuleAction.UPDATE, "C", ["a", "c", "d"]),
    ):
        known = rule_set.changed(known, RuleChange(action, Rule(name, FalseFilter())), "s")
        assert [json.loads(each)["name"] for each in known.texts] == names

    assert [json.loads(each)["filter"] for each in known.texts] == [True, False, False]


@given(st.lists(CHANGES, max_size=12), st.booleans())
def test_what_a_changed_set_knows_is_what_a_new_one_finds(
    changes: list[tuple[RuleAction, str, Rule]], stored: bool
) -> None:
    known = RuleSet()
    for change in changes:
        if stored:
            assert len(known.texts) == len(known)
            assert known.digest >= 0
        known = after(known, *change)

    fresh = RuleSet(tuple(known))
    assert known.figures == fresh.figures
    assert known.by_name == fresh.by_name
    assert known.digest == fresh.digest
    assert known.texts == fresh.texts
    assert [rule_json.rule_from_json(json.loads(each)) for each in known.texts] == list(known)


@given(st.lists(CHANGES, min_size=1, max_size=6))
def test_the_difference_is_what_the_change_named(
    changes: list[tuple[RuleAction, str, Rule]],
) -> None:
    known = RuleSet([Rule("a"), Rule("b", FalseFilter()), Rule("c")])
    first = known
    for change in changes:
        before, known = known, after(known, *change)
        gone, come = rule_set.difference(before, known)
        assert len(gone) <= 1
        assert len(come) <= 1
        kept = [each for each in before if all(each is not other for other in gone)]
        assert [each for each in known if all(each is not other for other in come)] == kept

    gone, come = rule_set.difference(first, known)
    stays = {id(each) for each in first} & {id(each) for each in known}
    assert [id(each) for each in gone] == [id(each) for each in first if id(each) not in stays]
    assert [id(each) for each in come] == [id(each) for each in known if id(each) not in stays]


def test_a_set_travels_to_another_process_as_its_rules() -> None:
    known = RuleSet([Rule("a", SqlFilter("x = 1"), SqlRuleAction("SET y = 2"))]).with_rule(
        Rule("b")
    )

    found = pickle.loads(pickle.dumps(known))

    assert type(found) is RuleSet
    assert found == known
    assert found.made_from is None
    assert found.figures == known.figures


@given(st.lists(CHANGES, max_size=6))
def test_an_edit_makes_the_new_rules_of_the_old_ones(
    changes: list[tuple[RuleAction, str, Rule]],
) -> None:
    old = RuleSet([Rule("a"), Rule("b", FalseFilter()), Rule("c")])
    new = old
    for change in changes:
        new = after(new, *change)

    edit = rule_set.edit_between(old, new)

    if edit is not None:
        assert list(map(id, rule_set.edited(old, edit))) == list(map(id, new))
    else:
        # A rule went and came back at the end.
        assert len(changes) > 1


def test_one_change_among_many_is_an_edit_and_many_are_none() -> None:
    old = RuleSet([Rule(f"r{number}") for number in range(1_000)])
    new = rule_set.changed(old, RuleChange(RuleAction.UPDATE, Rule("r7", FalseFilter())), "s")

    edit = rule_set.edit_between(old, new)

    assert edit == rule_set.RulesEdit((), (Rule("r7", FalseFilter()),), ())
    assert rule_set.edit_between(old, RuleSet()) is None
    # Read again, so that no rule is the same object.
    assert rule_set.edit_between(old, RuleSet([Rule(f"r{n}") for n in range(1_000)])) is None


def test_a_digest_tells_rules_apart_by_their_text_and_not_by_their_order() -> None:
    one, two = Rule("a", SqlFilter("x = 1")), Rule("b", SqlFilter("x = :v", {":v": 1}))
    digest = RuleSet([one, two]).digest

    assert RuleSet([two, one]).digest == digest
    assert RuleSet([one]).with_rule(two).digest == digest
    for value in (1.0, True, "1", Int(1)):
        other = Rule("b", SqlFilter("x = :v", {":v": value}))
        assert RuleSet([one, other]).digest != digest
        assert RuleSet([one, two]).replaced(two, other).digest != digest
