"""Load on a bus from a pod, and what came of it."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.e2e.cluster import Body, Cluster, eventually

DRIVER: Final = Path(__file__).with_name("driver.py")
CA_FILE: Final = "/etc/bendybus/ca.crt"
Report = dict[str, Any]


def client_pod(
    name: str,
    namespace: str,
    image: str,
    command: list[str],
    *,
    secret: str,
    node: str = "",
    script: str = "",
) -> list[Body]:
    """Return a pod that finds a bus by a Secret, and the ConfigMap with its script."""
    volumes: list[Body] = [
        {
            "name": "trust",
            "secret": {"secretName": secret, "items": [{"key": "ca.crt", "path": "ca.crt"}]},
        },
        {"name": "script", "configMap": {"name": name}},
    ]
    connection = {"secretKeyRef": {"name": secret, "key": "primaryConnectionString"}}
    container = {
        "name": "client",
        "image": image,
        "command": command,
        "env": [
            {"name": "BENDYBUS_CONNECTION_STRING", "valueFrom": connection},
            {"name": "BENDYBUS_CA_FILE", "value": CA_FILE},
        ],
        "volumeMounts": [
            {"name": "trust", "mountPath": "/etc/bendybus"},
            {"name": "script", "mountPath": "/script"},
        ],
    }
    pod: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": volumes,
        },
    }
    if node:
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"script.py": script},
    }
    return [config, pod]


@dataclass(frozen=True, slots=True)
class Traffic:
    """A load that runs."""

    cluster: Cluster
    namespace: str
    name: str

    def report(self) -> Report:
        """Return the figures so far."""
        said = self.cluster.kubectl(
            "exec", "-n", self.namespace, self.name, "--", "cat", "/tmp/report.json"
        )
        found: Report = json.loads(said)
        return found

    def flows(self, *, more: int = 20, within_s: float = 30) -> Report:
        """Return the figures once so many more keyless messages were acknowledged."""
        before = eventually(lambda: self.report(), within_s=within_s, what="the load reports")[
            "acknowledged"
        ]["keyless"]

        def look() -> Report | None:
            now = self.report()
            assert now["acknowledged"]["keyless"] >= before + more, now
            return now

        return eventually(look, within_s=within_s, what=f"{more} more messages are acknowledged")

    def finish(self) -> Report:
        """Stop sending, receive what is left, return the last figures."""
        self.cluster.kubectl("exec", "-n", self.namespace, self.name, "--", "touch", "/tmp/stop")

        def look() -> bool:
            phase = self.cluster.get("pod", self.name, self.namespace)["status"]["phase"]
            assert phase != "Failed", self.cluster.kubectl("logs", "-n", self.namespace, self.name)
            return bool(phase == "Succeeded")

        eventually(look, within_s=90, what=f"load {self.name} ends")
        said = self.cluster.kubectl("logs", "-n", self.namespace, self.name, "--tail=1")
        found: Report = json.loads(said)
        return found


@contextlib.contextmanager
def running(
    cluster: Cluster,
    namespace: str,
    bus: str,
    queue: str,
    *,
    image: str,
    node: str = "",
    rate: float = 50,
    keyed: int = 16,
    name: str = "load",
    options: Sequence[str] = (),
) -> Iterator[Traffic]:
    """Have load on a queue; it flows when this returns. `options`: more of the driver's."""
    command = ["python3", "/script/script.py", queue, f"--rate={rate}", f"--keyed={keyed}"]
    command += options
    cluster.apply(
        *client_pod(
            name,
            namespace,
            image,
            command,
            secret=f"{bus}-rootmanagesharedaccesskey",
            node=node,
            script=DRIVER.read_text(encoding="utf-8"),
        )
    )
    traffic = Traffic(cluster, namespace, name)
    try:
        traffic.flows(within_s=60)
        yield traffic
    finally:
        cluster.kubectl(
            "delete", "pod,configmap", name, "-n", namespace, "--ignore-not-found", "--wait=false"
        )


def say(
    cluster: Cluster,
    namespace: str,
    image: str,
    command: str,
    *,
    secret: str,
    within_s: float = 60,
    fresh: bool = False,
) -> str:
    """Run a shell command where the CLI finds a bus by `secret`; return what it printed.

    In a pod that stays for the next command; with `fresh` in a new one, which reads the Secret as
    it is now.
    """
    pod = f"shell-{secret}"
    if fresh:
        cluster.kubectl("delete", "pod", pod, "-n", namespace, "--ignore-not-found")
    if not cluster.exists("pod", pod, namespace):
        wait = "trap 'exit 0' TERM; sleep 100000 & wait"
        cluster.apply(*client_pod(pod, namespace, image, ["sh", "-c", wait], secret=secret))
        cluster.kubectl(
            "wait", "--for=condition=Ready", f"pod/{pod}", "-n", namespace, "--timeout=60s"
        )
    shell = ("exec", pod, "-n", namespace, "--", "sh", "-c", command)
    return cluster.kubectl(*shell, timeout_s=within_s)


def nothing_lost(report: Report) -> None:
    """Fail unless every acknowledged message was received."""
    assert report["acknowledged"]["keyless"] > 0, report
    assert report["missing"] == 0, report
    assert report["out_of_order"] == [], report
