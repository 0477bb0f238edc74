"""Rules of subscriptions in the contract."""

import json

import pytest
from hypothesis import given

from bendybus.domain import errors, limits
from bendybus.domain.filters import rule_json
from bendybus.domain.filters.rule import CorrelationFilter, Rule
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.filters.values import Timestamp
from bendybus.internal.v1 import entity_pb2
from bendybus.v1 import management_pb2 as pb
from bendybus.v1 import message_pb2
from bendybus.wire import entities, message_properties
from tests.domain.filters.rule_strategies import RULES


@given(RULES)
def test_a_rule_comes_back(rule: Rule) -> None:
    sent = pb.Rule.FromString(entities.rule_to_proto(rule).SerializeToString())

    found = entities.rule_from_proto(sent)

    # Fields of a map have no order; 1, 1.0 and true are not the same here.
    assert json.dumps(rule_json.rule_to_json(found), sort_keys=True) == json.dumps(
        rule_json.rule_to_json(rule), sort_keys=True
    )


@pytest.mark.parametrize("action", RuleAction)
def test_a_change_comes_back(action: RuleAction) -> None:
    change = RuleChange(action, Rule("a", CorrelationFilter(label="x")))
    sent = entity_pb2.RuleChange.FromString(
        entities.rule_change_to_proto(change).SerializeToString()
    )

    assert entities.rule_change_from_proto(sent) == change


@pytest.mark.requirement("R112")
def test_a_filter_of_a_later_version_is_refused() -> None:
    with pytest.raises(errors.InvalidArgument, match="does not know"):
        entities.rule_from_proto(pb.Rule(name="a"))
    with pytest.raises(errors.InvalidArgument, match="a later version"):
        entities.rule_change_from_proto(entity_pb2.RuleChange())


def test_more_rules_than_a_subscription_can_have_are_refused_unread() -> None:
    too_many = pb.RuleSet(rules=[pb.Rule()] * (limits.RULES_PER_SUBSCRIPTION + 1))

    with pytest.raises(errors.InvalidArgument, match="rules"):
        entities.rules_from_proto(too_many)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("1970-01-01T00:00:00.0050001Z", True),
        ("1970-01-01T01:00:00.005+01:00", True),
        ("1970-01-01T00:00:00.006Z", False),
        ("2020-13-01T00:00:00Z", False),
        ("1970-01-01T00:00:00.005</Value>", False),
        ("9999", False),
    ],
)
def test_a_moment_is_not_shown_as_another_one_than_it_is(written: str, kept: bool) -> None:
    found = message_properties.from_rule_value(
        message_pb2.Value(timestamp_ms_value=5, written=written)
    )

    assert isinstance(found, Timestamp)
    assert (found.ms, found.written) == (5, written if kept else "")
