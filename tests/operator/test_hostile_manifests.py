"""Manifests of one tenant that must neither stop others nor be taken for what they are not."""

import asyncio
import time
from typing import Any

import pytest

from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters.rule import CorrelationFilter
from bendybus.internal.v1 import entity_pb2
from bendybus.operator.decisions import manifests, plan, validation
from bendybus.operator.decisions.plan import Step
from bendybus.operator.decisions.reasons import Reason
from tests.operator.cluster import Cluster, eventually
from tests.operator.manifests import (
    BUS,
    bus,
    bus_body,
    changed,
    entry,
    queue_body,
    subscription,
    subscription_body,
    topic,
)
from tests.operator.test_bus_link import linked
from tests.operator.test_topics import AUDIT, standing


def correlated(**properties: Any) -> dict[str, Any]:
    """Return the spec of a subscription with one rule that compares these properties."""
    return {"rules": [{"name": "r", "correlationFilter": {"properties": properties}}]}


def selecting(count: int, prefix: str) -> dict[str, Any]:
    """Return the spec of a subscription with rules that each have a text of their own."""
    texts = [f"{prefix}{at} > 0{' OR x > 1' * 45}" for at in range(count)]
    return {
        "rules": [
            {"name": f"r{at}", "sqlFilter": {"sqlExpression": text}}
            for at, text in enumerate(texts)
        ]
    }


@pytest.mark.requirement("R139")
@pytest.mark.parametrize(("before", "now"), [(1, True), (0, False), (1, 1.0), (1.0, True)])
def test_a_value_that_becomes_one_of_another_kind_is_an_update(before: Any, now: Any) -> None:
    old, new = (subscription(**correlated(urgent=value)) for value in (before, now))

    decision = plan.decide(new, bus(), entry(old), topic=entry(topic()))

    assert decision.step is Step.UPDATE


@pytest.mark.requirement("R139")
@pytest.mark.parametrize("rules_beside", [0, 300])
def test_a_value_without_room_in_the_contract_is_refused_before_it_is_sent(
    rules_beside: int,
) -> None:
    # Kubernetes keeps larger whole numbers, rounded.
    spec = correlated(n=18_446_744_073_709_552_000)
    spec["rules"] += selecting(rules_beside, "other")["rules"]

    decision = plan.decide(subscription(**spec), bus(), None, topic=entry(topic()))
    refused = validation.check_entity(subscription_body(**spec), None, bus())

    assert (decision.step, decision.reason) == (Step.REFUSE, Reason.INVALID_SPEC)
    assert "rules[0].filter.properties['n']: must fit into 64 bits" in decision.message
    assert refused == [f"spec.{decision.message}"]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (SubscriptionDescription(lock_duration_ms=2**80), "cannot be stored"),
        (
            SubscriptionDescription(max_delivery_count=2**80),
            "maxDeliveryCount: must be at most 2147483647",
        ),
    ],
)
async def test_what_the_contract_cannot_carry_is_an_error_of_its_manifest_alone(
    wanted: SubscriptionDescription, sentence: str
) -> None:
    link, _ = linked()

    with pytest.raises(InvalidArgument, match=sentence):
        await link.commit(
            entity_pb2.ENTITY_ACTION_UPDATE,
            AUDIT,
            kind=subscription().kind,
            wanted=wanted,
        )


@pytest.mark.integration
@pytest.mark.requirement("R139")
async def test_a_manifest_with_such_a_value_does_not_stop_the_others_of_its_bus(
    cluster: Cluster,
) -> None:
    await standing(cluster)

    cluster.apply(subscription_body("hostile", **correlated(n=2**64 + 1)))
    cluster.apply(queue_body("other"))

    await cluster.says("Queue", "other", "Available")
    await cluster.says("Subscription", "hostile", "InvalidSpec")
    assert not cluster.operators[0].manager._failures


@pytest.mark.integration
@pytest.mark.requirement("R139")
async def test_values_keep_their_kinds_on_the_way_to_the_bus(cluster: Cluster) -> None:
    await standing(cluster)
    wanted = {"whole": 1, "real": 1.0, "yes": True, "text": "1"}

    cluster.apply(changed(cluster.api.one("Subscription", "audit"), **correlated(**wanted)))
    await eventually(
        lambda: cluster.api.one("Subscription", "audit")["status"]["observedGeneration"] == 2
    )

    # Otherwise the manifest would be applied again and again.
    assert cluster.ready("Subscription", "audit")["reason"] == "Available"
    described = (await cluster.catalogue(BUS, 1))[AUDIT].description
    assert isinstance(described, SubscriptionDescription)
    found = described.rules[0].filter
    assert isinstance(found, CorrelationFilter)
    kept = {name: type(value) for name, value in found.properties.items()}
    assert kept == {name: type(value) for name, value in wanted.items()}


@pytest.mark.requirement("R139")
def test_a_webhook_does_not_compile_more_rules_than_it_has_time_for_in_an_update() -> None:
    old, new = (subscription_body(**selecting(2_000, prefix)) for prefix in ("old", "new"))

    began = time.process_time()
    found = validation.check_entity(new, old, bus())

    assert found == []
    # Compiling them takes seconds, of the one processor that the operator has.
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    "rule",
    [
        {
            "name": "r",
            "sqlFilter": {"sqlExpression": "a=1", "parameters": {"p": {"x": "y" * 9_999}}},
        },
        {
            "name": "r",
            "sqlFilter": {
                "sqlExpression": "a=1",
                "parameters": dict.fromkeys(map(str, range(9_999)), 1),
            },
        },
    ],
)
def test_the_reason_why_a_manifest_is_invalid_fits_a_status(rule: dict[str, Any]) -> None:
    view = subscription(rules=[rule])

    assert 0 < len(view.problems) <= manifests.PROBLEMS_MAX
    assert max(map(len, view.problems)) <= manifests.PROBLEM_CHARS_MAX + 1


@pytest.mark.integration
@pytest.mark.requirement("R131")
async def test_manifests_that_forward_may_come_before_their_destinations(cluster: Cluster) -> None:
    cluster.operator()
    cluster.apply(bus_body())
    cluster.apply(queue_body("first", forwardTo="second"))
    cluster.apply(queue_body("second", forwardDeadLetteredMessagesTo="Third"))
    await cluster.says("Queue", "first", "Refused")
    await cluster.says("Queue", "second", "Refused")

    cluster.apply(queue_body("third"))

    # Much sooner than what is refused is tried again.
    async with asyncio.timeout(20):
        await cluster.says("Queue", "second", "Available")
        await cluster.says("Queue", "first", "Available")
