"""A bus → a template of Azure Resource Manager, which makes it in Azure.

The name of the namespace and the location are parameters: names are unique in all of Azure. What
forwards depends on its destination, so that a deployment makes them in order.
"""

from collections.abc import Iterator
from typing import Any, Final

from bendybus.crds.exports.bus import Bus, Entity
from bendybus.crds.exports.writer import Writer, azure_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.limits import Tier

API_VERSION: Final = "2024-01-01"
# The limit of Azure for one template, with all copies.
RESOURCES_MAX: Final = 800
_SCHEMA: Final = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
_TYPE: Final = "Microsoft.ServiceBus/namespaces"
_NAMESPACE: Final = "parameters('namespaceName')"
TYPES: Final = {
    EntityKind.QUEUE: "queues",
    EntityKind.TOPIC: "topics",
    EntityKind.SUBSCRIPTION: "topics/subscriptions",
}


def template(bus: Bus, writer: Writer) -> dict[str, Any]:
    """Return the template; what it lacks is in the findings of the writer."""
    name = writer.namespace_name()
    resources = list(_resources(bus, writer))
    if len(resources) > RESOURCES_MAX:
        writer.lost(
            "resources",
            f"are {len(resources):,}, and Azure takes {RESOURCES_MAX} in one template: divide it.",
        )
    return {
        "$schema": _SCHEMA,
        "contentVersion": "1.0.0.0",
        "parameters": {
            "namespaceName": {
                "type": "string",
                "defaultValue": name,
                "metadata": {"description": "Of the namespace; unique in all of Azure."},
            },
            "location": {"type": "string", "defaultValue": "[resourceGroup().location]"},
        },
        "resources": resources,
    }


def _resources(bus: Bus, writer: Writer) -> Iterator[dict[str, Any]]:
    sku: dict[str, Any] = {"name": bus.tier.value, "tier": bus.tier.value}
    properties: dict[str, Any] = {}
    if bus.tier is Tier.PREMIUM:
        count = writer.partitions()
        # A namespace has as many messaging units as partitions, or more.
        sku["capacity"] = count
        properties["premiumMessagingPartitions"] = count
    yield {
        "type": _TYPE,
        "apiVersion": API_VERSION,
        "name": f"[{_NAMESPACE}]",
        "location": "[parameters('location')]",
        "sku": sku,
        "properties": properties,
    }
    by_path = {each.path.lower(): each for each in bus.entities}
    for each in bus.entities:
        needed = [by_path[name] for name in each.after]
        if each.topic and each.topic.lower() in by_path:
            needed.append(by_path[each.topic.lower()])
        kind, names = _names(each)
        after = [_id(*_names(one)) for one in needed] or [_id("", ())]
        yield _resource(kind, names, writer.settings(each), after)
        for name, rule in writer.rules(each):
            yield _resource(f"{kind}/rules", (*names, name), rule, [_id(kind, names)])
    for policy in bus.policies:
        kind, names = ("", ()) if policy.entity is None else _names(policy.entity)
        whole = f"{kind}/authorizationRules" if kind else "authorizationRules"
        rights = {"rights": list(policy.rights)}
        yield _resource(whole, (*names, policy.name), rights, [_id(kind, names)])


def _names(entity: Entity) -> tuple[str, tuple[str, ...]]:
    """Return the type below namespaces, and the names below that of the namespace."""
    names = (entity.topic, entity.name) if entity.topic else (entity.name,)
    return TYPES[entity.kind], tuple(map(azure_name, names))


def _resource(
    kind: str, names: tuple[str, ...], properties: dict[str, Any], after: list[str]
) -> dict[str, Any]:
    places = "/".join(f"{{{number}}}" for number in range(len(names) + 1))
    quoted = ", ".join(map(_quoted, names))
    return {
        "type": f"{_TYPE}/{kind}",
        "apiVersion": API_VERSION,
        "name": f"[format('{places}', {_NAMESPACE}, {quoted})]",
        "dependsOn": after,
        "properties": _literal(properties),
    }


def _id(kind: str, names: tuple[str, ...]) -> str:
    whole = f"{_TYPE}/{kind}" if kind else _TYPE
    return f"[resourceId({', '.join([_quoted(whole), _NAMESPACE, *map(_quoted, names)])})]"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literal(value: Any) -> Any:
    """Return a value in which no text is an expression."""
    if isinstance(value, dict):
        # Names, too, may be expressions.
        return {_literal(name): _literal(each) for name, each in value.items()}
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        return f"[{value}"
    return value
