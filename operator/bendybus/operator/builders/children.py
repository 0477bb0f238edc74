"""All objects of a bus, in the order in which they are made; and its NetworkPolicies.

The policies say who may connect to partitions and front ends, where a cluster enforces them.
"""

from typing import Any

from bendybus.operator.builders import frontend, partitions
from bendybus.operator.builders.context import Context, Manifest, metadata
from bendybus.operator.kubernetes import names


def all_of(context: Context) -> list[Manifest]:
    """Return what runs a bus. Secrets come before: pods wait for them.

    Services first, so that names resolve when pods start; partitions before front ends, which
    wait for them; budgets and policies last, since nothing waits for those.
    """
    made = [
        partitions.service(context),
        frontend.service(context),
        partitions.stateful_set(context),
        frontend.deployment(context),
        partitions.disruption_budget(context),
        frontend.disruption_budget(context),
        frontend.autoscaler(context),
        partition_policy(context),
        frontend_policy(context),
    ]
    return [each for each in made if each is not None]


def partition_policy(context: Context) -> Manifest:
    """Return the policy of partitions: the bus's own pods and the operator; probes and metrics."""
    peers = [
        {"podSelector": {"matchLabels": names.role_labels(context.bus, frontend.ROLE)}},
        {"podSelector": {"matchLabels": names.role_labels(context.bus, partitions.ROLE)}},
        {
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": context.operator_namespace}
            },
            "podSelector": {"matchLabels": {"app.kubernetes.io/component": "operator"}},
        },
    ]
    rules = [
        {"from": peers, "ports": _ports(names.PARTITION_PORT)},
        {"ports": _ports(names.PARTITION_HEALTH_PORT)},
        {"from": _readers(context), "ports": _ports(names.PARTITION_METRICS_PORT)},
    ]
    return _policy(context, names.partition_set(context.bus), partitions.ROLE, rules)


def frontend_policy(context: Context) -> Manifest:
    """Return the policy of front ends: everyone; who may do what is said by shared access keys."""
    rules = [
        {
            "ports": _ports(
                names.FRONTEND_PORT,
                names.AMQPS_PORT,
                names.FRONTEND_HTTPS_PORT,
                names.FRONTEND_HEALTH_PORT,
            )
        },
        {"from": _readers(context), "ports": _ports(names.FRONTEND_METRICS_PORT)},
    ]
    return _policy(context, names.frontend(context.bus), frontend.ROLE, rules)


def _readers(context: Context) -> list[Manifest]:
    """Return who may read metrics, which name the queues of a bus and count their messages."""
    labelled = {"namespaceSelector": {"matchLabels": {names.METRICS_LABEL: "true"}}}
    return list(context.metrics_from) or [labelled]


def _ports(*numbers: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": number} for number in numbers]


def _policy(context: Context, name: str, role: str, rules: list[dict[str, Any]]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(context, name, role),
        "spec": {
            "podSelector": {"matchLabels": names.role_labels(context.bus, role)},
            "policyTypes": ["Ingress"],
            "ingress": rules,
        },
    }
