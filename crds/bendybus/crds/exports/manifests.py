"""A bus that runs → manifests, which make the same bus elsewhere."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from bendybus.crds import policy_names
from bendybus.crds.bundle import KINDS, NamespaceSettings
from bendybus.crds.conversion import Document, Finding, Outcome
from bendybus.crds.imports.importer import manifest
from bendybus.crds.object_names import UniqueNames
from bendybus.crds.policy_names import PolicyNames
from bendybus.domain import (
    descriptions,
    durations,
    entity_settings,
    limits,
    subscription_name,
)
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description, Setting, SettingType
from bendybus.domain.filters import rule
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction
from bendybus.domain.limits import Tier


def policies(
    found: Iterable[tuple[str, Iterable[str], str]], names: PolicyNames, findings: list[Finding]
) -> list[dict[str, Any]]:
    """Return policies of a bus by name, rights and entity, under names that a manifest can have.

    What a manifest cannot hold is added to `findings`.
    """
    made: list[dict[str, Any]] = []
    for wanted, rights, entity in found:
        place = f"policy {wanted} of {entity}" if entity else f"policy {wanted}"
        if len(made) == limits.AUTHORIZATION_RULES_MAX:
            findings.append(Finding(place, Outcome.NOT_SUPPORTED, policy_names.TOO_MANY))
            continue
        name = names.unique(wanted, entity)
        if name != wanted:
            findings.append(Finding(place, Outcome.CHANGED, policy_names.WHY.format(name=name)))
        made.append({"name": name, "rights": list(rights)} | ({"entity": entity} if entity else {}))
    return made


def namespace(
    settings: NamespaceSettings, policies: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the manifest of a bus. `policies`: names, rights and entities."""
    spec: dict[str, Any] = {"sku": {"tier": settings.tier.value}}
    if settings.tier is Tier.PREMIUM:
        spec["premiumMessagingPartitions"] = settings.partition_count
    if policies:
        spec["authorizationRules"] = [dict(each) for each in policies]
    return manifest("BusNamespace", settings.name, spec)


def entities(
    bus: NamespaceSettings, found: Iterable[tuple[str, Description]], findings: list[Finding]
) -> list[Document]:
    """Return the manifests of entities by name, of subscriptions TOPIC/Subscriptions/NAME.

    What manifests cannot hold is added to `findings`.
    """
    made: list[Document] = []
    names = UniqueNames()
    for path, description in found:
        parts = (
            subscription_name.split(path) if description.kind is EntityKind.SUBSCRIPTION else None
        )
        topic, name = parts or ("", path)
        wanted = f"{topic}-{name}" if topic else name
        found_name = names.of_object(wanted)
        spec: dict[str, Any] = {"namespaceRef": {"name": bus.name}}
        spec |= {"topicName": topic} if topic else {}
        spec |= {"entityName": name} if found_name != name else {}
        spec |= _settings(bus, description, f"{description.kind} {path}", findings)
        made.append(manifest(KINDS[description.kind], found_name, spec))
    return made


def _settings(
    bus: NamespaceSettings, description: Description, place: str, findings: list[Finding]
) -> dict[str, Any]:
    """Return the settings that are neither their defaults nor what the bus decides."""
    made: dict[str, Any] = {}
    kind = type(description)
    decided = descriptions.settled(kind(), tier=bus.tier, partition_count=bus.partition_count)
    for setting in entity_settings.BY_KIND[description.kind]:
        value = getattr(description, setting.name)
        if not setting.is_declared or value in (setting.default, getattr(decided, setting.name)):
            continue
        if setting.type is SettingType.RULES:
            made[setting.manifest_name] = list(_rules(value, f"{place}.rules", findings))
        else:
            made[setting.manifest_name] = _value(setting, value)
    return made


def _rules(rules: Iterable[Rule], place: str, findings: list[Finding]) -> Iterator[dict[str, Any]]:
    for each in rules:
        if _is_json(each):
            yield _rule(each)
            continue
        findings.append(
            Finding(
                f"{place} {each.name}",
                Outcome.NOT_SUPPORTED,
                "has a value that is no text, number, true or false: it takes no message there.",
            )
        )
        # Without it, the other rules alone would decide, or the default rule.
        yield {"name": each.name, "booleanFilter": False}


def _is_json(given: Rule) -> bool:
    """Whether all values of a rule are such as JSON has."""
    wanted = given.filter
    found: list[Any] = []
    if isinstance(wanted, SqlFilter):
        found += wanted.parameters.values()
    elif isinstance(wanted, rule.CorrelationFilter):
        found += wanted.properties.values()
    if given.action is not None:
        found += given.action.parameters.values()
    return all(
        isinstance(each, bool | int | str) or (isinstance(each, float) and math.isfinite(each))
        for each in found
    )


def _value(setting: Setting, value: Any) -> Any:
    match setting.type:
        case SettingType.DURATION:
            return durations.render(value)
        case SettingType.STATUS:
            return value.value
    return value


def _rule(given: Rule) -> dict[str, Any]:
    made: dict[str, Any] = {"name": given.name}
    wanted = given.filter
    if isinstance(wanted, SqlFilter):
        made["sqlFilter"] = _sql(wanted)
    elif isinstance(wanted, rule.CorrelationFilter):
        correlation = {
            to_camel(name): getattr(wanted, name)
            for name in rule.SYSTEM_PROPERTIES
            if getattr(wanted, name) is not None
        }
        if wanted.properties:
            correlation["properties"] = dict(sorted(wanted.properties.items()))
        made["correlationFilter"] = correlation
    else:
        made["booleanFilter"] = isinstance(wanted, rule.TrueFilter)
    if given.action is not None:
        made["action"] = _sql(given.action)
    return made


def _sql(given: SqlFilter | SqlRuleAction) -> dict[str, Any]:
    made: dict[str, Any] = {"sqlExpression": given.sql_expression}
    parameters = dict(sorted(given.parameters.items()))
    return made | ({"parameters": parameters} if parameters else {})
