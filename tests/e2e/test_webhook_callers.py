"""A pod without credentials calls the webhooks: it learns nothing, and stops nobody."""

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.cluster import Body, CommandFailed, eventually
from tests.e2e.conftest import SYSTEM, Installation, Space, fresh_space

STRANGER: Final = Path(__file__).with_name("stranger.py")
HOST: Final = f"bendybus-operator.{SYSTEM}.svc"
LATE_S: Final = 2.0
CHANGES: Final = 12


@pytest.fixture(scope="module")
def victim(installation: Installation) -> Iterator[Space]:
    """A bus whose queue holds messages, and may go with them if it is deleted."""
    with fresh_space(installation, "victim") as space:
        space.start(
            space.bus("bus", 1),
            space.queue("orders", "bus", deletionPolicy="Delete"),
            space.queue("changing", "bus"),
        )
        assert "2 sent" in space.say("printf 'a\\nb\\n' | bendybus send orders")
        yield space


@pytest.fixture
def stranger(installation: Installation, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace with a pod that has nothing but Python and the script."""
    with fresh_space(installation, f"stranger-{request.node.name[5:25]}") as space:
        metadata = {"name": "stranger", "namespace": space.name}
        text = STRANGER.read_text(encoding="utf-8")
        container: Body = {
            "name": "stranger",
            "image": space.image,
            "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"],
            "volumeMounts": [{"name": "script", "mountPath": "/script"}],
        }
        pod = {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "script", "configMap": {"name": "stranger"}}],
        }
        space.cluster.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            | {"data": {"script.py": text}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
        )
        space.cluster.kubectl(
            *("wait", "--for=condition=Ready", "pod/stranger"),
            *("-n", space.name, "--timeout=60s"),
        )
        yield space


def asked(stranger: Space, *reviews: tuple[str, Body]) -> list[Body]:
    """Have the stranger send reviews; return the answers."""
    lines = [json.dumps({"operation": what, "body": body}) for what, body in reviews]
    said = stranger.cluster.kubectl(
        *("exec", "-i", "stranger", "-n", stranger.name, "--"),
        *("python3", "/script/script.py", HOST, "ask"),
        stdin="\n".join(lines) + "\n",
    )
    return [json.loads(line) for line in said.splitlines()]


def test_a_stranger_learns_no_count_of_messages(victim: Space, stranger: Space) -> None:
    there = victim.cluster.get("queue", "orders", victim.name)
    invented = json.loads(json.dumps(there))
    invented["metadata"]["uid"] = str(uuid.uuid4())
    # A manifest of her own that says it is about the queue of a foreign bus.
    foreign = json.loads(json.dumps(there))
    foreign["metadata"] |= {"namespace": stranger.name, "uid": str(uuid.uuid4())}
    foreign["spec"]["namespaceRef"] = {"name": "bus", "namespace": victim.name}
    bus = victim.cluster.get("busnamespace", "bus", victim.name)
    bus["metadata"]["uid"] = str(uuid.uuid4())
    bus["spec"]["deletionPolicy"] = "Delete"

    answers = asked(
        stranger,
        *[(operation, body) for operation in ("DELETE", "UPDATE") for body in (invented, foreign)],
        ("DELETE", bus),
    )

    assert len(answers) == 5
    for answer in answers:
        assert answer["http"] == 200, answer
        assert "message(s)" not in json.dumps(answer), answer
        assert "holds" not in json.dumps(answer), answer
    # The owner is told.
    with pytest.raises(CommandFailed, match=r"holds 2 message\(s\)"):
        victim.cluster.kubectl("delete", "queue", "orders", "-n", victim.name)


def test_a_stranger_who_floods_the_webhooks_holds_up_no_change(
    installation: Installation, victim: Space, stranger: Space
) -> None:
    cluster, took_s = victim.cluster, []
    before = [pod["metadata"]["uid"] for pod in installation.operators()]
    shell = f"python3 /script/script.py {HOST} flood >/tmp/told.json 2>&1 &"
    exec_ = ("exec", "stranger", "-n", stranger.name, "--", "sh", "-c")
    cluster.kubectl(*exec_, shell)
    eventually(
        lambda: cluster.kubectl(*exec_, "cat /tmp/flood.json"), within_s=60, what="she is answered"
    )

    for number in range(CHANGES):
        patch = json.dumps({"spec": {"maxDeliveryCount": 3 + number}})
        began_s = time.monotonic()
        cluster.kubectl(
            *("patch", "queue", "changing", "-n", victim.name, "--type=merge", "-p", patch)
        )
        took_s.append(round(time.monotonic() - began_s, 2))
    cluster.kubectl(*exec_, "touch /tmp/stop")
    told = eventually(
        lambda: cluster.kubectl(*exec_, "cat /tmp/told.json"), within_s=60, what="she ends"
    )

    print(f"changes took {took_s} s; she was told {told.strip()}")
    assert max(took_s) < LATE_S
    now = installation.operators()
    assert [pod["metadata"]["uid"] for pod in now] == before
    assert [each["restartCount"] for pod in now for each in pod["status"]["containerStatuses"]] == [
        0
    ] * len(now)


def reaches(stranger: Space) -> bool:
    """Whether the stranger's pod can connect to the webhooks."""
    script = f"import socket; socket.create_connection(('{HOST}', 443), timeout=5)"
    try:
        stranger.cluster.kubectl(
            *("exec", "stranger", "-n", stranger.name, "--", "python3", "-c", script)
        )
    except CommandFailed:
        return False
    return True


def test_helm_test_tells_whether_a_pod_is_refused_where_only_the_api_server_may_call(
    installation: Installation, stranger: Space
) -> None:
    """Refused where the network enforces policies; elsewhere the test fails, and says why."""
    cluster = stranger.cluster
    slices = json.loads(
        cluster.kubectl(
            *("get", "endpointslices", "-n", "default", "-o", "json"),
            *("-l", "kubernetes.io/service-name=kubernetes"),
        )
    )["items"]
    servers = [
        address for each in slices for one in each["endpoints"] for address in one["addresses"]
    ]
    cidrs = ",".join(f"{each}/32" for each in servers)
    installation.install("--set", f"networkPolicy.webhooksFrom={{{cidrs}}}")
    try:
        [rule] = [
            each
            for each in cluster.get("networkpolicy", "bendybus-operator", SYSTEM)["spec"]["ingress"]
            if each["ports"] == [{"port": "webhook", "protocol": "TCP"}]
        ]
        assert [each["ipBlock"]["cidr"] for each in rule["from"]] == [
            f"{each}/32" for each in servers
        ]
        command = ("test", "bendybus", "-n", SYSTEM, "--filter", "name=bendybus-test-webhooks")
        if reaches(stranger):
            with pytest.raises(CommandFailed):
                cluster.helm(*command, "--timeout", "60s")
            said = cluster.kubectl("logs", "bendybus-test-webhooks", "-n", SYSTEM)
            assert "the cluster does not enforce NetworkPolicies" in said
        else:
            assert "Phase:          Succeeded" in cluster.helm(*command, "--timeout", "60s")
        # The API server still calls: changes are reviewed.
        with pytest.raises(CommandFailed, match="no more than 40 characters"):
            cluster.apply(stranger.manifest("BusNamespace", "b" * 41))
    finally:
        cluster.kubectl(
            "delete", "pod", "bendybus-test-webhooks", "-n", SYSTEM, "--ignore-not-found"
        )
        installation.install()
