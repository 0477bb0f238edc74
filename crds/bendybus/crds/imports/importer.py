"""Entities of other programs' files → manifests of a bus. Pure.

A reader of one form of file walks it, and names what it finds to an `Importer`: the namespace, its
entities, and the fields of each with their places. This module does the rest for all forms: names,
values, bounds, defaults, and the check of the bus as a whole. Settings are those of the domain's
table, by the names that Azure's resources have; case does not count.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bendybus.crds import bundling, conversion, field_reader, forms, json_text, loading
from bendybus.crds.bundle import KINDS, Bundle
from bendybus.crds.conversion import Conversion, Reason
from bendybus.crds.errors import ManifestError, Problem
from bendybus.crds.field_reader import Field, FieldReader
from bendybus.crds.forms import Form
from bendybus.crds.imports import arm_id
from bendybus.crds.loading import Loaded
from bendybus.crds.manifest import API_VERSION
from bendybus.crds.object_names import UniqueNames, object_name
from bendybus.crds.policy_names import PolicyNames
from bendybus.domain import descriptions, durations, entity_settings, forwarding, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Setting, SettingType
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.limits import Tier

_WINDOW: Final = "duplicate_detection_history_time_window_ms"
_SIZE: Final = "max_size_in_megabytes"
# As .NET reads years and months, which have no fixed length.
_CALENDAR: Final = re.compile(r"P(?!$)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(T.+)?\Z", re.ASCII)
_YEAR_DAYS: Final = 365
_MONTH_DAYS: Final = 30
# Templates round TimeSpan.MaxValue, which has 2 hours and 48 minutes more, in several ways.
_ENDLESS_MS: Final = 10_675_198 * limits.DAY_MS
_WEEKS: Final = re.compile(r"P(\d{1,7})W\Z", re.ASCII)
# The number of problems that are shown of one file.
PROBLEMS_MAX: Final = 100
_WHOLE_MAX: Final = 2**63 - 1


def first(problems: list[Problem]) -> list[Problem]:
    """Return the problems that are worth reading: copies have the same again and again."""
    more = len(problems) - PROBLEMS_MAX
    if more <= 0:
        return problems
    last = Problem(problems[0].source, "", "", f"has {more} more problems.")
    return [*problems[:PROBLEMS_MAX], last]


@dataclass(frozen=True, slots=True)
class Conventions:
    """How the files of a form are written, beside what the table of forms says.

    `name`, `properties`: the fields of an entity, as errors name them. `idle`: settings that have
    no effect here, and why not. `texts`: whether numbers, true and false may be in quotes.
    """

    form: Form
    name: str
    properties: str
    idle: Mapping[str, Reason]
    texts: bool = False
    # Whether an entity says if it is partitioned; else the bus decides.
    partitioning: bool = False
    # Whether what is absent has Azure's default, not that of the form's own program.
    as_azure: bool = False


class Importer:
    """The manifests of one file, by the path of what each was made of, and its report."""

    def __init__(self, source: str, conventions: Conventions) -> None:
        self.reader = FieldReader(source)
        self.manifests: dict[str, dict[str, Any]] = {}
        self.tier = Tier.STANDARD
        self.partition_count = limits.STANDARD_PARTITION_COUNT
        self.policies = PolicyNames()
        # The name of the BusNamespace.
        self.bus = ""
        self._conventions = conventions
        self._source = source
        # Where settings are in the file, by the path of their entity and their own names.
        self._places: dict[tuple[str, str], str] = {}
        self._names = UniqueNames()

    def namespace(self, path: str, given: Field | None, name: str, spec: Mapping[str, Any]) -> None:
        """Add the bus, under a name like the one that it has there."""
        self.bus = object_name(name) or self.bus
        if given is not None and self.bus == name:
            self.reader.taken(given[0])
        elif given is not None:
            self.reader.changed(given[0], f"the bus is called {self.bus}.")
        self.manifests[path] = manifest("BusNamespace", self.bus, dict(spec))

    def entity(
        self,
        kind: EntityKind,
        path: str,
        name: str,
        settings: Mapping[str, Any],
        topic: str = "",
        rules: list[dict[str, Any]] | None = None,
    ) -> None:
        """Add an entity with settings that `settings` has read."""
        spec: dict[str, Any] = {"namespaceRef": {"name": self.bus}}
        if topic:
            spec["topicName"] = topic
        found = self._names.of_object(f"{topic}-{name}" if topic else name)
        if found != name:
            spec["entityName"] = name
        spec |= {**settings, **({"rules": rules} if rules else {})}
        self.manifests[path] = manifest(KINDS[kind], found, spec)

    def conversion(self) -> Conversion:
        """Return the manifests and the report. Raises ManifestError with every problem."""
        bundle = self._bundle()
        if self.reader.problems or bundle is None:
            raise ManifestError(*first(sorted(self.reader.problems, key=_place)))
        self._look_for_destinations(bundle)
        documents: tuple[conversion.Document, ...] = tuple(self.manifests.values())
        findings = tuple(self.reader.findings)
        return Conversion(self._source, documents, bundle, findings, self.policies.own)

    def _look_for_destinations(self, bundle: Bundle) -> None:
        """Note destinations of messages that the file does not have: the bus must have them."""
        names = {each.name.lower() for each in bundle.entities}
        for each in bundle.entities:
            path = each.source.removeprefix(f"{self._source}, ")
            for field in forwarding.FIELDS:
                name = getattr(each.description, field)
                if name and name.lower() not in names:
                    setting = entity_settings.BY_NAME[field].manifest_name
                    self.reader.changed(
                        self._path_of(path, f"spec.{setting}"),
                        f"leads to {name!r:.300}, which this file lacks.",
                    )

    def settings(self, kind: EntityKind, path: str, field: Field | None) -> dict[str, Any]:
        """Return the settings of the entity at `path`, as manifests have them."""
        conventions, settings = self._conventions, self._settings(kind)
        at, value = field or (json_text.step(path, conventions.properties), None)
        found: dict[str, Field] = {}
        if field is not None:
            others = forms.of_other_kinds(conventions.form, kind)
            found = self.reader.fields(at, value, settings, idle={**others, **conventions.idle})
        made: dict[str, Any] = {}
        for setting in {each.name: each for each in settings.values()}.values():
            names = forms.BY_SETTING[setting.name].names(conventions.form)
            written = self._one([found[name] for name in names if name in found])
            if written is None:
                self._absent(setting, kind, json_text.step(at, names[0]), made)
                continue
            self._places[path, setting.manifest_name] = written[0]
            read = self._value(setting, kind, written)
            if read is not None and setting.name == _SIZE and made.get("enablePartitioning"):
                read = self._size(written[0], read)
            if read is not None and self._allowed(setting, written[0], read):
                made[setting.manifest_name] = read
        return made

    def _settings(self, kind: EntityKind) -> dict[str, Setting]:
        return {
            name: each
            for name, each in forms.settings(self._conventions.form, kind).items()
            if each.name != "enable_partitioning" or self._conventions.partitioning
        }

    def _one(self, written: list[Field]) -> Field | None:
        """Return a setting that has an old name beside its new one."""
        for old in written[1:]:
            if old[1] == written[0][1]:
                self.reader.taken(old[0], f"is {written[0][0]}.")
            else:
                self.reader.problem(old[0], f"is not {written[0][0]}, the same. Remove one.")
        return written[0] if written else None

    def _absent(self, setting: Setting, kind: EntityKind, path: str, made: dict[str, Any]) -> None:
        """Add what the form's program takes for a setting that is left out, if that differs."""
        form = self._conventions.form
        if not forms.differs(form, kind, setting.name) or (
            setting.name == _WINDOW and not made.get("requiresDuplicateDetection")
        ):
            return
        theirs, title = forms.absent(form, kind, setting.name), forms.TITLES[form]
        shown = forms.shown(setting, theirs)
        if self._conventions.as_azure:
            own = forms.shown(setting, setting.default)
            own = "messages do not expire" if setting.default is None else own
            self.reader.default(path, f"{own}, as in Azure; {title} has {shown}.")
            return
        made[setting.manifest_name] = shown if setting.type is SettingType.DURATION else theirs
        self.reader.default(path, f"{shown}, which {title} sets.")

    def _size(self, path: str, size_mb: int) -> int:
        """Return the size of a partition where Azure reports that of all 16 together."""
        own_mb, rest = divmod(size_mb, limits.STANDARD_PARTITION_COUNT)
        if self.tier is Tier.PREMIUM or rest or own_mb not in limits.QUEUE_SIZES_MB:
            return size_mb
        self.reader.rewritten(
            path, f"{size_mb} became {own_mb}: it is that of a partition, not of all 16 together."
        )
        return own_mb

    def _allowed(self, setting: Setting, path: str, value: Any) -> bool:
        """Whether a new entity can have a value; else with a problem."""
        if setting.type is SettingType.DURATION:
            value = setting.from_text(value)
        try:
            setting.check(value, self.tier)
            setting.check_new(value, self.tier)
        except InvalidArgument as error:
            prefix = f"{setting.manifest_name}: "
            self.reader.problem(path, error.message.removeprefix(prefix))
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
                    self.reader.wrong(path, " or ".join(names.values()), value)
                    return None
                self.reader.taken(path)
                return found
            case _:
                text = self.reader.text(field)
                if text is None:
                    return None
                self.reader.taken(path, "" if text else "is empty: none.")
                if setting.type is SettingType.NAME and not self._conventions.as_azure:
                    text = arm_id.entity_name(text)
                return text or None

    def _typed(self, field: Field, wanted: type, words: str) -> Any:
        if self._conventions.texts and isinstance(field[1], str):
            field = field[0], _UNQUOTED[wanted](field[1])
        if wanted is int and self._conventions.texts:
            field = field[0], whole(field[1])
        if type(field[1]) is int and abs(field[1]) > _WHOLE_MAX:
            self.reader.problem(field[0], "must be a number of 64 bits.")
            return None
        # True is an integer in Python.
        if type(field[1]) is not wanted:
            self.reader.wrong(field[0], words, field[1])
            return None
        self.reader.taken(field[0])
        return field[1]

    def _duration(self, setting: Setting, field: Field) -> str | None:
        path, text = field
        if not isinstance(text, str):
            self.reader.wrong(path, "a duration in ISO 8601, such as PT30S", text)
            return None
        weeks = _WEEKS.match(text)
        if weeks:
            self.reader.problem(path, f"must not have weeks: write P{int(weeks[1]) * 7}D.")
            return None
        try:
            milliseconds = durations.parse(setting.manifest_name, _without_calendar(text))
        except InvalidArgument as error:
            sentence = error.message.removeprefix(f"{setting.manifest_name}: ")
            self.reader.problem(path, sentence.replace(_without_calendar(text), text))
            return None
        least = limits.DUPLICATE_WINDOW_MS_MIN
        if setting.name == _WINDOW and milliseconds is not None and 0 < milliseconds < least:
            shortest = durations.render(least)
            self.reader.changed(path, f"{text} became {shortest}, the shortest that Azure has.")
            return shortest
        if setting.endless and milliseconds is not None and milliseconds >= _ENDLESS_MS:
            self.reader.taken(path, "is without end.")
            return durations.render(None)
        if re.fullmatch(durations.ISO_PATTERN, text):
            self.reader.taken(path)
            return text
        made = durations.render(milliseconds)
        why = "the same, as manifests write it"
        if text != _without_calendar(text):
            why = f"a year is {_YEAR_DAYS} days, a month {_MONTH_DAYS}"
        self.reader.rewritten(path, f"{text} became {made}: {why}.")
        return made

    def _bundle(self) -> Bundle | None:
        """Return the bus of the manifests, or None, with a problem for each that cannot be."""
        loaded: list[Loaded] = []
        for path, manifest in self.manifests.items():
            result = loading.parse(f"{self._source}, {path}", manifest)
            if isinstance(result, Loaded):
                loaded.append(result)
            else:
                self._add(result)
                if manifest["kind"] == "BusNamespace":
                    # Its entities would all be wrong, too.
                    return None
        try:
            bundle = bundling.bundle(loaded)
        except ManifestError as error:
            self._add(error.problems)
            return None
        # A file without Rules means the default rule, even where an earlier file had some.
        # Entities that clients made before do not keep the bus from starting.
        bundle = replace(bundle, default_rules=True, takes_over=True)
        for wish in bundle.entities:
            try:
                descriptions.check_new(
                    wish.description, tier=self.tier, partition_count=self.partition_count
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
                self.reader.problem(self._path_of(path, each.field), each.sentence)

    def _path_of(self, path: str, field: str) -> str:
        """Return the path of a field of a manifest in the file: of spec.x, PATH.Properties.X."""
        conventions, name = self._conventions, field.removeprefix("spec.")
        if name in ("entityName", "metadata.name"):
            return json_text.step(path, conventions.name)
        if name.startswith("rules"):
            # Elsewhere each rule is an entry of its own.
            return f"{path}.Rules" if conventions.form is Form.EMULATOR else path
        for setting in entity_settings.TABLE:
            if setting.manifest_name == name:
                own = forms.BY_SETTING[setting.name].names(conventions.form)[0]
                at = json_text.step(path, conventions.properties)
                return self._places.get((path, name), json_text.step(at, own))
        return path


def whole(value: Any) -> Any:
    """Return a number without a fraction as a whole number: some programs write 2.0 for 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _place(problem: Problem) -> list[tuple[str, int]]:
    """Return a key that sorts problems by where they are: Queues[2] before Queues[10]."""
    parts = re.split(r"\[(\d+)\]", problem.field)
    return [
        (text, int(number)) for text, number in zip(parts[::2], [*parts[1::2], "0"], strict=True)
    ]


def manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _without_calendar(text: str) -> str:
    """Return a duration whose years and months are days."""
    found = _CALENDAR.match(text)
    if found is None or not (found[1] or found[2]):
        return text
    years, months, days = (int(each or 0) for each in found.groups()[:3])
    total = years * _YEAR_DAYS + months * _MONTH_DAYS + days
    return f"P{total}D{found[4] or ''}"


def _true_or_false(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), text)


def _whole_number(text: str) -> Any:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


_UNQUOTED: Final[Mapping[type, Any]] = {bool: _true_or_false, int: _whole_number}
