"""Topics and subscriptions by manifest: made, changed, waiting, deleted, adopted."""

import asyncio

import grpc
import pytest

from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.filters.rule import Rule
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.internal.v1 import entity_pb2
from bendybus.operator.kubernetes.api import ApiError
from bendybus.wire import entities
from tests.operator.cluster import WITHIN_S, Cluster, eventually
from tests.operator.manifests import (
    BUS,
    bus_body,
    changed,
    queue_body,
    subscription_body,
    topic_body,
)
from tests.operator.test_controller_manager import holds

pytestmark = pytest.mark.integration
AUDIT = "sales/Subscriptions/audit"
ADOPT = {"bendybus.io/retained-data": "adopt"}


async def standing(cluster: Cluster) -> None:
    """Have an operator, a bus, a topic and its subscription that are Ready."""
    cluster.operator()
    cluster.apply(bus_body())
    cluster.apply(topic_body())
    cluster.apply(subscription_body())
    await cluster.says("Topic", "sales", "Available")
    await cluster.says("Subscription", "audit", "Available")


@pytest.mark.requirement("R130")
async def test_a_topic_and_its_subscription_become_ready_on_every_partition(
    cluster: Cluster,
) -> None:
    await standing(cluster)

    of_topic = cluster.api.one("Topic", "sales")["status"]
    of_subscription = cluster.api.one("Subscription", "audit")["status"]
    assert (of_topic["partitions"], of_topic["entityUid"]) == (2, "sales-1")
    assert of_topic["maxSizeInMegabytesTotal"] == 2_048
    assert (of_subscription["partitions"], of_subscription["entityUid"]) == (2, "audit-1")
    assert "maxSizeInMegabytesTotal" not in of_subscription
    assert of_subscription["countDetails"]["activeMessageCount"] == 0
    for index in (0, 1):
        found = await cluster.catalogue(BUS, index)
        assert found["sales"].kind is EntityKind.TOPIC
        assert found[AUDIT].manifest_uid == "audit-1"
    await eventually(
        lambda: cluster.api.one("Topic", "sales")["status"].get("subscriptionCount") == 1
    )
    of_bus = await eventually(
        lambda: (s := cluster.api.one("BusNamespace", "orders")["status"]).get("topics") and s
    )
    assert (of_bus["queues"], of_bus["subscriptions"]) == (0, 1)


@pytest.mark.requirement("R131")
async def test_a_subscription_waits_for_its_topic_and_follows_when_it_comes(
    cluster: Cluster,
) -> None:
    cluster.operator()
    cluster.apply(bus_body())
    cluster.apply(subscription_body())
    await cluster.says("Subscription", "audit", "TopicNotFound")
    assert "no topic 'sales'" in cluster.ready("Subscription", "audit")["message"]

    cluster.apply(topic_body())

    await cluster.says("Subscription", "audit", "Available")


async def test_a_subscription_of_what_is_a_queue_is_refused_with_the_reason(
    cluster: Cluster,
) -> None:
    cluster.operator()
    cluster.apply(bus_body())
    cluster.apply(queue_body("sales"))
    await cluster.says("Queue", "sales", "Available")

    cluster.apply(subscription_body())

    await cluster.says("Subscription", "audit", "TopicNotFound")
    assert "'sales' is a queue" in cluster.ready("Subscription", "audit")["message"]


async def test_a_queue_and_a_topic_may_share_the_name_of_their_objects_only(
    cluster: Cluster,
) -> None:
    await standing(cluster)

    cluster.apply(queue_body("sales", uid="queue-1"))
    await cluster.says("Queue", "sales", "NameTaken")
    cluster.apply(queue_body("audit", uid="queue-2"))

    await cluster.says("Queue", "audit", "Available")
    assert cluster.ready("Topic", "sales")["reason"] == "Available"


@pytest.mark.requirement("R130")
async def test_a_changed_field_of_a_subscription_reaches_every_partition(cluster: Cluster) -> None:
    await standing(cluster)
    before = (await cluster.catalogue(BUS, 1))["sales"].generation

    cluster.apply(changed(cluster.api.one("Subscription", "audit"), maxDeliveryCount=3))
    await eventually(
        lambda: cluster.api.one("Subscription", "audit")["status"]["observedGeneration"] == 2
    )

    for index in (0, 1):
        found = await cluster.catalogue(BUS, index)
        assert found[AUDIT].description.max_delivery_count == 3
        assert found["sales"].generation > max(before, found[AUDIT].generation)


async def test_a_partition_that_was_away_gets_the_changes_of_a_topic_when_it_returns(
    cluster: Cluster,
) -> None:
    await standing(cluster)
    await cluster.stop(BUS, 1)
    await cluster.says("Topic", "sales", "PartitionUnavailable")

    cluster.apply(subscription_body("billing"))
    await cluster.says("Subscription", "billing", "PartitionUnavailable")
    cluster.start(BUS, 1)

    await cluster.says("Subscription", "billing", "Available")
    found = await cluster.catalogue(BUS, 1)
    assert found["sales"].generation > found["sales/Subscriptions/billing"].generation


@pytest.mark.requirement("R131", "R132")
async def test_a_topic_deleted_with_its_data_takes_its_subscriptions_and_they_wait_for_the_next(
    cluster: Cluster,
) -> None:
    await standing(cluster)
    cluster.apply(changed(cluster.api.one("Topic", "sales"), deletionPolicy="Delete"))
    await eventually(lambda: cluster.api.one("Topic", "sales")["status"]["observedGeneration"] == 2)

    cluster.api.remove("Topic", "shop", "sales")

    await cluster.says("Subscription", "audit", "TopicNotFound")
    for index in (0, 1):
        await holds(cluster, index, "sales", deleted=True)
        await holds(cluster, index, AUDIT, deleted=True)

    cluster.apply(topic_body(uid="sales-2"))

    await cluster.says("Subscription", "audit", "Available")
    for index in (0, 1):
        await holds(cluster, index, AUDIT, deleted=False, manifest_uid="audit-1")


@pytest.mark.requirement("R132")
async def test_a_topic_whose_manifest_went_is_orphaned_and_says_so_until_it_is_adopted(
    cluster: Cluster,
) -> None:
    await standing(cluster)

    cluster.api.remove("Topic", "shop", "sales")
    await cluster.says("Subscription", "audit", "TopicOrphaned")
    await holds(cluster, 0, "sales", orphaned=True)
    await holds(cluster, 0, AUDIT, orphaned=False, deleted=False)
    cluster.apply(subscription_body("billing"))
    await cluster.says("Subscription", "billing", "TopicOrphaned")

    cluster.apply(topic_body(uid="sales-2", annotations=ADOPT))

    await cluster.says("Subscription", "audit", "Available")
    await cluster.says("Subscription", "billing", "Available")
    for index in (0, 1):
        await holds(cluster, index, "sales", orphaned=False, manifest_uid="sales-2")


async def test_a_subscription_whose_manifest_went_is_adopted_by_the_next(cluster: Cluster) -> None:
    await standing(cluster)
    cluster.api.remove("Subscription", "shop", "audit")
    await holds(cluster, 1, AUDIT, orphaned=True)

    cluster.apply(subscription_body(uid="audit-2"))
    await cluster.says("Subscription", "audit", "RetainedData")
    cluster.annotate("Subscription", "audit", retained_data="adopt")

    status = await cluster.says("Subscription", "audit", "Available")
    assert status["entityUid"] == "audit-1"


async def test_an_orphaned_topic_is_not_continued_by_a_queue(cluster: Cluster) -> None:
    await standing(cluster)
    cluster.api.remove("Topic", "shop", "sales")
    await holds(cluster, 0, "sales", orphaned=True)

    cluster.apply(queue_body("sales", uid="queue-1", annotations=ADOPT))
    await cluster.says("Queue", "sales", "RetainedData")
    assert "cannot continue" in cluster.ready("Queue", "sales")["message"]
    cluster.annotate("Queue", "sales", retained_data="purge")

    # The subscription has a manifest: what it holds is not purged with what has none.
    await cluster.says("Queue", "sales", "Refused")
    assert "its subscription" in cluster.ready("Queue", "sales")["message"]
    await holds(cluster, 0, AUDIT, orphaned=False, deleted=False)
    cluster.api.remove("Subscription", "shop", "audit")
    await holds(cluster, 0, AUDIT, orphaned=True)
    cluster.annotate("Queue", "sales", again="yes")
    await cluster.says("Queue", "sales", "Available")
    cluster.apply(subscription_body(uid="audit-2"))
    await cluster.says("Subscription", "audit", "TopicNotFound")


async def test_a_deletion_that_was_not_seen_orphans_topic_and_subscription(
    cluster: Cluster,
) -> None:
    await standing(cluster)
    await cluster.operators[0].stop()
    cluster.api.remove("Topic", "shop", "sales")
    cluster.api.remove("Subscription", "shop", "audit")

    cluster.operator()

    await holds(cluster, 0, "sales", orphaned=True)
    await holds(cluster, 0, AUDIT, orphaned=True)


@pytest.mark.requirement("R133")
async def test_where_the_kinds_are_not_installed_queues_are_served_and_no_topic_is_orphaned(
    cluster: Cluster,
) -> None:
    await standing(cluster)
    await cluster.operators[0].stop()
    for kind in ("Topic", "Subscription"):
        cluster.api.refusals["list", kind] = ApiError(404, "the server could not find it")

    cluster.operator()
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")

    # Orphans are searched for before a queue is made Ready.
    await holds(cluster, 0, "sales", orphaned=False, deleted=False)
    await holds(cluster, 0, AUDIT, orphaned=False, deleted=False)


@pytest.mark.requirement("R132")
async def test_a_subscription_that_an_administration_call_deleted_is_not_made_again(
    cluster: Cluster,
) -> None:
    await standing(cluster)

    await cluster.commit(
        BUS,
        entity_pb2.ENTITY_ACTION_DELETE,
        AUDIT,
        kind=entity_pb2.ENTITY_KIND_SUBSCRIPTION,
        origin=2,
    )

    await cluster.says("Subscription", "audit", "Refused")
    assert "administration call" in cluster.ready("Subscription", "audit")["message"]


@pytest.mark.requirement("R262")
async def test_a_manifest_whose_name_changes_is_refused_by_its_field(cluster: Cluster) -> None:
    await standing(cluster)

    cluster.apply(changed(cluster.api.one("Subscription", "audit"), entityName="other"))

    await cluster.says("Subscription", "audit", "FieldImmutable")
    told = cluster.ready("Subscription", "audit")["message"]
    assert told.startswith("spec.entityName cannot be changed after creation")
    cluster.apply(changed(cluster.api.one("Subscription", "audit"), entityName="audit"))
    await cluster.says("Subscription", "audit", "Available")


@pytest.mark.requirement("R139")
async def test_the_rules_of_a_subscription_follow_its_manifest(cluster: Cluster) -> None:
    await standing(cluster)
    large = {"name": "large", "sqlFilter": {"sqlExpression": "user.amount > 100"}}
    paid = {"name": "paid", "correlationFilter": {"label": "paid", "properties": {"n": 1}}}

    cluster.apply(changed(cluster.api.one("Subscription", "audit"), rules=[large, paid]))
    await holds_rules(cluster, "large", "paid")
    cluster.apply(changed(cluster.api.one("Subscription", "audit"), rules=[paid]))
    await holds_rules(cluster, "paid")
    cluster.apply(changed(cluster.api.one("Subscription", "audit"), rules=[]))
    await holds_rules(cluster)
    # Without the field they stay as they are.
    cluster.apply(
        changed(cluster.api.one("Subscription", "audit"), rules=None, lockDuration="PT9S")
    )
    await eventually(
        lambda: cluster.api.one("Subscription", "audit")["status"]["observedGeneration"] == 5
    )
    of_each = [(await cluster.catalogue(BUS, index))[AUDIT] for index in (0, 1)]
    assert of_each[0].description.lock_duration_ms == 9_000
    assert of_each[0] == of_each[1]
    await holds_rules(cluster)


@pytest.mark.requirement("R260")
async def test_clients_change_the_rules_that_a_manifest_omits_and_the_operator_keeps_them(
    cluster: Cluster,
) -> None:
    await standing(cluster)
    added = entities.rule_change_to_proto(RuleChange(RuleAction.CREATE, Rule("large")))

    async def add() -> None:
        await cluster.commit(
            BUS,
            entity_pb2.ENTITY_ACTION_UPDATE,
            AUDIT,
            kind=entity_pb2.ENTITY_KIND_SUBSCRIPTION,
            origin=1,
            rule_change=added,
        )

    await add()
    cluster.apply(changed(cluster.api.one("Subscription", "audit"), lockDuration="PT9S"))
    await eventually(
        lambda: cluster.api.one("Subscription", "audit")["status"]["observedGeneration"] == 2
    )

    await holds_rules(cluster, "$Default", "large")
    assert (await cluster.catalogue(BUS, 0))[AUDIT].description.lock_duration_ms == 9_000

    # The manifest takes them over.
    cluster.apply(changed(cluster.api.one("Subscription", "audit"), rules=[{"name": "$Default"}]))
    await holds_rules(cluster, "$Default")
    with pytest.raises(grpc.aio.AioRpcError, match="its rules are in a manifest"):
        await add()


@pytest.mark.requirement("R139")
async def test_a_rule_that_the_bus_refuses_is_named_in_the_status(cluster: Cluster) -> None:
    await standing(cluster)
    wrong = {"name": "wrong", "sqlFilter": {"sqlExpression": "amount >"}}

    cluster.apply(changed(cluster.api.one("Subscription", "audit"), rules=[wrong]))

    await cluster.says("Subscription", "audit", "InvalidSpec")
    assert "filter.sqlExpression" in cluster.ready("Subscription", "audit")["message"]
    await holds_rules(cluster, "$Default")


async def holds_rules(cluster: Cluster, *names: str) -> None:
    """Wait until every partition has these rules of the subscription, and no other."""
    deadline = asyncio.get_running_loop().time() + WITHIN_S
    for index in (0, 1):
        while True:
            described = (await cluster.catalogue(BUS, index))[AUDIT].description
            assert isinstance(described, SubscriptionDescription)
            if [each.name for each in described.rules] == [*names]:
                break
            assert asyncio.get_running_loop().time() < deadline, f"{index}: {described}"
            await asyncio.sleep(0.02)
