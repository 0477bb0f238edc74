"""Topics and subscriptions by manifest on a real cluster: made, refused, waiting, deleted."""

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster import ROOT, eventually
from tests.e2e.conftest import Installation, Space, fresh_space
from tests.e2e.test_bad_input import refused
from tests.operator import bad_manifests

Body = dict[str, Any]
SECRET = "bus-rootmanagesharedaccesskey"


def topic(space: Space, name: str, bus: str = "bus", **spec: Any) -> Body:
    """Return the manifest of a topic."""
    return space.manifest("Topic", name, namespaceRef={"name": bus}, **spec)


def subscription(space: Space, name: str, of: str, bus: str = "bus", **spec: Any) -> Body:
    """Return the manifest of a subscription."""
    reference = {"namespaceRef": {"name": bus}, "topicName": of}
    return space.manifest("Subscription", name, **reference, **spec)


@pytest.fixture(scope="module")
def shared(installation: Installation) -> Iterator[Space]:
    """A bus of two partitions with the topic `sales`, for tests that leave it as it is."""
    with fresh_space(installation, "topics") as space:
        space.start(
            space.bus("bus", 2),
            topic(space, "sales"),
            subscription(space, "audit", "sales"),
        )
        yield space


@pytest.mark.core
def test_the_example_of_topics_becomes_ready_and_kubectl_shows_it(space: Space) -> None:
    file = str(ROOT / "examples" / "kubernetes" / "topics.yaml")
    space.cluster.kubectl("apply", "-n", space.name, "-f", file)

    for kind, name in (("Topic", "sales"), ("Subscription", "audit"), ("Subscription", "large")):
        space.cluster.await_ready(kind, name, space.name, within_s=120)

    table = space.cluster.kubectl("get", "bt,bsub", "-n", space.name)
    lines = [line.split() for line in table.splitlines() if line.strip()]
    assert lines[0][:6] == ["NAME", "BUS", "PARTITIONS", "READY", "REASON", "SUBSCRIPTIONS"]
    assert lines[1][:5] == ["topic.bendybus.io/sales", "shop", "2", "True", "Available"]
    assert lines[2][:6] == ["NAME", "BUS", "TOPIC", "READY", "REASON", "ACTIVE"]
    assert lines[3][:5] == ["subscription.bendybus.io/audit", "shop", "sales", "True", "Available"]
    eventually(
        lambda: space.cluster.get("Topic", "sales", space.name)["status"]["subscriptionCount"] == 2,
        within_s=40,
        what="the topic counts its subscriptions",
    )


# Publishes two messages, and shows what each subscription of the example gets of them.
PROGRAM = """
import os
from bendybus.client import ServiceBusClient, ServiceBusMessage

connection = os.environ["BENDYBUS_CONNECTION_STRING"]
with ServiceBusClient.from_connection_string(connection) as client:
    with client.get_topic_sender("sales") as sender:
        for amount in (1, 5000):
            sender.send_messages(
                ServiceBusMessage(str(amount), application_properties={"amount": amount})
            )
    for name, count in (("audit", 2), ("large", 1)):
        found = []
        with client.get_subscription_receiver("sales", name) as receiver:
            while len(found) < count:
                messages = receiver.receive_messages(10, max_wait_time=10)
                for message in messages:
                    receiver.complete_message(message)
                found += [str(message) for message in messages]
                if not messages:
                    break
        print(name, *sorted(found))
"""


@pytest.mark.core
def test_what_is_published_reaches_the_subscriptions_of_the_manifests(space: Space) -> None:
    file = str(ROOT / "examples" / "kubernetes" / "topics.yaml")
    space.cluster.kubectl("apply", "-n", space.name, "-f", file)
    for kind, name in (("Subscription", "audit"), ("Subscription", "large")):
        space.cluster.await_ready(kind, name, space.name, within_s=120)

    said = space.say(f"python3 -c '{PROGRAM}'", secret="shop-rootmanagesharedaccesskey")

    assert said.splitlines()[-2:] == ["audit 1 5000", "large 5000"]


@pytest.mark.core
def test_what_the_bus_has_of_a_topic_is_what_its_manifests_say(shared: Space) -> None:
    said = shared.say("bendybus get subscription sales audit -o json", secret=SECRET)

    found = json.loads(said)
    assert (found["topicName"], found["name"], found["origin"]) == ("sales", "audit", "Manifest")
    assert found["partitionCount"] == 2


@pytest.mark.core
def test_every_invalid_topic_and_subscription_is_refused_with_the_field(shared: Space) -> None:
    for kind, spec, sentence in bad_manifests.TOPICS_AND_SUBSCRIPTIONS:
        body = shared.manifest(kind, "bad", namespaceRef={"name": "bus"}, **spec)

        assert sentence in refused(shared.cluster, body), (kind, spec)


@pytest.mark.core
def test_what_is_fixed_at_the_creation_of_a_topic_or_subscription_stays(shared: Space) -> None:
    for body, field in (
        (topic(shared, "sales", enablePartitioning=True), "enablePartitioning"),
        (topic(shared, "sales", requiresDuplicateDetection=True), "requiresDuplicateDetection"),
        (subscription(shared, "audit", "other"), "topicName"),
        (subscription(shared, "audit", "sales", entityName="b"), "entityName"),
        (subscription(shared, "audit", "sales", requiresSession=True), "requiresSession"),
    ):
        assert f"{field} cannot" in refused(shared.cluster, body)


@pytest.mark.core
def test_a_subscription_waits_for_its_topic_and_comes_again_with_the_next(space: Space) -> None:
    space.start(space.bus("bus", 2))
    space.cluster.apply(subscription(space, "audit", "sales"))
    space.cluster.await_reason("Subscription", "audit", space.name, "TopicNotFound", within_s=30)

    space.start(topic(space, "sales", deletionPolicy="Delete"), within_s=30)
    space.cluster.await_ready("Subscription", "audit", space.name, within_s=30)

    space.cluster.kubectl("delete", "topics.bendybus.io", "sales", "-n", space.name)
    space.cluster.await_reason("Subscription", "audit", space.name, "TopicNotFound", within_s=30)
    space.start(topic(space, "sales"), within_s=30)
    space.cluster.await_ready("Subscription", "audit", space.name, within_s=30)


@pytest.mark.core
def test_the_rules_of_a_subscription_are_those_of_its_manifest(shared: Space) -> None:
    def rules() -> list[str]:
        said = shared.say("bendybus get subscription sales ruled -o json", secret=SECRET)
        return [each["name"] for each in json.loads(said)["spec"]["rules"]]

    large = {"name": "large", "sqlFilter": {"sqlExpression": "user.amount > 100"}}
    paid = {"name": "paid", "correlationFilter": {"label": "paid", "properties": {"n": 1}}}
    shared.start(subscription(shared, "ruled", "sales", rules=[large, paid]))
    assert rules() == ["large", "paid"]

    shared.cluster.apply(subscription(shared, "ruled", "sales", rules=[paid]))

    eventually(lambda: rules() == ["paid"], within_s=30, what="one rule is left")


def test_a_topic_whose_manifest_is_deleted_is_kept_and_adopted(space: Space) -> None:
    space.start(space.bus("bus", 2), topic(space, "sales"), subscription(space, "audit", "sales"))
    space.cluster.kubectl("delete", "topics.bendybus.io", "sales", "-n", space.name)
    space.cluster.await_reason("Subscription", "audit", space.name, "TopicOrphaned", within_s=30)

    adopting = topic(space, "sales")
    adopting["metadata"]["annotations"] = {"bendybus.io/retained-data": "adopt"}
    space.start(adopting, within_s=30)

    space.cluster.await_ready("Subscription", "audit", space.name, within_s=30)
    eventually(
        functools.partial(_orphans, space, 0), within_s=30, what="the bus has no orphaned entity"
    )


def _orphans(space: Space, count: int) -> bool:
    status = space.cluster.get("BusNamespace", "bus", space.name)["status"]
    return bool(status["orphanedCount"] == count)
