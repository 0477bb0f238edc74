"""A partition that does not start: its bus says why, and goes on when it can."""

from tests.e2e.cluster import eventually
from tests.e2e.conftest import Space

DATA = "/var/lib/bendybus/partition-00.db"
FORMAT = "import sys, apsw; apsw.Connection(sys.argv[1]).pragma('user_version', int(sys.argv[2]))"


def test_a_partition_in_a_crash_loop_says_so_with_its_last_error(space: Space) -> None:
    cluster = space.cluster
    space.start(space.bus("bus", 1), space.queue("orders", "bus"))
    assert "1 sent" in space.say("echo orchid | bendybus send orders")
    pod = space.partition_pod("bus", 0)
    python = ("exec", pod, "-n", space.name, "--", "python3", "-c", FORMAT, DATA)

    # As a newer version would have left it.
    cluster.kubectl(*python, "99")
    cluster.kubectl("delete", "pod", pod, "-n", space.name)

    def crash() -> dict[str, str]:
        ready = space.ready("BusNamespace", "bus")
        assert "CrashLoopBackOff" in ready["message"], ready
        return ready

    ready = eventually(crash, within_s=120, what="the bus says why its pod does not run")
    assert (ready["status"], ready["reason"]) == ("False", "PartitionUnavailable")
    assert f"pod {pod}" in ready["message"]
    assert "has format 99; this version reads up to 12" in ready["message"]
    conditions = cluster.get("BusNamespace", "bus", space.name)["status"]["conditions"]
    [stalled] = [each for each in conditions if each["type"] == "Stalled"]
    assert stalled["status"] == "True"
    assert "no message is stored or delivered" in ready["message"]
    [queue] = cluster.list("queue", space.name)
    assert queue["status"]["availabilityStatus"] == "Limited"

    mend(space, "12")
    # So that the kubelet does not wait longer and longer.
    cluster.kubectl("delete", "pod", pod, "-n", space.name)
    cluster.await_ready("BusNamespace", "bus", space.name, within_s=120)
    conditions = cluster.get("BusNamespace", "bus", space.name)["status"]["conditions"]
    assert [each["type"] for each in conditions] == ["Ready"]
    assert "orchid" in space.say("bendybus receive orders")


def mend(space: Space, version: str) -> None:
    """Write the format of the file from a pod that mounts the volume beside."""
    mount = {"name": "data", "mountPath": "/var/lib/bendybus"}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-bus-partition-0"}}
    container = {
        "name": "mend",
        "image": space.image,
        "command": ["python3", "-c", FORMAT, DATA, version],
        "volumeMounts": [mount],
    }
    metadata = {"name": "mend", "namespace": space.name}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [claim]}
    space.cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def ended() -> bool:
        phase = space.pod("mend")["status"]["phase"]
        assert phase == "Succeeded", phase
        return True

    eventually(ended, within_s=60, what="the format is written")
