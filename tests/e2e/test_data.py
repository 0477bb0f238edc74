"""Data outlives manifests, charts and pods; it goes only when somebody says so."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e import traffic
from tests.e2e.cluster import Cluster, CommandFailed, eventually
from tests.e2e.conftest import RELEASE, SYSTEM, Installation, Space, fresh_space


def messages(space: Space, queue: str) -> int:
    """Return how many messages the status of a queue counts."""
    status = space.cluster.get("Queue", queue, space.name).get("status") or {}
    counted: int = status["countDetails"]["activeMessageCount"]
    return counted


FILL = "for i in $(seq 5); do echo message $i; done | bendybus send"


@pytest.fixture(scope="module")
def shared(installation: Installation) -> Iterator[Space]:
    """A bus of 2 partitions for the tests that leave it as it is."""
    with fresh_space(installation, "data") as space:
        space.start(space.bus("bus", 2))
        yield space


@dataclass(frozen=True, slots=True)
class Stocked:
    """A queue with 5 messages, on the shared bus."""

    space: Space
    queue: str


@pytest.fixture
def stocked(request: pytest.FixtureRequest, shared: Space) -> Stocked:
    name = "-".join(request.node.name.split("_")[1:6])
    shared.start(shared.queue(name, "bus"))
    shared.say(f"{FILL} {name}")
    return Stocked(shared, name)


@pytest.fixture
def filled(space: Space) -> Space:
    """A bus of 2 partitions with 5 messages in the queue `orders`."""
    space.start(space.bus("bus", 2), space.queue("orders", "bus"))
    space.say(f"{FILL} orders")
    return space


@pytest.mark.core
def test_a_deleted_manifest_leaves_its_messages_until_they_are_adopted_or_purged(
    stocked: Stocked,
) -> None:
    filled, name = stocked.space, stocked.queue
    cluster = filled.cluster
    cluster.kubectl("delete", "queue", name, "-n", filled.name)

    def orphaned() -> bool:
        status = cluster.get("BusNamespace", "bus", filled.name)["status"]
        return bool(name in status["orphaned"])

    eventually(orphaned, within_s=30, what="the bus shows the orphan")
    cluster.apply(filled.queue(name, "bus"))
    kept = cluster.await_reason("Queue", name, filled.name, "RetainedData")
    cluster.kubectl("annotate", "queue", name, "-n", filled.name, "bendybus.io/retained-data=adopt")
    cluster.await_ready("Queue", name, filled.name)

    assert "=adopt to continue it, or =purge to delete them" in kept["message"]
    eventually(lambda: messages(filled, name) == 5, within_s=30, what="5 messages are counted")


def test_purging_gives_an_empty_queue(stocked: Stocked) -> None:
    filled, name = stocked.space, stocked.queue
    cluster = filled.cluster
    cluster.kubectl("delete", "queue", name, "-n", filled.name)
    again = filled.queue(name, "bus")
    again["metadata"]["annotations"] = {"bendybus.io/retained-data": "purge"}

    cluster.apply(again)
    cluster.await_ready("Queue", name, filled.name)

    assert len(filled.say(f"bendybus peek {name}").splitlines()) == 1, "only the head of the table"
    eventually(lambda: messages(filled, name) == 0, within_s=30, what="nothing is counted")


def test_a_queue_deleted_while_no_operator_runs_becomes_an_orphan(
    installation: Installation, stocked: Stocked
) -> None:
    filled, name = stocked.space, stocked.queue
    cluster = filled.cluster
    changed = filled.queue(name, "bus", deletionPolicy="Delete")
    changed["metadata"]["annotations"] = {"bendybus.io/allow-deletion": "true"}
    cluster.apply(changed)
    cluster.kubectl("patch", "validatingwebhookconfiguration", "bendybus", *_policy("Ignore"))
    cluster.kubectl("scale", "deployment", "-n", SYSTEM, "--all", "--replicas=0")
    try:
        eventually(lambda: not installation.operators(), within_s=60, what="no operator runs")
        cluster.kubectl("delete", "queue", name, "-n", filled.name)
    finally:
        cluster.kubectl("scale", "deployment", "-n", SYSTEM, "--all", "--replicas=2")
        cluster.kubectl("patch", "validatingwebhookconfiguration", "bendybus", *_policy("Fail"))
        cluster.kubectl("rollout", "status", "deployment", "-n", SYSTEM, "--timeout=90s")

    def orphaned() -> bool:
        status = cluster.get("BusNamespace", "bus", filled.name)["status"]
        return bool(name in status["orphaned"])

    eventually(orphaned, within_s=60, what="the deletion that nobody saw deletes nothing")
    assert "message 1" in filled.say(f"bendybus receive {name} --max 5")


def _policy(word: str) -> tuple[str, ...]:
    patch = [
        {"op": "replace", "path": f"/webhooks/{index}/failurePolicy", "value": word}
        for index in (0, 1)
    ]
    return ("--type=json", "-p", json.dumps(patch))


def test_a_queue_with_messages_and_policy_delete_is_deleted_only_if_that_is_allowed(
    stocked: Stocked,
) -> None:
    filled, name = stocked.space, stocked.queue
    cluster = filled.cluster
    cluster.apply(filled.queue(name, "bus", deletionPolicy="Delete"))

    with pytest.raises(CommandFailed, match=r"holds 5 message\(s\), and its deletionPolicy"):
        cluster.kubectl("delete", "queue", name, "-n", filled.name)
    cluster.kubectl("annotate", "queue", name, "-n", filled.name, "bendybus.io/allow-deletion=true")
    cluster.kubectl("delete", "queue", name, "-n", filled.name)

    eventually(
        lambda: name not in filled.say("bendybus get queues --all"),
        within_s=30,
        what="queue and messages are gone",
    )


DEFER = """
import os
from bendybus.client import ServiceBusClient
where = os.environ["BENDYBUS_CONNECTION_STRING"]
with ServiceBusClient.from_connection_string(
    where, connection_verify=os.environ["BENDYBUS_CA_FILE"]
) as bus, bus.get_queue_receiver("later", max_wait_time=20) as receiver:
    for message in receiver.receive_messages(1, max_wait_time=20):
        receiver.defer_message(message)
        print("deferred")
"""


def test_a_deferred_message_keeps_its_queue_and_its_bus(space: Space) -> None:
    cluster = space.cluster
    space.start(space.bus("bus", 2, deletionPolicy="Delete"))
    space.start(space.queue("later", "bus", deletionPolicy="Delete"))
    space.say("bendybus send later 'set aside'")
    assert "deferred" in space.say(f"python3 -c '{DEFER}'")

    for kind, name in (("queue", "later"), ("busnamespace", "bus")):
        with pytest.raises(CommandFailed, match=r"holds 1 message\(s\), and its deletionPolicy"):
            cluster.kubectl("delete", kind, name, "-n", space.name)

    def counted() -> bool:
        status = cluster.get("queue", "later", space.name)["status"]
        return bool(status["countDetails"]["deferredMessageCount"] == 1)

    eventually(counted, within_s=30, what="the status counts it")


def test_a_namespace_can_be_deleted_while_no_operator_runs(
    installation: Installation, filled: Space
) -> None:
    cluster = filled.cluster
    cluster.apply(filled.queue("orders", "bus", deletionPolicy="Delete"))
    cluster.kubectl("scale", "deployment", "-n", SYSTEM, "--all", "--replicas=0")
    try:
        eventually(lambda: not installation.operators(), within_s=60, what="no operator runs")
        with pytest.raises(CommandFailed, match="failed calling webhook"):
            cluster.kubectl("delete", "queue", "orders", "-n", filled.name)
        cluster.kubectl("delete", "namespace", filled.name, "--timeout=80s")
    finally:
        cluster.kubectl("scale", "deployment", "-n", SYSTEM, "--all", "--replicas=2")
        cluster.kubectl("rollout", "status", "deployment", "-n", SYSTEM, "--timeout=90s")

    assert not cluster.exists("namespace", filled.name, "")


def test_a_namespace_with_a_guarded_queue_can_still_be_deleted(filled: Space) -> None:
    filled.cluster.apply(filled.queue("orders", "bus", deletionPolicy="Delete"))

    filled.cluster.kubectl("delete", "namespace", filled.name, "--timeout=80s")

    assert not filled.cluster.exists("namespace", filled.name, "")


@pytest.mark.core
def test_a_bus_that_is_deleted_and_made_anew_continues_with_its_data(filled: Space) -> None:
    cluster = filled.cluster
    secret = cluster.get("secret", "bus-rootmanagesharedaccesskey", filled.name)["data"]
    cluster.kubectl("delete", "queue,busnamespace", "--all", "-n", filled.name)
    bus, queue = filled.bus("bus", 2), filled.queue("orders", "bus")
    for each in (bus, queue):
        each["metadata"]["annotations"] = {"bendybus.io/retained-data": "adopt"}

    filled.start(bus, queue, within_s=120)

    eventually(lambda: messages(filled, "orders") == 5, within_s=40, what="5 messages are counted")
    again = cluster.get("secret", "bus-rootmanagesharedaccesskey", filled.name)["data"]
    assert again["primaryConnectionString"] == secret["primaryConnectionString"]


@pytest.mark.core
def test_without_the_chart_the_bus_runs_on_and_a_new_installation_takes_it_over(
    installation: Installation, cluster: Cluster, filled: Space
) -> None:
    with traffic.running(cluster, filled.name, "bus", "orders", image=filled.image) as load:
        uids = {p["metadata"]["uid"] for p in cluster.list("pod", filled.name, "bendybus.io/bus")}
        cluster.helm("uninstall", RELEASE, "-n", SYSTEM, "--wait")
        try:
            load.flows(more=100)
            assert cluster.exists("queue", "orders", filled.name)
        finally:
            installation.install()
        filled.start(filled.queue("more", "bus"), within_s=60)
        report = load.finish()
        after = {p["metadata"]["uid"] for p in cluster.list("pod", filled.name, "bendybus.io/bus")}

    traffic.nothing_lost(report)
    assert report["errors"] == {"keyless": {}, "keyed": {}, "receive": {}}
    assert uids == after, "no pod was touched"
