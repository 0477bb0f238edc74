"""Config.json of the official emulator of Azure Service Bus → manifests of a bus.

Pure: called by `bendybus up --config`, `convert` and `emulator` with the parsed file. Settings are
those of the domain's table, by the names that Azure's resources have.

    UserConfig
    ├── Logging                          has no effect
    └── Namespaces[0]                    → a Premium BusNamespace
        ├── Queues[]    Name, Properties
        └── Topics[]    Name, Properties
            └── Subscriptions[]          Name, Properties
                └── Rules[]              emulator_rules

Source: the schema that is published with the emulator, and its behaviour. What is absent gets
Azure's defaults; the report lists each default of the emulator that differs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import emulator_rules, json_text
from bendybus.crds.bundle import Bundle, NamespaceSettings
from bendybus.crds.conversion import Conversion, Outcome, Reason, no_effect
from bendybus.crds.errors import ManifestError
from bendybus.crds.field_reader import Field
from bendybus.crds.forms import Form
from bendybus.crds.imports.asked import Asked
from bendybus.crds.imports.importer import Conventions, Importer
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.limits import Tier

# The one name that the emulator has for its namespace.
NAMESPACE: Final = "sbemulatorns"
_LISTS: Final = {EntityKind.QUEUE: "Queues", EntityKind.TOPIC: "Topics"}
# Of resources of Azure; here they have no effect.
_IDLE: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        "EnableExpress": no_effect("every message is stored before it is acknowledged."),
        "EnablePartitioning": Reason("partitions are chosen for the bus, with --premium."),
    }
)
_ALONE: Final = Asked()
_SCHEMA: Final = MappingProxyType(
    {"$schema": Reason("names a schema, for editors.", Outcome.NO_EFFECT)}
)
_LOGGING: Final = no_effect("logs are files in the data folder; bendybus logs shows them.")
_CONVENTIONS: Final = Conventions(Form.EMULATOR, "Name", "Properties", _IDLE, as_azure=True)


def is_one(document: Any) -> bool:
    """Whether a document is a Config.json. Names of fields are compared without case."""
    return isinstance(document, dict) and "userconfig" in map(str.lower, document)


def parse(source: str, data: bytes, *, partition_count: int = 1) -> Conversion:
    """Return the manifests of a file. Raises ManifestError with every problem."""
    return convert(source, json_text.parse(source, data), Asked(premium=partition_count))


def convert(source: str, document: Any, asked: Asked = _ALONE) -> Conversion:
    """Return the manifests of a parsed file: a Premium bus, or entities for the one that runs.

    Raises ManifestError with every problem.
    """
    if asked.running is not None and asked.meant:
        return _Converter(source, asked.running()).convert(document)
    count = 1 if asked.premium is None else asked.premium
    own = NamespaceSettings(NAMESPACE, Tier.PREMIUM, count)
    return _Converter(source, own).convert(document)


def empty(partition_count: int = 1) -> Bundle:
    """Return the bus of an emulator without a file: no entities."""
    return Bundle(NamespaceSettings(NAMESPACE, Tier.PREMIUM, partition_count), True, ())


class _Converter:
    """One conversion."""

    def __init__(self, source: str, bus: NamespaceSettings) -> None:
        self._importer = Importer(source, _CONVENTIONS)
        self._importer.tier, self._importer.partition_count = bus.tier, bus.partition_count
        self._importer.bus = NAMESPACE
        self._reader = self._importer.reader

    def convert(self, document: Any) -> Conversion:
        """Return the conversion. Raises ManifestError with every problem."""
        reader = self._reader
        if isinstance(document, dict) and "apiVersion" in document:
            reader.problem("", "is a manifest, not a Config.json. Give it to bendybus up -f.")
            raise ManifestError(*reader.problems)
        top = reader.fields("", document, ("UserConfig",), idle=_SCHEMA)
        user_config = reader.required("", top, "UserConfig")
        if user_config is not None:
            known, idle = ("Namespaces",), {"Logging": _LOGGING}
            found = reader.fields(*user_config, known, idle=idle)
            self._namespaces(reader.required(user_config[0], found, "Namespaces"))
        return self._importer.conversion()

    def _namespaces(self, field: Field | None) -> None:
        if field is not None and field[1] == []:
            self._reader.problem(field[0], "must have one namespace (got none).")
        for number, (path, value) in enumerate(self._reader.items(field)):
            if number:
                self._reader.problem(
                    path, "is a second namespace: a file has one. Write another file for it."
                )
                continue
            self._one_namespace(path, value)

    def _one_namespace(self, path: str, value: Any) -> None:
        found = self._reader.fields(path, value, ("Name", *_LISTS.values()), idle={})
        given = self._reader.required(path, found, "Name")
        name = self._reader.text(given)
        tier, count = self._importer.tier, self._importer.partition_count
        spec: dict[str, Any] = {"sku": {"tier": tier.value}}
        spec |= {"premiumMessagingPartitions": count} if tier is Tier.PREMIUM else {}
        self._importer.namespace(path, None if name is None else given, name or "", spec)
        for kind, where in _LISTS.items():
            for at, entity in self._reader.items(found.get(where)):
                self._entity(kind, at, entity)

    def _entity(self, kind: EntityKind, path: str, value: Any, topic: str = "") -> None:
        known = ["Name", "Properties"]
        known += ["Subscriptions"] if kind is EntityKind.TOPIC else []
        known += ["Rules"] if kind is EntityKind.SUBSCRIPTION else []
        found = self._reader.fields(path, value, known, idle={})
        given = self._reader.required(path, found, "Name")
        name = self._reader.text(given)
        settings = self._importer.settings(kind, path, found.get("Properties"))
        importer = self._importer
        partitioned = importer.tier is Tier.PREMIUM and importer.partition_count > 1
        rules = emulator_rules.read(self._reader, found.get("Rules"), partitioned=partitioned)
        if given is not None and name is not None:
            self._reader.taken(given[0])
            self._importer.entity(kind, path, name, settings, topic, rules)
        for at, subscription in self._reader.items(found.get("Subscriptions")):
            # Without the topic's name, its subscriptions are read for what is wrong with them.
            self._entity(EntityKind.SUBSCRIPTION, at, subscription, name or "topic")
