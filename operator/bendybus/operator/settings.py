"""Settings of an operator process."""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

_POSITIVE: Final = (
    "resync_s",
    "counts_every_s",
    "call_timeout_s",
    "status_patches_per_s",
    "urgent_patches_per_s",
)
PREFIX: Final = "BENDYBUS_OPERATOR_"
WORKER_MEMORY_MB_MIN: Final = 96


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of an operator; nothing else is read from the environment."""

    namespace: str = "bendybus-system"
    """Kubernetes namespace of the operator and of its own Secrets."""
    identity: str = ""
    """Name among its peers; the pod's name."""
    watch_namespaces: tuple[str, ...] = ()
    """Kubernetes namespaces whose manifests it serves; empty: all."""
    image: str = "localhost/bendybus:dev"
    """Image of partition and front-end pods, unless the BusNamespace sets one."""
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets in a bus's namespace with which its images are pulled."""
    run_as_user: int = 10001
    """User and group of the pods of buses; 0: as the cluster chooses."""
    service: str = "bendybus-operator"
    """Name of the Service in front of the webhooks."""
    webhook_configuration: str = "bendybus"
    """Name of the ValidatingWebhookConfiguration whose CA the operator keeps; empty: none."""
    webhook_port: int = 9443
    webhook_client_ca: str = ""
    """File with the CA of the API server's client certificate, which webhooks demand then."""
    probe_port: int = 8080
    metrics_port: int = 8081
    peering: str = "bendybus"
    """Name of the KopfPeering or ClusterKopfPeering object; empty: no peers."""
    tls_directory: Path = Path("/tmp/bendybus-tls")
    """Where the webhooks' certificate is written (own CA) or mounted (cert-manager)."""
    cert_manager: bool = False
    """Whether cert-manager issues certificates; otherwise the operator's own authorities do."""
    issuer_kind: str = ""
    """Issuer or ClusterIssuer of cert-manager for all buses; empty: each has one of its own."""
    issuer_name: str = ""
    client_tls_directory: Path = Path("/etc/bendybus/tls")
    """Where cert-manager's certificate of the operator itself is mounted."""
    metrics_from: str = "[]"
    """Who may read metrics of buses: NetworkPolicy peers, JSON; none: labelled namespaces."""
    certificate_days: int = 90
    """Lifetime of certificates by the own CA; renewed when a third of it is left."""
    resync_s: float = 300.0
    """How often everything is listed and reconciled again."""
    counts_every_s: float = 10.0
    """How often partitions are asked for counts; also how soon a suspended one is noticed."""
    call_timeout_s: float = 3.0
    """How long a call to a partition may take."""
    status_patches_per_s: float = 10.0
    """Limit on status patches with new counts, over all objects."""
    urgent_patches_per_s: float = 40.0
    """Limit on status patches with changed conditions, which are written first."""
    worker_memory_mb: int = 160
    """What each process that calls partitions may allocate; there are at most four."""
    log_level: str = "info"

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "Settings":
        """Return the settings in the environment. Raises ValueError that names the setting."""
        given: dict[str, Any] = {}
        for field in fields(cls):
            name = PREFIX + field.name.upper()
            if name in env:
                given[field.name] = _read(name, field.default, env[name])
        settings = cls(**given)
        settings.validate()
        return settings

    def validate(self) -> None:
        """Raise ValueError for the first invalid setting."""
        for name in _POSITIVE:
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{PREFIX}{name.upper()}: must be a finite number greater than 0.")
        for name in ("webhook_port", "probe_port", "metrics_port"):
            if not 0 < getattr(self, name) < 65_536:
                raise ValueError(f"{PREFIX}{name.upper()}: must be a port, 1 to 65535.")
        for name in ("namespace", "image", "service"):
            if not getattr(self, name):
                raise ValueError(f"{PREFIX}{name.upper()}: must not be empty.")
        if not _are_peers(self.metrics_from):
            raise ValueError(f"{PREFIX}METRICS_FROM: must be a JSON list of objects.")
        if self.worker_memory_mb < WORKER_MEMORY_MB_MIN:
            raise ValueError(
                f"{PREFIX}WORKER_MEMORY_MB: must be at least {WORKER_MEMORY_MB_MIN}, which a "
                "worker needs to start."
            )
        if self.run_as_user < 0:
            raise ValueError(f"{PREFIX}RUN_AS_USER: must be 0 or more.")
        if self.certificate_days < 1:
            raise ValueError(f"{PREFIX}CERTIFICATE_DAYS: must be 1 or more.")
        if bool(self.issuer_kind) != bool(self.issuer_name):
            raise ValueError(f"{PREFIX}ISSUER_KIND and _ISSUER_NAME must be set together.")
        if self.issuer_name and not self.cert_manager:
            raise ValueError(f"{PREFIX}ISSUER_NAME: needs {PREFIX}CERT_MANAGER=true.")
        if self.issuer_kind not in ("", "Issuer", "ClusterIssuer"):
            raise ValueError(f"{PREFIX}ISSUER_KIND: must be Issuer or ClusterIssuer.")
        if self.image_pull_policy not in ("IfNotPresent", "Always", "Never"):
            raise ValueError(f"{PREFIX}IMAGE_PULL_POLICY: must be IfNotPresent, Always or Never.")
        if self.log_level.upper() not in logging.getLevelNamesMapping():
            raise ValueError(f"{PREFIX}LOG_LEVEL: unknown level {self.log_level!r}; try info.")
        if self.peering and not self.identity:
            # It would never find itself among its peers, and never lead.
            raise ValueError(
                f"{PREFIX}IDENTITY: is required; without peers set {PREFIX}PEERING empty."
            )


def _are_peers(text: str) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, list) and all(isinstance(each, dict) for each in found)


def _read(name: str, default: Any, text: str) -> Any:
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise ValueError(f"{name}: must be true or false.")
        return text == "true"
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        return type(default)(text)
    except ValueError as exc:
        raise ValueError(f"{name}: must be a number (got {text!r}).") from exc
