"""Settings of a front-end process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration of a front end; only the event loop (`wire.event_loop`) is read
    from the environment elsewhere.
    """

    partitions: Mapping[int, str] = field(default_factory=dict)
    """Address (HOST:PORT) of every partition of the namespace."""
    listen: str = "127.0.0.1:7480"
    amqp_listen: str = ""
    """Where AMQP 1.0 is spoken without TLS; "": nowhere."""
    amqps_listen: str = ""
    """Where AMQP 1.0 is spoken over TLS, with the certificate of `tls_directory`; "": nowhere."""
    http_listen: str = ""
    """Where administration over HTTP, AMQP over WebSockets and the health page are; with TLS if
    there is a `tls_directory`; "": nowhere."""
    shared_listen: tuple[str, ...] = ()
    """Where AMQP, HTTP and gRPC share a port, with TLS and without."""
    shared_tls_directory: Path | None = None
    """Folder of tls.crt, tls.key and ca.crt for TLS on shared ports; None: `tls_directory`."""
    amqp_idle_limits: bool = False
    """Detach AMQP links, and close connections, that are idle for as long as Azure lets them be."""
    health_listen: str = ""
    """Where grpc.health.v1 answers in plain text, also when TLS is on; "": nowhere."""
    metrics_port: int = 0
    """Port of /metrics; 0: none."""
    metrics_host: str = "127.0.0.1"
    """Host of /metrics, which name entities and count their messages."""
    echo_every_s: float = 1.0
    """How often a reachable partition is probed."""
    echo_timeout_s: float = 1.0
    """An echo that takes longer opens the partition's circuit breaker."""
    unary_timeout_s: float = 5.0
    """How long a management call waits for one partition."""
    idle_check_s: float = 30.0
    """How often entities with AutoDeleteOnIdle are checked."""
    log_level: str = "info"
    exit_with_parent: bool = False
    drain_s: float = 5.0
    """How long calls in flight may take when the server stops."""
    tls_directory: Path | None = None
    """Folder of tls.crt, tls.key and ca.crt: TLS to clients, and mTLS to partitions."""
    bus_identity: str = ""
    """What the identities of this bus begin with: spiffe://bendybus/ns/NS/bus/NAME."""
    access_policies: Path | None = None
    """File of access policies: every client needs a token; without it any key is accepted."""
    host_names: tuple[str, ...] = ()
    """Names that clients reach this bus by: a token must be for one of them; none: for any."""
    namespace_created_ms: int = 0
    """When the namespace was created, as administration over HTTP shows it; 0: not known."""
    max_connection_age_s: float = 0.0
    """Age at which clients are asked to connect again, maybe to another front end; 0: never."""
    max_connections: int = 5_000
    """Connections of clients at a time; more are closed at once."""

    def validate(self) -> None:
        """Raise ValueError with a sentence for the first setting that cannot be."""
        if not self.partitions:
            raise ValueError("--partition: name every partition, such as 0=127.0.0.1:7490.")
        expected = set(range(len(self.partitions)))
        if set(self.partitions) != expected:
            missing = sorted(expected - set(self.partitions))
            raise ValueError(f"--partition: indexes must be 0 and up without a gap; add {missing}.")
        for option, value in (
            ("--drain-s", self.drain_s),
            ("--max-connection-age-s", self.max_connection_age_s),
        ):
            if value < 0:
                raise ValueError(f"{option}: must not be negative.")
        if self.max_connections < 1:
            raise ValueError("--max-connections: must be at least 1.")
        if self.shared_tls_directory is not None and not self.shared_listen:
            raise ValueError("--shared-tls-directory: is for --shared-listen; name both.")
        if self.amqps_listen and self.tls_directory is None:
            raise ValueError("--amqps-listen: needs a certificate; name its --tls-directory.")
        single = filter(None, (self.amqp_listen, self.amqps_listen, self.http_listen))
        others = (*single, *self.shared_listen)
        for address in [self.listen, *others, *self.partitions.values()]:
            if ":" not in address:
                raise ValueError(f"{address!r} is not HOST:PORT.")
