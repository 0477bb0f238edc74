"""The partition pods: a StatefulSet, its headless Service, its disruption budget."""

from typing import Any, Final

from bendybus.operator.builders import pod
from bendybus.operator.builders.context import Context, Manifest, metadata, resources
from bendybus.operator.decisions.storage import Identity
from bendybus.operator.kubernetes import names

ROLE: Final = "partition"
DATA_DIRECTORY: Final = "/var/lib/bendybus"
_INDEX: Final = "BENDYBUS_POD_INDEX"
_PEERS: Final = "BENDYBUS_PARTITION_PEER"


def identity_annotations(identity: Identity) -> dict[str, str]:
    """Return the annotations that say what the files of the volumes belong to."""
    return {
        names.UID_ANNOTATION: identity.uid,
        names.TIER_ANNOTATION: identity.tier.value,
        names.COUNT_ANNOTATION: str(identity.partition_count),
    }


def service(context: Context) -> Manifest:
    """Return the headless Service that gives each partition its name.

    Also of those that are not ready: the front end asks partitions itself how they are, and one
    that drains or has a full disk still settles messages.
    """
    name = names.partition_set(context.bus)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(context, name, ROLE),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": names.role_labels(context.bus, ROLE),
            "ports": [
                {"name": "grpc", "port": names.PARTITION_PORT, "appProtocol": "grpc"},
                {"name": "metrics", "port": names.PARTITION_METRICS_PORT},
            ],
        },
    }


def stateful_set(context: Context) -> Manifest:
    """Return the StatefulSet: one pod and one volume a partition, all started at once."""
    name = names.partition_set(context.bus)
    labels = names.role_labels(context.bus, ROLE)
    made = metadata(context, name, ROLE)
    made["annotations"] = identity_annotations(context.identity)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": made,
        "spec": {
            "replicas": context.identity.partition_count,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "revisionHistoryLimit": 3,
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain",
                "whenScaled": "Retain",
            },
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod(context)},
            "volumeClaimTemplates": [_claim(context)],
        },
    }


def _pod(context: Context) -> Manifest:
    container = pod.container(
        context, ROLE, module="bendybus.partition_server", arguments=_arguments(context)
    )
    container |= {
        "env": [
            {
                "name": _INDEX,
                "valueFrom": {
                    "fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}
                },
            },
            # Not an argument: the program of an earlier image exits at an unknown one.
            {"name": _PEERS, "value": _peers(context)},
        ],
        "ports": pod.ports(
            grpc=names.PARTITION_PORT,
            health=names.PARTITION_HEALTH_PORT,
            metrics=names.PARTITION_METRICS_PORT,
        ),
        "volumeMounts": [
            pod.mount("data", DATA_DIRECTORY, read_only=False),
            pod.mount("tls", pod.TLS_DIRECTORY),
            pod.mount("tmp", "/tmp", read_only=False),
        ],
        "resources": resources(context.spec.partitions.resources, memory="128Mi"),
        **pod.probes(names.PARTITION_HEALTH_PORT),
    }
    volumes = [pod.tls_volume(context, ROLE, names.partition_tls(context.bus))]
    return pod.spec(context, ROLE, container, volumes)


def _arguments(context: Context) -> list[str]:
    identity = context.identity
    values: dict[str, Any] = {
        "data": DATA_DIRECTORY,
        "namespace-name": context.bus.name,
        "namespace-uid": identity.uid,
        "tier": identity.tier.value,
        "partition-count": identity.partition_count,
        "partitions": f"$({_INDEX})",
        "listen": f"0.0.0.0:{names.PARTITION_PORT}",
        "health-listen": f"0.0.0.0:{names.PARTITION_HEALTH_PORT}",
        "metrics-port": names.PARTITION_METRICS_PORT,
        "tls-directory": pod.TLS_DIRECTORY,
        "bus-identity": names.bus_identity(context.bus),
        "drain-s": pod.DRAIN_S,
    }
    return [f"--{name}={value}" for name, value in values.items()]


def _peers(context: Context) -> str:
    """Return where the partitions reach each other, for what they forward."""
    return ",".join(
        f"{index}={names.partition_address(context.bus, index)}"
        for index in range(context.identity.partition_count)
    )


def _claim(context: Context) -> Manifest:
    storage = context.spec.storage
    spec: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": context.storage_size}},
    }
    if storage.storage_class_name is not None:
        spec["storageClassName"] = storage.storage_class_name
    return {
        "metadata": {
            "name": "data",
            "labels": names.role_labels(context.bus, ROLE),
            "annotations": identity_annotations(context.identity),
        },
        "spec": spec,
    }


def disruption_budget(context: Context) -> Manifest | None:
    """Return the budget that lets a drain of nodes take one partition at a time."""
    if context.identity.partition_count == 1:
        return None
    return budget(context, names.partition_set(context.bus), ROLE)


def budget(context: Context, name: str, role: str) -> Manifest:
    """Return a PodDisruptionBudget of at most one pod of a role."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(context, name, role),
        "spec": {
            "maxUnavailable": 1,
            # A pod that is not ready must not prevent its node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": names.role_labels(context.bus, role)},
        },
    }
