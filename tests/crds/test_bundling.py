"""Manifests of one bus fit together, or the error says why not."""

from typing import Any

import pytest

from bendybus.crds import bundling, loading
from bendybus.crds.bundle import NamespaceSettings
from bendybus.crds.errors import ManifestError
from bendybus.crds.loading import Loaded
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.errors import BusError, PartitioningImmutable
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from bendybus.domain.limits import Tier


def _manifest(kind: str, name: str, **spec: Any) -> Loaded:
    document = {
        "apiVersion": "bendybus.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    result = loading.parse(f"{name}.yaml", document)
    assert isinstance(result, Loaded), result
    return result


def test_queues_alone_get_a_standard_namespace_called_default() -> None:
    bundle = bundling.bundle([_manifest("Queue", "orders")])

    assert bundle.implicit
    assert bundle.namespace == NamespaceSettings("default", Tier.STANDARD, 16)


def test_queues_alone_join_the_bus_that_runs() -> None:
    running = NamespaceSettings("big", Tier.PREMIUM, 4)

    bundle = bundling.bundle(
        [_manifest("Queue", "orders", namespaceRef={"name": "big"})], running=running
    )

    assert bundle.namespace == running


@pytest.mark.requirement("R05", "R06")
@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 16),
        ({"sku": {"tier": "Basic"}}, 16),
        ({"sku": {"tier": "Premium"}}, 1),
        ({"sku": {"tier": "Premium"}, "premiumMessagingPartitions": 8}, 8),
    ],
)
def test_the_tier_decides_how_many_partitions_there_are(spec: dict[str, Any], count: int) -> None:
    bundle = bundling.bundle([_manifest("BusNamespace", "bus", **spec)])

    assert bundle.namespace.partition_count == count


def test_two_namespaces_in_one_run_are_refused() -> None:
    with pytest.raises(ManifestError, match="is a second BusNamespace beside 'one'"):
        bundling.bundle([_manifest("BusNamespace", "one"), _manifest("BusNamespace", "two")])


def test_a_queue_of_another_namespace_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"spec.namespaceRef.name: 'other' is not the bus"):
        bundling.bundle(
            [
                _manifest("BusNamespace", "default"),
                _manifest("Queue", "orders", namespaceRef={"name": "other"}),
            ]
        )


def test_a_name_may_be_taken_once_whatever_its_case() -> None:
    with pytest.raises(ManifestError, match=r"is already the name of the queue in orders.yaml"):
        bundling.bundle(
            [_manifest("Queue", "orders"), _manifest("Queue", "other", entityName="ORDERS")]
        )


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"forwardTo": "audit", "requiresSession": True},
            "spec.forwardTo: a queue that requires sessions cannot forward its messages",
        ),
        ({"lockDuration": "PT1S"}, "spec.lockDuration: must be PT5S to PT5M (got PT1S)"),
        ({"lockDuration": "P10675199DT2H48M5.4775807S"}, "spec.lockDuration: "),
        ({"maxSizeInMegabytes": 1000}, "spec.maxSizeInMegabytes: must be one of"),
        ({"autoDeleteOnIdle": "PT1M"}, "spec.autoDeleteOnIdle: must be at least PT5M"),
        ({"forwardTo": "a b"}, "spec.forwardTo: 'a b' must be segments of letters"),
        ({"entityName": "no/.."}, "spec.entityName: 'no/..' must be segments of letters"),
        ({"forwardTo": " "}, "spec.forwardTo: ' ' must be segments of letters"),
        (
            {"forwardDeadLetteredMessagesTo": "sb://x/q"},
            "spec.forwardDeadLetteredMessagesTo: 'sb://x/q' must be segments of letters",
        ),
    ],
)
def test_the_rules_of_the_domain_are_told_with_the_manifests_field(
    spec: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        bundling.bundle([_manifest("Queue", "orders", **spec)])

    assert f"orders.yaml, Queue 'orders': {sentence}" in str(caught.value)


def test_more_partitioned_entities_than_a_standard_namespace_may_have_are_refused() -> None:
    queues = [_manifest("Queue", f"q{n}", enablePartitioning=True) for n in range(101)]

    with pytest.raises(ManifestError, match="101 partitioned entities are more than the 100"):
        bundling.bundle(queues)


@pytest.mark.requirement("R07")
def test_a_running_bus_never_changes_its_partitioning() -> None:
    wanted = bundling.bundle([_manifest("BusNamespace", "bus", sku={"tier": "Premium"})])

    with pytest.raises(PartitioningImmutable, match=r"sku.tier is Standard since the namespace"):
        bundling.check_against(NamespaceSettings("bus"), wanted)


@pytest.mark.requirement("R07")
def test_a_running_premium_bus_never_changes_the_number_of_its_partitions() -> None:
    manifest = _manifest(
        "BusNamespace", "bus", sku={"tier": "Premium"}, premiumMessagingPartitions=4
    )
    running = NamespaceSettings("bus", Tier.PREMIUM, 2)

    with pytest.raises(PartitioningImmutable, match="premiumMessagingPartitions is 2 since"):
        bundling.check_against(running, bundling.bundle([manifest]))


def test_manifests_of_another_bus_are_refused() -> None:
    wanted = bundling.bundle([_manifest("BusNamespace", "bus")])

    with pytest.raises(BusError, match="the bus that answers is 'other'"):
        bundling.check_against(NamespaceSettings("other"), wanted)


@pytest.mark.requirement("R139")
def test_a_rule_of_every_kind_becomes_the_rule_of_the_domain() -> None:
    sql = {"sqlExpression": "user.a = @b", "parameters": {"b": 1.5}}
    rules = [
        {"name": "$Default"},
        {"name": "none", "booleanFilter": False},
        {"name": "sql", "sqlFilter": sql, "action": {"sqlExpression": "SET c = 1"}},
        {"name": "all", "correlationFilter": {"label": "x", "properties": {"a": True, "b": "y"}}},
    ]
    topic = _manifest("Topic", "t")

    bundle = bundling.bundle([_manifest("Subscription", "s", topicName="t", rules=rules), topic])

    assert [wish.name for wish in bundle.entities] == ["t", "t/Subscriptions/s"]
    described = bundle.entities[1].description
    assert isinstance(described, SubscriptionDescription)
    assert described.rules == (
        Rule("$Default", TrueFilter()),
        Rule("none", FalseFilter()),
        Rule("sql", SqlFilter("user.a = @b", {"b": 1.5}), SqlRuleAction("SET c = 1")),
        Rule("all", CorrelationFilter(label="x", properties={"a": True, "b": "y"})),
    )


@pytest.mark.requirement("R148")
def test_destinations_come_before_what_forwards_to_them() -> None:
    made = bundling.bundle(
        [
            _manifest("Queue", "a", forwardTo="NEWS"),
            _manifest("Queue", "b", forwardDeadLetteredMessagesTo="c"),
            _manifest("Queue", "c", forwardTo="a"),
            _manifest("Queue", "x", forwardDeadLetteredMessagesTo="y"),
            _manifest("Queue", "y", forwardTo="x"),
            _manifest("Topic", "news"),
        ]
    )

    assert [wish.name for wish in made.entities] == ["news", "a", "c", "b", "y", "x"]


@pytest.mark.requirement("R148")
def test_chains_of_destinations_may_be_long() -> None:
    chain = [_manifest("Queue", f"q{at}", forwardTo=f"q{at + 1}") for at in range(3_000)]

    bundle = bundling.bundle([*chain, _manifest("Queue", "q3000")])

    assert [each.name for each in bundle.entities] == [f"q{at}" for at in range(3_000, -1, -1)]


def test_destinations_in_a_circle_have_an_order() -> None:
    circle = [
        _manifest("Queue", name, forwardDeadLetteredMessagesTo=to)
        for name, to in (("a", "b"), ("b", "c"), ("c", "a"))
    ]

    assert [each.name for each in bundling.bundle(circle).entities] == ["c", "b", "a"]
