"""Settings of a partition-server process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bendybus.domain import limits
from bendybus.domain.limits import Tier

MB = limits.MB


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a partition server is told; only the event loop (`wire.event_loop`) is read
    from the environment elsewhere.
    """

    data: Path
    """Folder of the partitions' files."""
    namespace_name: str = "default"
    namespace_uid: str = ""
    tier: Tier = Tier.STANDARD
    partition_count: int = limits.STANDARD_PARTITION_COUNT
    partitions: tuple[int, ...] = field(default_factory=tuple)
    """The partitions that this process serves."""
    peer: Mapping[int, str] = field(default_factory=dict)
    """Address (HOST:PORT) of every partition of the namespace, for what is forwarded to them."""
    listen: str = "127.0.0.1:7490"
    health_listen: str = ""
    """Where grpc.health.v1 answers in plain text, also when TLS is on; "": nowhere."""
    metrics_port: int = 0
    """Port of /metrics; 0: none."""
    metrics_host: str = "127.0.0.1"
    """Host of /metrics, which name entities and count their messages."""
    free_space_min_bytes: int = 32 * MB
    """Sends are refused while the volume has less than this and what the log may still take."""
    reserve_bytes: int = 16 * MB
    """Preallocated per partition; given up when the disk is full: enough to end a checkpoint."""
    clock_hold_ms: int = 5 * limits.MINUTE_MS
    """How long expiry waits after the wall clock jumped."""
    forward_refused_ms: int = limits.FORWARD_REFUSED_MS
    """How long a destination refuses before messages are set aside."""
    log_level: str = "info"
    exit_with_parent: bool = False
    drain_s: float = 5.0
    """How long calls in flight may take when the server stops."""
    tls_directory: Path | None = None
    """Folder of tls.crt, tls.key and ca.crt: TLS, and a certificate of every caller."""
    bus_identity: str = ""
    """What the identities of this bus begin with: spiffe://bendybus/ns/NS/bus/NAME."""

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> dict[str, str]:
        """Return the settings that the environment overrides, by field name."""
        prefix = "BENDYBUS_PARTITION_"
        return {
            key.removeprefix(prefix).lower(): value
            for key, value in env.items()
            if key.startswith(prefix)
        }

    def validate(self) -> None:
        """Raise ValueError with a sentence for the first setting that cannot be."""
        if not self.partitions:
            raise ValueError("--partitions: name at least one partition, such as 0 or 0,4,8.")
        for partition in self.partitions:
            if not 0 <= partition < self.partition_count:
                raise ValueError(
                    f"--partitions: {partition} is outside 0 to {self.partition_count - 1}."
                )
        if len(set(self.partitions)) != len(self.partitions):
            raise ValueError("--partitions: a partition is named twice.")
        if not self.namespace_uid:
            raise ValueError("--namespace-uid: is required: it ties files to their namespace.")
        if ":" not in self.listen:
            raise ValueError(f"--listen: {self.listen!r} is not HOST:PORT.")
        for partition, address in self.peer.items():
            if not 0 <= partition < self.partition_count:
                raise ValueError(f"--peer: {partition} is outside 0 to {self.partition_count - 1}.")
            if ":" not in address:
                raise ValueError(f"--peer: {address!r} is not HOST:PORT.")
        if self.drain_s < 0:
            raise ValueError("--drain-s: must not be negative.")
        if self.tls_directory is not None and not self.bus_identity:
            raise ValueError(
                "--bus-identity: is required with --tls-directory: it says whose certificates are "
                "accepted, such as spiffe://bendybus/ns/default/bus/demo."
            )
        if self.bus_identity and self.tls_directory is None:
            raise ValueError("--bus-identity: requires --tls-directory; set both.")
