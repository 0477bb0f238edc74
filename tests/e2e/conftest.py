"""One cluster and one installation for all tests, a Kubernetes namespace for each."""

import contextlib
import os
import re
import subprocess
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e import images, traffic
from tests.e2e.cluster import ROOT, Body, Cluster, CommandFailed, eventually, provided

SYSTEM: Final = os.environ.get("BENDYBUS_E2E_NAMESPACE", "bendybus-system")
RELEASE: Final = "bendybus"
CHART: Final = ROOT / "charts" / "bendybus"
API_VERSION: Final = "bendybus.io/v1alpha1"
SCENE_LINES: Final = 60
SCENE_COLUMNS: Final = 240


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with provided() as found:
        yield found


@pytest.fixture(scope="session")
def image(cluster: Cluster) -> str:
    return images.current(cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the cluster looked like then: namespaces are gone afterwards."""
    report = yield
    found = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and found is not None:
        report.sections.append(("the cluster then", scene(found)))
    return report


def scene(cluster: Cluster) -> str:
    """Return pods, the latest warnings and what operators said last, as far as can be had."""
    commands = (
        ("get", "pods", "-A", "-o", "wide"),
        ("get", "endpointslices", "-A"),
        ("get", "events", "-A", "--field-selector=type=Warning", "--sort-by=.lastTimestamp"),
        ("logs", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator", "--tail=30"),
    )
    shown = []
    for command in commands:
        with contextlib.suppress(CommandFailed, subprocess.TimeoutExpired):
            said = cluster.kubectl(*command, timeout_s=10).splitlines()
            shown += [f"$ kubectl {' '.join(command)}", *said[:1], *said[1:][-SCENE_LINES:]]
    return "\n".join(line[:SCENE_COLUMNS] for line in shown)


@dataclass(frozen=True, slots=True)
class Installation:
    """The chart as it is installed."""

    cluster: Cluster
    image: str

    def install(self, *options: str, chart: Path = CHART) -> str:
        """Install or upgrade, and wait until it is ready."""
        repository, _, tag = self.image.rpartition(":")
        return self.cluster.helm(
            *("upgrade", "--install", RELEASE, str(chart), "--namespace", SYSTEM),
            *("--create-namespace", "--wait", "--timeout", "120s"),
            *("--set", f"image.repository={repository}", "--set", f"image.tag={tag}"),
            *options,
        )

    def operators(self) -> list[Body]:
        """Return the operator's pods."""
        return self.cluster.list("pod", SYSTEM, "app.kubernetes.io/component=operator")


@pytest.fixture(scope="session")
def installation(cluster: Cluster, image: str) -> Installation:
    made = Installation(cluster, image)
    made.install()
    return made


@dataclass(slots=True)
class Space:
    """A Kubernetes namespace of one test, with what tests do in it."""

    cluster: Cluster
    name: str
    image: str
    made: list[Body] = field(default_factory=list)

    def bus(self, name: str, partitions: int = 2, **spec: Any) -> Body:
        """Return the manifest of a Premium bus."""
        tier = {"sku": {"tier": "Premium"}, "premiumMessagingPartitions": partitions}
        frontend = {"frontend": {"replicas": 1}}
        return self.manifest("BusNamespace", name, **{**tier, **frontend, **spec})

    def queue(self, name: str, bus: str, **spec: Any) -> Body:
        """Return the manifest of a queue."""
        return self.manifest("Queue", name, namespaceRef={"name": bus}, **spec)

    def manifest(self, kind: str, name: str, **spec: Any) -> Body:
        """Return a manifest in this namespace."""
        metadata = {"name": name, "namespace": self.name}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}

    def start(self, *documents: Body, within_s: float = 120) -> None:
        """Apply manifests and wait until all are Ready."""
        self.cluster.apply(*documents)
        for each in documents:
            self.cluster.await_ready(
                each["kind"], each["metadata"]["name"], self.name, within_s=within_s
            )

    def say(
        self,
        command: str,
        *,
        secret: str = "bus-rootmanagesharedaccesskey",
        within_s: float = 60,
        fresh: bool = False,
    ) -> str:
        """Run a shell command with the CLI and a bus's Secret; return what it printed."""
        return traffic.say(
            *(self.cluster, self.name, self.image, command),
            secret=secret,
            within_s=within_s,
            fresh=fresh,
        )

    def ready(self, kind: str, name: str) -> Body:
        """Return a Ready condition."""
        return self.cluster.ready(kind, name, self.name)

    def partition_pod(self, bus: str, index: int) -> str:
        """Return the name of a partition's pod."""
        return f"{bus}-partition-{index}"

    def pod(self, name: str) -> Body:
        """Return a pod."""
        return self.cluster.get("pod", name, self.name)


@contextlib.contextmanager
def fresh_space(installation: Installation, title: str, *, strict: bool = False) -> Iterator[Space]:
    """Give a Kubernetes namespace of its own; `strict`: it takes restricted pods only."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).removeprefix("test-")
    name = f"e2e-{words[:40].strip('-')}"
    cluster = installation.cluster
    if cluster.exists("namespace", name, ""):
        cluster.kubectl("delete", "namespace", name, "--timeout=80s")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"} if strict else {}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    )
    eventually(
        lambda: cluster.exists("serviceaccount", "default", name),
        within_s=20,
        what=f"namespace {name} can be used",
    )
    yield Space(cluster, name, installation.image)
    if not os.environ.get("BENDYBUS_E2E_KEEP"):
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.fixture
def space(request: pytest.FixtureRequest, installation: Installation) -> Iterator[Space]:
    with fresh_space(installation, request.node.name) as made:
        yield made
