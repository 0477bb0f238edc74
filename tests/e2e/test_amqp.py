"""The official SDK on a real bus: TLS on 5671, WebSockets on 443, keys from a Secret."""

import json
from pathlib import Path

import pytest

from tests.e2e import images, traffic
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Installation, fresh_space

CLIENT = Path(__file__).with_name("sdk_client.py")
SECRET = "bus-rootmanagesharedaccesskey"


@pytest.mark.core
def test_the_python_sdk_sends_and_receives_over_tls_and_websockets(
    installation: Installation,
) -> None:
    image = images.sdk(installation.cluster)
    with fresh_space(installation, "amqp") as space:
        space.start(
            space.bus("bus", 2, frontend={"replicas": 2}),
            space.queue("orders", "bus"),
            space.queue("visits", "bus", requiresSession=True),
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
        eventually(
            lambda: space.pod("sdk")["status"]["phase"] in ("Succeeded", "Failed"),
            within_s=120,
            what="the client ends",
        )
        said = space.cluster.kubectl("logs", "sdk", "-n", space.name)
        counts = space.say("bendybus get queues -o json")

    expected = {"received": 50, "session": ["in a session"], "state": "kept"}
    last = said.strip().splitlines()[-1]
    assert last.startswith("{"), said
    assert json.loads(last) == {"Amqp": expected, "AmqpOverWebsocket": expected}
    rows = [json.loads(line) for line in counts.splitlines()]
    left = {row["name"]: row["runtime"]["countDetails"]["activeMessageCount"] for row in rows}
    assert left == {"orders": 0, "visits": 0}
