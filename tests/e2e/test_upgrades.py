"""New versions under load: of the pods of a bus, and of the chart."""

import statistics

import pytest

from tests.e2e import images, traffic
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Installation, Space


@pytest.fixture(scope="session")
def previous(cluster: Cluster) -> str:
    if cluster.nodes is None:
        pytest.skip("the image of the last release can be loaded only on nodes of shared/cluster")
    return images.of_release(cluster, images.last_release())


def images_of(space: Space) -> set[str]:
    """Return the images that the ready pods of the bus run."""
    pods = space.cluster.list("pod", space.name, "bendybus.io/bus=bus")
    ready = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert all(
        status["ready"] for pod in ready for status in pod["status"].get("containerStatuses", [])
    ), "some pod is not ready"
    return {pod["spec"]["containers"][0]["image"] for pod in ready}


def operators(installation: Installation) -> set[str]:
    """Return the images of all operators, also of those that are ending."""
    return {pod["spec"]["containers"][0]["image"] for pod in installation.operators()}


def pods_of(space: Space) -> set[str]:
    """Return the UIDs of all pods of buses."""
    pods = space.cluster.list("pod", space.name, "bendybus.io/bus")
    return {pod["metadata"]["uid"] for pod in pods}


@pytest.mark.core
def test_a_bus_goes_from_the_last_version_to_this_one_under_load(
    space: Space, previous: str
) -> None:
    bus = space.bus("bus", 4, frontend={"replicas": 2})
    old = space.bus("bus", 4, frontend={"replicas": 2}, image=previous)
    space.start(old, space.queue("orders", "bus"))
    # A bus is ready with one front end that serves; the other may still be starting.
    eventually(lambda: images_of(space) == {previous}, within_s=60, what="all pods are old")

    with traffic.running(space.cluster, space.name, "bus", "orders", image=previous) as load:
        load.flows(more=300)
        before = load.report()["per_second"]
        space.cluster.apply(bus)
        eventually(lambda: images_of(space) == {space.image}, within_s=150, what="all pods are new")
        during = load.report()["per_second"][len(before) :]
        space.cluster.await_ready("BusNamespace", "bus", space.name, within_s=60)
        load.flows(more=100)
        report = load.finish()

    traffic.nothing_lost(report)
    assert report["errors"]["keyless"] == {}
    assert report["gap_s"]["keyless"] < 5
    # What nothing keeps from going on is looked at second by second: keyed sends wait for the one
    # partition that is being replaced. How many go through in a second is the machine's to say:
    # new pods start on the processors that the load runs on.
    print(f"keyless sends in each second before {before}, during the upgrade {during}")
    assert statistics.median(during[:-1]) > 0


def test_helm_upgrade_touches_no_bus(installation: Installation, space: Space) -> None:
    cluster = space.cluster
    space.start(space.bus("bus", 2), space.queue("orders", "bus"))
    with traffic.running(cluster, space.name, "bus", "orders", image=space.image) as load:
        before = pods_of(space)

        installation.install("--set", "logLevel=debug")
        installation.install()
        space.start(space.queue("more", "bus"), within_s=60)
        load.flows()
        report = load.finish()
        after = pods_of(space)

    traffic.nothing_lost(report)
    assert report["errors"] == {"keyless": {}, "keyed": {}, "receive": {}}
    assert before == after
