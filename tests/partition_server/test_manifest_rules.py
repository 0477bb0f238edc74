"""Who changes the rules of a subscription that has a manifest: the manifest, if it has rules."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Origin
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule, SqlFilter
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.lifecycle import EntityAction
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver
from tests.partition_server.test_rules import rules_of
from tests.partition_server.topic_changes import UPDATE, known, subscription, topic

A = "news/subscriptions/a"
RED = Rule("red", SqlFilter("color = 'red'"))
BLUE = Rule("blue", SqlFilter("color = 'blue'"))
DEFAULT = "$Default"


def made(driver: Driver, **changes: Any) -> Driver:
    """Make the subscription `a` from a manifest."""
    topic(driver)
    subscription(driver, origin=Origin.MANIFEST, manifest_uid="m", changes=changes)
    return driver


def applied(driver: Driver, action: EntityAction = UPDATE, **changes: Any) -> Any:
    """Change the subscription `a` as its manifest."""
    return subscription(
        driver, action=action, origin=Origin.MANIFEST, manifest_uid="m", changes=changes
    )


def by_client(driver: Driver, action: RuleAction, rule: Rule) -> Any:
    """Change a rule as a client."""
    return subscription(driver, action=UPDATE, rule_change=RuleChange(action, rule))


def names(driver: Driver) -> list[str]:
    """Return the names of the rules of `a`."""
    return [each.name for each in rules_of(driver, A)]


@pytest.mark.requirement("R260")
def test_rules_that_the_manifest_omits_are_the_clients_to_change(driver: Driver) -> None:
    made(driver, max_delivery_count=3)

    by_client(driver, RuleAction.CREATE, RED)
    by_client(driver, RuleAction.DELETE, Rule(DEFAULT))
    by_client(driver, RuleAction.UPDATE, Rule("red", BLUE.filter))
    applied(driver, max_delivery_count=4)

    assert [(each.name, each.filter) for each in rules_of(driver, A)] == [("red", BLUE.filter)]
    assert not known(driver, A).manifest_rules
    # What else it has is the manifest's.
    with pytest.raises(errors.ManagedByManifest, match="edit the manifest and apply it, or Config"):
        subscription(driver, action=UPDATE, changes={"rules": (BLUE,)})


@pytest.mark.requirement("R260")
@pytest.mark.parametrize("rules", [(RED,), ()])
def test_rules_that_the_manifest_has_are_changed_only_there(
    driver: Driver, rules: tuple[Rule, ...]
) -> None:
    made(driver, rules=rules)

    for action, rule in (
        (RuleAction.CREATE, BLUE),
        (RuleAction.UPDATE, Rule("red", BLUE.filter)),
        (RuleAction.DELETE, RED),
    ):
        with pytest.raises(errors.ManagedByManifest, match=r"remove spec\.rules") as raised:
            by_client(driver, action, rule)
        assert raised.value.metadata["field"] == "rules"

    assert rule_set.stamped(rules, (), 0) == rules_of(driver, A)


@pytest.mark.requirement("R260")
def test_a_later_manifest_decides_who_changes_the_rules_and_omitting_them_keeps_them(
    make_store: MakeStore,
) -> None:
    driver = made(Driver(make_store()), rules=(RED,))
    before = known(driver, "news").generation

    applied(driver, max_delivery_count=10)
    assert known(driver, "news").generation > before
    assert names(driver) == ["red"]
    by_client(driver, RuleAction.CREATE, BLUE)
    driver.restart()
    assert names(driver) == ["red", "blue"]
    by_client(driver, RuleAction.DELETE, RED)

    applied(driver, rules=(RED,))
    assert names(driver) == ["red"]
    driver.restart()
    with pytest.raises(errors.ManagedByManifest):
        by_client(driver, RuleAction.CREATE, BLUE)


@pytest.mark.requirement("R260")
def test_a_manifest_that_is_applied_again_changes_nothing(driver: Driver) -> None:
    made(driver, rules=(RED,))
    before = known(driver, A)

    assert applied(driver, rules=(RED,)) == before
    with_none = applied(driver, max_delivery_count=10)
    by_client(driver, RuleAction.CREATE, BLUE)
    with_blue = known(driver, A)

    assert with_none.generation > before.generation
    assert applied(driver, max_delivery_count=10) == with_blue


@pytest.mark.requirement("R260")
@pytest.mark.parametrize("stated", [True, False])
def test_who_changes_the_rules_of_what_was_adopted_is_the_new_manifests_decision(
    driver: Driver, stated: bool
) -> None:
    made(driver, rules=(RED,))
    applied(driver, EntityAction.ORPHAN)
    with pytest.raises(errors.BusError):
        by_client(driver, RuleAction.CREATE, BLUE)

    changes: dict[str, Any] = {"rules": (RED,)} if stated else {}
    subscription(
        driver,
        action=EntityAction.ADOPT,
        origin=Origin.MANIFEST,
        manifest_uid="other",
        changes=changes,
    )

    assert names(driver) == ["red"]
    assert known(driver, A).manifest_rules is stated
    if not stated:
        by_client(driver, RuleAction.CREATE, BLUE)
        assert names(driver) == ["red", "blue"]


@pytest.mark.requirement("R260")
def test_a_client_says_nothing_about_who_changes_the_rules_of_its_own_subscription(
    driver: Driver,
) -> None:
    topic(driver)
    subscription(driver, changes={"rules": (RED,)})

    by_client(driver, RuleAction.CREATE, BLUE)

    assert names(driver) == ["red", "blue"]
    assert not known(driver, A).manifest_rules
