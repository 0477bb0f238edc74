"""Official SDKs on a real bus: TLS on 5671, HTTPS and WebSockets on 443, keys from a Secret."""

import json
from pathlib import Path

import pytest

from tests.e2e import images, traffic
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Installation, Space, fresh_space

CLIENT = Path(__file__).with_name("sdk_client.py")
SECRET = "bus-rootmanagesharedaccesskey"

# Operations of tests/sdks/go, which has no certificates of its own.
GO_JOBS = [
    {"id": name, "operation": name, "entity": name.replace("_", "-")}
    for name in ("send_a_list", "peek", "list_queues")
]
GO_SCRIPT = (
    r"""echo "$JOBS" | sed "s|\"entity\"|\"send\": \"$CONNECTION_STRING\", """
    r"""\"listen\": \"$CONNECTION_STRING\", \"manage\": \"$CONNECTION_STRING\", \"entity\"|g" """
    f"| {images.GO_PROGRAM}"
)


def ended(space: Space, pod: str) -> str:
    """Return what a pod printed, once it has ended."""
    eventually(
        lambda: space.pod(pod)["status"]["phase"] in ("Succeeded", "Failed"),
        within_s=180,
        what=f"{pod} ends",
    )
    return space.cluster.kubectl("logs", pod, "-n", space.name)


@pytest.mark.core
def test_official_sdks_send_receive_and_administer_over_tls_and_websockets(
    installation: Installation,
) -> None:
    image = images.sdk(installation.cluster)
    with fresh_space(installation, "amqp") as space:
        space.start(
            space.bus("bus", 2, frontend={"replicas": 2}),
            space.queue("orders", "bus"),
            space.queue("visits", "bus", requiresSession=True),
            *(space.queue(job["entity"], "bus") for job in GO_JOBS),
        )
        objects = traffic.client_pod(
            "sdk",
            space.name,
            image,
            ["python3", "/script/script.py", "orders", "visits"],
            secret=SECRET,
            script=CLIENT.read_text(encoding="utf-8"),
        )
        connection = {"secretKeyRef": {"name": SECRET, "key": "amqpPrimaryConnectionString"}}
        objects[1]["spec"]["containers"][0]["env"].append(
            {"name": "BENDYBUS_SDK_CONNECTION_STRING", "valueFrom": connection}
        )

        space.cluster.apply(*objects)
        go = traffic.client_pod(
            *("go", space.name, image, ["/bin/sh", "-c", GO_SCRIPT]), secret=SECRET
        )
        go[1]["spec"]["containers"][0]["env"] += [
            {"name": "CONNECTION_STRING", "valueFrom": connection},
            {"name": "SSL_CERT_FILE", "value": traffic.CA_FILE},
            {"name": "JOBS", "value": json.dumps(GO_JOBS)},
        ]
        space.cluster.apply(*go)
        said, of_go = (ended(space, name) for name in ("sdk", "go"))
        counts = space.say("bendybus get queues -o json")

    expected = {"received": 50, "session": ["in a session"], "state": "kept"}
    last = said.strip().splitlines()[-1]
    assert last.startswith("{"), said
    found = json.loads(last)
    administration = found.pop("administration")
    assert found == {"Amqp": expected, "AmqpOverWebsocket": expected}
    assert set(administration.pop("listed")) >= {"orders", "visits", "made"}
    assert administration == {"sessions": True, "refused": 400, "sku": "Premium"}
    answers = [json.loads(line) for line in of_go.splitlines()]
    assert {each["id"]: each["error"] for each in answers} == dict.fromkeys(
        job["id"] for job in GO_JOBS
    )
    rows = [json.loads(line) for line in counts.splitlines()]
    left = {row["name"]: row["runtime"]["countDetails"]["activeMessageCount"] for row in rows}
    left_by_go = {"send-a-list": 0, "peek": 30, "list-queues": 0}
    assert left == {"orders": 0, "visits": 0, **left_by_go}
