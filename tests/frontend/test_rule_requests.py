"""Requests about rules over AMQP."""

import asyncio
from typing import Any

import pytest

from bendybus.amqp import decoding, encoding
from bendybus.amqp.values import Described, Int
from bendybus.domain import limits
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.filters.rule import CorrelationFilter, Rule, SqlFilter, SqlRuleAction
from bendybus.domain.filters.rule_set import RuleSet
from bendybus.domain.limits import Tier
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota.bounds import RULES_A_TURN
from bendybus.frontend.listeners.amqp import rule_requests
from bendybus.frontend.listeners.amqp.fields import Fields
from bendybus.frontend.settings import Settings

PATH = "news/Subscriptions/all"


def front_end_with(rules: int) -> FrontEnd:
    """Return a front end that knows a subscription with so many rules."""
    described = SubscriptionDescription(
        rules=RuleSet(Rule(f"r{each:04}", CorrelationFilter(label="a")) for each in range(rules))
    )
    front_end = FrontEnd(Settings(partitions={}))
    fingerprint = Fingerprint("test", "uid", Tier.STANDARD, 4, 0)
    entry = Entity(PATH, "s", 1, Origin.CLIENT, described, 4, 2, 0, 0)
    front_end.catalogue(0, fingerprint, [entry], snapshot=True)
    return front_end


def names(reply: dict[str, object] | None) -> list[str]:
    """Return the names of the rules in a reply, as a client reads them."""
    body, _ = decoding.decode(encoding.encode(reply))
    found: list[Described] = [each["rule-description"] for each in body["rules"]]
    return [each.value[2] for each in found]


async def test_all_rules_are_listed_at_once_where_a_client_asks_for_all() -> None:
    """As the SDK for Java does, which asks once. Meanwhile others have turns."""
    front_end = front_end_with(limits.RULES_PER_SUBSCRIPTION)
    asked = Fields({"skip": Int(0), "top": Int(2**31 - 1)})
    listing = asyncio.ensure_future(rule_requests.listed(front_end, PATH, asked))
    turns = 0
    while not listing.done():
        turns += 1
        await asyncio.sleep(0)

    assert names(listing.result()) == [f"r{each:04}" for each in range(2_000)]
    assert turns >= 2_000 / RULES_A_TURN


async def test_a_page_of_rules_is_what_is_asked_for() -> None:
    front_end = front_end_with(25)
    pages = [
        await rule_requests.listed(front_end, PATH, Fields({"skip": Int(skip), "top": Int(10)}))
        for skip in (0, 20, 25)
    ]

    assert [None if page is None else names(page) for page in pages] == [
        [f"r{each:04}" for each in range(10)],
        [f"r{each:04}" for each in range(20, 25)],
        None,
    ]


@pytest.mark.requirement("R565")
@pytest.mark.parametrize(
    ("given", "action"),
    [
        ({}, None),
        ({"sql-rule-action": None}, None),
        ({"sql-rule-action": {}}, None),
        ({"sql-rule-action": {"expression": ""}}, None),
        ({"sql-rule-action": {"expression": None}}, None),
        ({"sql-rule-action": {"expression": "SET a = 1"}}, SqlRuleAction("SET a = 1")),
    ],
)
def test_an_empty_action_is_none(given: dict[str, Any], action: SqlRuleAction | None) -> None:
    described = {"sql-filter": {"expression": "1 = 1"}, **given}

    found = rule_requests.rule_of(Fields({"rule-name": "r", "rule-description": described}))

    assert found == Rule("r", SqlFilter("1 = 1"), action)
