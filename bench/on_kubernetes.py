"""Figures of a bus on Kubernetes: `make bench-kubernetes`, on the cluster of the end-to-end tests.

Each is taken from outside, as a user sees it: from `kubectl apply` to the condition, from a killed
pod to the first message that its partition takes again. The operator's own figures come from its
metrics and from the kernel's accounts of its pod.
"""

import json
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tests.e2e import images, traffic
from tests.e2e.cluster import Body, Cluster, eventually, provided
from tests.e2e.conftest import SYSTEM, Installation, Space

QUEUES: Final = 1_000
CHANGES: Final = 20
KILLS: Final = 12
NAMESPACE: Final = "bench"
# Sends keyed messages to one partition and says how long it took none.
PROBE: Final = """
import os, sys, time
from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.exceptions import ServiceBusError
client = ServiceBusClient.from_connection_string(os.environ["BENDYBUS_CONNECTION_STRING"])
with client.get_queue_sender("orders") as sender:
    last = time.monotonic()
    while not os.path.exists("/tmp/stop"):
        try:
            sender.send_messages(ServiceBusMessage("x", partition_key="%s"), timeout=15)
        except ServiceBusError:
            continue
        now = time.monotonic()
        if now - last > 0.5:
            print(f"gap {now - last:.2f}", flush=True)
        last = now
        time.sleep(0.02)
"""


def main() -> None:
    """Measure everything and print it, a line each."""
    with provided() as cluster:
        installation = Installation(cluster, images.current(cluster))
        installation.install()
        with _space(cluster, installation) as space:
            for name, measure in FIGURES:
                for line in measure(space, installation):
                    print(f"{name}: {line}", flush=True)


@contextmanager
def _space(cluster: Cluster, installation: Installation) -> Iterator[Space]:
    if cluster.exists("namespace", NAMESPACE, ""):
        cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=120s")
    cluster.kubectl("create", "namespace", NAMESPACE)
    eventually(
        lambda: cluster.exists("serviceaccount", "default", NAMESPACE), within_s=20, what="ready"
    )
    try:
        yield Space(cluster, NAMESPACE, installation.image)
    finally:
        cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _timed(space: Space, *documents: Body) -> float:
    """Return the seconds from `kubectl apply` until all are Ready, as kubectl wait sees it."""
    began = time.monotonic()
    space.cluster.apply(*documents)
    for each in documents:
        kind = each["kind"].lower()
        space.cluster.kubectl(
            *("wait", "--for=condition=Ready", f"{kind}/{each['metadata']['name']}"),
            *("-n", space.name, "--timeout=120s"),
            timeout_s=130,
        )
    return time.monotonic() - began


def _spread(values: Sequence[float], unit: str) -> str:
    ordered = sorted(values)
    tenth = ordered[round(0.9 * (len(ordered) - 1))]
    return (
        f"median {statistics.median(ordered):.2f} {unit}, 90 % {tenth:.2f}, "
        f"highest {ordered[-1]:.2f} (of {len(ordered)})"
    )


def _namespace(space: Space, _: Installation) -> list[str]:
    bus = space.manifest("BusNamespace", "bus", sku={"tier": "Standard"})
    return [f"{_timed(space, bus):.1f} s"]


def _queue(space: Space, _: Installation) -> list[str]:
    times = [
        _timed(space, space.queue(f"spread-{n}", "bus", enablePartitioning=True))
        for n in range(CHANGES)
    ]
    return [_spread(times, "s") + ", kubectl's own start included"]


def _many(space: Space, installation: Installation) -> list[str]:
    """1,000 queues: how long, and what a change costs before and after."""
    cluster, before = space.cluster, _reconcile(space, installation, "few")
    began = time.monotonic()
    for start in range(0, QUEUES, 200):
        names = range(start, start + 200)
        cluster.apply(*(space.queue(f"many-{n}", "bus") for n in names))

    def all_ready() -> bool:
        ready = '{.items[*].status.conditions[?(@.type=="Ready")].status}'
        said = cluster.kubectl("get", "queue", "-n", space.name, "-o", f"jsonpath={ready}")
        return said.split().count("True") >= QUEUES

    eventually(all_ready, within_s=600, what="1,000 queues are Ready")
    took = time.monotonic() - began
    after = _reconcile(space, installation, "many")
    usage = _usage(space, installation)
    return [
        f"{QUEUES} plain queues Ready after {took:.0f} s",
        f"a change of one queue, apply to observed: {before} with {CHANGES} queues",
        f"a change of one queue, apply to observed: {after} with {QUEUES + CHANGES} queues",
        f"operator that acts: {usage}",
    ]


def _reconcile(space: Space, installation: Installation, word: str) -> str:
    """Return how long changes take, and the operator's own account of them."""
    sums = _metric(space, installation)
    times = []
    for number in range(CHANGES):
        name = f"spread-{number}"
        queue = space.queue(name, "bus", enablePartitioning=True, userMetadata=f"{word} {number}")
        began = time.monotonic()
        space.cluster.apply(queue)

        def seen(name: str = name) -> bool:
            found = space.cluster.get("queue", name, space.name)
            observed = (found.get("status") or {}).get("observedGeneration")
            return bool(observed == found["metadata"]["generation"])

        eventually(seen, within_s=30, what="the change is observed")
        times.append(time.monotonic() - began)
    now = _metric(space, installation)
    each = 1000 * (now[0] - sums[0]) / max(1.0, now[1] - sums[1])
    return f"{_spread(times, 's')}; {each:.1f} ms each in the operator"


def _leader(installation: Installation) -> Body:
    """Return the pod of the operator that acts."""
    return next(pod for pod in installation.operators() if _acts(installation, pod))


def _acts(installation: Installation, pod: Body) -> bool:
    return "bendybus_operator_leading 1.0" in _metrics(installation, pod)


def _metrics(installation: Installation, pod: Body) -> str:
    script = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8081/metrics')"
    name = pod["metadata"]["name"]
    return installation.cluster.kubectl(
        *("exec", "-n", SYSTEM, name, "--", "python3", "-c", f"{script}.read().decode())")
    )


def _metric(space: Space, installation: Installation) -> tuple[float, float]:
    """Return (seconds, looks) that the operator has spent on queues."""
    text = _metrics(installation, _leader(installation))
    found = [
        re.search(rf'bendybus_operator_reconcile_seconds_{part}{{kind="Queue"}} (\S+)', text)
        for part in ("sum", "count")
    ]
    total, count = (float(each[1]) if each else 0.0 for each in found)
    return total, count


def _usage(space: Space, installation: Installation) -> str:
    """Return memory, and processor use over half a minute without changes."""
    pod = _leader(installation)["metadata"]["name"]

    def accounts() -> tuple[float, float]:
        command = "cat /proc/1/stat; grep VmRSS /proc/1/status"
        said = space.cluster.kubectl("exec", "-n", SYSTEM, pod, "--", "sh", "-c", command)
        ticks = said.rpartition(")")[2].split()
        rss = re.search(r"VmRSS:\s+(\d+) kB", said)
        assert rss is not None
        return (int(ticks[11]) + int(ticks[12])) / 100, int(rss[1]) / 1024

    began, (cpu, _) = time.monotonic(), accounts()
    time.sleep(30)
    now, memory = accounts()
    percent = 100 * (now - cpu) / (time.monotonic() - began)
    return f"{memory:.0f} MB, {percent:.1f} % of a core while nothing changes"


def _recovery(space: Space, _: Installation) -> list[str]:
    """Kill a partition's pod again and again; how long takes it no message for a key of its own?"""
    cluster = space.cluster
    space.start(space.bus("small", 2), space.queue("orders", "small"))
    gaps: dict[str, list[float]] = {"deleted": [], "killed": []}
    for how, options in (("deleted", []), ("killed", ["--grace-period=0", "--force"])):
        cluster.apply(
            *traffic.client_pod(
                f"probe-{how}",
                space.name,
                space.image,
                ["python3", "/script/script.py"],
                secret="small-rootmanagesharedaccesskey",
                script=PROBE % _key_of_partition_0(),
            )
        )
        cluster.kubectl(
            "wait", "--for=condition=Ready", f"pod/probe-{how}", "-n", space.name, "--timeout=30s"
        )
        for number in range(KILLS):
            cluster.kubectl("delete", "pod", "small-partition-0", "-n", space.name, *options)

            def counted(how: str = how, number: int = number) -> bool:
                said = cluster.kubectl("logs", f"probe-{how}", "-n", space.name)
                return said.count("gap") > number

            eventually(counted, within_s=90, what="the partition takes messages again")
        said = cluster.kubectl("logs", f"probe-{how}", "-n", space.name)
        gaps[how] = [float(gap) for gap in re.findall(r"gap (\S+)", said)]
    return [f"pod {how}: {_spread(found, 's')}" for how, found in gaps.items()]


def _key_of_partition_0() -> str:
    from bendybus.domain import partitioning

    return next(f"key-{n}" for n in range(100) if partitioning.partition_of(f"key-{n}", 2) == 0)


def _send_rate(space: Space, _: Installation) -> list[str]:
    """Sends a second while the last release becomes this one."""
    cluster, old = space.cluster, images.of_release(space.cluster, images.last_release())
    bus = space.bus("rolling", 4, frontend={"replicas": 2})
    space.start(
        space.bus("rolling", 4, frontend={"replicas": 2}, image=old),
        space.queue("work", "rolling"),
    )
    with traffic.running(
        cluster, space.name, "rolling", "work", image=space.image, rate=1_000, keyed=0
    ) as load:
        load.flows(more=2_000, within_s=60)
        before = load.report()["per_second"]
        cluster.apply(bus)

        def done() -> bool:
            pods = cluster.list("pod", space.name, "bendybus.io/bus=rolling")
            return all(
                pod["spec"]["containers"][0]["image"] == space.image
                and all(each["ready"] for each in pod["status"].get("containerStatuses", []))
                for pod in pods
            )

        eventually(done, within_s=180, what="all pods are new")
        during = load.report()["per_second"][len(before) :]
        report = load.finish()
    return [
        f"before {statistics.mean(before[1:-1]):.0f} a second, during {statistics.mean(during):.0f}"
        f" (lowest second {min(during)}), longest pause {report['gap_s']['keyless']} s, "
        f"lost {report['missing']}, errors {json.dumps(report['errors']['keyless'])}"
    ]


Measure = Callable[[Space, Installation], list[str]]
FIGURES: Final[list[tuple[str, Measure]]] = [
    ("namespace of 16 partitions, apply to Ready", _namespace),
    ("partitioned queue, apply to Ready", _queue),
    ("many queues", _many),
    ("recovery of a key's partition", _recovery),
    ("rolling upgrade, keyless sends", _send_rate),
]

if __name__ == "__main__":
    main()
