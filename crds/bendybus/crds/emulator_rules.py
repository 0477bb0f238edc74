"""Rules in a Config.json of the official emulator → rules of a manifest.

    Rules[]
    ├── Name
    └── Properties
        ├── FilterType           Sql or Correlation: which of the next two counts
        ├── SqlFilter            SqlExpression
        ├── CorrelationFilter    ContentType, …; Properties
        └── Action               SqlExpression

The emulator drops a rule whose FilterType it does not know; here that is an error.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from bendybus.crds import field_errors, json_text, rule_manifest, suggestions
from bendybus.crds.field_reader import Field, FieldReader
from bendybus.crds.rule_manifest import RuleSpec
from bendybus.domain.errors import InvalidArgument, InvalidOperation, QuotaExceeded
from bendybus.domain.filters import rule

# The field of a rule that each type of filter has, and the one of a manifest.
_FILTERS: Final[Mapping[str, str]] = MappingProxyType(
    {"Sql": "SqlFilter", "Correlation": "CorrelationFilter"}
)
_ACTION: Final = "Action"
_SQL: Final = "SqlExpression"
_PROPERTIES: Final = "Properties"
# Of resources of Azure; here they have no effect.
_IDLE: Final = MappingProxyType(
    {
        "CompatibilityLevel": "has no effect: there is one version of the language.",
        "RequiresPreprocessing": "has no effect.",
    }
)
# The one version that there is.
_USUAL: Final = MappingProxyType({"CompatibilityLevel": (20,)})


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
    reader: FieldReader, path: str, value: Any, partitioned: bool, names: dict[str, str]
) -> dict[str, Any]:
    """Return a rule, none if it is wrong. `names`: of the rules before it, with their paths."""
    found = reader.fields(path, value, ("Name", _PROPERTIES), idle={})
    given = reader.required(path, found, "Name")
    name = reader.text(given)
    if given is not None and name is not None:
        other = names.setdefault(name.lower(), path)
        if other == path:
            reader.taken(given[0])
        else:
            reader.problem(
                given[0],
                f"{name!r} is already the name of {other}; case does not count. Choose another "
                "name.",
            )
            name = None
    properties = reader.required(path, found, _PROPERTIES)
    if properties is None:
        return {}
    made = _properties(reader, *properties)
    if name is None or not made:
        return {}
    made = {"name": name} | made
    return made if _checked(reader, path, made, partitioned) else {}


def _checked(reader: FieldReader, path: str, made: dict[str, Any], partitioned: bool) -> bool:
    """Whether a topic can have the rule; else with a problem for each field that is wrong."""
    try:
        spec = RuleSpec.model_validate(made)
        rule.check(rule_manifest.to_rule(spec), partitioned=partitioned)
    except ValidationError as error:
        for detail in error.errors():
            field = ".".join(map(str, detail["loc"]))
            reader.problem(path + _below(field), field_errors.sentence(detail))
    except InvalidArgument as error:
        said = error.message.removeprefix(f"{error.field}: ")
        reader.problem(path + _place(made, error.field), said)
    except (InvalidOperation, QuotaExceeded) as error:
        reader.problem(path, error.message)
    else:
        return True
    return False


def _place(made: Mapping[str, Any], field: str) -> str:
    """Return the path, below a rule, of a field of the domain."""
    for name in made.get("correlationFilter", {}).get("properties", {}):
        # As the user wrote it: it is no name of a field.
        if field == f"filter.properties[{name!r}]":
            return json_text.step(f".{_PROPERTIES}.CorrelationFilter.{_PROPERTIES}", name)
    return _below(field)


def _below(field: str) -> str:
    """Return the path, below a rule, of a field of a manifest."""
    first, _, rest = field.partition(".")
    if first in ("name", "ruleName"):
        return ".Name"
    if first == "filter":
        first = "sqlFilter" if rest == "sqlExpression" else "correlationFilter"
    names = [to_camel(each) for each in (first, *filter(None, rest.split(".")))]
    return ".".join(["", _PROPERTIES, *(f"{each[0].upper()}{each[1:]}" for each in names)])


def _properties(reader: FieldReader, path: str, value: Any) -> dict[str, Any]:
    """Return filter and action of a rule; none if they are wrong."""
    found = reader.fields(path, value, ("FilterType", *_FILTERS.values(), _ACTION), idle={})
    kind = _filter_type(reader, reader.required(path, found, "FilterType"))
    made: dict[str, Any] = {}
    for each, name in _FILTERS.items():
        if name in found and each != kind and kind is not None:
            reader.not_supported(found[name][0], f"has no effect: FilterType is {kind}.")
    if kind == "Sql":
        made["sqlFilter"] = _sql(reader, path, "SqlFilter", found)
    elif kind == "Correlation":
        made["correlationFilter"] = _correlation(reader, path, found)
    if _ACTION in found:
        action = _action(reader, *found[_ACTION])
        made |= {"action": action} if action else {}
    return made if kind is not None and all(made.values()) else {}


def _filter_type(reader: FieldReader, field: Field | None) -> str | None:
    text = reader.text(field)
    if field is None or text is None:
        return None
    found = {name.lower(): name for name in _FILTERS}.get(text.lower())
    if found is None:
        hint = suggestions.did_you_mean(text.lower().removesuffix("filter"), _FILTERS)
        reader.problem(field[0], f"{text!r} is not a type of filter.{hint}")
        return None
    reader.taken(field[0])
    return found


def _sql(reader: FieldReader, path: str, name: str, found: Mapping[str, Field]) -> dict[str, Any]:
    field = reader.required(path, found, name)
    if field is None:
        return {}
    inner = reader.fields(*field, (_SQL,), idle=_IDLE, usual=_USUAL)
    given = reader.required(field[0], inner, _SQL)
    text = reader.text(given)
    if given is None or text is None:
        return {}
    reader.taken(given[0])
    return {"sqlExpression": text}


def _action(reader: FieldReader, path: str, value: Any) -> dict[str, Any]:
    found = reader.fields(path, value, (_SQL,), idle=_IDLE, usual=_USUAL)
    text = reader.text(found.get(_SQL))
    if text is None:
        return {}
    reader.taken(found[_SQL][0], "" if text else "is empty: none.")
    return {"sqlExpression": text} if text else {}


def _correlation(reader: FieldReader, path: str, found: Mapping[str, Field]) -> dict[str, Any]:
    field = reader.required(path, found, "CorrelationFilter")
    if field is None:
        return {}
    problems = len(reader.problems)
    names = {name: to_camel(each) for each, name in rule.SYSTEM_PROPERTIES.items()}
    inner = reader.fields(*field, (*names, _PROPERTIES), idle=_IDLE, usual=_USUAL)
    made: dict[str, Any] = {}
    for name, own in names.items():
        text = reader.text(inner.get(name))
        if text is not None:
            reader.taken(inner[name][0])
            made[own] = text
    if _PROPERTIES in inner:
        properties = _application_properties(reader, *inner[_PROPERTIES])
        made |= {"properties": properties} if properties else {}
    if not made and len(reader.problems) == problems:
        reader.problem(
            field[0],
            f"must have at least one property. Known: {', '.join((*names, _PROPERTIES))}. For "
            "every message use FilterType Sql with SqlExpression 1 = 1.",
        )
    return made


def _application_properties(reader: FieldReader, path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        reader.wrong(path, "an object, { … }", value)
        return {}
    if not value:
        reader.taken(path, "is empty.")
    made = {}
    for name, each in value.items():
        at = json_text.step(path, name)
        if not isinstance(each, bool | int | float | str):
            shown = field_errors.shown(each)
            reader.problem(at, f"must be text, a number, true or false (got {shown}).")
            continue
        reader.taken(at)
        made[name] = each
    return made
