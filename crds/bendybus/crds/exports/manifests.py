"""A bus that runs → manifests, which make the same bus elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from bendybus.crds.bundle import KINDS, NamespaceSettings
from bendybus.crds.conversion import Document
from bendybus.crds.imports.importer import manifest, object_name
from bendybus.domain import durations, entity_settings, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description, Setting, SettingType
from bendybus.domain.filters import rule
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction
from bendybus.domain.limits import Tier


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


def entities(bus: str, found: Iterable[tuple[str, Description]]) -> list[Document]:
    """Return the manifests of entities by name, of subscriptions TOPIC/Subscriptions/NAME."""
    made: list[Document] = []
    taken: set[str] = set()
    for path, description in found:
        parts = (
            subscription_name.split(path) if description.kind is EntityKind.SUBSCRIPTION else None
        )
        topic, name = parts or ("", path)
        wanted = f"{topic}-{name}" if topic else name
        base = found_name = object_name(wanted) or "entity"
        number = 2
        while found_name in taken:
            found_name = f"{base}-{number}"
            number += 1
        taken.add(found_name)
        spec: dict[str, Any] = {"namespaceRef": {"name": bus}}
        spec |= {"topicName": topic} if topic else {}
        spec |= {"entityName": name} if found_name != name else {}
        spec |= _settings(description)
        made.append(manifest(KINDS[description.kind], found_name, spec))
    return made


def _settings(description: Description) -> dict[str, Any]:
    """Return the settings that differ from their defaults."""
    made: dict[str, Any] = {}
    for setting in entity_settings.BY_KIND[description.kind]:
        value = getattr(description, setting.name)
        if setting.is_declared and value != setting.default:
            made[setting.manifest_name] = _value(setting, value)
    return made


def _value(setting: Setting, value: Any) -> Any:
    match setting.type:
        case SettingType.DURATION:
            return durations.render(value)
        case SettingType.STATUS:
            return value.value
        case SettingType.RULES:
            return [_rule(each) for each in value]
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
        correlation |= {"properties": dict(wanted.properties)} if wanted.properties else {}
        made["correlationFilter"] = correlation
    else:
        made["booleanFilter"] = isinstance(wanted, rule.TrueFilter)
    if given.action is not None:
        made["action"] = _sql(given.action)
    return made


def _sql(given: SqlFilter | SqlRuleAction) -> dict[str, Any]:
    made: dict[str, Any] = {"sqlExpression": given.sql_expression}
    return made | ({"parameters": dict(given.parameters)} if given.parameters else {})
