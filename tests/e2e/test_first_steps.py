"""From nothing to messages: the chart, both kinds, all tiers, what people see."""

import functools
import time
from collections.abc import Iterator

import pytest

from tests.e2e import traffic
from tests.e2e.cluster import ROOT, Cluster, eventually
from tests.e2e.conftest import SYSTEM, Installation, Space, fresh_space


@pytest.mark.core
def test_from_the_example_to_messages_in_two_minutes(
    installation: Installation, space: Space
) -> None:
    cluster = space.cluster
    began = time.monotonic()

    cluster.kubectl("apply", "-n", space.name, "-f", str(ROOT / "examples" / "flights.yaml"))
    for kind, name in (("BusNamespace", "flights"), ("Queue", "flights"), ("Queue", "audit")):
        cluster.await_ready(kind, name, space.name, within_s=120)
    with traffic.running(
        cluster, space.name, "flights", "flights", image=space.image
    ) as partitioned:
        assert time.monotonic() - began < 120
        report = partitioned.finish()
    with traffic.running(cluster, space.name, "flights", "audit", image=space.image) as plain:
        plain_report = plain.finish()

    traffic.nothing_lost(report)
    traffic.nothing_lost(plain_report)
    status = cluster.get("BusNamespace", "flights", space.name)["status"]
    assert status["partitions"] == status["readyPartitions"] == 16
    assert cluster.get("Queue", "flights", space.name)["status"]["partitions"] == 16
    audit = cluster.get("Queue", "audit", space.name)["status"]
    assert audit["partitions"] == 1
    assert audit["homePartition"] in range(16)


@pytest.fixture(scope="module")
def shop(installation: Installation) -> Iterator[Space]:
    """A bus of 2 partitions with the queue `orders`, for tests that look at it."""
    with fresh_space(installation, "shop") as space:
        space.start(space.bus("shop", 2), space.queue("orders", "shop"))
        yield space


@pytest.mark.core
def test_what_kubectl_shows_says_what_there_is(shop: Space) -> None:
    space = shop

    table = space.cluster.kubectl("get", "bendybus", "-n", space.name)

    lines = [line.split() for line in table.splitlines() if line.strip()]
    assert lines[0][:6] == ["NAME", "TIER", "PARTITIONS", "READY", "REASON", "QUEUES"]
    assert lines[1][:6] == [
        "busnamespace.bendybus.io/shop",
        "Premium",
        "2",
        "True",
        "Available",
        "1",
    ]
    assert lines[2][:5] == ["NAME", "BUS", "PARTITIONS", "READY", "REASON"]
    assert lines[3][:5] == ["queue.bendybus.io/orders", "shop", "2", "True", "Available"]
    events = space.cluster.kubectl("get", "events", "-n", space.name)
    assert "orders is spread over 2 partitions" in events


def test_the_other_tiers_have_the_partitions_they_are_made_with(space: Space) -> None:
    basic = space.manifest("BusNamespace", "basic", sku={"tier": "Basic"}, frontend={"replicas": 1})
    space.start(
        space.bus("one", 1),
        space.queue("whole", "one"),
        basic,
        space.queue("spread", "basic", enablePartitioning=True),
        space.queue("plain", "basic"),
    )

    def partitions(name: str) -> int:
        found: int = space.cluster.get("Queue", name, space.name)["status"]["partitions"]
        return found

    assert (partitions("whole"), partitions("spread"), partitions("plain")) == (1, 16, 1)


def test_counts_in_the_status_follow_the_messages(shop: Space) -> None:
    space = shop
    send = "for i in $(seq 7); do echo message $i; done | bendybus send orders"
    space.say(send, secret="shop-rootmanagesharedaccesskey")

    def counted(kind: str, name: str) -> bool:
        status = space.cluster.get(kind, name, space.name)["status"]
        return bool(status["countDetails"]["activeMessageCount"] == 7)

    for kind, name in (("Queue", "orders"), ("BusNamespace", "shop")):
        eventually(
            functools.partial(counted, kind, name),
            within_s=40,
            what=f"the status of {kind} {name} counts 7 messages",
        )


@pytest.mark.core
def test_helm_test_sends_and_receives(installation: Installation, cluster: Cluster) -> None:
    for run in ("first", "second"):
        said = cluster.helm("test", "bendybus", "-n", SYSTEM, "--timeout", "150s")

        assert "Phase:          Succeeded" in said, run
