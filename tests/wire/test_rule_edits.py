"""Edits of rules between processes: what few rules of many became, instead of all of them."""

from dataclasses import replace

import pytest
from hypothesis import given

from bendybus.domain.entity import Entity, Fingerprint, Origin, rules_of
from bendybus.domain.entity_settings import QueueDescription, SubscriptionDescription
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import CorrelationFilter, FalseFilter, Rule, SqlFilter
from bendybus.domain.filters.rule_set import RuleAction, RuleChange, RuleSet
from bendybus.domain.filters.values import Int
from bendybus.domain.limits import Tier
from bendybus.internal.v1 import entity_pb2
from bendybus.wire import catalogue, contract_versions, entities
from tests.domain.filters import rule_strategies

pytestmark = pytest.mark.requirement("R623")
HEADER = entities.fingerprint_to_proto(Fingerprint("test", "ns-1", Tier.PREMIUM, 4, 0))
RULES = RuleSet([Rule(f"r{number}", SqlFilter(f"x = {number}")) for number in range(1_000)])


def subscription(rules: RuleSet, generation: int, uid: str = "u") -> Entity:
    described = SubscriptionDescription(rules=rules)
    return Entity("t/Subscriptions/s", uid, generation, Origin.CLIENT, described, 4, 0, 1, 2)


BEFORE = subscription(RULES, 5)
CHANGES = [
    RuleChange(RuleAction.CREATE, Rule("new", SqlFilter("y = 1"))),
    RuleChange(RuleAction.UPDATE, Rule("r7", FalseFilter())),
    RuleChange(RuleAction.DELETE, Rule("r8")),
]


Response = entity_pb2.WatchEntitiesResponse


def told(change: RuleChange) -> tuple[Entity, Response]:
    """Return the subscription after a change, and the response that a watcher gets."""
    after = subscription(rule_set.changed(RULES, change, "s"), 7)
    edit = rule_set.edit_between(RULES, rules_of(after))
    assert edit is not None
    [response] = catalogue.watch_responses(HEADER, [after], snapshot=False, edits={after.key: edit})
    return after, Response.FromString(response.SerializeToString())


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.action)
def test_an_edit_makes_the_entry_that_the_partition_has(change: RuleChange) -> None:
    after, response = told(change)

    [found] = catalogue.entries_of(response, {BEFORE.key: BEFORE}.get)

    assert found == after
    assert response.ByteSize() < 1_000
    gone, come = rule_set.difference(RULES, rules_of(found))
    assert len(gone) + len(come) <= 2


@given(rule_strategies.RULES)
def test_rules_that_travelled_have_the_digest_of_those_that_were_sent(rule: Rule) -> None:
    sent = entities.rule_to_proto(rule)

    found = entities.rule_from_proto(type(sent).FromString(sent.SerializeToString()))

    assert RuleSet([found]).digest == RuleSet([rule]).digest


def test_values_in_another_order_are_the_same_rule() -> None:
    # Maps of protobuf arrive in any order.
    names = [":a", ":b", ":c"]
    one, other = ({name: Int(1) for name in order} for order in (names, names[::-1]))
    rules = [
        [Rule("x", SqlFilter("y = :a", values)), Rule("z", CorrelationFilter(properties=values))]
        for values in (one, other)
    ]

    assert RuleSet(rules[0]).digest == RuleSet(rules[1]).digest


def test_one_that_has_the_entry_from_elsewhere_notes_that_the_partition_has_it_too() -> None:
    after, response = told(CHANGES[0])
    later = replace(after, generation=9)

    for known in (after, later):
        [found] = catalogue.entries_of(response, {BEFORE.key: known}.get)
        assert found == replace(known, generation=after.generation)


@pytest.mark.parametrize(
    "known",
    [
        None,
        replace(BEFORE, uid="another"),
        subscription(RuleSet(RULES[:5]), 5),
        subscription(RULES.replaced(RULES[9], Rule("r9", SqlFilter("x = 1.0"))), 5),
        replace(BEFORE, name="q", description=QueueDescription()),
    ],
    ids=["none", "another", "few rules", "another rule", "a queue"],
)
def test_an_edit_of_what_the_reader_does_not_have_is_refused(known: Entity | None) -> None:
    _, response = told(CHANGES[1])

    with pytest.raises(catalogue.EditOfUnknown):
        catalogue.entries_of(response, lambda key: known)


def test_an_edit_of_something_without_rules_is_refused() -> None:
    queue = Entity("q", "u", 7, Origin.CLIENT, QueueDescription(), 4, 0, 1, 2)
    [response] = catalogue.watch_responses(HEADER, (), snapshot=False)
    response.rules_edited.add(entity=entities.entity_to_proto(queue))

    with pytest.raises(catalogue.EditOfUnknown):
        catalogue.entries_of(response, lambda key: queue)


def test_only_front_ends_and_partitions_get_edits() -> None:
    requests = [
        catalogue.watch_request(contract, 0)
        for contract in (
            contract_versions.FRONT_END,
            contract_versions.PARTITION,
            contract_versions.OPERATOR,
        )
    ]

    reads = [catalogue.reads_edits(request) for request in requests]

    assert reads == [True, True, False]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.action)
def test_the_answer_to_a_rule_change_has_that_rule_alone(change: RuleChange) -> None:
    after, _ = told(change)

    found = catalogue.committed(catalogue.commit_response(after, change))

    wanted = [] if change.action is RuleAction.DELETE else [change.rule]
    assert (found.generation, list(rules_of(found))) == (after.generation, wanted)
    assert catalogue.committed(catalogue.commit_response(after)) == after


def test_an_edit_of_two_changes_fits_one_who_knows_the_first() -> None:
    first, second = CHANGES[0], CHANGES[1]
    between = rule_set.changed(RULES, first, "s")
    after = subscription(rule_set.changed(between, second, "s"), 9)
    edit = rule_set.edit_between(RULES, rules_of(after))
    assert edit is not None
    [response] = catalogue.watch_responses(HEADER, [after], snapshot=False, edits={after.key: edit})

    [found] = catalogue.entries_of(response, {after.key: subscription(between, 7)}.get)

    assert found == after


def test_rules_in_another_order_are_no_edit() -> None:
    gone = rule_set.changed(RULES, RuleChange(RuleAction.DELETE, Rule("r8")), "s")
    back = rule_set.changed(gone, RuleChange(RuleAction.CREATE, Rule("r8")), "s")

    assert rule_set.edit_between(RULES, back) is None
    assert rule_set.edit_between(gone, back) == rule_set.RulesEdit((), (), (Rule("r8"),))
