"""A bus for a measurement: `bendybus up` on free ports with its data in a temporary folder."""

import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import processes
from bench.many.orders import REPLIES

# One partition server a core is what `up` chooses by itself; here it is fixed, so that runs on
# different machines do the same work: 4 partitions in 2 processes, two each.
PARTITION_SERVERS: Final = 2
QUEUE: Final = "bench"
# Requests go to the first queue, replies to the second.
QUEUES: Final = (QUEUE, QUEUE + REPLIES)
_MANIFEST: Final = """\
apiVersion: bendybus.io/v1alpha1
kind: BusNamespace
metadata: {{name: bench}}
spec: {sku}
"""
_QUEUE_MANIFEST: Final = """\
---
apiVersion: bendybus.io/v1alpha1
kind: Queue
metadata: {{name: {name}}}
spec: {{namespaceRef: {{name: bench}}, enablePartitioning: {spread}, lockDuration: PT5M}}
"""
_METRIC: Final = re.compile(r"^(\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Bus:
    """A running bus."""

    connection_string: str
    partition_servers: list[int]
    frontend: int
    amqp_connection_string: str
    """For official SDKs."""
    amqp_address: str
    """HOST:PORT."""
    ca_file: str
    """What administration clients must trust."""

    @property
    def roles(self) -> dict[str, list[list[int]]]:
        """The processes by role."""
        servers = [[pid] for pid in self.partition_servers]
        return {"front end": [[self.frontend]], "partition servers": servers}

    def frames(self) -> float:
        """How many frames of sends the front end has taken from clients."""
        return _sum(self.frontend, "bendybus_incoming_requests_total")

    def commits(self) -> float:
        """How many commits there were in all partitions."""
        return sum(_sum(pid, "bendybus_commit_seconds_count") for pid in self.partition_servers)


@contextmanager
def bus(folder: Path, partitions: int, servers: int) -> Iterator[Bus]:
    """Run a bus of so many partitions: Premium up to 4, Standard with its 16."""
    sku = "{sku: {tier: Premium}, premiumMessagingPartitions: %d}" % partitions  # noqa: UP031
    if partitions == 16:
        sku = "{sku: {tier: Standard}}"
    manifest, log = folder / "bench.yaml", folder / "up.log"
    spread = "true" if partitions > 1 else "false"
    queues = [_QUEUE_MANIFEST.format(name=name, spread=spread) for name in QUEUES]
    manifest.write_text(_MANIFEST.format(sku=sku) + "".join(queues), encoding="utf-8")
    command = [sys.executable, "-m", "bendybus.cli", "up", "-f", str(manifest), "--json"]
    command += ["--data", str(folder / "data"), "--port", "0", "--amqp-port", "0"]
    command += ["--processes", str(servers)]
    with processes.running(command, log=log) as process:
        facts: dict[str, Any] = json.loads(processes.read_line(process, log))
        by_role: dict[str, list[int]] = {}
        for each in facts["processes"]:
            by_role.setdefault(each["role"], []).append(each["pid"])
        yield Bus(
            facts["connection_string"],
            by_role["partition-server"],
            by_role["frontend"][0],
            facts["amqp_connection_string"],
            facts["amqp_endpoints"][0],
            facts["ca_file"],
        )


def metrics(pid: int) -> str:
    """Return what a process of the bus says at /metrics."""
    arguments = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
    port = arguments[arguments.index("--metrics-port") + 1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def _sum(pid: int, name: str) -> float:
    return sum(float(value) for found, value in _METRIC.findall(metrics(pid)) if found == name)
