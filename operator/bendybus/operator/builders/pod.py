"""What the pods of both roles share: no API token, restricted security, probes, TLS files."""

from typing import Final

from bendybus.operator.builders.context import Context, Manifest
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey

TLS_DIRECTORY: Final = "/etc/bendybus/tls"
POLICIES_DIRECTORY: Final = "/etc/bendybus/access"
GRACE_S: Final = 60
DRAIN_S: Final = 20


def spec(context: Context, role: str, container: Manifest, volumes: list[Manifest]) -> Manifest:
    """Return the spec of a pod of one container."""
    made = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            **_user(context),
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [_over_nodes(context.bus, role)],
        "affinity": {"podAntiAffinity": _over_zones(context.bus, role)},
        "containers": [container],
        "volumes": [*volumes, {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
    }
    if context.image_pull_secrets:
        made["imagePullSecrets"] = [{"name": name} for name in context.image_pull_secrets]
    return made


def _user(context: Context) -> Manifest:
    """Return the user of a pod; nothing where the cluster chooses it, as OpenShift does."""
    user = context.run_as_user
    return {"runAsUser": user, "runAsGroup": user, "fsGroup": user} if user else {}


def _over_nodes(bus: ObjectKey, role: str) -> Manifest:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": names.role_labels(bus, role)},
    }


def _over_zones(bus: ObjectKey, role: str) -> Manifest:
    """Not a spread constraint as over nodes: a node without the label would count for neither."""
    term = {
        "topologyKey": "topology.kubernetes.io/zone",
        "labelSelector": {"matchLabels": names.role_labels(bus, role)},
    }
    preferred = [{"weight": 50, "podAffinityTerm": term}]
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}


def container(context: Context, name: str, *, module: str, arguments: list[str]) -> Manifest:
    """Return the container without its ports, probes, mounts and resources."""
    return {
        "name": name,
        "image": context.image,
        "imagePullPolicy": context.image_pull_policy,
        "command": ["python3", "-m", module, "serve"],
        "args": arguments,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def probes(port: int) -> Manifest:
    """Return the probes, which speak gRPC in plain text to the health port.

    `live` answers as long as the process's loop turns, also with a full disk; "" is readiness.
    """
    live = {"grpc": {"port": port, "service": "live"}, "timeoutSeconds": 5}
    return {
        "startupProbe": {**live, "periodSeconds": 1, "failureThreshold": 120},
        "livenessProbe": {**live, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {
            "grpc": {"port": port},
            "timeoutSeconds": 3,
            "periodSeconds": 2,
            "failureThreshold": 2,
        },
    }


def ports(**numbers: int) -> list[Manifest]:
    """Return named container ports."""
    return [{"name": name, "containerPort": number} for name, number in numbers.items()]


def secret_volume(name: str, secret: str) -> Manifest:
    """Return a volume with the files of a Secret."""
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}


def tls_volume(context: Context, role: str, secret: str) -> Manifest:
    """Return the volume with a role's tls.crt, tls.key and ca.crt.

    cert-manager writes a `ca.crt` of its own into the Secret that it fills; whom to trust is the
    operator's to say.
    """
    if not context.cert_manager:
        return secret_volume("tls", secret)
    own = [{"key": name, "path": name} for name in ("tls.crt", "tls.key")]
    trusted = [{"key": f"{role}.crt", "path": "ca.crt"}]
    sources = [
        {"secret": {"name": secret, "items": own}},
        {"secret": {"name": names.trust(context.bus), "items": trusted}},
    ]
    return {"name": "tls", "projected": {"sources": sources, "defaultMode": 0o440}}


def mount(name: str, path: str, *, read_only: bool = True) -> Manifest:
    """Return a mount; writable ones are the exception."""
    made: Manifest = {"name": name, "mountPath": path}
    return made | {"readOnly": True} if read_only else made
