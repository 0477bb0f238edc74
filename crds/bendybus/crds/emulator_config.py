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

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import (
    bundling,
    conversion,
    emulator_rules,
    field_reader,
    json_text,
    loading,
)
from bendybus.crds.bundle import KINDS, Bundle, NamespaceSettings
from bendybus.crds.conversion import Conversion
from bendybus.crds.errors import ManifestError, Problem
from bendybus.crds.field_reader import Field, FieldReader
from bendybus.crds.loading import Loaded
from bendybus.crds.manifest import API_VERSION
from bendybus.domain import descriptions, durations, entity_settings, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Setting, SettingType
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.limits import Tier

# The one name that the emulator has for its namespace.
NAMESPACE: Final = "sbemulatorns"
_LISTS: Final = {EntityKind.QUEUE: "Queues", EntityKind.TOPIC: "Topics"}
# Of resources of Azure; here they have no effect.
_IDLE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "EnableExpress": "has no effect: every message is stored before it is acknowledged.",
        "EnablePartitioning": "has no effect: partitions are chosen for the bus, with --premium.",
    }
)
_SCHEMA: Final = MappingProxyType({"$schema": "names a schema, for editors."})
_LOGGING: Final = "has no effect: logs are files in the data folder; bendybus logs shows them."
# What the emulator takes where a field is absent, and Azure does not.
_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "default_message_time_to_live_ms": "messages do not expire, as in Azure; the emulator "
        "has PT1H.",
        "duplicate_detection_history_time_window_ms": "PT10M, as in Azure; the emulator has PT20S.",
        "max_delivery_count": "10, as in Azure; the emulator has 3.",
    }
)
_WINDOW: Final = "duplicate_detection_history_time_window_ms"
# As .NET reads years and months, which have no fixed length.
_CALENDAR: Final = re.compile(r"P(?!$)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(T.+)?\Z", re.ASCII)
_YEAR_DAYS: Final = 365
_MONTH_DAYS: Final = 30
_WEEKS: Final = re.compile(r"P(\d{1,7})W\Z", re.ASCII)
_OBJECT_NAME_CHARS_MAX: Final = 253


def parse(source: str, data: bytes, *, partition_count: int = 1) -> Conversion:
    """Return the manifests of a file. Raises ManifestError with every problem."""
    return convert(source, json_text.parse(source, data), partition_count=partition_count)


def convert(source: str, document: Any, *, partition_count: int = 1) -> Conversion:
    """Return the manifests of a parsed file: a Premium bus of so many partitions.

    Raises ManifestError with every problem.
    """
    return _Converter(source, partition_count).convert(document)


def empty(partition_count: int = 1) -> Bundle:
    """Return the bus of an emulator without a file: no entities."""
    return Bundle(NamespaceSettings(NAMESPACE, Tier.PREMIUM, partition_count), True, ())


def _settings(kind: EntityKind) -> dict[str, Setting]:
    return {
        each.atom_name: each
        for each in entity_settings.BY_KIND[kind]
        if not each.is_list and each.name != "enable_partitioning"
    }


class _Converter:
    """One conversion. `_manifests`: by the path of what each was made of."""

    def __init__(self, source: str, partition_count: int) -> None:
        self._reader = FieldReader(source)
        self._source = source
        self._partition_count = partition_count
        self._namespace = NAMESPACE
        self._object_names: set[str] = set()
        self._manifests: dict[str, dict[str, Any]] = {}

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
        bundle = self._bundle()
        if reader.problems or bundle is None:
            raise ManifestError(*sorted(reader.problems, key=_place))
        documents: tuple[conversion.Document, ...] = tuple(self._manifests.values())
        return Conversion(self._source, documents, bundle, tuple(reader.findings))

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
        if given is not None and name is not None:
            self._namespace = _object_name(name) or NAMESPACE
            if self._namespace == name:
                self._reader.taken(given[0])
            else:
                self._reader.changed(given[0], f"the bus is called {self._namespace}.")
        self._manifests[path] = _manifest(
            "BusNamespace",
            self._namespace,
            {
                "sku": {"tier": Tier.PREMIUM.value},
                "premiumMessagingPartitions": self._partition_count,
            },
        )
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
        spec: dict[str, Any] = {"namespaceRef": {"name": self._namespace}}
        if topic:
            spec["topicName"] = topic
        settings = self._properties(kind, path, found.get("Properties"))
        partitioned = self._partition_count > 1
        rules = emulator_rules.read(self._reader, found.get("Rules"), partitioned=partitioned)
        if given is not None and name is not None:
            self._reader.taken(given[0])
            object_name = self._object_name(f"{topic}-{name}" if topic else name)
            if object_name != name:
                spec["entityName"] = name
            spec |= settings | ({"rules": rules} if rules else {})
            self._manifests[path] = _manifest(KINDS[kind], object_name, spec)
        for at, subscription in self._reader.items(found.get("Subscriptions")):
            # Without the topic's name, its subscriptions are read for what is wrong with them.
            self._entity(EntityKind.SUBSCRIPTION, at, subscription, name or "topic")

    def _object_name(self, name: str) -> str:
        """Return a name for metadata: of one that Kubernetes has not, one like it."""
        wanted = found = _object_name(name) or "entity"
        number = 2
        while found in self._object_names:
            found = f"{wanted}-{number}"
            number += 1
        self._object_names.add(found)
        return found

    def _properties(self, kind: EntityKind, path: str, field: Field | None) -> dict[str, Any]:
        """Return the settings of the entity at `path`, as manifests have them."""
        settings = _settings(kind)
        path, value = field or (json_text.step(path, "Properties"), None)
        found = {} if field is None else self._reader.fields(path, value, settings, idle=_IDLE)
        made: dict[str, Any] = {}
        for name, setting in settings.items():
            if name in found:
                read = self._value(setting, kind, found[name])
                if read is not None and self._allowed(setting, found[name][0], read):
                    made[setting.manifest_name] = read
            elif setting.name in _DEFAULTS and (
                setting.name != _WINDOW or made.get("requiresDuplicateDetection")
            ):
                self._reader.default(json_text.step(path, name), _DEFAULTS[setting.name])
        return made

    def _allowed(self, setting: Setting, path: str, value: Any) -> bool:
        """Whether a new entity can have a value; else with a problem."""
        if setting.type is SettingType.DURATION:
            value = setting.from_text(value)
        try:
            setting.check(value, Tier.PREMIUM)
            setting.check_new(value, Tier.PREMIUM)
        except InvalidArgument as error:
            prefix = f"{setting.manifest_name}: "
            self._reader.problem(path, error.message.removeprefix(prefix))
            return False
        return True

    def _value(self, setting: Setting, kind: EntityKind, field: Field) -> Any:
        """Return a value as manifests have it; None: none, or it is wrong."""
        path, value = field
        match setting.type:
            case SettingType.BOOLEAN:
                return self._typed(field, bool, field_reader.TRUE_OR_FALSE)
            case SettingType.WHOLE:
                return self._typed(field, int, field_reader.WHOLE_NUMBER)
            case SettingType.DURATION:
                return self._duration(setting, field)
            case SettingType.STATUS:
                names = {each.lower(): each.value for each in entity_settings.TYPES[kind].statuses}
                found = names.get(value.lower()) if isinstance(value, str) else None
                if found is None:
                    self._reader.wrong(path, " or ".join(names.values()), value)
                    return None
                self._reader.taken(path)
                return found
            case _:
                text = self._reader.text(field)
                if text is None:
                    return None
                self._reader.taken(path, "" if text else "is empty: none.")
                return text or None

    def _typed(self, field: Field, wanted: type, words: str) -> Any:
        # True is an integer in Python.
        if type(field[1]) is not wanted:
            self._reader.wrong(field[0], words, field[1])
            return None
        self._reader.taken(field[0])
        return field[1]

    def _duration(self, setting: Setting, field: Field) -> str | None:
        path, text = field[0], self._reader.text(field)
        if text is None:
            return None
        weeks = _WEEKS.match(text)
        if weeks:
            self._reader.problem(path, f"must not have weeks: write P{int(weeks[1]) * 7}D.")
            return None
        try:
            milliseconds = durations.parse(setting.manifest_name, _without_calendar(text))
        except InvalidArgument as error:
            sentence = error.message.removeprefix(f"{setting.manifest_name}: ")
            self._reader.problem(path, sentence.replace(_without_calendar(text), text))
            return None
        least = limits.DUPLICATE_WINDOW_MS_MIN
        if setting.name == _WINDOW and milliseconds is not None and 0 < milliseconds < least:
            shortest = durations.render(least)
            self._reader.changed(path, f"{text} became {shortest}, the shortest that Azure has.")
            return shortest
        if re.fullmatch(durations.ISO_PATTERN, text):
            self._reader.taken(path)
            return text
        made = durations.render(milliseconds)
        why = "the same, as manifests write it"
        if text != _without_calendar(text):
            why = f"a year is {_YEAR_DAYS} days, a month {_MONTH_DAYS}"
        self._reader.changed(path, f"{text} became {made}: {why}.")
        return made

    def _bundle(self) -> Bundle | None:
        """Return the bus of the manifests, or None, with a problem for each that cannot be."""
        loaded: list[Loaded] = []
        for path, manifest in self._manifests.items():
            result = loading.parse(f"{self._source}, {path}", manifest)
            if isinstance(result, Loaded):
                loaded.append(result)
            else:
                self._add(result)
        try:
            bundle = bundling.bundle(loaded)
        except ManifestError as error:
            self._add(error.problems)
            return None
        # A file without Rules means the default rule, also where an earlier one had some.
        # What clients made before it named them does not keep the bus from starting.
        bundle = replace(bundle, default_rules=True, takes_over=True)
        for wish in bundle.entities:
            try:
                descriptions.check_new(
                    wish.description, tier=Tier.PREMIUM, partition_count=self._partition_count
                )
            except InvalidArgument as error:
                said = error.message.removeprefix(f"{error.field}: ")
                self._add([Problem(wish.source, "", f"spec.{error.field}", said)])
        return bundle

    def _add(self, problems: Iterable[Problem]) -> None:
        """Add problems of manifests, by the fields of the file that they were made of."""
        for each in problems:
            path = each.source.removeprefix(f"{self._source}, ")
            if each.field != "spec.topicName":  # which the topic itself has
                self._reader.problem(_path_of(path, each.field), each.sentence)


def _place(problem: Problem) -> list[tuple[str, int]]:
    """Return a key that sorts problems by where they are: Queues[2] before Queues[10]."""
    parts = re.split(r"\[(\d+)\]", problem.field)
    return [
        (text, int(number)) for text, number in zip(parts[::2], [*parts[1::2], "0"], strict=True)
    ]


def _manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _object_name(name: str) -> str:
    """Return the nearest name that an object of Kubernetes can have; "": there is none."""
    text = re.sub(r"[^a-z0-9.-]", "-", name.lower())[:_OBJECT_NAME_CHARS_MAX]
    return text.strip("-.")


def _without_calendar(text: str) -> str:
    """Return a duration whose years and months are days."""
    found = _CALENDAR.match(text)
    if found is None or not (found[1] or found[2]):
        return text
    years, months, days = (int(each or 0) for each in found.groups()[:3])
    total = years * _YEAR_DAYS + months * _MONTH_DAYS + days
    return f"P{total}D{found[4] or ''}"


def _path_of(path: str, field: str) -> str:
    """Return the path of a field of a manifest in the file: of spec.x, PATH.Properties.X."""
    name = field.removeprefix("spec.")
    if name in ("entityName", "metadata.name"):
        return f"{path}.Name"
    if name.startswith("rules"):
        return f"{path}.Rules"
    for setting in entity_settings.TABLE:
        if setting.manifest_name == name:
            return f"{path}.Properties.{setting.atom_name}"
    return path
