"""What 16 idle partitions cost: one process each, as on Kubernetes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import processes
from bench.bus import running
from bench.loads import Loads
from bench.row import Row

SYSTEM: Final = "Bendybus, idle"
PARTITIONS: Final = 16
_SETTLE_S: Final = 2.0


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Start 16 partition servers and look at them for a while."""
    with running.bus(folder, PARTITIONS, PARTITIONS) as bus:
        # What starting leaves to do is not idling.
        time.sleep(_SETTLE_S)
        everyone = [*bus.partition_servers, bus.frontend]
        before, began = [processes.cpu_s(pid) for pid in everyone], time.monotonic()
        time.sleep(load.idle_s)
        took = time.monotonic() - began
        shares = [
            100 * (processes.cpu_s(pid) - spent) / took
            for pid, spent in zip(everyone, before, strict=True)
        ]
        memory = [processes.rss_mb(pid) for pid in bus.partition_servers]
        frontend_mb = processes.rss_mb(bus.frontend)
    where = "16 partition servers, one partition each"
    emit(Row(SYSTEM, "idle_partitions", "all partition servers", "% of a core",
             [sum(shares[:-1])], note=where))  # fmt: skip
    emit(Row(SYSTEM, "idle_frontend", "front end", "% of a core", [shares[-1]]))
    emit(Row(SYSTEM, "rss_partition", "memory of a partition server", "MB", memory, note=where))
    emit(Row(SYSTEM, "rss_frontend", "memory of the front end", "MB", [frontend_mb]))
