"""Manifests and entries as tests write them, with what Kubernetes adds to them."""

import copy
from typing import Any, Final

from bendybus.crds.entity_manifest import to_description
from bendybus.domain import descriptions, partitioning
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import Description
from bendybus.domain.limits import Tier
from bendybus.operator.builders.context import Context
from bendybus.operator.decisions import manifests
from bendybus.operator.decisions.manifests import BusView, EntityView
from bendybus.operator.decisions.storage import Identity
from bendybus.operator.kubernetes.names import ObjectKey

BUS: Final = ObjectKey("shop", "orders")
Body = dict[str, Any]


def bus_body(
    name: str = "orders",
    *,
    uid: str = "bus-1",
    annotations: dict[str, str] | None = None,
    namespace: str = "shop",
    **spec: Any,
) -> Body:
    """Return a BusNamespace: Premium of 2 partitions, unless `spec` says otherwise."""
    if "sku" not in spec:
        spec = {"sku": {"tier": "Premium"}, "premiumMessagingPartitions": 2, **spec}
    return _body("BusNamespace", name, namespace, uid, annotations, spec)


def queue_body(
    name: str = "paid",
    *,
    uid: str = "",
    annotations: dict[str, str] | None = None,
    namespace: str = "shop",
    **spec: Any,
) -> Body:
    """Return a Queue of the bus `orders`."""
    spec = {"namespaceRef": {"name": "orders"}, **spec}
    return _body("Queue", name, namespace, uid or f"{name}-1", annotations, spec)


def topic_body(
    name: str = "sales",
    *,
    uid: str = "",
    annotations: dict[str, str] | None = None,
    namespace: str = "shop",
    **spec: Any,
) -> Body:
    """Return a Topic of the bus `orders`."""
    spec = {"namespaceRef": {"name": "orders"}, **spec}
    return _body("Topic", name, namespace, uid or f"{name}-1", annotations, spec)


def subscription_body(
    name: str = "audit",
    *,
    uid: str = "",
    annotations: dict[str, str] | None = None,
    namespace: str = "shop",
    **spec: Any,
) -> Body:
    """Return a Subscription of the topic `sales`."""
    spec = {"namespaceRef": {"name": "orders"}, "topicName": "sales", **spec}
    return _body("Subscription", name, namespace, uid or f"{name}-1", annotations, spec)


def _body(
    kind: str,
    name: str,
    namespace: str,
    uid: str,
    annotations: dict[str, str] | None,
    spec: dict[str, Any],
) -> Body:
    return {
        "apiVersion": "bendybus.io/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "generation": 1,
            "annotations": dict(annotations or {}),
        },
        "spec": spec,
    }


def changed(body: Body, **spec: Any) -> Body:
    """Return the manifest with other fields in its spec, one generation on."""
    new = copy.deepcopy(body)
    new["spec"].update(spec)
    new["metadata"]["generation"] += 1
    return new


def bus(**options: Any) -> BusView:
    """Return the view of a BusNamespace."""
    return manifests.bus_view(bus_body(**options))


def queue(name: str = "paid", **options: Any) -> EntityView:
    """Return the view of a Queue."""
    return manifests.entity_view(queue_body(name, **options))


def topic(name: str = "sales", **options: Any) -> EntityView:
    """Return the view of a Topic."""
    return manifests.entity_view(topic_body(name, **options))


def subscription(name: str = "audit", **options: Any) -> EntityView:
    """Return the view of a Subscription."""
    return manifests.entity_view(subscription_body(name, **options))


def entry(of: EntityView, on: BusView | None = None, **facts: Any) -> Entity:
    """Return the catalogue's entry as the manifest makes it on the bus."""
    on = on or bus()
    assert of.manifest is not None
    assert on.manifest is not None
    wanted: Description = facts.pop("description", None) or descriptions.settled(
        to_description(of.manifest),
        tier=on.manifest.tier,
        partition_count=on.manifest.partition_count,
    )
    count, home = partitioning.placement(
        of.entity_name,
        enable_partitioning=getattr(wanted, "enable_partitioning", False),
        tier=on.manifest.tier,
        partition_count=on.manifest.partition_count,
    )
    values: dict[str, Any] = {
        "name": of.entity_name,
        "uid": of.uid,
        "generation": 1,
        "origin": Origin.MANIFEST,
        "description": wanted,
        "partition_count": count,
        "home_partition": home,
        "created_at_ms": 0,
        "updated_at_ms": 0,
        "manifest_uid": of.uid,
        "manifest_rules": of.manifest.has_rules,
    }
    return Entity(**{**values, **facts})


def context(**options: Any) -> Context:
    """Return what builders are told of a bus of this manifest."""
    view = bus(**options)
    assert view.manifest is not None
    return Context(
        bus=view.key,
        uid=view.uid,
        spec=view.manifest.spec,
        identity=Identity("data-1", view.manifest.tier, view.manifest.partition_count),
        storage_size=view.manifest.spec.storage.size,
        image="localhost/bendybus:test",
        image_pull_policy="IfNotPresent",
        operator_namespace="bendybus-system",
        issuer_kind="ClusterIssuer",
        issuer_name="ours",
    )


def claim_body(
    partition: int = 0,
    *,
    uid: str = "bus-1",
    tier: Tier = Tier.PREMIUM,
    count: int = 2,
    size: str = "10Gi",
    **annotations: str,
) -> Body:
    """Return a volume claim of the bus `orders`."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"data-orders-partition-{partition}",
            "namespace": "shop",
            "labels": {"bendybus.io/bus": "orders", "bendybus.io/role": "partition"},
            "annotations": {
                "bendybus.io/namespace-uid": uid,
                "bendybus.io/tier": tier.value,
                "bendybus.io/partition-count": str(count),
                **{f"bendybus.io/{name.replace('_', '-')}": v for name, v in annotations.items()},
            },
        },
        "spec": {"resources": {"requests": {"storage": size}}},
    }
