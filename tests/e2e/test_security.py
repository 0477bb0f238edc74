"""Keys, roles, certificates, pods without privileges; NetworkPolicies as far as objects go."""

import base64
import functools
import json
from collections.abc import Iterator

import pytest

from tests.e2e import traffic
from tests.e2e.cluster import eventually
from tests.e2e.conftest import SYSTEM, Installation, Space, fresh_space

# What an application could do to reach further than its connection string says.
WITHOUT_ENTITY_PATH = (
    'export BENDYBUS_CONNECTION_STRING="$(echo $BENDYBUS_CONNECTION_STRING | '
    'sed s/.EntityPath=.*//)"'
)


def secret(space: Space, name: str) -> dict[str, str]:
    data = space.cluster.get("secret", name, space.name)["data"]
    return {key: base64.b64decode(text).decode() for key, text in data.items()}


RULES = [
    {"name": "sender", "rights": ["Send"]},
    {"name": "reader", "rights": ["Listen"], "entity": "orders"},
]


@pytest.fixture(scope="module")
def space(installation: Installation) -> Iterator[Space]:
    """A bus of one partition that all of these tests share."""
    with fresh_space(installation, "security") as made:
        made.start(
            made.bus("bus", 1, authorizationRules=RULES),
            made.queue("orders", "bus"),
            made.queue("other", "bus"),
        )
        yield made


def test_a_bus_runs_where_only_restricted_pods_may(installation: Installation) -> None:
    with fresh_space(installation, "restricted", strict=True) as space:
        space.start(space.bus("bus", 1), space.queue("orders", "bus"))
        pods = space.cluster.list("pod", space.name)

    assert len(pods) == 2
    for pod in pods:
        assert pod["spec"]["automountServiceAccountToken"] is False
        mounts = pod["spec"]["containers"][0]["volumeMounts"]
        assert not any("serviceaccount" in mount["mountPath"] for mount in mounts)
        assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


@pytest.mark.core
def test_policies_grant_what_they_say_and_no_more(space: Space) -> None:
    def attempt(rule: str, command: str) -> str:
        return space.say(f"{{ {command}; }} 2>&1 || true", secret=f"bus-{rule}")

    assert "1 sent" in attempt("sender", "echo orchid | bendybus send orders")
    refused = [
        attempt("sender", "bendybus receive orders"),
        attempt("reader", "echo x | bendybus send orders"),
        attempt("reader", f"{WITHOUT_ENTITY_PATH}; bendybus receive other"),
    ]
    assert "orchid" in attempt("reader", "bendybus receive orders")

    keys = {text for rule in ("sender", "reader") for text in secret(space, f"bus-{rule}").values()}
    logs = space.cluster.kubectl("logs", "deployment/bus-frontend", "-n", space.name)
    for said in refused:
        assert "sent" not in said
        assert "right" in said.lower() or "policy" in said.lower(), said
    for key in keys:
        if "=" in key:
            assert key not in logs


def test_a_key_is_rotated_by_removing_it(space: Space) -> None:
    name = "bus-rootmanagesharedaccesskey"
    before = secret(space, name)
    patch = json.dumps([{"op": "remove", "path": "/data/primaryKey"}])

    space.cluster.kubectl("patch", "secret", name, "-n", space.name, "--type=json", "-p", patch)
    after = eventually(
        lambda: (
            (
                (now := secret(space, name)).get("primaryKey", before["primaryKey"])
                != before["primaryKey"]
                and now
            )
            or None
        ),
        within_s=30,
        what="there is a new primary key",
    )

    assert after["secondaryKey"] == before["secondaryKey"]
    assert after["primaryKey"] in after["primaryConnectionString"]
    # A kubelet brings mounted files up to date within two minutes, and when it looks at the pod.
    for pod in space.cluster.list("pod", space.name, "bendybus.io/role=frontend"):
        pod_name = pod["metadata"]["name"]
        space.cluster.kubectl("annotate", "pod", pod_name, "-n", space.name, "e2e/look=now")
    eventually(
        lambda: "1 sent" in space.say("echo x | bendybus send orders", fresh=True),
        within_s=150,
        what="front ends know the new key",
    )


def test_partitions_talk_only_to_those_whose_certificate_has_a_role(space: Space) -> None:
    script = (
        "import grpc; from pathlib import Path\n"
        "ca = Path('/etc/bendybus/ca.crt').read_bytes()\n"
        f"target = 'bus-partition-0.bus-partition.{space.name}.svc:7490'\n"
        "for credentials in (grpc.ssl_channel_credentials(ca), None):\n"
        "    channel = grpc.secure_channel(target, credentials) if credentials else "
        "grpc.insecure_channel(target)\n"
        "    try: grpc.channel_ready_future(channel).result(5); print('open')\n"
        "    except grpc.FutureTimeoutError: print('closed')\n"
    )

    said = space.say(f'python3 -c "{script}"')

    assert said.split() == ["closed", "closed"]


def test_network_policies_name_who_may_connect(space: Space) -> None:
    policy = space.cluster.get("networkpolicy", "bus-partition", space.name)["spec"]

    peers = policy["ingress"][0]["from"]
    assert policy["ingress"][0]["ports"] == [{"protocol": "TCP", "port": 7490}]
    assert [peer["podSelector"]["matchLabels"].get("bendybus.io/role") for peer in peers] == [
        "frontend",
        "partition",
        None,
    ]
    assert peers[2]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": SYSTEM}


def test_no_key_is_in_a_status_an_event_or_an_argument(space: Space) -> None:
    known = secret(space, "bus-rootmanagesharedaccesskey")

    everything = "".join(
        space.cluster.kubectl("get", kind, "-n", space.name, "-o", "yaml")
        for kind in ("bendybus", "pods", "events", "deployments", "statefulsets", "configmaps")
    )

    for name in ("primaryKey", "secondaryKey"):
        assert known[name] not in everything


def test_wrong_keys_are_refused_and_counted(space: Space) -> None:
    space.start(space.bus("other", 1))
    foreign = secret(space, "other-rootmanagesharedaccesskey")["primaryKey"]
    command = (
        'export BENDYBUS_CONNECTION_STRING="$(echo $BENDYBUS_CONNECTION_STRING | '
        f"sed 's#SharedAccessKey=.*#SharedAccessKey={foreign}#')\"; "
        "echo x | bendybus send orders 2>&1 || true"
    )

    said = space.say(command)
    metrics = space.say(
        'python3 -c "import urllib.request as u; print(u.urlopen('
        f"'http://{_frontend(space)}:7482/metrics'"
        ').read().decode())"',
    )

    assert "sent" not in said
    assert foreign not in said
    assert 'bendybus_refused_callers_total{cause="wrong-key"} ' in metrics


def _frontend(space: Space) -> str:
    (pod,) = space.cluster.list("pod", space.name, "bendybus.io/role=frontend,bendybus.io/bus=bus")
    address: str = pod["status"]["podIP"]
    return address


def test_certificates_are_exchanged_under_load_without_a_restart(space: Space) -> None:
    """Deleting a Secret is how an owner asks for a new certificate at once."""
    cluster = space.cluster
    space.start(space.queue("exchanged", "bus"))
    ours = cluster.list("pod", space.name, "bendybus.io/bus=bus")
    pods = [pod["metadata"]["name"] for pod in ours]
    before = [serial(space, pod) for pod in pods]
    with traffic.running(cluster, space.name, "bus", "exchanged", image=space.image) as load:
        cluster.kubectl("delete", "secret", "bus-partition-tls", "bus-frontend-tls", *_in(space))
        for name in ("bus-partition-tls", "bus-frontend-tls"):
            eventually(
                functools.partial(cluster.exists, "secret", name, space.name),
                within_s=30,
                what=f"there is a new {name}",
            )
        for pod in pods:
            cluster.kubectl("annotate", "pod", pod, *_in(space), "e2e/certificates=look")
        eventually(
            lambda: not set(before) & {serial(space, pod) for pod in pods},
            within_s=150,
            what="all pods show new certificates",
        )
        load.flows(more=100)
        report = load.finish()

    traffic.nothing_lost(report)
    assert report["errors"] == {"keyless": {}, "keyed": {}, "receive": {}}
    for pod in pods:
        statuses = space.pod(pod)["status"]["containerStatuses"]
        assert [status["restartCount"] for status in statuses] == [0]


def _in(space: Space) -> tuple[str, str]:
    return ("-n", space.name)


def serial(space: Space, pod: str) -> str:
    """Return the serial number of the certificate that a pod shows now."""
    port = 7480 if "frontend" in pod else 7490
    script = (
        "import ssl, sys; from cryptography import x509; "
        f"pem = ssl.get_server_certificate(('127.0.0.1', {port})); "
        "print(x509.load_pem_x509_certificate(pem.encode()).serial_number)"
    )
    return space.cluster.kubectl("exec", pod, *_in(space), "--", "python3", "-c", script).strip()
