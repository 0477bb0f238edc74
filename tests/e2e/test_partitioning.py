"""The four layers against a change of partitioning, each by itself."""

import contextlib
import json
from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster, CommandFailed, eventually
from tests.e2e.conftest import SYSTEM, Installation, Space, fresh_space

CRDS = ("busnamespaces.bendybus.io", "queues.bendybus.io")


@contextlib.contextmanager
def without_webhooks(cluster: Cluster) -> Iterator[None]:
    """Take the webhook configuration away for a while."""
    kept = json.loads(
        cluster.kubectl("get", "validatingwebhookconfiguration", "bendybus", "-o", "json")
    )
    for name in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
        kept["metadata"].pop(name, None)
    cluster.kubectl("delete", "validatingwebhookconfiguration", "bendybus")
    try:
        yield
    finally:
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(kept))


@contextlib.contextmanager
def without_rules(cluster: Cluster) -> Iterator[None]:
    """Take the CEL rules out of the CRDs for a while."""
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations"
    kept = {name: json.loads(cluster.kubectl("get", "crd", name, "-o", "json")) for name in CRDS}
    for name in CRDS:
        patch = json.dumps([{"op": "remove", "path": path}])
        cluster.kubectl("patch", "crd", name, "--type=json", "-p", patch)
    try:
        yield
    finally:
        for name, crd in kept.items():
            rules = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            patch = json.dumps(
                [{"op": "add", "path": path, "value": rules["x-kubernetes-validations"]}]
            )
            cluster.kubectl("patch", "crd", name, "--type=json", "-p", patch)


def change(space: Space, kind: str, name: str, patch: str) -> None:
    space.cluster.kubectl("patch", kind, name, "-n", space.name, "--type=merge", "-p", patch)


@pytest.fixture(scope="module")
def running(installation: Installation) -> Iterator[Space]:
    """A bus that all layers but one are tried on: it is what it was after each."""
    with fresh_space(installation, "partitioning") as space:
        space.start(space.bus("bus", 2), space.queue("orders", "bus"))
        yield space


MORE = '{"spec": {"premiumMessagingPartitions": 4}}'
DETECT = '{"spec": {"requiresDuplicateDetection": true}}'


@pytest.mark.core
def test_the_first_layer_is_the_api_server_with_operator_and_webhooks_away(
    installation: Installation, running: Space
) -> None:
    cluster = running.cluster
    with without_webhooks(cluster):
        cluster.kubectl("scale", "deployment", "-n", SYSTEM, "--all", "--replicas=0")
        try:
            eventually(lambda: not installation.operators(), within_s=60, what="no operator")
            for kind, name, patch in (
                ("busnamespace", "bus", MORE),
                ("busnamespace", "bus", '{"spec": {"sku": {"tier": "Standard"}}}'),
                ("queue", "orders", DETECT),
                ("queue", "orders", '{"spec": {"enablePartitioning": true}}'),
            ):
                with pytest.raises(CommandFailed, match="cannot change after creation"):
                    change(running, kind, name, patch)
        finally:
            cluster.kubectl("scale", "deployment", "-n", SYSTEM, "--all", "--replicas=2")
            cluster.kubectl("rollout", "status", "deployment", "-n", SYSTEM, "--timeout=90s")


def test_the_second_layer_is_the_webhook_with_the_rules_away(running: Space) -> None:
    with without_rules(running.cluster):

        def refused() -> bool:
            with pytest.raises(CommandFailed, match="is 2 since the namespace was created and ca"):
                change(running, "busnamespace", "bus", MORE)
            return True

        # The API server compiles a changed schema anew; until then its rules still answer.
        eventually(refused, within_s=20, what="the webhook refuses")
        with pytest.raises(CommandFailed, match="cannot be changed after creation"):
            change(running, "queue", "orders", DETECT)


@pytest.mark.core
def test_the_third_layer_is_the_reconciler_with_rules_and_webhooks_away(running: Space) -> None:
    cluster = running.cluster
    with without_rules(cluster), without_webhooks(cluster):

        def taken() -> bool:
            change(running, "busnamespace", "bus", MORE)
            return True

        eventually(taken, within_s=20, what="nobody refuses any more")
        bus = cluster.await_reason("BusNamespace", "bus", running.name, "PartitioningImmutable")
        pods = cluster.list("pod", running.name, "bendybus.io/role=partition")
        change(running, "queue", "orders", DETECT)
        queue = cluster.await_reason("Queue", "orders", running.name, "FieldImmutable")
        # Back to what it was, it is Ready again.
        change(running, "busnamespace", "bus", MORE.replace("4", "2"))
        change(running, "queue", "orders", DETECT.replace("true", "false"))
        cluster.await_ready("BusNamespace", "bus", running.name)
        cluster.await_ready("Queue", "orders", running.name)

    assert "is 2 since the namespace was created and cannot become 4" in bus["message"]
    assert len(pods) == 2
    fixed = "requiresDuplicateDetection cannot be changed after creation (is false"
    assert fixed in queue["message"]


@pytest.mark.core
def test_deleting_and_making_anew_does_not_change_the_partitioning_either(space: Space) -> None:
    running, cluster = space, space.cluster
    space.start(space.bus("bus", 2), space.queue("orders", "bus"))
    cluster.kubectl("delete", "queue,busnamespace", "--all", "-n", running.name)

    cluster.apply(running.bus("bus", 4))
    kept = cluster.await_reason("BusNamespace", "bus", running.name, "RetainedData")
    cluster.kubectl(
        "annotate", "busnamespace", "bus", "-n", running.name, "bendybus.io/retained-data=adopt"
    )
    refused = cluster.await_reason("BusNamespace", "bus", running.name, "PartitioningImmutable")

    assert "=adopt to continue it, or =purge to delete them" in kept["message"]
    assert "is 2 since the namespace was created" in refused["message"]
    # The old pods go with their BusNamespace; no new ones come.
    eventually(
        lambda: not cluster.list("pod", running.name, "bendybus.io/role=partition"),
        within_s=90,
        what="no partition runs",
    )


def test_the_fourth_layer_is_the_file_itself_in_another_pod(running: Space) -> None:
    cluster = running.cluster
    claim = cluster.get("pvc", "data-bus-partition-0", running.name)
    uid = claim["metadata"]["annotations"]["bendybus.io/namespace-uid"]
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "thief", "namespace": running.name},
            "spec": {
                "restartPolicy": "Never",
                "securityContext": {"runAsUser": 10001, "fsGroup": 10001},
                "containers": [
                    {
                        "name": "thief",
                        "image": running.image,
                        "command": [
                            *("sh", "-c"),
                            "python3 -m bendybus.partition_server store copy "
                            "/theirs/partition-00.db /tmp/partition-01.db && exec python3 -m "
                            "bendybus.partition_server serve --data /tmp --namespace-name bus "
                            f"--namespace-uid {uid} --tier Premium --partition-count 2 "
                            "--partitions 1",
                        ],
                        "volumeMounts": [{"name": "theirs", "mountPath": "/theirs"}],
                    }
                ],
                "volumes": [
                    {
                        "name": "theirs",
                        "persistentVolumeClaim": {"claimName": "data-bus-partition-0"},
                    }
                ],
            },
        }
    )

    eventually(
        lambda: running.pod("thief")["status"]["phase"] == "Failed",
        within_s=40,
        what="the server ends",
    )
    said = cluster.kubectl("logs", "thief", "-n", running.name)
    assert "partition 0 instead of 1" in said
    cluster.await_ready("Queue", "orders", running.name)
