"""The guard against deletion: asks the partitions, and counts whatever state a message is in."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import kopf
import pytest

from bendybus.operator.bus import answers
from bendybus.operator.controllers import webhooks as webhooks_module
from bendybus.operator.controllers.webhooks import (
    ASK_EVERY_S,
    ASKS_AT_ONCE,
    ObjectRates,
    Webhooks,
)
from bendybus.operator.decisions.manifests import EntityView
from bendybus.operator.metrics import Metrics
from bendybus.wire import catalogue
from bendybus.wire.contract_versions import OPERATOR
from tests.operator.cluster import Cluster, Loopback, eventually
from tests.operator.manifests import (
    BUS,
    bus_body,
    changed,
    entry,
    queue_body,
    subscription,
    subscription_body,
    topic,
    topic_body,
)
from tests.operator.talker import counted, fingerprint, talking

pytestmark = pytest.mark.integration
Body = dict[str, Any]


@contextlib.asynccontextmanager
async def asked(
    cluster: Cluster, answer: Callable[[str], bytes], bus: Body
) -> AsyncIterator[Webhooks]:
    """Have the webhooks of a bus whose two partitions answer so."""
    cluster.held_back = {0, 1}
    cluster.api.objects["BusNamespace", "shop", "orders"] = bus
    addresses = [cluster.address(BUS, index) for index in (0, 1)]
    async with talking(answer, addresses[0]), talking(lambda _: b"", addresses[1]):
        yield Webhooks(cluster.api, Metrics(), Loopback(cluster))


DELETE: Body = {"deletionPolicy": "Delete"}


async def delete(cluster: Cluster, review: Any, body: Body) -> None:
    """Have the deletion of a manifest reviewed, which the API server has."""
    metadata = body["metadata"]
    cluster.api.objects[body["kind"], metadata["namespace"], metadata["name"]] = body
    await review("DELETE", body)


@pytest.mark.parametrize("state", answers.STATES)
async def test_a_message_in_any_state_keeps_its_queue_and_its_bus(
    cluster: Cluster, state: str
) -> None:
    bus = bus_body(**DELETE)

    async with asked(cluster, lambda _: counted(**{state: 1}), bus) as webhooks:
        with pytest.raises(kopf.AdmissionError, match=r"holds 1 message"):
            await delete(cluster, webhooks.entity, queue_body(**DELETE))
        with pytest.raises(kopf.AdmissionError, match=r"holds 1 message"):
            await delete(cluster, webhooks.bus, bus)


async def test_what_is_empty_may_go_and_so_may_a_queue_beside_a_full_one(cluster: Cluster) -> None:
    async with asked(cluster, lambda _: counted(), bus_body(**DELETE)) as webhooks:
        await delete(cluster, webhooks.entity, queue_body(**DELETE))
        await delete(cluster, webhooks.bus, bus_body(**DELETE))

    async with asked(cluster, lambda _: counted(active=1), bus_body(**DELETE)) as webhooks:
        await delete(cluster, webhooks.entity, queue_body("other", **DELETE))


async def test_an_adopted_queue_is_known_by_the_uid_of_its_data_and_by_its_own(
    cluster: Cluster,
) -> None:
    """Its status may not say yet what was adopted, or say what was there before."""
    adopted = queue_body(uid="paid-2", **DELETE) | {"status": {"entityUid": "paid-1"}}
    stale = queue_body(uid="paid-1", **DELETE) | {"status": {"entityUid": "paid-0"}}

    async with asked(cluster, lambda _: counted(deferred=1), bus_body()) as webhooks:
        for body in (adopted, stale):
            with pytest.raises(kopf.AdmissionError, match=r"holds 1 message"):
                await delete(cluster, webhooks.entity, body)


async def test_a_bus_whose_manifest_cannot_be_read_is_asked_all_the_same(
    cluster: Cluster,
) -> None:
    """Its partitions run on, and the operator would delete the queue from them."""
    unreadable = bus_body(nonsense=1) | {"status": {"partitions": 2}}

    async with asked(cluster, lambda _: counted(active=1), unreadable) as webhooks:
        with pytest.raises(kopf.AdmissionError, match=r"holds 1 message"):
            await delete(cluster, webhooks.entity, queue_body(**DELETE))


async def test_a_partition_that_cannot_be_understood_cannot_say(cluster: Cluster) -> None:
    async with asked(cluster, lambda _: b"\xff\xff", bus_body()) as webhooks:
        with pytest.raises(kopf.AdmissionError, match=r"partition\(s\) 0 cannot say"):
            await delete(cluster, webhooks.entity, queue_body(**DELETE))


@pytest.mark.requirement("R381")
@pytest.mark.parametrize("there", ["nothing", "another", "kept"])
async def test_only_what_the_api_server_has_is_asked_for(cluster: Cluster, there: str) -> None:
    """Whoever reaches the webhook may claim anything, and read how many messages others have."""
    told: list[str] = []
    body = queue_body(uid="paid-1", **DELETE)
    if there == "another":
        cluster.api.objects["Queue", "shop", "paid"] = queue_body(uid="paid-2", **DELETE)
    elif there == "kept":
        cluster.api.objects["Queue", "shop", "paid"] = queue_body(uid="paid-1")

    def answer(method: str) -> bytes:
        told.append(method)
        return counted(active=1)

    async with asked(cluster, answer, bus_body(**DELETE)) as webhooks:
        await webhooks.entity("DELETE", body)

    assert told == []


@pytest.mark.requirement("R381")
async def test_a_bounded_number_of_deletions_asks_partitions(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks_module, "ASKING_MAX", 1)
    body = queue_body(**DELETE)
    async with asked(cluster, lambda _: counted(active=1), bus_body()) as webhooks:
        outcomes = await asyncio.gather(
            *(delete(cluster, webhooks.entity, body) for _ in range(3)), return_exceptions=True
        )

    assert sorted(str(each).split()[-1] for each in outcomes).count("again.") == 2
    assert "holds 1 message" in " ".join(map(str, outcomes))


@pytest.mark.requirement("R389")
@pytest.mark.parametrize("there", ["nothing", "another"])
async def test_a_change_is_compared_with_what_the_api_server_has(
    cluster: Cluster, there: str
) -> None:
    """What a review says of the object as it was may be made up, and so may the object."""
    if there == "another":
        cluster.api.objects["Queue", "shop", "paid"] = queue_body(uid="paid-2")
    wrong = changed(queue_body(), requiresSession=True, lockDuration="PT1S")

    async with asked(cluster, lambda _: b"", bus_body()) as webhooks:
        assert await webhooks.entity("UPDATE", wrong) == []
        cluster.api.objects["Queue", "shop", "paid"] = queue_body()
        with pytest.raises(kopf.AdmissionError, match="requiresSession cannot be changed"):
            await webhooks.entity("UPDATE", changed(queue_body(), requiresSession=True))


@pytest.mark.requirement("R389")
async def test_a_change_of_a_bus_is_compared_with_what_the_api_server_has(cluster: Cluster) -> None:
    smaller = changed(bus_body(), premiumMessagingPartitions=1)

    async with asked(cluster, lambda _: b"", bus_body()) as webhooks:
        with pytest.raises(kopf.AdmissionError, match="premiumMessagingPartitions"):
            await webhooks.bus("UPDATE", smaller)
        del cluster.api.objects["BusNamespace", "shop", "orders"]
        assert await webhooks.bus("UPDATE", smaller) == []


@pytest.mark.requirement("R395")
async def test_deletions_of_one_namespace_leave_places_for_those_of_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bus whose partitions do not answer holds each of its places as long as it may."""
    monkeypatch.setattr(webhooks_module, "ASKING_MAX", 3)
    monkeypatch.setattr(webhooks_module, "ASKING_PER_NAMESPACE", 2)
    answered = asyncio.Event()
    asking: list[str] = []

    async def check(_: str, body: Body) -> None:
        asking.append(body["metadata"]["name"])
        await answered.wait()

    async with asked(cluster, lambda _: b"", bus_body()) as webhooks:
        monkeypatch.setattr(webhooks, "_check_held", check)
        cluster.api.put({"kind": "Namespace", "metadata": {"name": "quiet", "namespace": ""}})
        hers = [queue_body(f"q{number}", **DELETE) for number in range(4)]
        his = queue_body("his", namespace="quiet", **DELETE)
        reviews = [
            asyncio.create_task(delete(cluster, webhooks.entity, body)) for body in (*hers, his)
        ]
        await eventually(lambda: "his" in asking)
        answered.set()
        outcomes = await asyncio.gather(*reviews, return_exceptions=True)
        await delete(cluster, webhooks.entity, hers[3])

    assert asking == ["q0", "q1", "his", "q3"]
    assert [each is None for each in outcomes] == [True, True, False, False, True]
    assert all("try again" in str(each) for each in outcomes if each is not None)


@pytest.mark.requirement("R389")
async def test_a_bounded_number_of_changes_is_reviewed_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks_module, "REVIEWS_MAX", 2)

    async with asked(cluster, lambda _: b"", bus_body()) as webhooks:
        outcomes = await asyncio.gather(
            *(webhooks.entity("CREATE", queue_body()) for _ in range(5)), return_exceptions=True
        )
        assert await webhooks.entity("CREATE", queue_body()) == []

    assert sum("try again" in str(each) for each in outcomes) == 3


@pytest.mark.requirement("R389")
async def test_partitions_are_not_asked_often_for_one_object(cluster: Cluster) -> None:
    told: list[str] = []

    def answer(method: str) -> bytes:
        told.append(method)
        return counted(active=1)

    async with asked(cluster, answer, bus_body()) as webhooks:
        for _ in range(ASKS_AT_ONCE):
            with pytest.raises(kopf.AdmissionError, match="holds 1 message"):
                await delete(cluster, webhooks.entity, queue_body(**DELETE))
        with pytest.raises(kopf.AdmissionError, match="5 times just now; try again"):
            await delete(cluster, webhooks.entity, queue_body(**DELETE))
        await delete(cluster, webhooks.entity, queue_body("other", **DELETE))

    assert len(told) == ASKS_AT_ONCE + 1


@pytest.mark.requirement("R389")
def test_what_was_asked_often_may_be_asked_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates = ObjectRates()
    assert [rates.take("a", 0.0) for _ in range(7)] == [True] * ASKS_AT_ONCE + [False] * 2
    assert rates.take("b", 0.0)
    assert [rates.take("a", ASK_EVERY_S), rates.take("a", ASK_EVERY_S)] == [True, False]

    monkeypatch.setattr(webhooks_module, "OBJECTS_REMEMBERED", 2)
    for name in "cdefg":
        rates.take(name, 10.0)
    assert len(rates._left) <= 3


@pytest.mark.requirement("R381")
async def test_rules_are_compiled_for_one_review_at_a_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks_module, "COMPILE_WAIT_S", 0.01)
    wrong = subscription_body(rules=[{"name": "r", **sql("(((")}])
    async with asked(cluster, lambda _: b"", bus_body(sku={"tier": "Standard"})) as webhooks:
        async with webhooks._compiling:
            # Left to the bus, whose answer the status shows.
            await webhooks.entity("CREATE", wrong)
        with pytest.raises(kopf.AdmissionError):
            await webhooks.entity("CREATE", wrong)


def sql(text: str) -> Body:
    """Return the filter of a rule."""
    return {"sqlFilter": {"sqlExpression": text}}


def family(*subscriptions: EntityView) -> bytes:
    """Return a catalogue with the topic `sales` and these subscriptions."""
    header = fingerprint()
    entries = [entry(topic()), *(entry(each) for each in subscriptions)]
    [response] = catalogue.watch_responses(header, entries, snapshot=True, contract=OPERATOR)
    return response.SerializeToString()


@pytest.mark.requirement("R135")
@pytest.mark.parametrize("of", ["sales", "other"])
async def test_a_message_in_a_subscription_keeps_its_topic(cluster: Cluster, of: str) -> None:
    """A topic is deleted with its subscriptions, whoever made them."""
    held = family(subscription("paid", topicName=of))

    def answer(method: str) -> bytes:
        return held if method == "WatchEntities" else counted(active=1)

    async with asked(cluster, answer, bus_body()) as webhooks:
        if of == "other":
            await delete(cluster, webhooks.entity, topic_body(**DELETE))
            return
        with pytest.raises(kopf.AdmissionError, match=r"Topic 'sales' holds 1 message"):
            await delete(cluster, webhooks.entity, topic_body(**DELETE))
        with pytest.raises(kopf.AdmissionError, match=r"holds 1 message"):
            await delete(cluster, webhooks.entity, subscription_body("paid", **DELETE))


@pytest.mark.requirement("R135")
async def test_a_topic_whose_subscriptions_are_not_known_cannot_be_deleted_with_its_data(
    cluster: Cluster,
) -> None:
    async with asked(cluster, lambda _: b"\xff\xff", bus_body()) as webhooks:
        with pytest.raises(kopf.AdmissionError, match=r"partition\(s\) 0 cannot say"):
            await delete(cluster, webhooks.entity, topic_body(**DELETE))


@pytest.mark.requirement("R135", "R139")
@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            topic_body(),
            changed(topic_body(), enablePartitioning=True),
            "topic 'sales': enablePartitioning cannot be changed after creation (is false, got "
            "true). Create another topic with that setting.",
        ),
        (
            topic_body(),
            changed(topic_body(), requiresDuplicateDetection=True),
            "requiresDuplicateDetection cannot be changed",
        ),
        (
            subscription_body(),
            changed(subscription_body(), topicName="other"),
            "spec.topicName cannot be changed after creation (is 'sales', got 'other'). Create "
            "another Subscription.",
        ),
        (
            subscription_body(),
            changed(subscription_body(), entityName="b"),
            "spec.entityName cannot be changed",
        ),
        (None, subscription_body("x" * 51), "entityName: must be at most 50 characters (got 51)"),
        (None, subscription_body(topicName="a//b"), "spec.topicName: 'a//b' must be segments"),
        (None, subscription_body(topicName=""), "spec.topicName"),
        (None, subscription_body(lockDuration="PT1S"), "spec.lockDuration: must be PT5S"),
        (None, topic_body(status="ReceiveDisabled"), "spec.status"),
        (
            None,
            subscription_body(
                rules=[{"name": "a"}, {"name": "b", "sqlFilter": {"sqlExpression": "x ="}}]
            ),
            "spec.rules[1].filter.sqlExpression: ",
        ),
        (
            None,
            subscription_body(
                rules=[{"name": "a", "booleanFilter": True, "sqlFilter": {"sqlExpression": "1=1"}}]
            ),
            "spec.rules.0: has more than one of sqlFilter",
        ),
        (None, subscription_body(rules=[{"name": "a"}, {"name": "A"}]), "two with the name 'A'"),
        (None, subscription_body(rules=[{"name": "a b"}]), "name: 'a b' must have only letters"),
        (None, topic_body(lockDuration="PT1M"), "is not a known field"),
    ],
)
async def test_what_a_topic_or_a_subscription_cannot_be_is_refused_with_the_same_sentences(
    cluster: Cluster, old: Body | None, new: Body, sentence: str
) -> None:
    operation = "CREATE" if old is None else "UPDATE"

    async with asked(cluster, lambda _: b"", bus_body(sku={"tier": "Standard"})) as webhooks:
        if old is not None:
            cluster.api.objects[old["kind"], "shop", old["metadata"]["name"]] = old
        with pytest.raises(kopf.AdmissionError) as caught:
            await webhooks.entity(operation, new)

    assert sentence in str(caught.value)


@pytest.mark.requirement("R200")
async def test_a_new_queue_of_a_basic_bus_detects_no_duplicates(cluster: Cluster) -> None:
    body = queue_body(requiresDuplicateDetection=True)

    async with asked(cluster, lambda _: b"", bus_body(sku={"tier": "Basic"})) as webhooks:
        with pytest.raises(kopf.AdmissionError, match="needs a namespace of tier Standard"):
            await webhooks.entity("CREATE", body)
        cluster.api.objects["Queue", "shop", "paid"] = body
        await webhooks.entity("UPDATE", changed(body, maxDeliveryCount=3))


@pytest.mark.requirement("R135", "R200")
async def test_a_basic_bus_has_no_topics(cluster: Cluster) -> None:
    async with asked(cluster, lambda _: b"", bus_body(sku={"tier": "Basic"})) as webhooks:
        for body in (topic_body(), subscription_body()):
            with pytest.raises(kopf.AdmissionError, match="need a namespace of tier Standard"):
                await webhooks.entity("CREATE", body)
