"""Entities of every kind, and rules, as table rows and as JSON."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf import json_format

from bendybus.cli.output import printing, sums
from bendybus.cli.output.printing import Output
from bendybus.cli.output.tables import Column
from bendybus.crds.bundle import KINDS
from bendybus.domain import durations, entity_settings, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description, SettingType
from bendybus.domain.filters import rule as rule_domain
from bendybus.domain.filters import rule_json
from bendybus.domain.filters.rule import CorrelationFilter, FalseFilter, Rule, SqlFilter
from bendybus.domain.lifecycle import EntityState
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import entities

Cell = Callable[[Any], object]
_TEXTS: Final = ("TOPIC", "NAME", "FORWARD-TO")
_HELD: Final = "DEFERRED LOCKED TRANSFER TRANSFER-DEAD FORWARD-TO ORIGIN SIZE"
# By kind: the columns, and those that `-o wide` adds.
_COLUMNS: Final = {
    EntityKind.QUEUE: (
        "NAME PARTITIONS STATUS AVAILABLE ACTIVE DEAD SCHEDULED",
        f"{_HELD} MAX-SIZE HOME",
    ),
    EntityKind.TOPIC: (
        "NAME PARTITIONS STATUS AVAILABLE SUBSCRIPTIONS SCHEDULED",
        "ORIGIN SIZE MAX-SIZE HOME",
    ),
    # What they hold counts to the size of their topic: MAX-SIZE is there.
    EntityKind.SUBSCRIPTION: ("TOPIC NAME STATUS AVAILABLE ACTIVE DEAD", f"{_HELD} PARTITIONS"),
}


def _counted(field: str) -> Cell:
    """Return the cell of a count."""
    return lambda entity: sums.count(entity, field)


def status(entity: Any) -> str:
    """Return the status of an entity."""
    if entity.orphaned:
        return EntityState.ORPHANED.value
    return str(entities.description_from_proto(entity.description).status.value)


def availability(entity: Any) -> str:
    """Return whether the partitions of an entity answer."""
    limited = pb.ENTITY_AVAILABILITY_STATUS_LIMITED
    if entity.runtime.availability_status == limited:
        return "Limited" if sums.is_known(entity) else "No"
    return "Available"


def _origin(entity: Any) -> str:
    return entities.origin_from_proto(entity.origin).value


def _home(entity: Any) -> int | None:
    return entity.home_partition if entity.partition_count == 1 else None


def _most(entity: Any) -> str | None:
    """Return the size that an entity may have on all its partitions together."""
    most = entity.runtime.max_size_in_megabytes_total
    return printing.size(most * limits.MB) if most else None


# TRANSFER: sent to other entities in transactions, on its way; TRANSFER-DEAD: could not be
# forwarded.
_CELLS: Final[dict[str, Cell]] = {
    "TOPIC": lambda entity: entity.topic_name,
    "NAME": lambda entity: entity.name,
    "PARTITIONS": lambda entity: entity.partition_count,
    "STATUS": status,
    "AVAILABLE": availability,
    "SUBSCRIPTIONS": lambda entity: entity.subscription_count,
    "ACTIVE": _counted("active_message_count"),
    "DEAD": _counted("dead_letter_message_count"),
    "SCHEDULED": _counted("scheduled_message_count"),
    "DEFERRED": _counted("deferred_message_count"),
    "LOCKED": _counted("locked_message_count"),
    "TRANSFER": _counted("transfer_message_count"),
    "TRANSFER-DEAD": _counted("transfer_dead_letter_message_count"),
    "FORWARD-TO": lambda entity: entity.description.forward_to or None,
    "ORIGIN": _origin,
    "SIZE": lambda entity: sums.size(entity, printing.size),
    "MAX-SIZE": _most,
    "HOME": _home,
}


def show(kind: EntityKind, found: Sequence[Any], output: Output) -> None:
    """Print entities of a kind with their counts."""
    if output.structured:
        for each in found:
            printing.structured(as_json(each), output)
        return
    plain, wide = _COLUMNS[kind]
    names = f"{plain} {wide}".split() if output is Output.WIDE else plain.split()
    columns = [Column(name, text=True) if name in _TEXTS else name for name in names]
    printing.table(columns, [[_CELLS[name](each) for name in names] for each in found])


def describe(found: Any, extra: Sequence[tuple[str, object]], output: Output) -> None:
    """Print an entity with its settings, and its share on each partition.

    `extra`: rows that its kind has beside those of all.
    """
    facts = as_json(found)
    if output.structured:
        printing.structured(facts, output)
        return
    rows: list[tuple[str, object]] = [
        ("name", found.name),
        *extra,
        ("origin", facts["origin"]),
        *([("state", EntityState.ORPHANED.value)] if found.orphaned else []),
        ("partitions", found.partition_count),
        ("homePartition", facts["homePartition"]),
        ("availability", facts["availabilityStatus"]),
        ("size", sums.size(found, printing.size)),
        *((name, value) for name, value in facts["spec"].items() if name != "rules"),
    ]
    printing.table(("FIELD", Column("VALUE", wrap=20)), rows)
    printing.line("")
    columns = ("PARTITION", "REACHABLE", "ACTIVE", "DEADLETTER", "SCHEDULED", "DEFERRED", "SIZE")
    printing.table(columns, map(_share, found.runtime.partitions))


def as_json(entity: Any) -> dict[str, Any]:
    """Return an entity with the names of manifests, durations as text."""
    kind = entities.kind_of(entity)
    facts = {
        "kind": KINDS[kind],
        **({"topicName": entity.topic_name} if kind is EntityKind.SUBSCRIPTION else {}),
        "name": entity.name,
        "uid": entity.uid,
        "generation": entity.generation,
        "origin": _origin(entity),
        "orphaned": entity.orphaned,
        "partitionCount": entity.partition_count,
        "homePartition": _home(entity),
        "spec": _settings(entity),
        "availabilityStatus": availability(entity),
        "reachable": not sums.missing(entity),
        "runtime": _runtime(entity.runtime),
    }
    if kind is EntityKind.TOPIC:
        facts["subscriptionCount"] = entity.subscription_count
        facts["sqlFilterCount"] = entity.sql_filter_count
        facts["correlationFilterCount"] = entity.correlation_filter_count
    return facts


def _settings(entity: Any) -> dict[str, Any]:
    """Return the settings of an entity with the names of manifests."""
    spec = settings(entities.description_from_proto(entity.description))
    kept = {
        each.manifest_name
        for each in entity_settings.BY_KIND[entities.kind_of(entity)]
        # Lists of entities have no lists of theirs.
        if not each.is_list or entity.description.HasField(each.name)
    }
    return {name: value for name, value in spec.items() if name in kept}


def settings(described: Description) -> dict[str, Any]:
    """Return the settings of a description with the names of manifests, durations as text."""
    spec: dict[str, Any] = {}
    for setting in entity_settings.BY_KIND[described.kind]:
        value = getattr(described, setting.name)
        if setting.type is SettingType.RULES:
            value = [rule_as_json(each) for each in value]
        if setting.type is SettingType.AUTHORIZATION_RULES:
            # Without the keys: what a terminal shows is kept in logs.
            value = [{"name": each.name, "rights": sorted(each.rights)} for each in value]
        duration = setting.type is SettingType.DURATION
        spec[setting.manifest_name] = durations.render(value) if duration else value
    return spec


def _runtime(held: Any) -> dict[str, Any]:
    """Return counts as numbers: protobuf writes 64-bit integers as text."""
    return {
        "countDetails": _counts(held.count_details),
        "sizeInBytes": held.size_in_bytes,
        "maxSizeInMegabytesTotal": held.max_size_in_megabytes_total,
        "partitions": [
            {
                "partition": each.partition,
                "reachable": each.reachable,
                "countDetails": _counts(each.count_details),
                "sizeInBytes": each.size_in_bytes,
            }
            for each in held.partitions
        ],
    }


def _counts(counts: pb.MessageCountDetails) -> dict[str, int]:
    names = json_format.MessageToDict(counts, always_print_fields_with_no_presence=True)
    return {name: int(value) for name, value in names.items()}


def _share(part: pb.PartitionRuntime) -> list[object]:
    """Return the table row of the share on one partition."""
    counts = part.count_details
    if not part.reachable:
        return [part.partition, False, None, None, None, None, None]
    return [
        part.partition,
        True,
        counts.active_message_count,
        counts.dead_letter_message_count,
        counts.scheduled_message_count,
        counts.deferred_message_count,
        printing.size(part.size_in_bytes),
    ]


def show_rules(found: Sequence[pb.Rule], output: Output) -> None:
    """Print rules."""
    known = [entities.rule_from_proto(each) for each in found]
    if output.structured:
        for each in known:
            created = datetime.fromtimestamp(each.created_at_ms / 1_000, UTC)
            facts = {**rule_as_json(each), "createdAt": created.isoformat(timespec="milliseconds")}
            printing.structured(facts, output)
        return
    rule_table(known)


def rule_as_json(rule: Rule) -> dict[str, Any]:
    """Return a rule with the names of manifests, as an entry of `spec.rules`."""
    stored = rule_json.rule_to_json(rule)
    found = stored["filter"]
    made: dict[str, Any] = {"name": rule.name}
    if isinstance(found, bool):
        made["booleanFilter"] = found
    elif "sql" in found:
        made["sqlFilter"] = _sql_as_json(found)
    else:
        texts = {_camel(name): text for name, text in found["correlation"].items()}
        made["correlationFilter"] = texts | _unless_empty("properties", found["values"])
    if "action" in stored:
        made["action"] = _sql_as_json(stored["action"])
    return made


def _sql_as_json(stored: dict[str, Any]) -> dict[str, Any]:
    return {"sqlExpression": stored["sql"]} | _unless_empty("parameters", stored["values"])


def _unless_empty(name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {name: values} if values else {}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def rule_table(known: Sequence[Rule]) -> None:
    """Print rules as a table."""
    columns = [Column("NAME", text=True), Column("FILTER", wrap=30), Column("ACTION", wrap=20)]
    printing.table(columns, [_rule_row(each) for each in known])


def _rule_row(rule: Rule) -> list[object]:
    return [rule.name, _filter(rule), None if rule.action is None else rule.action.sql_expression]


def _filter(rule: Rule) -> str:
    match rule.filter:
        case SqlFilter(sql_expression=text):
            return text
        case CorrelationFilter(properties=properties):
            wanted: dict[str, Any] = {
                f"sys.{system}": getattr(rule.filter, field)
                for field, system in rule_domain.SYSTEM_PROPERTIES.items()
            }
            wanted = {name: value for name, value in wanted.items() if value is not None}
            return ", ".join(
                f"{name} = {value!r}" for name, value in (wanted | {**properties}).items()
            )
        case FalseFilter():
            return "no message"
        case _:
            return "every message"
