"""A volume that is full, and volumes that are to grow."""

from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Body, Cluster, Nodes, eventually
from tests.e2e.conftest import Installation, Space, fresh_space
from tests.e2e.test_clock import warnings

TINY = "/var/lib/tiny"
BUS = """
import os
from bendybus.client import ServiceBusClient, ServiceBusMessage
client = ServiceBusClient.from_connection_string(os.environ["BENDYBUS_CONNECTION_STRING"])
"""
FILL = (
    BUS
    + """
sent = 0
with client.get_queue_sender("orders") as sender:
    try:
        for sent in range(2_000):
            sender.send_messages(ServiceBusMessage("x" * 150_000), timeout=10)
    except Exception as error:
        print("refused:", error)
print("sent", sent)
"""
)
EMPTY = (
    BUS
    + """
import time
received = 0
with client.get_queue_receiver("orders") as receiver:
    while messages := receiver.receive_messages(100, max_wait_time=3):
        for message in messages:
            receiver.complete_message(message)
        received += len(messages)
print("received", received)
with client.get_queue_sender("orders") as sender:
    for _ in range(100):
        try:
            sender.send_messages(ServiceBusMessage("small"), timeout=10)
        except Exception as error:
            last = error
            time.sleep(0.2)
        else:
            print("room again")
            break
    else:
        print(last)
"""
)


def script(space: Space, text: str) -> str:
    """Run Python with the client in a pod, and return what it printed."""
    return space.say(f"python3 - <<'END'\n{text}\nEND", within_s=90)


@pytest.fixture
def nodes(cluster: Cluster) -> Nodes:
    if cluster.nodes is None:
        pytest.skip("a small file system can be mounted only on nodes of shared/cluster")
    return cluster.nodes


def small_volume(index: int) -> Body:
    """Return a volume on a tmpfs of node1, for one partition."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"tiny-{index}", "labels": {"e2e": "tiny"}},
        "spec": {
            "capacity": {"storage": "96Mi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "tiny",
            "local": {"path": f"{TINY}-{index}"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {
                                    "key": "kubernetes.io/hostname",
                                    "operator": "In",
                                    "values": ["node1"],
                                }
                            ]
                        }
                    ]
                }
            },
        },
    }


def test_a_full_volume_refuses_sends_and_lets_everything_else_go_on(
    space: Space, nodes: Nodes
) -> None:
    cluster = space.cluster
    for index in (0, 1):
        path = f"{TINY}-{index}"
        nodes.execute("node1", "mkdir", "-p", path)
        nodes.execute("node1", "mount", "-t", "tmpfs", "-o", "size=96m,mode=0777", "tiny", path)
    try:
        cluster.apply(small_volume(0), small_volume(1))
        storage = {"size": "96Mi", "storageClassName": "tiny"}
        space.start(space.bus("bus", 2, storage=storage), space.queue("orders", "bus"))
        uids = [space.pod(space.partition_pod("bus", each))["metadata"]["uid"] for each in (0, 1)]

        filling = script(space, FILL)
        eventually(lambda: "DiskLow" in warnings(space), within_s=30, what="the status says so")
        said = filling + script(space, EMPTY)

        assert "refused: " in said
        assert "room again" in said
        after = [space.pod(space.partition_pod("bus", each)) for each in (0, 1)]
        assert [pod["metadata"]["uid"] for pod in after] == uids
        restarts = [pod["status"]["containerStatuses"][0]["restartCount"] for pod in after]
        assert restarts == [0, 0], "liveness does not look at the disk"
        cluster.await_ready("Queue", "orders", space.name)
    finally:
        cluster.kubectl("delete", "namespace", space.name, "--timeout=80s")
        cluster.kubectl("delete", "pv", "-l", "e2e=tiny", "--timeout=30s")
        for index in (0, 1):
            nodes.execute("node1", "umount", "-l", f"{TINY}-{index}")


@pytest.fixture(scope="module")
def shared(installation: Installation) -> Iterator[Space]:
    """Two buses of one partition: the volume of `growing` may grow, that of `bus` may not."""
    cluster = installation.cluster
    found = cluster.get("storageclass", "standard", "")
    growing = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "growing"},
        "provisioner": found["provisioner"],
        "volumeBindingMode": found.get("volumeBindingMode", "Immediate"),
        "allowVolumeExpansion": True,
    }
    with fresh_space(installation, "storage") as space:
        cluster.apply(growing)
        space.start(
            space.bus("bus", 1, storage={"size": "1Gi"}),
            space.bus("growing", 1, storage={"size": "1Gi", "storageClassName": "growing"}),
            space.queue("orders", "bus"),
        )
        yield space


def test_volumes_that_cannot_grow_leave_the_bus_as_it_is_and_say_why(shared: Space) -> None:
    shared.cluster.apply(shared.bus("bus", 1, storage={"size": "2Gi"}))
    refused = shared.cluster.await_reason(
        "BusNamespace", "bus", shared.name, "StorageNotExpandable"
    )

    assert "allowVolumeExpansion" in refused["message"]
    assert "1 sent" in shared.say("echo x | bendybus send orders")


def test_volumes_grow_where_the_storage_class_allows_it(shared: Space) -> None:
    """The test cluster's provisioner does not resize: what is checked are the objects."""
    space, cluster = shared, shared.cluster
    uid = space.pod("growing-partition-0")["metadata"]["uid"]

    storage = {"size": "2Gi", "storageClassName": "growing"}
    cluster.apply(space.bus("growing", 1, storage=storage))

    def grown() -> bool:
        claim = cluster.get("pvc", "data-growing-partition-0", space.name)
        sets = cluster.get("statefulset", "growing-partition", space.name)["spec"]
        template = sets["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
        asked = claim["spec"]["resources"]["requests"]["storage"]
        return bool(asked == template == "2Gi")

    eventually(grown, within_s=30, what="claim and template ask for 2Gi")
    cluster.await_ready("BusNamespace", "growing", space.name)
    assert space.pod("growing-partition-0")["metadata"]["uid"] == uid, "the pod was taken over"
