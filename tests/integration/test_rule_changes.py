"""Changes of one rule on a bus: processes tell each other the change, and not all rules."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.client.management import (
    CorrelationRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleFilter,
)
from bendybus.domain.entity import rules_of
from bendybus.internal.v1 import entity_pb2
from bendybus.wire import catalogue
from bendybus.wire.contract_versions import FRONT_END, OPERATOR
from tests.integration.processes import Bus, eventually
from tests.integration.test_catalogue_pull import agree, catalogue_of, stub_of

pytestmark = [pytest.mark.requirement("R623"), pytest.mark.integration]
NAME = "sales/Subscriptions/all"


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Bus]:
    """Return a bus of two partitions with a topic that has a subscription."""
    bus = Bus(tmp_path, partitions=2)
    try:
        with bus.administration() as client:
            client.create_topic("sales")
            client.create_subscription("sales", "all")
            for number in range(20):
                add(client, number)
        yield bus
    finally:
        bus.end()


def add(client: ServiceBusAdministrationClient, number: int) -> Any:
    """Add a rule and return it."""
    return client.create_rule(
        "sales", "all", f"r{number}", filter=SqlRuleFilter(f"size = {number}")
    )


def changes_of(watch: Any) -> entity_pb2.WatchEntitiesResponse:
    """Return the next response of a watch that has entries."""
    return next(each for each in watch if each.entities or each.rules_edited)


@pytest.mark.parametrize("partition", [0, 1])
def test_a_watcher_of_this_version_gets_the_change_alone(bus: Bus, partition: int) -> None:
    stub = stub_of(bus, partition)
    watch = stub.WatchEntities(catalogue.watch_request(FRONT_END, partition), timeout=30)
    operator = stub.WatchEntities(catalogue.watch_request(OPERATOR, partition), timeout=30)
    for each in (watch, operator):
        assert changes_of(each).snapshot

    with bus.administration() as client:
        made = add(client, 20)

    assert made.name == "r20"
    assert made.filter.sql_expression == "size = 20"
    told, all_rules = changes_of(watch), changes_of(operator)
    [edited] = told.rules_edited
    assert [rule.name for rule in edited.added] == ["r20"]
    assert not edited.entity.subscription.rules.rules
    assert [each.name for each in told.entities] == ["sales"]
    whole = {each.name: each for each in all_rules.entities}
    assert len(whole[NAME].subscription.rules.rules) == 22


def test_rules_that_change_are_the_same_everywhere(bus: Bus) -> None:
    with bus.administration() as client:
        add(client, 20)
        client.delete_rule("sales", "all", "r3")
        changed = client.get_rule("sales", "all", "R5")
        changed.filter = CorrelationRuleFilter(label="five")
        client.update_rule("sales", "all", changed)

        listed = [rule.name for rule in client.list_rules("sales", "all")]
        five = client.get_rule("sales", "all", "r5").filter

    eventually(lambda: agree(bus), within_s=10, what="all partitions have the rules")
    known, _ = catalogue_of(bus, 1)
    names = [rule.name for rule in rules_of(known[NAME])]
    assert names == ["$Default", *(f"r{each}" for each in range(21) if each != 3)]
    assert sorted(listed) == sorted(names)
    assert isinstance(five, CorrelationRuleFilter)
    assert five.label == "five"


def test_a_partition_that_was_away_has_all_rules_when_it_is_back(bus: Bus) -> None:
    bus.partitions[1].kill()
    with bus.administration() as client:
        for number in range(20, 23):
            with pytest.raises(Exception, match="change is recorded"):
                add(client, number)

    bus.start_partition(1)

    eventually(lambda: agree(bus), within_s=20, what="the partition has what it missed")
    assert len(rules_of(catalogue_of(bus, 1)[0][NAME])) == 24
