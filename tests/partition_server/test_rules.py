"""Rules in the catalogue: part of their subscription's entry, changed one at a time or together."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.limits import Tier
from bendybus.partition_server.state.commands import ApplyEntity
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.topic_changes import (
    UPDATE,
    known,
    make_news,
    subscription,
    topic,
)

RED = Rule("red", SqlFilter("color = @c", {"c": "red"}), SqlRuleAction("SET a = 1"))
A = "news/subscriptions/a"


@pytest.fixture
def news(driver: Driver) -> Driver:
    """Return a partition with the topic `news` and its subscriptions `a` and `b`."""
    return make_news(driver)


def change(driver: Driver, action: RuleAction, rule: Rule, **options: Any) -> Any:
    """Change a rule of the subscription `a`; return the entry or raise what refuses it."""
    return subscription(driver, action=UPDATE, rule_change=RuleChange(action, rule), **options)


def rules_of(driver: Driver, key: str = A) -> tuple[Rule, ...]:
    """Return the rules that a partition knows of a subscription."""
    described = known(driver, key).description
    assert isinstance(described, SubscriptionDescription)
    return described.rules


@pytest.mark.requirement("R110")
def test_a_subscription_begins_with_the_default_rule(news: Driver) -> None:
    assert rules_of(news) == (Rule("$Default", TrueFilter()),)
    assert rules_of(news)[0].created_at_ms == news.wall_ms


@pytest.mark.requirement("R110")
@pytest.mark.parametrize("rules", [(), (RED,), (RED, Rule("none", FalseFilter()))])
def test_a_subscription_is_created_with_other_rules(
    driver: Driver, rules: tuple[Rule, ...]
) -> None:
    topic(driver)
    subscription(driver, changes={"rules": rules})

    driver.restart()

    assert rules_of(driver) == rules


@pytest.mark.requirement("R110")
def test_rules_survive_a_restart(news: Driver) -> None:
    change(news, RuleAction.CREATE, RED)
    change(news, RuleAction.UPDATE, Rule("$default", CorrelationFilter(label="x")))
    before = rules_of(news)

    news.restart()

    assert rules_of(news) == before == (Rule("$Default", CorrelationFilter(label="x")), RED)


@pytest.mark.requirement("R113")
@pytest.mark.parametrize("action", RuleAction)
def test_every_change_of_a_rule_raises_the_generation_of_the_topic(
    news: Driver, action: RuleAction
) -> None:
    before = known(news, "news").generation
    rule = RED if action is RuleAction.CREATE else Rule("$Default")

    entry = change(news, action, rule)

    assert before < entry.generation < known(news, "news").generation


@pytest.mark.requirement("R113")
def test_a_copy_takes_rules_over_with_their_subscription(
    news: Driver, make_store: MakeStore
) -> None:
    change(news, RuleAction.CREATE, RED)
    copy = Driver(make_store(fingerprint(1)))
    entries = news.partition.state.catalogue.all()

    copy.run(ApplyEntity("t", entries))
    copy.restart()

    assert rules_of(copy) == rules_of(news)


@pytest.mark.requirement("R111")
@pytest.mark.parametrize(
    ("rule", "error", "sentence"),
    [
        (Rule("red", SqlFilter("a = = 1")), errors.InvalidArgument, "line 1, column 5"),
        (Rule("red", CorrelationFilter()), errors.InvalidArgument, "at least one property"),
        (Rule("a b"), errors.InvalidArgument, "ruleName"),
        (
            Rule("red", action=SqlRuleAction("SET sys.SessionId = '1'")),
            errors.InvalidOperation,
            "decides the partition",
        ),
    ],
)
def test_a_wrong_rule_changes_nothing(
    news: Driver, rule: Rule, error: type[errors.BusError], sentence: str
) -> None:
    before = known(news, A)

    with pytest.raises(error, match=sentence):
        change(news, RuleAction.CREATE, rule)
    with pytest.raises(error, match=sentence):
        subscription(news, action=UPDATE, changes={"rules": (rule,)})
    with pytest.raises(error, match=sentence):
        subscription(news, "news/Subscriptions/c", changes={"rules": (rule,)})

    assert known(news, A) == before


@pytest.mark.requirement("R111")
def test_an_action_may_set_keys_in_a_plain_topic(make_store: MakeStore) -> None:
    driver = Driver(make_store(fingerprint(tier=Tier.STANDARD, count=16)))
    topic(driver)
    subscription(driver)
    keyed = Rule("keyed", action=SqlRuleAction("SET sys.SessionId = '1'"))

    change(driver, RuleAction.CREATE, keyed)

    assert keyed in rules_of(driver)


@pytest.mark.requirement("R111")
def test_a_topic_has_a_bounded_number_of_sql_filters(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SQL_FILTERS_PER_TOPIC", 2)
    change(news, RuleAction.CREATE, RED)
    sql = replace(RED, name="other")
    subscription(news, "news/Subscriptions/b", UPDATE, changes={"rules": (sql,)})

    with pytest.raises(errors.QuotaExceeded, match="2 SQL filters, of at most 2"):
        change(news, RuleAction.CREATE, replace(RED, name="third"))
    change(news, RuleAction.DELETE, RED)
    change(news, RuleAction.CREATE, replace(RED, name="third"))


@pytest.mark.requirement("R111")
def test_a_topic_has_a_bounded_number_of_rules_with_an_action(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each makes a copy of a message with a head of its own."""
    monkeypatch.setattr(limits, "ACTIONS_PER_TOPIC", 2)
    tag = Rule("tag", action=SqlRuleAction("SET tag = 1"))
    change(news, RuleAction.CREATE, tag)
    more = (replace(tag, filter=SqlFilter("n = 1")), Rule("plain"))
    subscription(news, "news/Subscriptions/b", UPDATE, changes={"rules": more})
    news.restart()

    with pytest.raises(errors.QuotaExceeded, match="2 rules with an action, of at most 2"):
        change(news, RuleAction.CREATE, replace(tag, name="third"))
    change(news, RuleAction.CREATE, Rule("without"))
    change(news, RuleAction.UPDATE, Rule("tag"))
    change(news, RuleAction.CREATE, replace(tag, name="third"))


@pytest.mark.requirement("R111")
def test_a_namespace_has_a_bounded_number_of_rules(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RULES_PER_NAMESPACE", 3)
    change(news, RuleAction.CREATE, Rule("more"))

    with pytest.raises(errors.QuotaExceeded, match="namespace has 3 rules, of at most 3"):
        change(news, RuleAction.CREATE, Rule("more2"))
    news.restart()
    with pytest.raises(errors.QuotaExceeded, match="namespace has 3 rules, of at most 3"):
        subscription(news, "news/Subscriptions/c")


def test_the_rules_of_a_namespace_have_a_bounded_size(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Front ends and the operator get the whole catalogue in one answer."""
    large = Rule("large", SqlFilter("a = 1".ljust(1_000)))
    monkeypatch.setattr(limits, "RULE_CHARS_PER_NAMESPACE", 1_500)
    change(news, RuleAction.CREATE, large)

    with pytest.raises(errors.QuotaExceeded, match=r"characters, of at most 1500"):
        change(news, RuleAction.CREATE, replace(large, name="large2"))
    news.restart()
    with pytest.raises(errors.QuotaExceeded, match=r"characters, of at most 1500"):
        change(news, RuleAction.CREATE, replace(large, name="large2"))
    change(news, RuleAction.DELETE, large)
    change(news, RuleAction.CREATE, replace(large, name="large2"))


def test_a_queue_has_no_rules(driver: Driver) -> None:
    driver.create("news")

    with pytest.raises(errors.InvalidArgument, match="queue 'news' has no rules"):
        commit(driver, UPDATE, "news", rule_change=RuleChange(RuleAction.CREATE, RED))
