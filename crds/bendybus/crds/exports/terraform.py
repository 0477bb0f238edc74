"""A bus → configuration of Terraform in JSON (.tf.json), for the provider azurerm from 4.0 on.

An entity refers to its namespace or topic and to its destinations, so that Terraform makes all in
order.
The resource group and the location are variables.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from bendybus.crds.exports.bus import Bus, Entity
from bendybus.crds.exports.writer import Writer, azure_name
from bendybus.crds.object_names import UniqueNames
from bendybus.domain import forwarding
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import BY_NAME
from bendybus.domain.limits import Tier

_PREFIX: Final = "azurerm_servicebus_"
_RULE: Final = "subscription_rule"
# The bound for the name of a block, which people read.
_BLOCK_CHARS_MAX: Final = 600
_RIGHTS: Final = ("listen", "send", "manage")


def configuration(bus: Bus, writer: Writer) -> dict[str, Any]:
    """Return the configuration; what it lacks is in the findings of the writer."""
    return _Configuration(bus, writer).all()


class _Configuration:
    """One writing. `_names`: the name of the block of each entity."""

    def __init__(self, bus: Bus, writer: Writer) -> None:
        self._bus = bus
        self._writer = writer
        self._names: dict[str, tuple[str, str]] = {}
        self._blocks: dict[str, dict[str, Any]] = {}
        self._unique: dict[str, UniqueNames] = {}

    def all(self) -> dict[str, Any]:
        bus, writer = self._bus, self._writer
        own = writer.namespace_name()
        namespace: dict[str, Any] = {
            "name": own,
            "location": "${var.location}",
            "resource_group_name": "${var.resource_group_name}",
            "sku": bus.tier.value,
        }
        if bus.tier is Tier.PREMIUM:
            count = writer.partitions()
            namespace |= {"capacity": count, "premium_messaging_partitions": count}
        root = self._add("namespace", own, namespace)
        for each in bus.entities:
            self._entity(each, root)
        for policy in bus.policies:
            kind, owner = "namespace", root
            if policy.entity is not None:
                kind, owner = self._names[policy.entity.path.lower()]
            rights = {each: each.capitalize() in policy.rights for each in _RIGHTS}
            body = {"name": policy.name, f"{kind}_id": _id(kind, owner), **rights}
            self._add(f"{kind}_authorization_rule", f"{owner}_{policy.name}", body)
        variables = {name: {"type": "string"} for name in ("location", "resource_group_name")}
        return {"variable": variables, "resource": self._blocks}

    def _entity(self, entity: Entity, root: str) -> None:
        kind, name = entity.kind.value, azure_name(entity.name)
        parent, owner = ("namespace", root)
        if entity.kind is EntityKind.SUBSCRIPTION:
            parent, owner = self._names[entity.topic.lower()]
        body = {
            "name": name,
            f"{parent}_id": _id(parent, owner),
            **self._forwarding(entity, self._writer.settings(entity)),
        }
        wanted = f"{owner}_{name}" if entity.topic else name
        block = self._add(kind, wanted, body)
        self._names[entity.path.lower()] = kind, block
        for rule, properties in self._writer.rules(entity):
            self._add(
                _RULE,
                f"{block}_{rule}",
                {"name": rule, "subscription_id": _id(kind, block), **_rule(properties)},
            )

    def _forwarding(self, entity: Entity, made: dict[str, Any]) -> dict[str, Any]:
        """Return settings with references to destinations, which are made before."""
        for field in forwarding.FIELDS:
            name = str(getattr(entity.description, field)).lower()
            if name not in entity.after:
                continue
            kind, block = self._names[name]
            if "/" in name:
                # Its name as a resource is another one.
                others = made.get("depends_on", ())
                made["depends_on"] = [*dict.fromkeys([*others, f"{_PREFIX}{kind}.{block}"])]
            else:
                made[BY_NAME[field].attribute] = f"${{{_PREFIX}{kind}.{block}.name}}"
        return made

    def _add(self, kind: str, wanted: str, body: dict[str, Any]) -> str:
        """Add a block under a name like `wanted`, and return it."""
        blocks = self._blocks.setdefault(f"{_PREFIX}{kind}", {})
        base = re.sub(r"[^A-Za-z0-9_-]", "_", wanted)
        base = base if re.match(r"[A-Za-z_]", base) else f"_{base}"
        names = self._unique.setdefault(kind, UniqueNames(_BLOCK_CHARS_MAX, "_"))
        found = names.unique(base)
        blocks[found] = body
        return found


def _id(kind: str, block: str) -> str:
    return f"${{{_PREFIX}{kind}.{block}.id}}"


def _rule(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule as the provider has it: an expression is a text, a correlation a block."""
    made: dict[str, Any] = {"filter_type": properties["filterType"]}
    if "sqlFilter" in properties:
        made["sql_filter"] = _text(properties["sqlFilter"]["sqlExpression"])
    if "correlationFilter" in properties:
        correlation = {
            re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name): _text(value)
            for name, value in properties["correlationFilter"].items()
        }
        made["correlation_filter"] = [correlation]
    if "action" in properties:
        made["action"] = _text(properties["action"]["sqlExpression"])
    return made


def _text(value: Any) -> Any:
    """Return a value in which no text is a template: `${` and `%{` begin expressions."""
    if isinstance(value, dict):
        return {_text(name): _text(each) for name, each in value.items()}
    if isinstance(value, str):
        return value.replace("${", "$${").replace("%{", "%%{")
    return value
