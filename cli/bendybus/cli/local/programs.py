"""The command lines of the processes that `up` starts. Pure.

Every program prints one JSON line on stdout when it serves, `{"ready": true, "address": …}`, writes
its log to stderr and ends when its stdin ends (`--exit-with-parent`): no orphan survives `up`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bendybus.cli.local.data_directory import Identity

PARTITION_SERVER: Final = "partition-server"
FRONTEND: Final = "frontend"


def _module(name: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, "serve")


@dataclass(frozen=True, slots=True)
class Programs:
    """How each role is started; tests replace the programs."""

    partition_server: Sequence[str] = field(
        default_factory=lambda: _module("bendybus.partition_server")
    )
    frontend: Sequence[str] = field(default_factory=lambda: _module("bendybus.frontend"))

    def partition_server_command(
        self,
        identity: Identity,
        *,
        data: Path,
        partitions: Sequence[int],
        listen: str,
        metrics_port: int,
        peers: Mapping[int, str],
    ) -> list[str]:
        """Return the command that hosts some partitions; `peers`: the addresses of all."""
        namespace = identity.namespace
        known = (("--peer", f"{index}={address}") for index, address in sorted(peers.items()))
        return [
            *self.partition_server,
            *("--data", str(data)),
            *("--namespace-name", namespace.name),
            *("--namespace-uid", identity.uid),
            *("--tier", namespace.tier.value),
            *("--partition-count", str(namespace.partition_count)),
            *("--partitions", ",".join(str(partition) for partition in partitions)),
            *("--listen", listen),
            *("--metrics-port", str(metrics_port)),
            *(word for option in known for word in option),
            "--exit-with-parent",
        ]

    def frontend_command(
        self, addresses: Mapping[int, str], *, listen: str, health_listen: str, metrics_port: int
    ) -> list[str]:
        """Return the command of the front end before partitions at `addresses`."""
        command = [
            *self.frontend,
            *("--listen", listen),
            *("--health-listen", health_listen),
            *("--metrics-port", str(metrics_port)),
            "--exit-with-parent",
        ]
        for partition, address in sorted(addresses.items()):
            command += ["--partition", f"{partition}={address}"]
        return command
