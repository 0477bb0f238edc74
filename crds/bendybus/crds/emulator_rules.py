"""Rules as a Config.json of the official emulator has them → rules of a manifest.

    Rules[]
    ├── Name
    └── Properties
        ├── FilterType           Sql or Correlation: which of the next two counts
        ├── SqlFilter            SqlExpression
        ├── CorrelationFilter    ContentType, …; Properties
        └── Action               SqlExpression

Readers of other forms arrange their rules so, and say where each value is in their file.
The emulator drops a rule whose FilterType it does not know; here that is an error.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from bendybus.crds import field_errors, json_text, rule_manifest, suggestions
from bendybus.crds.conversion import no_effect
from bendybus.crds.field_reader import Field, FieldReader
from bendybus.crds.forms import TITLES, Form
from bendybus.crds.rule_manifest import RuleSpec
from bendybus.domain.errors import InvalidArgument, InvalidOperation, QuotaExceeded
from bendybus.domain.filters import rule

# The field of a rule that each type of filter has, and the one of a manifest.
_FILTERS: Final[Mapping[str, str]] = MappingProxyType(
    {"Sql": "SqlFilter", "Correlation": "CorrelationFilter"}
)
_NAME: Final = "Name"
_FILTER_TYPE: Final = "FilterType"
# The type of filter for SQL, where it is not that of Azure.
_TYPES: Final = {Form.EMULATOR: "Sql"}
_ACTION: Final = "Action"
_SQL: Final = "SqlExpression"
_PROPERTIES: Final = "Properties"
# Of resources of Azure; here they have no effect.
_IDLE: Final = MappingProxyType(
    {
        "CompatibilityLevel": no_effect("there is one version of the language."),
        "RequiresPreprocessing": no_effect("expressions are not preprocessed."),
    }
)
# The one version that there is.
_USUAL: Final = MappingProxyType({"CompatibilityLevel": lambda value: value == 20})


def read(reader: FieldReader, field: Field | None, *, partitioned: bool) -> list[dict[str, Any]]:
    """Return the rules of a manifest; none: the subscription has the default rule.

    `partitioned`: whether the topic is; not every action is possible then.
    """
    found: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for path, value in reader.items(field):
        made = read_one(reader, path, value, partitioned, names)
        found += [made] if made else []
    return found


def read_one(
    reader: FieldReader,
    path: str,
    value: Any,
    partitioned: bool,
    names: dict[str, str],
    form: Form = Form.EMULATOR,
) -> dict[str, Any]:
    """Return a rule, none if it is wrong. `names`: of the rules before it, with their paths.

    `form`: whose names of fields problems have, where the file has none.
    """
    return _Rule(reader, path, partitioned, form).read(value, names)


class _Rule:
    """One rule of a file. `_places`: where its fields are, by their names in manifests."""

    def __init__(self, reader: FieldReader, path: str, partitioned: bool, form: Form) -> None:
        self._reader = reader
        self._path = path
        self._partitioned = partitioned
        self._form = form
        self._places: dict[tuple[str, ...], str] = {(): path}

    def read(self, value: Any, names: dict[str, str]) -> dict[str, Any]:
        """Return the rule, none if it is wrong."""
        reader, path = self._reader, self._path
        found = reader.fields(path, value, (_NAME, _PROPERTIES), idle={})
        given = self._required(path, found, _NAME)
        name = reader.text(given)
        if given is not None and name is not None:
            self._places["name",] = given[0]
            other = names.setdefault(name.lower(), path)
            if other == path:
                reader.taken(given[0])
            else:
                reader.problem(
                    given[0],
                    f"{name!r} is already the name of {reader.place(other)}; case does not count. "
                    "Choose another name.",
                )
                name = None
        properties = self._required(path, found, _PROPERTIES)
        if properties is None:
            return {}
        made = self._properties(*properties)
        if name is None or not made:
            return {}
        made = {"name": name} | made
        return made if self._checked(made) else {}

    def _name(self, name: str) -> str:
        """Return the name of a field in the form."""
        if self._form is Form.EMULATOR:
            return name
        return _snake(name) if self._form is Form.TERRAFORM else f"{name[0].lower()}{name[1:]}"

    def _required(self, path: str, found: Mapping[str, Field], name: str) -> Field | None:
        return self._reader.required(path, found, name, shown=self._name(name))

    def _checked(self, made: dict[str, Any]) -> bool:
        """Whether a topic can have the rule; else with a problem for each field that is wrong."""
        reader = self._reader
        try:
            spec = RuleSpec.model_validate(made)
            rule.check(rule_manifest.to_rule(spec), partitioned=self._partitioned)
        except ValidationError as error:
            for detail in error.errors():
                place = self._nearest(tuple(map(str, detail["loc"])))
                reader.problem(place, field_errors.sentence(detail))
        except InvalidArgument as error:
            said = error.message.removeprefix(f"{error.field}: ")
            reader.problem(self._nearest(_of_manifest(made, error.field)), said)
        except (InvalidOperation, QuotaExceeded) as error:
            reader.problem(self._path, error.message)
        else:
            return True
        return False

    def _nearest(self, field: tuple[str, ...]) -> str:
        """Return the place of a field of a manifest, or of the nearest one above it."""
        while field not in self._places:
            field = field[:-1]
        return self._places[field]

    def _properties(self, path: str, value: Any) -> dict[str, Any]:
        """Return filter and action of a rule; none if they are wrong."""
        names = (_FILTER_TYPE, *_FILTERS.values(), _ACTION)
        found = self._reader.fields(path, value, names, idle={})
        kind = self._filter_type(self._required(path, found, _FILTER_TYPE))
        made: dict[str, Any] = {}
        for each, name in _FILTERS.items():
            if name in found and each != kind and kind is not None:
                self._reader.left_out(
                    found[name][0], no_effect(f"{self._name(_FILTER_TYPE)} is {kind}.")
                )
        if kind == "Sql":
            made["sqlFilter"] = self._sql(self._required(path, found, _FILTERS[kind]))
        elif kind == "Correlation":
            made["correlationFilter"] = self._correlation(
                self._required(path, found, _FILTERS[kind])
            )
        if _ACTION in found:
            action = self._action(*found[_ACTION])
            made |= {"action": action} if action else {}
        return made if kind is not None and all(made.values()) else {}

    def _filter_type(self, field: Field | None) -> str | None:
        text = self._reader.text(field)
        if field is None or text is None:
            return None
        found = {name.lower(): name for name in _FILTERS}.get(text.lower())
        if found is None:
            hint = suggestions.did_you_mean(text.lower().removesuffix("filter"), _FILTERS)
            self._reader.problem(field[0], f"{text!r:.200} is not a type of filter.{hint}")
            return None
        self._reader.taken(field[0])
        return found

    def _sql(self, field: Field | None) -> dict[str, Any]:
        if field is None:
            return {}
        self._places["sqlFilter",] = field[0]
        inner = self._reader.fields(*field, (_SQL,), idle=_IDLE, usual=_USUAL)
        given = self._required(field[0], inner, _SQL)
        text = self._reader.text(given)
        if given is None or text is None:
            return {}
        self._places["sqlFilter", "sqlExpression"] = given[0]
        self._reader.taken(given[0])
        return {"sqlExpression": text}

    def _action(self, path: str, value: Any) -> dict[str, Any]:
        self._places["action",] = path
        found = self._reader.fields(path, value, (_SQL,), idle=_IDLE, usual=_USUAL)
        text = self._reader.text(found.get(_SQL))
        if text is None:
            return {}
        self._places["action", "sqlExpression"] = found[_SQL][0]
        self._reader.taken(found[_SQL][0], "" if text else "is empty: none.")
        return {"sqlExpression": text} if text else {}

    def _correlation(self, field: Field | None) -> dict[str, Any]:
        if field is None:
            return {}
        self._places["correlationFilter",] = field[0]
        problems = len(self._reader.problems)
        names = {name: to_camel(each) for each, name in rule.SYSTEM_PROPERTIES.items()}
        known = (*names, _PROPERTIES)
        inner = self._reader.fields(*field, known, idle=_IDLE, usual=_USUAL)
        made: dict[str, Any] = {}
        for name, own in names.items():
            text = self._reader.text(inner.get(name))
            if text is not None:
                self._places["correlationFilter", own] = inner[name][0]
                self._reader.taken(inner[name][0])
                made[own] = text
        if _PROPERTIES in inner:
            properties = self._application_properties(*inner[_PROPERTIES])
            made |= {"properties": properties} if properties else {}
        if not made and len(self._reader.problems) == problems:
            kind, sql = self._name(_FILTER_TYPE), self._name(_SQL)
            self._reader.problem(
                field[0],
                f"must have at least one property. Known: {', '.join(map(self._name, known))}. "
                f"For every message use {kind} {_TYPES.get(self._form, 'SqlFilter')} with {sql} "
                "1 = 1.",
            )
        return made

    def _application_properties(self, path: str, value: Any) -> dict[str, Any]:
        above = ("correlationFilter", "properties")
        self._places[above] = path
        if not isinstance(value, dict):
            self._reader.wrong(path, "an object, { … }", value)
            return {}
        if not value:
            self._reader.taken(path, "is empty.")
        made = {}
        for name, each in value.items():
            at = json_text.step(path, name)
            if not isinstance(each, bool | int | float | str):
                shown = field_errors.shown(each)
                self._reader.problem(at, f"must be text, a number, true or false (got {shown}).")
                continue
            self._places[*above, name] = at
            made[name] = each
            if isinstance(each, str) or self._form is Form.EMULATOR:
                self._reader.taken(at)
                continue
            made[name] = str(each).lower() if isinstance(each, bool) else str(each)
            self._reader.changed(
                at, f"became text, {made[name]!r:.60}: files of {TITLES[self._form]} have texts."
            )
        return made


def _of_manifest(made: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """Return the field of a manifest that a field of the domain was made of."""
    for name in made.get("correlationFilter", {}).get("properties", {}):
        # As the user wrote it: it is no name of a field.
        if field == f"filter.properties[{name!r}]":
            return "correlationFilter", "properties", name
    first, *rest = field.split(".")
    if first == "ruleName":
        return ("name",)
    if first == "filter":
        first = "correlationFilter" if "correlationFilter" in made else "sqlFilter"
    return (first, *map(to_camel, rest))


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)[A-Z]", r"_\g<0>", name).lower()
