"""What `up` starts: command lines of processes, the partitions that each hosts, and their ports.

Every program prints one JSON line on stdout when it serves, `{"ready": true, "address": …}`, writes
its log to stderr and ends when its stdin ends (`--exit-with-parent`): no orphan survives `up`.

A port of the range from which the kernel takes ports for connections may be taken by any
connection between the moment it is chosen and the moment a server listens, and again while a
server restarts at the same address. Chosen ports lie below that range, and none is chosen twice.
"""

import errno
import random
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bendybus.cli.local.data_directory import Identity

PARTITION_SERVER: Final = "partition-server"
FRONTEND: Final = "frontend"
HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65_535
PORT_MIN: Final = 20_480
_RANGE_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
# What Linux sets, and below what macOS and Windows set.
_LAST_DEFAULT: Final = 32_767
_TRIES: Final = 200
_chosen: set[int] = set()


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
        self,
        addresses: Mapping[int, str],
        *,
        listen: str,
        health_listen: str,
        metrics_port: int,
        shared_listen: Sequence[str] = (),
        tls_directory: Path | None = None,
        created_at: str = "",
    ) -> list[str]:
        """Return the command of the front end before partitions at `addresses`.

        `shared_listen`: where AMQP, HTTP and gRPC share ports; `tls_directory`: their certificate;
        `created_at`: the time of the namespace, which HTTP shows.
        """
        command = [
            *self.frontend,
            *("--listen", listen),
            *(word for address in shared_listen for word in ("--shared-listen", address)),
            *("--health-listen", health_listen),
            *("--metrics-port", str(metrics_port)),
            *(("--shared-tls-directory", str(tls_directory)) if tls_directory else ()),
            *(("--namespace-created-at", created_at) if created_at else ()),
            "--exit-with-parent",
        ]
        for partition, address in sorted(addresses.items()):
            command += ["--partition", f"{partition}={address}"]
        return command


def deal_partitions(partition_count: int, process_count: int) -> list[tuple[int, ...]]:
    """Return the partitions of each process, dealt in turn: 0, 4, 8 … | 1, 5, 9 … | …"""
    assert 1 <= process_count <= partition_count
    return [tuple(range(first, partition_count, process_count)) for first in range(process_count)]


def is_free_port(port: int, host: str = HOST) -> bool:
    """Whether a server can listen at a port now."""
    return not why_not(port, host)


def why_not(port: int, host: str = HOST) -> int:
    """Return the error number for which no server can listen at a port now; 0: one can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do: a connection that is just closing does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno or errno.EADDRINUSE
    return 0


def free_port() -> int:
    """Return a port that is free now and was not returned before."""
    highest = last_port()
    for _ in range(_TRIES):
        port = random.randint(PORT_MIN, highest)
        if port not in _chosen and is_free_port(port):
            _chosen.add(port)
            return port
    # Nearly all are taken or forbidden: the kernel may still know one.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def reserve(first: int, count: int) -> None:
    """Take note that `count` ports from `first` on are not to be chosen."""
    _chosen.update(range(first, first + count))


def port_near(port: int, offset: int) -> int:
    """Return port + offset if that is free and was not returned before, else any free one."""
    wanted = port + offset
    if port and wanted <= PORT_MAX and wanted not in _chosen and is_free_port(wanted):
        _chosen.add(wanted)
        return wanted
    return free_port()


def last_port() -> int:
    """Return the highest port below those that the kernel gives to connections."""
    try:
        begins = int(_RANGE_FILE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _LAST_DEFAULT
    return begins - 1 if begins > PORT_MIN + 1_000 else _LAST_DEFAULT
