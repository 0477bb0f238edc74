"""The way back: `helm rollback` to the last release under load, and forward again."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import images, traffic
from tests.e2e.cluster import ROOT, Body, Cluster, CommandFailed, eventually
from tests.e2e.conftest import RELEASE, SYSTEM, Installation, Space
from tests.e2e.test_outages import process_of
from tests.e2e.test_topics import subscription, topic
from tests.e2e.test_upgrades import images_of, operators

KINDS = ("BusNamespace", "Queue", "Topic", "Subscription")
AMQP_LOAD = Path(__file__).with_name("amqp_load.py")
GRPC_READER = Path(__file__).with_name("grpc_reader.py")
SECRET = "bus-rootmanagesharedaccesskey"
LOAD = ("--scheduled", "--sessions=visits", "--topic=sales/audit")


@pytest.fixture(scope="module")
def old(cluster: Cluster) -> Installation:
    """The last release; not installed yet."""
    if cluster.nodes is None:
        pytest.skip("the image of the last release can be loaded only on nodes of shared/cluster")
    return Installation(cluster, images.of_release(cluster, images.last_release()))


@pytest.fixture
def old_chart(tmp_path: Path) -> Path:
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", images.last_release(), "charts"],
        capture_output=True,
        check=True,
    )
    subprocess.run(["tar", "-x", "-C", str(tmp_path)], input=archive.stdout, check=True)
    return tmp_path / "charts" / "bendybus"


@contextlib.contextmanager
def upgraded_from(
    old: Installation, old_chart: Path, installation: Installation
) -> Iterator[list[str]]:
    """Have the last release installed; afterwards this version. Gives the way back to it."""
    old.install(chart=old_chart)
    eventually(lambda: operators(old) == {old.image}, within_s=90, what="the old one acts")
    history = json.loads(old.cluster.helm("history", RELEASE, "-n", SYSTEM, "-o", "json"))
    try:
        yield ["rollback", RELEASE, str(history[-1]["revision"]), "-n", SYSTEM, "--wait"]
    finally:
        installation.install()


def manifests(space: Space, partitions: int) -> list[Body]:
    return [
        space.bus("bus", partitions, frontend={"replicas": 2}),
        space.queue("orders", "bus"),
        space.queue("visits", "bus", requiresSession=True),
        topic(space, "sales"),
        subscription(space, "audit", "sales"),
    ]


def settled(space: Space, installation: Installation) -> None:
    """Wait until all runs one version, and everything says that it is Ready as it is."""
    eventually(
        lambda: operators(installation) == {installation.image},
        within_s=90,
        what="all operators are of one version",
    )
    eventually(
        lambda: images_of(space) == {installation.image}, within_s=180, what="all pods are, too"
    )
    eventually(lambda: all_current(space), within_s=60, what="all statuses say so")
    assert restarts(space) == 0


def restarts(space: Space) -> int:
    """Return how often containers of the bus were started again; one that crashes is."""
    return sum(
        each["restartCount"]
        for pod in space.cluster.list("pod", space.name, "bendybus.io/bus=bus")
        for each in pod["status"].get("containerStatuses", [])
    )


def all_current(space: Space) -> bool:
    """Whether each manifest is Ready, of the generation that it has."""
    for kind in KINDS:
        for body in space.cluster.list(kind, space.name):
            name, status = body["metadata"]["name"], body.get("status") or {}
            found = {each["type"]: each["status"] for each in status["conditions"]}
            # Of the others each is there only while it is True: nothing may be left of another
            # version's.
            assert found.pop("Ready") == "True", (kind, name, status["conditions"])
            assert not {"Reconciling", "Stalled"} & found.keys(), (kind, name, found)
            assert status["observedGeneration"] == body["metadata"]["generation"], (kind, name)
    return True


def empty(space: Space) -> bool:
    """Whether the statuses count no message, as is the case."""
    for kind, name in (("Queue", "orders"), ("Queue", "visits"), ("Subscription", "audit")):
        found = space.cluster.get(kind, name, space.name)["status"]["countDetails"]
        assert (found["activeMessageCount"], found["scheduledMessageCount"]) == (0, 0), (
            name,
            found,
        )
    return True


def test_helm_rollback_under_load_loses_nothing_and_forward_again_neither(
    installation: Installation, old: Installation, old_chart: Path, space: Space
) -> None:
    cluster = space.cluster
    with upgraded_from(old, old_chart, installation) as rollback:
        space.start(*manifests(space, 4), within_s=180)
        settled(space, old)
        with traffic.running(
            *(cluster, space.name, "bus", "orders"), image=old.image, rate=20, options=LOAD
        ) as load:
            load.flows(more=100)
            installation.install()
            settled(space, installation)
            load.flows(more=200)
            cluster.helm(*rollback)
            settled(space, old)
            load.flows(more=200)
            installation.install()
            settled(space, installation)
            load.flows(more=100)
            report = load.finish()
        eventually(lambda: empty(space), within_s=40, what="the statuses count no messages")

    print(report)
    traffic.nothing_lost(report)
    for kind in ("keyed", "scheduled", "session", "topic"):
        assert report["acknowledged"][kind] > 0, kind
    assert report["errors"]["keyless"] == {}


def test_helm_rollback_while_a_partition_is_down_waits_for_it_and_loses_nothing(
    installation: Installation, old: Installation, old_chart: Path, space: Space
) -> None:
    cluster, nodes = space.cluster, space.cluster.nodes
    assert nodes is not None
    with upgraded_from(old, old_chart, installation) as rollback:
        space.start(*manifests(space, 2), within_s=180)
        with traffic.running(
            *(cluster, space.name, "bus", "orders"), image=old.image, rate=20, options=LOAD
        ) as load:
            installation.install()
            settled(space, installation)
            load.flows(more=100)
            node, process = process_of(space, nodes, space.partition_pod("bus", 1))
            nodes.execute(node, "kill", "-STOP", process)
            try:
                cluster.await_reason("BusNamespace", "bus", space.name, "PartitionUnavailable")
                cluster.helm(*rollback)
                cluster.await_reason(
                    "BusNamespace", "bus", space.name, "PartitionUnavailable", within_s=60
                )
                load.flows(more=50, within_s=60)
            finally:
                # It may have been killed by then.
                with contextlib.suppress(CommandFailed):
                    nodes.execute(node, "kill", "-CONT", process)
            settled(space, old)
            load.flows(more=100)
            installation.install()
            settled(space, installation)
            report = load.finish()

    print(report)
    traffic.nothing_lost(report)


class AmqpLoad:
    """The official SDK in a pod, which sends until it is told to stop."""

    def __init__(self, space: Space) -> None:
        self._space = space
        command = ["python3", "/script/script.py", "orders", "visits", "sales"]
        objects = traffic.client_pod(
            *("amqp-load", space.name, images.sdk(space.cluster), command),
            secret=SECRET,
            script=AMQP_LOAD.read_text(encoding="utf-8"),
        )
        connection = {"secretKeyRef": {"name": SECRET, "key": "amqpPrimaryConnectionString"}}
        objects[1]["spec"]["containers"][0]["env"].append(
            {"name": "BENDYBUS_SDK_CONNECTION_STRING", "valueFrom": connection}
        )
        space.cluster.apply(*objects)

    def counts(self) -> dict[str, int]:
        """Return how many messages of each kind were acknowledged so far."""
        pod = ("exec", "-n", self._space.name, "amqp-load", "--")
        found: dict[str, int] = json.loads(
            self._space.cluster.kubectl(*pod, "cat", "/tmp/report.json")
        )
        return found

    def flows(self, *, more: int) -> None:
        """Wait until so many more messages of each kind were acknowledged."""
        before = eventually(self.counts, within_s=90, what="the AMQP load reports")

        def look() -> bool:
            now = self.counts()
            return all(now[kind] >= before[kind] + more for kind in before)

        eventually(look, within_s=60, what=f"{more} more of each kind are acknowledged")

    def finish(self) -> dict[str, Any]:
        """Stop it; return the names of what was acknowledged, by kind, and errors."""
        pod = ("exec", "-n", self._space.name, "amqp-load", "--")
        self._space.cluster.kubectl(*pod, "touch", "/tmp/stop")
        return said_by(self._space, "amqp-load")


def said_by(space: Space, pod: str) -> dict[str, Any]:
    """Return the last line of a pod that ends."""
    eventually(
        lambda: space.pod(pod)["status"]["phase"] in ("Succeeded", "Failed"),
        within_s=120,
        what=f"{pod} ends",
    )
    logs = space.cluster.kubectl("logs", "-n", space.name, pod)
    assert space.pod(pod)["status"]["phase"] == "Succeeded", logs
    found: dict[str, Any] = json.loads(logs.strip().splitlines()[-1])
    return found


def read_with(space: Space, image: str) -> dict[str, Any]:
    """Receive from all entities with the client of an image until they are empty."""
    command = ["python3", "/script/script.py", "orders", "visits", "sales", "audit"]
    space.cluster.apply(
        *traffic.client_pod(
            *("reader", space.name, image, command),
            secret=SECRET,
            script=GRPC_READER.read_text(encoding="utf-8"),
        )
    )
    return said_by(space, "reader")


def test_after_a_helm_rollback_under_amqp_load_the_old_client_reads_what_was_accepted(
    installation: Installation, old: Installation, old_chart: Path, space: Space
) -> None:
    with upgraded_from(old, old_chart, installation) as rollback:
        space.start(*manifests(space, 4), within_s=180)
        installation.install()
        settled(space, installation)
        load = AmqpLoad(space)
        load.flows(more=100)
        before = load.counts()
        space.cluster.helm(*rollback)
        settled(space, old)
        after = load.counts()
        # Front ends of the version before listen for AMQP, too.
        load.flows(more=20)
        last = load.counts()
        sent = load.finish()
        read = read_with(space, old.image)
        eventually(lambda: empty(space), within_s=40, what="the statuses count no messages")

    acknowledged = {name for names in sent["acknowledged"].values() for name in names}
    received = {row[0] for row in read["received"]}
    print(f"before {before}, after {after}, received {len(received)}, errors {sent['errors']}")
    assert read["errors"] == []
    assert sorted(acknowledged - received) == []
    assert all(after[kind] > before[kind] for kind in before), "it sent during the rollback"
    assert all(last[kind] > after[kind] for kind in after), "it went on after the rollback"
    for name, number, subject, body in read["received"]:
        kind = name.partition("-")[0]
        assert name == f"{kind}-{number}"
        assert (subject, body) == ("odd" if kind == "odd" else "plain", name)
