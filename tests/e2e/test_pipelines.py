"""Data pipelines of the chart on a real cluster: a driver in a pod, two executors as pods."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e import images
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import CHART, Installation, Space, fresh_space

ROWS = 200
# Dead-letters all that is in `orders`.
DEAD_LETTER = """
import os
from bendybus.client import ServiceBusClient
with ServiceBusClient.from_connection_string(os.environ["BENDYBUS_CONNECTION_STRING"]) as client:
    receiver = client.get_queue_receiver("orders", max_wait_time=3)
    for message in receiver:
        receiver.dead_letter_message(message, reason="broken")
"""
NEVER = "0 0 1 1 *"
SECRET = "bus-rootmanagesharedaccesskey"


@pytest.fixture(scope="session")
def spark_image(cluster: Cluster) -> str:
    return images.spark(cluster)


@pytest.fixture(scope="module")
def shop(installation: Installation) -> Iterator[Space]:
    """A bus with the queue `orders`, and a file of rows."""
    with fresh_space(installation, "pipelines") as space:
        rows = "text,key\n" + "".join(f"row {n},k{n % 7}\n" for n in range(ROWS))
        space.cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "rows", "namespace": space.name},
                "data": {"rows.csv": rows},
            }
        )
        space.start(space.bus("bus", 2), space.queue("orders", "bus"))
        yield space


def deploy(space: Space, image: str, **pipeline: Any) -> str:
    """Apply what the chart makes of one pipeline; return the name of its objects."""
    repository, _, tag = image.rpartition(":")
    values = {
        "spark": {"image": {"repository": repository, "tag": tag}},
        "pipelines": [{"secret": SECRET, "executors": {"instances": 2}, **pipeline}],
    }
    rendered = "\n---\n".join(
        space.cluster.helm_template(CHART, space.name, values, f"templates/{part}.yaml")
        for part in ("pipelines", "pipelines-network")
    )
    documents = [each for each in yaml.safe_load_all(rendered) if each]
    space.cluster.apply(*documents)
    return str(documents[0]["metadata"]["name"])


def run(space: Space, name: str, job: str) -> str:
    """Run a CronJob once; return what it printed."""
    space.cluster.kubectl("create", "job", job, f"--from=cronjob/{name}", "-n", space.name)

    def look() -> bool | None:
        status = space.cluster.get("job", job, space.name).get("status", {})
        assert not status.get("failed"), logs(space, job)
        return bool(status.get("succeeded")) or None

    eventually(look, within_s=240, what=f"job {job} is done")
    return logs(space, job)


def logs(space: Space, job: str) -> str:
    """Return what the pods of a job printed."""
    return space.cluster.kubectl("logs", "-n", space.name, f"job/{job}", "--tail=200")


def counts(space: Space) -> tuple[int, int]:
    """Return how many messages are active in `orders`, and how many are dead letters."""
    said = space.say("bendybus get queue orders -o json")
    found = json.loads(said)["runtime"]["countDetails"]
    return found["activeMessageCount"], found["deadLetterMessageCount"]


def captured(space: Space, image: str) -> list[str]:
    """Capture `orders` into files; return the bodies in them."""
    # Without a storage that all nodes reach, driver and executors share a volume on one node.
    [node, *_] = [each["metadata"]["name"] for each in space.cluster.list("node", "")]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "captured", "namespace": space.name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    space.cluster.apply(claim)
    shared = {
        "volumes": [{"name": "out", "persistentVolumeClaim": {"claimName": "captured"}}],
        "volumeMounts": [{"name": "out", "mountPath": "/out"}],
    }
    name = deploy(
        space,
        image,
        name="capture",
        job="capture",
        schedule=NEVER,
        checkpoint={"size": "1Gi"},
        nodeSelector={"kubernetes.io/hostname": node},
        args=[
            *("--source", "orders", "--out", "/out", "--format", "jsonl"),
            f"--conf=spark.kubernetes.executor.node.selector.kubernetes.io/hostname={node}",
        ],
        **shared,
    )
    assert f"Captured {ROWS} messages of orders" in run(space, name, "capture-1")
    space.cluster.apply(reading(space, image, node))
    eventually(
        lambda: space.pod("look")["status"]["phase"] == "Succeeded" or None,
        within_s=60,
        what="the files are read",
    )
    lines = space.cluster.kubectl("logs", "-n", space.name, "look").splitlines()
    return sorted(json.loads(line)["body"] for line in lines)


def reading(space: Space, image: str, node: str) -> Any:
    """Return a pod that prints all captured lines."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "look", "namespace": space.name},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": node},
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "look",
                    "image": image,
                    "args": ["sh", "-c", "find /out -name '*.jsonl' -exec cat {} +"],
                    "securityContext": security,
                    "volumeMounts": [{"name": "out", "mountPath": "/out"}],
                }
            ],
            "volumes": [{"name": "out", "persistentVolumeClaim": {"claimName": "captured"}}],
        },
    }


@pytest.mark.core
def test_rows_are_loaded_once_by_two_executors_and_dead_letters_go_back(
    shop: Space, spark_image: str
) -> None:
    name = deploy(
        shop,
        spark_image,
        name="load",
        job="load",
        schedule=NEVER,
        args=[
            *("--in", "/rows/rows.csv", "--format", "csv", "--to", "orders"),
            *("--body-column", "text", "--key-column", "key", "--idempotency-key", "rows"),
        ],
        volumes=[{"name": "rows", "configMap": {"name": "rows"}}],
        volumeMounts=[{"name": "rows", "mountPath": "/rows", "readOnly": True}],
    )

    assert f"Loaded {ROWS} messages into orders." in run(shop, name, "load-1")
    assert counts(shop) == (ROWS, 0)
    run(shop, name, "load-2")
    assert counts(shop) == (ROWS, 0)

    shop.say(f"python3 -c '{DEAD_LETTER}'")
    assert counts(shop) == (0, ROWS)
    name = deploy(
        shop,
        spark_image,
        name="redrive",
        job="dlq redrive",
        schedule=NEVER,
        args=["--source", "orders", "--where", "dead_letter_reason = 'broken'"],
    )

    assert f"Redrove {ROWS} dead letters of orders." in run(shop, name, "redrive-1")
    assert counts(shop) == (ROWS, 0)
    assert captured(shop, spark_image) == sorted(f"row {n}" for n in range(ROWS))
    assert counts(shop) == (0, 0)
    # Executors belong to their driver's pod, and end with it.
    eventually(
        lambda: not shop.cluster.list("pod", shop.name, "spark-role=executor") or None,
        within_s=60,
        what="executors are gone",
    )
