"""A template of Azure Resource Manager → manifests of a bus, with a report. Pure.

    namespaces                        → BusNamespace; its tier is that of the SKU
    namespaces/queues, /topics        → Queue, Topic
    …/topics/subscriptions            → Subscription, with the rules below it
    …/authorizationRules              → a shared access policy: of all, or on a queue

Azure's defaults hold for settings that a file lacks; a namespace that is only named is Standard.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import emulator_rules, json_text
from bendybus.crds.conversion import Conversion
from bendybus.crds.errors import ManifestError
from bendybus.crds.field_reader import FieldReader
from bendybus.crds.imports import arm_template, time_spans
from bendybus.crds.imports.arm_template import Resource
from bendybus.crds.imports.importer import Form, Importer, first
from bendybus.domain import limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.limits import Tier

_IDLE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "EnableExpress": "has no effect: every message is stored before it is acknowledged.",
        "EnableBatchedOperations": "has no effect: what comes together is always stored together.",
        "SupportOrdering": "has no effect: messages of a session, or of a plain entity, are in "
        "order.",
        "IsClientAffine": "is not supported: subscriptions are not bound to a client's id.",
        "ClientAffineProperties": "is not supported: subscriptions are not bound to a client's id.",
        "Path": "has no effect: the name of the resource counts.",
    }
)
_FORM: Final = Form(
    "name", "properties", _IDLE, MappingProxyType({}), texts=True, partitioning=True
)
# Reasons for properties of a namespace that have no effect.
_NETWORK: Final = "has no effect: the network of the cluster decides who may connect."
_OF_NAMESPACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "minimumTlsVersion": "has no effect: it is 1.2.",
        "publicNetworkAccess": _NETWORK,
        "disableLocalAuth": "is not supported: clients sign in with keys of policies.",
        "zoneRedundant": "has no effect: spread the pods of partitions over zones of the cluster.",
        "encryption": "has no effect: encrypt the volumes of the cluster.",
        "privateEndpointConnections": _NETWORK,
        "alternateName": "is not supported: a bus has one name.",
        "geoDataReplication": "is not supported: make backups, and restore them elsewhere.",
    }
)
_ROOT: Final = "RootManageSharedAccessKey"
_KINDS: Final[Mapping[tuple[str, ...], EntityKind]] = MappingProxyType(
    {
        ("namespaces", "queues"): EntityKind.QUEUE,
        ("namespaces", "topics"): EntityKind.TOPIC,
        ("namespaces", "topics", "subscriptions"): EntityKind.SUBSCRIPTION,
    }
)
_RULES: Final = ("namespaces", "topics", "subscriptions", "rules")
_POLICIES: Final = "authorizationrules"
_OTHERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "networkrulesets": _NETWORK,
        "ipfilterrules": _NETWORK,
        "virtualnetworkrules": _NETWORK,
        "privateendpointconnections": _NETWORK,
        "disasterrecoveryconfigs": "is not supported: make backups, and restore them elsewhere.",
        "migrationconfigurations": "is not supported: upgrade a bus with bendybus up --migrated.",
    }
)


def parse(source: str, data: bytes, given: Mapping[str, Any]) -> Conversion:
    """Return the manifests of a file. Raises ManifestError with every problem.

    `given`: values of parameters, and of what only Azure knows, by name.
    """
    return convert(source, json_text.parse(source, data), given)


def convert(source: str, document: Mapping[str, Any], given: Mapping[str, Any]) -> Conversion:
    """Return the manifests of a parsed template. Raises ManifestError with every problem."""
    return of_resources(source, lambda reader: arm_template.read(reader, document, given))


def of_resources(source: str, read: Callable[[FieldReader], list[Resource]]) -> Conversion:
    """Return the manifests of resources that are read. Raises ManifestError with every problem."""
    return _Converter(source).convert(read)


class _Converter:
    """One conversion."""

    def __init__(self, source: str) -> None:
        self._importer = Importer(source, _FORM)
        self._reader = self._importer.reader

    def convert(self, read: Callable[[FieldReader], list[Resource]]) -> Conversion:
        """Return the conversion. Raises ManifestError with every problem."""
        found = read(self._reader)
        if self._reader.problems:
            # Further problems may follow from these.
            raise ManifestError(*first(self._reader.problems))
        names = {each.names[0].lower(): each.names[0] for each in found if each.types}
        if not names:
            self._reader.problem("resources", "has no resource of Service Bus.")
        elif len(names) > 1:
            self._reader.problem(
                "resources",
                f"has {len(names)} namespaces, {', '.join(names.values())}: a bus is one. Write a "
                "file for each.",
            )
        if self._reader.problems:
            raise ManifestError(*first(self._reader.problems))
        [name] = names.values()
        self._namespace(name, found)
        self._entities(found)
        return self._importer.conversion()

    def _namespace(self, name: str, found: Sequence[Resource]) -> None:
        own = next((each for each in found if each.types == (arm_template.NAMESPACES,)), None)
        policies = self._policies(found)
        spec: dict[str, Any] = {"sku": {"tier": self._importer.tier.value}}
        path = "resources"
        if own is not None:
            path = own.place
            spec = self._sku(own)
        if policies:
            spec["authorizationRules"] = policies
        place = json_text.step(path, "name")
        self._importer.namespace(path, (place, name) if own is not None else None, name, spec)

    def _sku(self, own: Resource) -> dict[str, Any]:
        """Return tier and partitions of the bus."""
        importer, reader = self._importer, self._reader
        at, value = own.fields.get("sku", (json_text.step(own.place, "sku"), {}))
        idle = {"capacity": "has no effect: a bus has what its pods get.", "family": ""}
        sku = reader.fields(at, value, ("tier", "name"), idle=idle)
        for place, given in sku.values():
            tier = {each.value.lower(): each for each in Tier}.get(str(given).lower())
            if tier is None:
                reader.problem(place, f"must be one of {', '.join(Tier)} (got {given!r:.60}).")
                continue
            importer.tier = tier
            reader.taken(place)
        made: dict[str, Any] = {"sku": {"tier": importer.tier.value}}
        field = own.fields.get("properties")
        known = ("premiumMessagingPartitions",)
        properties = {} if field is None else reader.fields(*field, known, idle=_OF_NAMESPACES)
        importer.partition_count = limits.STANDARD_PARTITION_COUNT
        if importer.tier is Tier.PREMIUM:
            importer.partition_count = 1
        if known[0] in properties:
            place, count = properties[known[0]]
            count = int(count) if isinstance(count, str) and count.isdigit() else count
            if importer.tier is not Tier.PREMIUM and count == 0:
                reader.taken(place, "is 0: the tier decides.")
            elif importer.tier is Tier.PREMIUM and count in limits.PREMIUM_PARTITION_COUNTS:
                reader.taken(place)
                importer.partition_count = count
            else:
                reader.problem(place, f"is no number of partitions in tier {importer.tier}.")
        if importer.tier is Tier.PREMIUM:
            made["premiumMessagingPartitions"] = importer.partition_count
        return made

    def _policies(self, found: Sequence[Resource]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for each in found:
            if each.types[-1] != _POLICIES:
                continue
            of, name = each.types[1:-1], each.names[-1]
            if name == _ROOT:
                self._reader.taken(each.place, "every bus has it.")
            elif of not in ((), ("queues",)):
                self._reader.not_supported(
                    each.place, "is a policy of a topic. Make one of the bus, or with a client."
                )
            else:
                rights = self._rights(each)
                made += [
                    {"name": name, "rights": rights}
                    | ({"entity": each.names[1]} if of == ("queues",) else {})
                ]
        return made

    def _rights(self, policy: Resource) -> list[str]:
        field = policy.fields.get("properties", (json_text.step(policy.place, "properties"), {}))
        properties = self._reader.fields(*field, ("rights",), idle={})
        given = self._reader.required(field[0], properties, "rights")
        names = {"listen": "Listen", "send": "Send", "manage": "Manage"}
        made: list[str] = []
        for at, right in self._reader.items(given):
            if str(right).lower() in names:
                made.append(names[str(right).lower()])
                self._reader.taken(at)
            else:
                self._reader.wrong(at, "Listen, Send or Manage", right)
        return made

    def _entities(self, found: Sequence[Resource]) -> None:
        topics: dict[str, bool] = {}
        rules: dict[tuple[str, ...], list[Resource]] = {}
        for each in found:
            if each.types == _RULES:
                rules.setdefault(_key(each.names[:-1]), []).append(each)
        # Topics first: whether one is partitioned decides which actions rules may have.
        for each in sorted(found, key=lambda one: one.types != ("namespaces", "topics")):
            kind = _KINDS.get(each.types)
            if kind is not None:
                field = each.fields.get("properties")
                if field is not None:
                    field = field[0], time_spans.in_iso(field[1])
                settings = self._importer.settings(kind, each.place, field)
                if kind is EntityKind.TOPIC:
                    topics[each.names[1].lower()] = bool(settings.get("enablePartitioning"))
                partitioned = topics.get(each.names[1].lower(), False)
                own = self._rules(rules.pop(_key(each.names), ()), partitioned=partitioned)
                topic = each.names[1] if kind is EntityKind.SUBSCRIPTION else ""
                self._importer.entity(kind, each.place, each.names[-1], settings, topic, own)
            elif each.types[-1] in _OTHERS:
                self._reader.not_supported(each.place, _OTHERS[each.types[-1]])
            elif each.types not in (_RULES, (arm_template.NAMESPACES,)) and (
                each.types[-1] != _POLICIES
            ):
                self._reader.not_supported(each.place, "is not known here.")
        for [rule, *_] in rules.values():
            self._reader.problem(rule.place, "is a rule of a subscription that the file lacks.")

    def _rules(self, found: Sequence[Resource], *, partitioned: bool) -> list[dict[str, Any]]:
        names: dict[str, str] = {}
        made = []
        for each in found:
            _, properties = each.fields.get("properties", (each.place, {}))
            value = {"name": each.names[-1], "properties": _with_type(properties)}
            made.append(
                emulator_rules.read_one(self._reader, each.place, value, partitioned, names)
            )
        return [each for each in made if each]


def _key(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(each.lower() for each in names)


def _with_type(properties: Any) -> Any:
    """Return the properties of a rule with the type of its filter, as the emulator's have it.

    Templates call it SqlFilter or CorrelationFilter, or leave it out; old ones write `filter`.
    """
    if not isinstance(properties, dict):
        return properties
    made = {name: value for name, value in properties.items() if value is not None}
    # By their names in lower case, as they are written.
    written = {name.lower(): name for name in made}
    if "filter" in written and "sqlfilter" not in written:
        made["sqlFilter"] = made.pop(written["filter"])
        written["sqlfilter"] = "sqlFilter"
    given = made.pop(written.get("filtertype", ""), None)
    kind = given.lower().removesuffix("filter") if isinstance(given, str) else given
    if kind is None:
        kind = "correlation" if "correlationfilter" in written else "sql"
    if kind == "sql" and "sqlfilter" not in written:
        # As in Azure: every message.
        made["sqlFilter"] = {"sqlExpression": "1=1"}
    return {"FilterType": kind.capitalize() if isinstance(kind, str) else kind} | made
