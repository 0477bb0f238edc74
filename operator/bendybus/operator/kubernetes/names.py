"""Names of what belongs to a bus on Kubernetes: objects, labels, addresses, identities."""

from dataclasses import dataclass
from typing import Final

GROUP: Final = "bendybus.io"
MANAGER: Final = "bendybus-operator"

BUS_LABEL: Final = f"{GROUP}/bus"
ROLE_LABEL: Final = f"{GROUP}/role"
# On a Kubernetes namespace: its pods may read metrics.
METRICS_LABEL: Final = f"{GROUP}/metrics"
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": MANAGER}

# On volume claims and on the StatefulSet: what the files in the volumes belong to.
UID_ANNOTATION: Final = f"{GROUP}/namespace-uid"
TIER_ANNOTATION: Final = f"{GROUP}/tier"
COUNT_ANNOTATION: Final = f"{GROUP}/partition-count"
# On a manifest: what to do with data that an earlier manifest of this name left.
RETAINED_ANNOTATION: Final = f"{GROUP}/retained-data"
# On a BusNamespace: other Kubernetes namespaces (comma-separated) whose manifests may do that.
RETAINED_TO_ANNOTATION: Final = f"{GROUP}/retained-data-to"
# On an entity's manifest with deletionPolicy Delete: it may be deleted although it holds messages.
ALLOW_DELETION_ANNOTATION: Final = f"{GROUP}/allow-deletion"
# On a BusNamespace: pauses its reconciliation.
PAUSE_ANNOTATION: Final = f"{GROUP}/paused"

FRONTEND_PORT: Final = 7480
FRONTEND_HEALTH_PORT: Final = 7481
FRONTEND_METRICS_PORT: Final = 7482
# Official SDKs reach AMQP over TLS, and over WebSockets, under these ports and no others; a pod
# that is not root's cannot listen at the second one itself.
AMQPS_PORT: Final = 5671
HTTPS_PORT: Final = 443
FRONTEND_HTTPS_PORT: Final = 8443
PARTITION_PORT: Final = 7490
PARTITION_HEALTH_PORT: Final = 7491
PARTITION_METRICS_PORT: Final = 7492

ROOT_RULE: Final = "RootManageSharedAccessKey"
# Names of policies (lower case) whose Secret would collide with another Secret of the bus.
RULES_TAKEN: Final = frozenset({"partition-tls", "frontend-tls", "access-policies"})
OPERATOR_IDENTITY: Final = "spiffe://bendybus/operator"


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """Kubernetes namespace and name of an object of a known kind."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def partition_set(bus: ObjectKey) -> str:
    """Return the name of the StatefulSet of the partitions, and of its headless Service."""
    return f"{bus.name}-partition"


def frontend(bus: ObjectKey) -> str:
    """Return the name of the front end's Deployment and Service."""
    return f"{bus.name}-frontend"


def partition_tls(bus: ObjectKey) -> str:
    """Return the name of the Secret with the partitions' certificate."""
    return f"{bus.name}-partition-tls"


def frontend_tls(bus: ObjectKey) -> str:
    """Return the name of the Secret with the front end's certificate."""
    return f"{bus.name}-frontend-tls"


def authority(bus: ObjectKey) -> str:
    """Return the name of the Secret with the bus's root; no policy's Secret can have it."""
    return f"{bus.name}.authority"


def root(bus: ObjectKey) -> str:
    """Return the name of the bus's root by cert-manager: Certificate, its Secret, its Issuer."""
    return f"{bus.name}.root"


def self_signed(bus: ObjectKey) -> str:
    """Return the name of the Issuer that the bus's root is made with."""
    return f"{bus.name}.self-signed"


def trust(bus: ObjectKey) -> str:
    """Return the name of the Secret with what pods trust while cert-manager issues."""
    return f"{bus.name}.trust"


def policies(bus: ObjectKey) -> str:
    """Return the name of the Secret that front ends read policies and keys from."""
    return f"{bus.name}-access-policies"


def access_secret(bus: ObjectKey, rule: str) -> str:
    """Return the name of the Secret with the keys and connection strings of one policy."""
    return f"{bus.name}-{rule.lower()}"


def volume_claim(bus: ObjectKey, partition: int) -> str:
    """Return the name of a partition's PersistentVolumeClaim."""
    return f"data-{partition_set(bus)}-{partition}"


def partition_address(bus: ObjectKey, partition: int) -> str:
    """Return HOST:PORT of a partition's broker."""
    service = partition_set(bus)
    return f"{service}-{partition}.{service}.{bus.namespace}.svc:{PARTITION_PORT}"


def frontend_host(bus: ObjectKey) -> str:
    """Return the name by which pods of the cluster reach the front end."""
    return f"{frontend(bus)}.{bus.namespace}.svc"


def bus_identity(bus: ObjectKey) -> str:
    """Return the prefix of the identities of a bus's processes."""
    return f"spiffe://bendybus/ns/{bus.namespace}/bus/{bus.name}"


def is_of_a_cluster(host_name: str) -> bool:
    """Whether a host name is cluster-internal or not fully qualified.

    A bus gets the names of its own Service anyway, and must not get those of another.
    """
    labels = host_name.lower().rstrip(".").split(".")
    return len(labels) < 2 or "svc" in labels or "pod" in labels[1:] or labels[-1] == "local"


def bus_labels(bus: ObjectKey) -> dict[str, str]:
    """Return the labels that everything of a bus carries."""
    return {"app.kubernetes.io/name": "bendybus", BUS_LABEL: bus.name, **MANAGED_BY}


def role_labels(bus: ObjectKey, role: str) -> dict[str, str]:
    """Return the labels of one role's objects (partition, frontend); also their selector."""
    return {**bus_labels(bus), ROLE_LABEL: role}
