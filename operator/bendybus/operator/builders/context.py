"""The input of builders: a bus's manifest, the identity of its data, the operator's settings."""

from dataclasses import dataclass
from typing import Any

from bendybus.crds.manifest import API_VERSION, DeletionPolicy
from bendybus.crds.namespace_manifest import BusNamespaceSpec, Resources
from bendybus.operator.decisions.storage import Identity
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """One bus, as it is to be built."""

    bus: ObjectKey
    uid: str
    spec: BusNamespaceSpec
    identity: Identity
    storage_size: int | str
    image: str
    image_pull_policy: str
    operator_namespace: str
    image_pull_secrets: tuple[str, ...] = ()
    # User and group of pods; 0: as the cluster chooses.
    run_as_user: int = 10001
    # Peers of NetworkPolicies that may read metrics.
    metrics_from: tuple[Manifest, ...] = ()
    # Whether cert-manager issues certificates; the issuer that was named, "": one for this bus.
    cert_manager: bool = False
    issuer_kind: str = ""
    issuer_name: str = ""
    # When the BusNamespace was created, as Kubernetes writes it; "": not known.
    created_at: str = ""

    @property
    def keeps_data(self) -> bool:
        """Whether volumes and keys outlive the manifest."""
        return self.spec.deletion_policy is DeletionPolicy.RETAIN


def owner(context: Context) -> Manifest:
    """Return the reference that makes Kubernetes delete a child with its BusNamespace."""
    return {
        "apiVersion": API_VERSION,
        "kind": "BusNamespace",
        "name": context.bus.name,
        "uid": context.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def metadata(context: Context, name: str, role: str = "", *, owned: bool = True) -> Manifest:
    """Return the metadata of a child."""
    bus = context.bus
    made: Manifest = {
        "name": name,
        "namespace": bus.namespace,
        "labels": names.role_labels(bus, role) if role else names.bus_labels(bus),
    }
    if owned:
        made["ownerReferences"] = [owner(context)]
    return made


def resources(asked: Resources, *, memory: str) -> Manifest:
    """Return a container's resources: what the manifest says, over modest requests."""
    wanted: Manifest = {"requests": {"cpu": "50m", "memory": memory} | asked.requests}
    if asked.limits:
        wanted["limits"] = dict(asked.limits)
    return wanted
