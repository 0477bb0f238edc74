"""Pods, nodes and the API server fail under load; what the bus and its status do meanwhile.

In each: no acknowledged message is lost, keyless traffic goes on, the status tells within 30 s,
and everything recovers by itself.
"""

import contextlib
import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e import traffic
from tests.e2e.cluster import Cluster, CommandFailed, Nodes, eventually
from tests.e2e.conftest import SYSTEM, Installation, Space, fresh_space

PARTITIONS = 4


@pytest.fixture
def nodes(cluster: Cluster) -> Nodes:
    if cluster.nodes is None:
        pytest.skip("nodes can be touched only on a cluster of shared/cluster")
    return cluster.nodes


@pytest.fixture(scope="module")
def shared(installation: Installation) -> Iterator[Space]:
    """A bus of 4 partitions and two front ends that outlives all of these tests."""
    with fresh_space(installation, "outages") as space:
        space.start(space.bus("bus", PARTITIONS, frontend={"replicas": 2}))
        yield space


@dataclass(frozen=True, slots=True)
class Loaded:
    """A queue of its own on the shared bus, under load from node1."""

    space: Space
    queue: str
    load: traffic.Traffic


@pytest.fixture
def loaded(request: pytest.FixtureRequest, shared: Space) -> Iterator[Loaded]:
    name = "-".join(request.node.name.split("_")[1:5])
    recovered(shared)
    shared.start(shared.queue(name, "bus"))
    node = "node1" if shared.cluster.nodes else ""
    with traffic.running(
        *(shared.cluster, shared.name, "bus", name), image=shared.image, node=node, name=name
    ) as load:
        yield Loaded(shared, name, load)
    shared.cluster.kubectl("delete", "queue", name, "-n", shared.name)


def limited(loaded: Loaded) -> bool:
    """Whether queue and bus say that a partition is away."""
    space = loaded.space
    for kind, name in (("Queue", loaded.queue), ("BusNamespace", "bus")):
        status = space.cluster.get(kind, name, space.name)["status"]
        ready = space.ready(kind, name)
        assert status["availabilityStatus"] == "Limited", status
        assert (ready["status"], ready["reason"]) == ("False", "PartitionUnavailable"), ready
    return True


def recovered(space: Space, *, within_s: float = 60) -> None:
    """Wait until the bus is Ready again."""
    space.cluster.await_ready("BusNamespace", "bus", space.name, within_s=within_s)


def came_back(space: Space, pod: str, uid: str) -> bool:
    """Whether a pod was made anew and is ready."""
    found = space.pod(pod)
    statuses = found["status"].get("containerStatuses") or [{"ready": False}]
    return found["metadata"]["uid"] != uid and all(each["ready"] for each in statuses)


def process_of(space: Space, nodes: Nodes, pod: str) -> tuple[str, str]:
    """Return (node, process id there) of a pod's main process."""
    found = space.pod(pod)
    node = found["spec"]["nodeName"]
    container = found["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    tasks = nodes.execute(node, "ctr", "-n", "k8s.io", "tasks", "list")
    return node, next(line.split()[1] for line in tasks.splitlines() if container in line)


@pytest.mark.core
def test_pods_that_are_deleted_or_killed_come_back_and_nothing_is_lost(
    loaded: Loaded,
) -> None:
    space, load = loaded.space, loaded.load
    cluster = space.cluster

    for index, options in enumerate(((), ("--grace-period=0", "--force"), ())):
        pod = space.partition_pod("bus", index)
        uid = space.pod(pod)["metadata"]["uid"]
        cluster.kubectl("delete", "pod", pod, "-n", space.name, *options)
        load.flows()
        eventually(
            functools.partial(came_back, space, pod, uid), within_s=60, what=f"{pod} is back"
        )
    frontends = cluster.list("pod", space.name, "bendybus.io/role=frontend")
    for each in frontends:
        cluster.kubectl("delete", "pod", each["metadata"]["name"], "-n", space.name)
        load.flows()
    recovered(space)
    report = load.finish()

    traffic.nothing_lost(report)
    assert report["errors"]["keyless"] == {}
    assert report["gap_s"]["keyless"] < 10


@pytest.mark.core
def test_a_partition_that_stands_still_is_seen_and_passed_by(loaded: Loaded, nodes: Nodes) -> None:
    space, load = loaded.space, loaded.load
    node, process = process_of(space, nodes, space.partition_pod("bus", 2))

    nodes.execute(node, "kill", "-STOP", process)
    try:
        eventually(lambda: limited(loaded), within_s=30, what="the status says so")
        load.flows(more=100)
    finally:
        with contextlib.suppress(CommandFailed):
            nodes.execute(node, "kill", "-CONT", process)
    recovered(space)
    report = load.finish()

    traffic.nothing_lost(report)
    assert report["errors"]["keyless"] == {}
    assert report["gap_s"]["keyless"] < 15


def test_a_node_that_dies_takes_its_partitions_along_only_until_it_is_back(
    loaded: Loaded, nodes: Nodes
) -> None:
    space, load = loaded.space, loaded.load
    there = {
        pod["spec"]["nodeName"]
        for pod in space.cluster.list("pod", space.name, "bendybus.io/role=partition")
    }
    assert there == {"node1", "node2"}, "partitions are spread over nodes"

    nodes.do("stop", "node2")
    try:
        eventually(lambda: limited(loaded), within_s=30, what="the status says so")
        load.flows(more=100, within_s=60)
    finally:
        nodes.do("start", "node2")
    recovered(space, within_s=120)
    report = load.finish()

    traffic.nothing_lost(report)
    assert report["errors"]["keyless"] == {}


def test_the_bus_does_not_need_the_api_server(loaded: Loaded, nodes: Nodes) -> None:
    space, load = loaded.space, loaded.load
    began = load.report()["acknowledged"]["keyless"]

    nodes.do("freeze", "control-plane")
    try:
        time.sleep(60)  # the outage itself: a minute without an API server
    finally:
        nodes.do("thaw", "control-plane")
    eventually(lambda: load.report(), within_s=60, what="the API server answers")
    space.cluster.apply(space.queue("later", "bus"))
    space.cluster.await_ready("Queue", "later", space.name, within_s=60)
    recovered(space)
    report = load.finish()

    traffic.nothing_lost(report)
    assert report["errors"] == {"keyless": {}, "keyed": {}, "receive": {}}
    assert report["acknowledged"]["keyless"] - began > 60 * 20
    assert report["gap_s"]["keyless"] < 5


@pytest.mark.core
def test_an_operator_that_dies_during_a_change_leaves_nothing_half_done(
    installation: Installation, loaded: Loaded
) -> None:
    space, load = loaded.space, loaded.load
    cluster = space.cluster
    queues = [space.queue(f"batch-{index}", "bus", lockDuration="PT30S") for index in range(20)]

    cluster.apply(*queues)
    cluster.kubectl(
        *("delete", "pod", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator"),
        *("--grace-period=0", "--force"),
    )
    load.flows()
    for queue in queues:
        cluster.await_ready("Queue", queue["metadata"]["name"], space.name, within_s=90)
    report = load.finish()

    traffic.nothing_lost(report)
    assert report["errors"] == {"keyless": {}, "keyed": {}, "receive": {}}


@pytest.mark.core
def test_the_standby_takes_over_when_the_leader_dies(
    installation: Installation, shared: Space
) -> None:
    cluster = shared.cluster
    recovered(shared)
    peers = cluster.kubectl("get", "clusterkopfpeering", "bendybus", "-o", "jsonpath={.status}")
    assert len(installation.operators()) == 2, peers

    leader = max(
        installation.operators(), key=lambda pod: priority(cluster, pod["metadata"]["name"])
    )
    cluster.kubectl("delete", "pod", leader["metadata"]["name"], "-n", SYSTEM, "--wait=false")
    shared.start(shared.queue("next", "bus"), within_s=40)


def priority(cluster: Cluster, pod: str) -> int:
    """Return an operator's priority among its peers."""
    found = cluster.kubectl(
        *("get", "clusterkopfpeering", "bendybus"),
        *("-o", f"jsonpath={{.status.{pod}.priority}}"),
    )
    return int(found or 0)
