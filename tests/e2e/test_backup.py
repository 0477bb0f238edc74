"""Partitions' files are copied while the bus works, and put back: the commands of docs/how-to."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e import traffic
from tests.e2e.cluster import ROOT, eventually
from tests.e2e.conftest import Installation, Space, fresh_space
from tests.e2e.test_data import messages

TEMPLATES = ROOT / "examples" / "kubernetes"
DATA = "/var/lib/bendybus"
PARTITIONS = 2
FILLED = 3


def file_of(partition: int) -> str:
    """Return the name of a partition's file."""
    return f"partition-{partition:02d}.db"


@dataclass(slots=True)
class Backup:
    """Copies of a bus's files in a local folder, and the two ways back."""

    space: Space
    folder: Path
    owner: str = field(default="")

    def take(self) -> None:
        """Copy every partition's file while it is in use, and check the copies."""
        for partition in range(PARTITIONS):
            pod, file = self.space.partition_pod("bus", partition), file_of(partition)
            copy = ["python3", "-m", "bendybus.partition_server", "store", "copy"]
            command = ["env", f"TMPDIR={DATA}", *copy, f"{DATA}/{file}", "-"]
            with (self.folder / file).open("wb") as out:
                self._kubectl(["exec", pod, "--", *command], stdout=out)
        claim = self.space.cluster.get("pvc", "data-bus-partition-0", self.space.name)
        self.owner = claim["metadata"]["annotations"]["bendybus.io/namespace-uid"]

    def findings(self) -> list[str]:
        """Return what `store check` says of every copy."""
        check = [sys.executable, "-m", "bendybus.partition_server", "store", "check"]
        return [
            subprocess.run(
                [*check, str(self.folder / file_of(partition))],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.strip()
            for partition in range(PARTITIONS)
        ]

    def claim(self, partition: int) -> None:
        """Make the claim of a partition as the operator would have made it."""
        self.space.cluster.kubectl(
            *("apply", "-n", self.space.name, "-f", "-"),
            stdin=self._filled("restored-claim.yaml", partition),
        )

    def put_back(self, partition: int) -> None:
        """Write a copy into the volume of a partition that nobody serves."""
        cluster, file = self.space.cluster, file_of(partition)
        name = self.space.name
        cluster.kubectl(
            *("apply", "-n", name, "-f", "-"),
            stdin=self._filled("volume-helper.yaml", partition),
        )
        cluster.kubectl("wait", "pod/volume-helper", "-n", name, "--for=condition=Ready")
        with (self.folder / file).open("rb") as copy:
            write = f"cat > {DATA}/{file}.new"
            self._kubectl(["exec", "-i", "volume-helper", "--", "sh", "-c", write], stdin=copy)
        replace = f"cd {DATA} && rm -f {file}-wal {file}-shm && mv {file}.new {file}"
        self._kubectl(["exec", "volume-helper", "--", "sh", "-c", replace])
        cluster.kubectl("delete", "pod", "volume-helper", "-n", name)

    def _kubectl(self, command: list[str], **streams: object) -> None:
        done = subprocess.run(
            ["kubectl", "-n", self.space.name, *command],
            env=self.space.cluster.env,
            stderr=subprocess.PIPE,
            timeout=90,
            check=False,
            **streams,  # type: ignore[call-overload]
        )
        assert done.returncode == 0, done.stderr.decode()

    def _filled(self, template: str, partition: int) -> str:
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        values = {
            "BUS": "bus",
            "INDEX": str(partition),
            "IMAGE": self.space.image,
            "OWNER": self.owner,
            "TIER": "Premium",
            "COUNT": str(PARTITIONS),
            "SIZE": "1Gi",
        }
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        text = "\n".join(lines)
        for name, value in values.items():
            text = text.replace(name, value)
        return text


@pytest.fixture(scope="module")
def shared(installation: Installation) -> Iterator[Space]:
    """A bus of 2 partitions; each test leaves `kept` empty."""
    with fresh_space(installation, "backup") as space:
        space.start(
            space.bus("bus", PARTITIONS, storage={"size": "1Gi"}),
            space.queue("orders", "bus"),
            space.queue("kept", "bus"),
        )
        yield space


@pytest.fixture
def filled(shared: Space) -> Space:
    """The bus with some messages of `kept` in each partition."""
    # Frames without a key go round: every partition gets some of them.
    one = "echo before | bendybus send kept"
    shared.say(" && ".join([one] * FILLED * PARTITIONS))
    return shared


def received(space: Space) -> list[str]:
    """Return the bodies of what `kept` holds, and take them."""
    said = space.say("bendybus receive kept --max 100 --json")
    return [line for line in said.splitlines() if "before" in line]


def test_a_partition_whose_file_is_gone_gets_it_back_from_a_copy_made_under_load(
    filled: Space, tmp_path: Path
) -> None:
    cluster, name = filled.cluster, filled.name
    backup = Backup(filled, tmp_path)
    with traffic.running(cluster, name, "bus", "orders", image=filled.image, keyed=0) as load:
        backup.take()
        pod, file = filled.partition_pod("bus", 1), f"{DATA}/{file_of(1)}"
        cluster.kubectl("exec", pod, "-n", name, "--", "rm", file)
        cluster.await_reason("BusNamespace", "bus", name, "PartitionUnavailable")
        load.flows()
        cluster.kubectl("annotate", "busnamespace", "bus", "-n", name, "bendybus.io/paused=true")
        cluster.await_reason("BusNamespace", "bus", name, "Paused")
        cluster.kubectl("delete", "statefulset", "bus-partition", "-n", name, "--cascade=orphan")
        cluster.kubectl("delete", "pod", pod, "-n", name)
        backup.put_back(1)
        load.flows()
        cluster.kubectl("annotate", "busnamespace", "bus", "-n", name, "bendybus.io/paused-")
        cluster.await_ready("BusNamespace", "bus", name)
        report = load.finish()

    assert [said.rpartition(": ")[2] for said in backup.findings()] == ["all fine"] * PARTITIONS
    # What was sent to that partition after the copy is lost; the rest was never interrupted.
    assert report["errors"]["keyless"] == {}
    assert len(received(filled)) == FILLED * PARTITIONS


def test_a_bus_is_restored_where_nothing_of_it_is_left(filled: Space, tmp_path: Path) -> None:
    cluster, name = filled.cluster, filled.name
    backup = Backup(filled, tmp_path)
    backup.take()
    key = cluster.get("secret", "bus-rootmanagesharedaccesskey", name)["data"]["primaryKey"]
    cluster.kubectl("delete", "queue,busnamespace", "--all", "-n", name)
    cluster.kubectl("delete", "pvc", "--all", "-n", name)
    eventually(
        lambda: not cluster.list("pod", name, "bendybus.io/bus"),
        within_s=90,
        what="no pod of the bus is left",
    )

    for partition in range(PARTITIONS):
        backup.claim(partition)
        backup.put_back(partition)
    bus = filled.bus("bus", PARTITIONS, storage={"size": "1Gi"})
    queues = [filled.queue("orders", "bus"), filled.queue("kept", "bus")]
    for each in (bus, *queues):
        each["metadata"]["annotations"] = {"bendybus.io/retained-data": "adopt"}
    filled.start(bus, *queues)

    eventually(
        lambda: messages(filled, "kept") == FILLED * PARTITIONS,
        within_s=40,
        what="the messages are counted",
    )
    assert len(received(filled)) == FILLED * PARTITIONS
    again = cluster.get("secret", "bus-rootmanagesharedaccesskey", name)["data"]["primaryKey"]
    assert again == key, "applications go on with their connection strings"
