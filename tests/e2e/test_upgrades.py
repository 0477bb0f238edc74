"""New versions under load: of the pods of a bus, and of the chart."""

import base64
import json
import statistics

import pytest

from tests.e2e import images, traffic
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Installation, Space

FILES = ("ca.crt", "tls.crt")


@pytest.fixture(scope="session")
def previous(cluster: Cluster) -> str:
    if cluster.nodes is None:
        pytest.skip("the image of the last release can be loaded only on nodes of shared/cluster")
    return images.of_release(cluster, images.last_release())


@pytest.fixture(scope="session")
def with_one_root(cluster: Cluster) -> str:
    if cluster.nodes is None:
        pytest.skip("the image of 0.2.1 can be loaded only on nodes of shared/cluster")
    return images.of_release(cluster, images.WITH_ONE_ROOT)


@pytest.fixture(scope="session")
def without_topics(cluster: Cluster) -> str:
    if cluster.nodes is None:
        pytest.skip("the image of 0.4.0 can be loaded only on nodes of shared/cluster")
    return images.of_release(cluster, images.WITHOUT_TOPICS)


def images_of(space: Space) -> set[str]:
    """Return the images that the ready pods of the bus run."""
    pods = space.cluster.list("pod", space.name, "bendybus.io/bus=bus")
    ready = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert all(
        status["ready"] for pod in ready for status in pod["status"].get("containerStatuses", [])
    ), "some pod is not ready"
    return {pod["spec"]["containers"][0]["image"] for pod in ready}


def pods_of(space: Space) -> set[str]:
    """Return the UIDs of all pods of buses."""
    pods = space.cluster.list("pod", space.name, "bendybus.io/bus")
    return {pod["metadata"]["uid"] for pod in pods}


def test_a_topic_waits_until_its_bus_runs_a_version_that_has_topics(
    space: Space, without_topics: str
) -> None:
    space.start(space.bus("bus", 2, image=without_topics), space.queue("orders", "bus"))
    reference = {"namespaceRef": {"name": "bus"}}
    space.cluster.apply(
        space.manifest("Topic", "sales", **reference),
        space.manifest("Subscription", "audit", topicName="sales", **reference),
    )
    space.cluster.await_reason("Topic", "sales", space.name, "PartitionOutdated", within_s=60)
    space.cluster.await_ready("Queue", "orders", space.name)

    space.cluster.apply(space.bus("bus", 2))

    for kind, name in (("Topic", "sales"), ("Subscription", "audit"), ("Queue", "orders")):
        space.cluster.await_ready(kind, name, space.name, within_s=120)


@pytest.mark.core
def test_a_bus_goes_from_the_last_version_to_this_one_under_load(
    space: Space, previous: str
) -> None:
    bus = space.bus("bus", 4, frontend={"replicas": 2})
    old = space.bus("bus", 4, frontend={"replicas": 2}, image=previous)
    space.start(old, space.queue("orders", "bus"))
    assert images_of(space) == {previous}

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


def operators(installation: Installation) -> set[str]:
    """Return the images of all operators, also of those that are ending."""
    return {pod["spec"]["containers"][0]["image"] for pod in installation.operators()}


def authority(space: Space) -> dict[str, str]:
    """Return the files of the bus's root."""
    data = space.cluster.get("secret", "bus.authority", space.name)["data"]
    return {name: base64.b64decode(value or "").decode() for name, value in data.items()}


def signs(space: Space) -> tuple[bool, bool]:
    """Return whether the bus's own root signs, and whether the former is trusted still."""
    files = authority(space)
    return files["signs"] == "yes", bool(files["former.crt"])


def a_day_passes(space: Space) -> None:
    """Set back when the step began, as if it had been days ago."""
    since = base64.b64encode(b"2026-01-01T00:00:00Z").decode()
    patch = json.dumps({"data": {"since": since}})
    space.cluster.kubectl("patch", "secret", "bus.authority", "-n", space.name, "-p", patch)


def files_arrive(space: Space) -> None:
    """Have kubelets bring the new files at once, and wait until every pod shows them.

    The client's pod too: a day is long enough for it. Pods that are being replaced need none:
    their successors start with the new files.
    """
    for pod in space.cluster.list("pod", space.name, "bendybus.io/bus=bus"):
        if "deletionTimestamp" in pod["metadata"]:
            continue
        name, role = pod["metadata"]["name"], pod["metadata"]["labels"]["bendybus.io/role"]
        tls = "/etc/bendybus/tls"
        shows(space, name, f"bus-{role}-tls", {file: f"{tls}/{file}" for file in FILES})
    shows(space, "load", "bus-rootmanagesharedaccesskey", {"ca.crt": traffic.CA_FILE})


def shows(space: Space, pod: str, secret: str, paths: dict[str, str]) -> None:
    """Have a kubelet bring the files of a Secret at once; `paths`: where the pod has each."""
    data = space.cluster.get("secret", secret, space.name)["data"]
    look = f"e2e/look={hash(str(data))}"
    space.cluster.kubectl("annotate", "pod", pod, "-n", space.name, "--overwrite", look)

    def arrived() -> bool:
        shown = ("exec", pod, "-n", space.name, "--", "cat")
        return all(
            space.cluster.kubectl(*shown, path) == base64.b64decode(data[file]).decode()
            for file, path in paths.items()
        )

    eventually(arrived, within_s=150, what=f"{pod} has its new files")


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
