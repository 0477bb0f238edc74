"""A bus → manifests of Azure Service Operator, which makes it in Azure.

An object belongs to its owner by the owner's name in Kubernetes; `azureName` is the name in Azure.
"""

from collections.abc import Iterator
from typing import Any, Final

from bendybus.crds.exports.bus import Bus, Entity
from bendybus.crds.exports.writer import Writer, azure_name
from bendybus.crds.object_names import UniqueNames
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.limits import Tier

VERSION: Final = "servicebus.azure.com/v1api20240101"
_KINDS: Final = {
    EntityKind.QUEUE: "NamespacesQueue",
    EntityKind.TOPIC: "NamespacesTopic",
    EntityKind.SUBSCRIPTION: "NamespacesTopicsSubscription",
}
_RULE: Final = "NamespacesTopicsSubscriptionsRule"
_POLICIES: Final = {
    None: "NamespacesAuthorizationRule",
    EntityKind.QUEUE: "QueueAuthorizationRule",
    EntityKind.TOPIC: "TopicAuthorizationRule",
}


def manifests(bus: Bus, writer: Writer, location: str, group: str) -> list[dict[str, Any]]:
    """Return the manifests; what they lack is in the findings of the writer.

    `location`, `group`: the region and the resource group in Azure, the latter by the name of its
    object in Kubernetes.
    """
    return list(_Manifests(bus, writer).all(location, group))


class _Manifests:
    """One writing. `_objects`: the name of the object of each entity."""

    def __init__(self, bus: Bus, writer: Writer) -> None:
        self._bus = bus
        self._writer = writer
        self._names: dict[str, UniqueNames] = {}
        self._objects: dict[str, str] = {}

    def all(self, location: str, group: str) -> Iterator[dict[str, Any]]:
        """Yield the namespace, then entities with their rules, then policies."""
        bus, writer = self._bus, self._writer
        own = writer.namespace_name()
        root = self._name("Namespace", own)
        sku: dict[str, Any] = {"name": bus.tier.value, "tier": bus.tier.value}
        spec: dict[str, Any] = {"location": location, "owner": {"name": group}, "sku": sku}
        if bus.tier is Tier.PREMIUM:
            spec["premiumMessagingPartitions"] = writer.partitions()
            sku["capacity"] = spec["premiumMessagingPartitions"]
        yield _manifest("Namespace", root, own, spec)
        for each in bus.entities:
            yield from self._entity(each, root)
        for policy in bus.policies:
            entity = policy.entity
            owner = root if entity is None else self._objects[entity.path.lower()]
            kind = _POLICIES[None if entity is None else entity.kind]
            name = self._name(kind, f"{owner}-{policy.name}")
            spec = {"owner": {"name": owner}, "rights": list(policy.rights)}
            yield _manifest(kind, name, policy.name, spec)

    def _entity(self, entity: Entity, root: str) -> Iterator[dict[str, Any]]:
        kind = _KINDS[entity.kind]
        owner = self._objects[entity.topic.lower()] if entity.topic else root
        name = self._name(kind, f"{owner}-{entity.name}")
        self._objects[entity.path.lower()] = name
        spec = {"owner": {"name": owner}, **self._writer.settings(entity)}
        yield _manifest(kind, name, azure_name(entity.name), spec)
        for rule, properties in self._writer.rules(entity):
            object_ = self._name(_RULE, f"{name}-{rule}")
            yield _manifest(_RULE, object_, rule, {"owner": {"name": name}, **properties})

    def _name(self, kind: str, wanted: str) -> str:
        """Return a name that no other object of the kind has."""
        return self._names.setdefault(kind, UniqueNames()).of_object(wanted)


def _manifest(kind: str, name: str, azure: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"azureName": azure, **spec},
    }
