"""Settings that a manifest leaves out stay as clients set them."""

from dataclasses import replace

import pytest

from bendybus.domain import authorization_rules
from bendybus.domain.entity_settings import QueueDescription, SubscriptionDescription
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import FalseFilter, Rule
from bendybus.operator.decisions import plan
from bendybus.operator.decisions.plan import Step
from tests.operator.manifests import bus, entry, queue, subscription


@pytest.mark.requirement("R139")
def test_rules_that_clients_made_of_a_subscription_stay() -> None:
    view = subscription()
    kept = (Rule("mine", FalseFilter()),)
    description = SubscriptionDescription(rules=rule_set.of(kept))

    as_it_is = plan.decide(view, bus(), entry(view, description=description))
    other = subscription(maxDeliveryCount=3)
    update = plan.decide(other, bus(), entry(view, description=description))

    assert as_it_is.step is Step.NOTHING
    assert update.step is Step.UPDATE
    assert isinstance(update.wanted, SubscriptionDescription)
    assert update.wanted.rules == kept


@pytest.mark.requirement("R578")
def test_authorization_rules_stay_on_what_a_manifest_takes_over() -> None:
    rules = (authorization_rules.rule("app", ["Send"], "a", "b"),)
    view = queue()
    known = entry(view)
    assert isinstance(known.description, QueueDescription)
    with_rules = replace(known, description=replace(known.description, authorization_rules=rules))

    as_it_is = plan.decide(view, bus(), with_rules)
    update = plan.decide(queue(maxDeliveryCount=3), bus(), with_rules)

    assert as_it_is.step is Step.NOTHING
    assert update.step is Step.UPDATE
    assert update.wanted is not None
    assert update.wanted.authorization_rules == rules
    assert view.manifest is not None
    # Nor does the change carry them, since a client may set others meanwhile.
    assert view.manifest.left_out() == ("authorization_rules",)


@pytest.mark.requirement("R260")
@pytest.mark.parametrize("stated", [True, False])
def test_a_manifest_that_begins_or_ends_to_have_the_same_rules_is_an_update(stated: bool) -> None:
    view = subscription(rules=[{"name": "$Default"}] if stated else None)
    as_it_was = entry(view, description=SubscriptionDescription(), manifest_rules=not stated)

    decision = plan.decide(view, bus(), as_it_was)

    assert decision.step is Step.UPDATE
    done = replace(as_it_was, manifest_rules=stated)
    assert plan.decide(view, bus(), done).step is Step.NOTHING
