"""The front end: a Deployment, its Service, its disruption budget, its autoscaler."""

from typing import Any, Final

from bendybus.operator.builders import pod
from bendybus.operator.builders.context import Context, Manifest, metadata, resources
from bendybus.operator.builders.partitions import budget
from bendybus.operator.kubernetes import names

ROLE: Final = "frontend"
# Through a port-forward.
LOOPBACK: Final = "127.0.0.1"
# Clients move on after so long, so that a new pod gets its share of them.
CONNECTION_AGE_S: Final = 300


def service(context: Context) -> Manifest:
    """Return the Service that clients connect to."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(context, names.frontend(context.bus), ROLE),
        "spec": {
            "type": context.spec.frontend.service_type,
            "selector": names.role_labels(context.bus, ROLE),
            "ports": [
                {
                    "name": "grpc",
                    "port": names.FRONTEND_PORT,
                    "targetPort": "grpc",
                    "appProtocol": "grpc",
                },
                {"name": "amqps", "port": names.AMQPS_PORT, "targetPort": "amqps"},
                {"name": "https", "port": names.HTTPS_PORT, "targetPort": "https"},
            ],
        },
    }


def deployment(context: Context) -> Manifest:
    """Return the Deployment: a new pod is ready before an old one leaves."""
    bus, wanted = context.bus, context.spec.frontend
    labels = names.role_labels(bus, ROLE)
    spec: Manifest = {
        "revisionHistoryLimit": 3,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
        },
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": _pod(context)},
    }
    if wanted.autoscaling is None:
        spec["replicas"] = wanted.replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(context, names.frontend(bus), ROLE),
        "spec": spec,
    }


def replicas_only(context: Context, current: int) -> Manifest:
    """Return the part of the Deployment that an autoscaler takes over: its number of pods."""
    wanted = context.spec.frontend.autoscaling
    assert wanted is not None
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": names.frontend(context.bus),
            "namespace": context.bus.namespace,
        },
        "spec": {"replicas": min(max(current, wanted.min_replicas), wanted.max_replicas)},
    }


def _pod(context: Context) -> Manifest:
    container = pod.container(
        context, ROLE, module="bendybus.frontend", arguments=_arguments(context)
    )
    container |= {
        "ports": pod.ports(
            grpc=names.FRONTEND_PORT,
            amqps=names.AMQPS_PORT,
            https=names.FRONTEND_HTTPS_PORT,
            health=names.FRONTEND_HEALTH_PORT,
            metrics=names.FRONTEND_METRICS_PORT,
        ),
        "env": _variables(context),
        "volumeMounts": [
            pod.mount("tls", pod.TLS_DIRECTORY),
            pod.mount("access", pod.POLICIES_DIRECTORY),
            pod.mount("tmp", "/tmp", read_only=False),
        ],
        "resources": resources(context.spec.frontend.resources, memory="128Mi"),
        # Endpoints forget the pod before it stops to answer.
        "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
        **pod.probes(names.FRONTEND_HEALTH_PORT),
    }
    volumes = [
        pod.tls_volume(context, ROLE, names.frontend_tls(context.bus)),
        pod.secret_volume("access", names.policies(context.bus)),
    ]
    return pod.spec(context, ROLE, container, volumes)


def host_names(context: Context) -> tuple[str, ...]:
    """Return the names that clients may reach the front ends by: the certificate has them."""
    bus = context.bus
    service = names.frontend(bus)
    domains = (
        "",
        f".{bus.namespace}",
        f".{bus.namespace}.svc",
        f".{bus.namespace}.svc.cluster.local",
    )
    # Without what is not for the manifest to ask for.
    wanted = (each for each in context.spec.frontend.host_names if not names.is_of_a_cluster(each))
    return (*(f"{service}{domain}" for domain in domains), "localhost", *wanted)


def _variables(context: Context) -> list[Manifest]:
    """Return what an image of a version before 0.9 ignores; it would refuse options."""
    values = {
        "BENDYBUS_AMQPS_LISTEN": f"0.0.0.0:{names.AMQPS_PORT}",
        "BENDYBUS_HTTP_LISTEN": f"0.0.0.0:{names.FRONTEND_HTTPS_PORT}",
    }
    if context.spec.frontend.amqp_idle_limits:
        values["BENDYBUS_AMQP_IDLE_LIMITS"] = "true"
    if context.spec.frontend.host_names:
        values["BENDYBUS_HOST_NAMES"] = ",".join((*host_names(context), LOOPBACK))
    if context.created_at:
        values["BENDYBUS_NAMESPACE_CREATED_AT"] = context.created_at
    return [{"name": name, "value": value} for name, value in values.items()]


def _arguments(context: Context) -> list[str]:
    values: dict[str, Any] = {
        "listen": f"0.0.0.0:{names.FRONTEND_PORT}",
        "health-listen": f"0.0.0.0:{names.FRONTEND_HEALTH_PORT}",
        "metrics-port": names.FRONTEND_METRICS_PORT,
        "tls-directory": pod.TLS_DIRECTORY,
        "bus-identity": names.bus_identity(context.bus),
        "access-policies": f"{pod.POLICIES_DIRECTORY}/policies.json",
        "max-connection-age-s": CONNECTION_AGE_S,
        "drain-s": pod.DRAIN_S,
    }
    partitions = [
        f"--partition={index}={names.partition_address(context.bus, index)}"
        for index in range(context.identity.partition_count)
    ]
    return [*(f"--{name}={value}" for name, value in values.items()), *partitions]


def disruption_budget(context: Context) -> Manifest | None:
    """Return the budget that keeps all but one pod; none for a single pod, which could not move."""
    wanted = context.spec.frontend
    lowest = wanted.autoscaling.min_replicas if wanted.autoscaling else wanted.replicas
    return budget(context, names.frontend(context.bus), ROLE) if lowest > 1 else None


def autoscaler(context: Context) -> Manifest | None:
    """Return the HorizontalPodAutoscaler by processor use, if the manifest asks for one."""
    wanted = context.spec.frontend.autoscaling
    if wanted is None:
        return None
    name = names.frontend(context.bus)
    utilization = {"type": "Utilization", "averageUtilization": wanted.target_cpu_utilization}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(context, name, ROLE),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": wanted.min_replicas,
            "maxReplicas": wanted.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}],
        },
    }
