"""A bus → Config.json of the official emulator of Azure Service Bus.

The emulator has one namespace of one partition, no policies but its own, at most 50 queues and
topics, and less of most values. Source: the schema that is published with it, and its limits.
"""

from typing import Any, Final

from bendybus.crds import emulator_config
from bendybus.crds.exports.bus import Bus, Entity
from bendybus.crds.exports.writer import Writer
from bendybus.domain import forwarding
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import BY_NAME

ENTITIES_MAX: Final = 50
SUBSCRIPTIONS_MAX: Final = 50
_LISTS: Final = {EntityKind.QUEUE: "Queues", EntityKind.TOPIC: "Topics"}


def configuration(bus: Bus, writer: Writer) -> dict[str, Any]:
    """Return the configuration; what it lacks is in the findings of the writer."""
    name = emulator_config.NAMESPACE
    if bus.name != name:
        writer.changed(f"BusNamespace {bus.name}", f"became {name}, the one name that there is.")
    if bus.partition_count > 1:
        writer.lost(
            f"BusNamespace {bus.name}.sku",
            f"has {bus.partition_count} partitions; the emulator has one.",
        )
    for policy in bus.policies:
        writer.lost(f"policy {policy.name}", "has no place: the emulator has one policy.")
    kept = {each.path.lower() for each in _kept(bus, writer)}
    lists: dict[str, list[Any]] = {each: [] for each in _LISTS.values()}
    for each in bus.entities:
        if each.kind in _LISTS and each.path.lower() in kept:
            made = _entity(each, writer, kept)
            if each.kind is EntityKind.TOPIC:
                below = [
                    _entity(one, writer, kept)
                    for one in bus.of_kind(EntityKind.SUBSCRIPTION, each.name)
                    if one.path.lower() in kept
                ]
                # Its schema has no empty list of subscriptions.
                made |= {"Subscriptions": below} if below else {}
            lists[_LISTS[each.kind]].append(made)
    namespaces = [{"Name": name, **lists}]
    return {"UserConfig": {"Namespaces": namespaces, "Logging": {"Type": "File"}}}


def _kept(bus: Bus, writer: Writer) -> list[Entity]:
    """Return the entities that the emulator has room for."""
    kept: list[Entity] = []
    counts: dict[str, int] = {}
    left: set[str] = set()
    for each in bus.entities:
        family = each.topic.lower()
        counts[family] = counts.get(family, 0) + 1
        most, what = ENTITIES_MAX, "queues and topics"
        if each.topic:
            most, what = SUBSCRIPTIONS_MAX, "subscriptions of a topic"
        if family in left:
            writer.lost(each.place, "is left out with its topic.")
        elif counts[family] > most:
            left.add(each.path.lower())
            writer.lost(each.place, f"is left out: the emulator has at most {most} {what}.")
        else:
            kept.append(each)
    return kept


def _entity(entity: Entity, writer: Writer, kept: set[str]) -> dict[str, Any]:
    settings = writer.settings(entity)
    for field in forwarding.FIELDS:
        name = str(getattr(entity.description, field, ""))
        if name and name.lower() not in kept:
            settings.pop(BY_NAME[field].atom_name, None)
            setting = BY_NAME[field].manifest_name
            writer.lost(f"{entity.place}.{setting}", f"leads to {name}, which is left out.")
    made: dict[str, Any] = {"Name": entity.name, "Properties": settings}
    rules = writer.rules(entity)
    if rules:
        made["Rules"] = [{"Name": name, "Properties": _rule(each)} for name, each in rules]
    return made


def _rule(properties: dict[str, Any]) -> dict[str, Any]:
    """Return a rule by the emulator's names: FilterType is Sql or Correlation."""
    made: dict[str, Any] = {"FilterType": properties["filterType"].removesuffix("Filter")}
    for name in ("sqlFilter", "correlationFilter", "action"):
        if name in properties:
            made[_upper(name)] = {_upper(each): one for each, one in properties[name].items()}
    return made


def _upper(name: str) -> str:
    return name[:1].upper() + name[1:]
