"""Templates of Azure Resource Manager, in JSON as people and Bicep write them → resources. Pure.

    resources: [ … ] or { symbol: … }
    ├── Microsoft.ServiceBus/namespaces        and below it, nested or with segments in the name
    ├── Microsoft.Resources/deployments        with a template inside: read in its place
    └── anything else                          reported

Evaluated are `name`, `copy` and `condition` of each resource, and of those of Service Bus `sku` and
`properties`. So what only location, tags or outputs need is never asked for.

Source: "Structure and syntax of Azure Resource Manager templates"; templates that Bicep compiles.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from bendybus.crds import forms, json_text, suggestions
from bendybus.crds.conversion import Outcome, Reason
from bendybus.crds.errors import ManifestError, Problem
from bendybus.crds.field_reader import Field, FieldReader
from bendybus.crds.imports import arm_id
from bendybus.crds.imports.arm_evaluation import (
    OF_AZURE,
    AskedError,
    Budget,
    Copied,
    Evaluation,
    Passed,
)
from bendybus.crds.imports.arm_expressions import TemplateError
from bendybus.crds.imports.arm_functions import part
from bendybus.crds.imports.arm_modules import DEPLOYMENTS, Modules
from bendybus.crds.imports.asked import Asked

PROVIDER: Final = "microsoft.servicebus"
NAMESPACES: Final = "namespaces"
# Resources of a file, copies included.
RESOURCES_MAX: Final = 20_000
_DEPTH_MAX: Final = 10
# Stands for a name that a value is asked for.
_UNKNOWN_NAME: Final = "unknown"
# Fields of a resource, by their names in lower case, that are read elsewhere or not at all.
_READ: Final = frozenset(
    ("type", "name", "copy", "condition", "resources", "properties", "sku", "existing")
)
_TAKEN: Final = {
    "apiversion": "names a version of Azure's interface.",
    "dependson": "is not needed: names say what belongs to what.",
    "comments": "",
    "metadata": "",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of Service Bus. `types`: below the provider, in lower case; `names`: one of each.

    `fields`: `sku` and `properties`, evaluated, by their names in lower case. `existing`: the file
    says how it is, and another one makes it.
    """

    types: tuple[str, ...]
    names: tuple[str, ...]
    place: str
    fields: Mapping[str, Field]
    existing: bool = False


@dataclass(frozen=True, slots=True)
class _Within:
    """Where resources are: in which template, and below which resource."""

    evaluation: Evaluation
    types: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    depth: int = 0


def is_template(document: Any) -> bool:
    """Whether a document has the form of a template."""
    if not isinstance(document, dict):
        return False
    schema = next((value for name, value in document.items() if name.lower() == "$schema"), "")
    return isinstance(document.get("resources"), list | dict) and (
        "contentVersion" in document or "deploymentTemplate" in str(schema)
    )


def read(reader: FieldReader, document: Mapping[str, Any], asked: Asked) -> list[Resource]:
    """Return the resources of Service Bus in a template, in its order.

    Values are given by name, for parameters and for functions of Azure. Errors become problems of
    the reader; other resources, and fields without effect, become findings.
    """
    template = _Template(reader)
    template.check(document, asked.needed)
    found = [] if reader.problems else template.resources("", document, asked.given)
    template.ask()
    return found


def parameter_values(source: str, document: Any) -> dict[str, Any]:
    """Return the values in a file of parameters. Raises ManifestError.

    Those that refer to a vault have none here.
    """
    parameters = part(document, "parameters")
    if not isinstance(parameters, dict):
        raise ManifestError(
            Problem(source, "", "parameters", "is missing: this is no file of parameters.")
        )
    return {
        name: part(each, "value")
        for name, each in parameters.items()
        if isinstance(each, dict) and any(key.lower() == "value" for key in each)
    }


class _Template:
    """One reading. `_count`: of resources so far. `_asked`: names of values with their places,
    by the names in lower case.
    """

    def __init__(self, reader: FieldReader) -> None:
        self._reader = reader
        self._budget = Budget()
        self._count = 0
        self._asked: dict[str, tuple[str, str]] = {}

    def check(self, document: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        """Note a problem for each value that nothing in the template asks for."""
        found = part(document, "parameters")
        known = {each.lower(): each for each in found} if isinstance(found, dict) else {}
        for name in given:
            lower = name.lower()
            if lower not in known and lower.partition(".")[0] not in OF_AZURE:
                hint = suggestions.did_you_mean(name, known.values()) if known else ""
                self._reader.problem("parameters", f"has no {name!r:.100}, which is given.{hint}")

    def ask(self) -> None:
        """Note one problem for all values that the file lacks."""
        if self._asked:
            [(_, place), *_] = self._asked.values()
            names = [name for name, _ in self._asked.values()]
            self._reader.problem(place, AskedError(*names).sentence)

    def _refuse(self, place: str, error: TemplateError) -> None:
        """Note what is wrong with a value; what it asks for is said for the file at once."""
        if not isinstance(error, AskedError):
            self._reader.problem(place, error.sentence)
            return
        for name in error.names:
            self._asked.setdefault(name.lower(), (name, place))

    def resources(
        self, place: str, template: Mapping[str, Any], given: Mapping[str, Any], depth: int = 0
    ) -> list[Resource]:
        within = _Within(self._evaluation(place, template, given), depth=depth)
        return list(
            self._all(json_text.step(place, "resources"), template.get("resources"), within)
        )

    def _evaluation(
        self,
        place: str,
        template: Mapping[str, Any],
        given: Mapping[str, Any],
        *,
        inner: bool = False,
    ) -> Evaluation:
        made = Evaluation(
            {name.lower(): value for name, value in given.items()},
            self._definitions(place, template, "parameters"),
            self._definitions(place, template, "variables"),
            self._budget,
            inner=inner,
            functions=_functions(template),
        )
        inside = partial(self._inside, place, made)
        made.outputs = Modules(template.get("resources"), made, inside).output
        return made

    def _inside(self, place: str, evaluation: Evaluation, properties: Any) -> Evaluation | None:
        """Return the evaluation of the template inside a deployment; None: it has none."""
        template = part(properties, "template")
        if not isinstance(template, dict):
            return None
        options = part(properties, "expressionEvaluationOptions")
        if str(part(options, "scope")).lower() != "inner":
            return evaluation
        given = {
            name: value
            for name, value in evaluation.given.items()
            if name.partition(".")[0] in OF_AZURE
        }
        parameters = part(properties, "parameters")
        for name, each in (parameters if isinstance(parameters, dict) else {}).items():
            # Evaluated where it is needed: a location is passed to most templates inside.
            given[name.lower()] = Passed(evaluation, part(each, "value"))
        return self._evaluation(place, template, given, inner=True)

    def _definitions(self, place: str, template: Mapping[str, Any], name: str) -> dict[str, Any]:
        found = template.get(name, {})
        if not isinstance(found, dict):
            self._reader.wrong(json_text.step(place, name), "an object, { … }", found)
            return {}
        copies = found.get("copy") if name == "variables" else None
        made = {
            str(each["name"]).lower(): Copied(each)
            for each in (copies if isinstance(copies, list) else ())
            if isinstance(each, dict) and "name" in each
        }
        return {each.lower(): value for each, value in found.items() if value is not copies} | made

    def _all(self, place: str, value: Any, within: _Within) -> Iterator[Resource]:
        if within.depth > _DEPTH_MAX:
            self._reader.problem(place, f"is nested more than {_DEPTH_MAX} deep.")
        elif isinstance(value, dict):
            for symbol, each in value.items():
                yield from self._each(json_text.step(place, symbol), each, within)
        elif isinstance(value, list):
            for at, each in enumerate(value):
                yield from self._each(f"{place}[{at}]", each, within)
        else:
            self._reader.wrong(place, "a list, [ … ], or an object, { … }", value)

    def _each(self, place: str, value: Any, within: _Within) -> Iterator[Resource]:
        """Yield what a resource is, once for each copy."""
        if not isinstance(value, dict):
            self._reader.wrong(place, "an object, { … }", value)
            return
        written = _written(place, value)
        if "copy" not in written:
            yield from self._one(place, written, within)
            return
        at, copy = written["copy"]
        name, count = self._copied(at, copy, within)
        if count is None:
            # The file is refused; the resource may lack more.
            count = 1
        if name is None:
            return
        if not isinstance(name, str) or type(count) is not int or not 0 <= count <= RESOURCES_MAX:
            self._reader.problem(at, f"must have a name, and a count of 0 to {RESOURCES_MAX}.")
            return
        self._reader.taken(at, f"makes {count}.")
        for index in range(count):
            wrong = len(self._reader.problems) + len(self._asked)
            each = f"{at}[{index}]"
            with within.evaluation.copying(name, index):
                yield from self._one(each, _written(each, value), within)
            if len(self._reader.problems) + len(self._asked) > wrong:
                # The others have the same.
                return

    def _copied(self, place: str, copy: Any, within: _Within) -> tuple[Any, Any]:
        """Return name and number of copies; None: it is asked for, or both: they are wrong."""
        try:
            name = within.evaluation.value(part(copy, "name"))
            return name, within.evaluation.value(part(copy, "count"))
        except AskedError as error:
            self._refuse(place, error)
            return _UNKNOWN_NAME, None
        except TemplateError as error:
            self._refuse(place, error)
            return None, None

    def _one(self, place: str, written: Mapping[str, Field], within: _Within) -> Iterator[Resource]:
        self._count += 1
        if self._count > RESOURCES_MAX:
            if self._count == RESOURCES_MAX + 1:
                self._reader.problem(place, f"is one of more than {RESOURCES_MAX} resources.")
            return
        if self._is_left_out(written, within):
            return
        _, kind = written.get("type", (place, None))
        if not isinstance(kind, str):
            self._reader.problem(json_text.step(place, "type"), "is missing. It is required.")
            return
        lower = kind.lower()
        if lower == DEPLOYMENTS:
            yield from self._nested(place, written, within)
            return
        provider, *types = lower.split("/")
        full = "." in provider
        # A nested one of another provider is called providers/TYPE, its name PROVIDER/NAME.
        others = provider == "providers" or (
            full and (provider != PROVIDER or types[:1] != [NAMESPACES])
        )
        if others:
            self._reader.left_out(place, forms.other(kind))
            return
        names = self._names(place, written, within, len(types) if full else 1)
        if names is None:
            return
        if not full:
            types, names = [*within.types, lower], (*within.names, *names)
        elif within.types and len(types) > len(names):
            names = (*within.names, *names)
        made = Resource(tuple(types), names, place, self._fields(written, within))
        yield made
        if "resources" in written:
            below = replace(within, types=made.types, names=names, depth=within.depth + 1)
            yield from self._all(*written["resources"], below)

    def _is_left_out(self, written: Mapping[str, Field], within: _Within) -> bool:
        """Whether a resource is only named, or has a condition that is false."""
        if written.get("existing", ("", False))[1] is True:
            self._reader.taken(written["existing"][0], "is made elsewhere.")
            return True
        if "condition" not in written:
            return False
        at, condition = written["condition"]
        try:
            wanted = within.evaluation.value(condition)
        except AskedError as error:
            self._refuse(at, error)
            # The file is refused; the resource may lack more.
            return False
        except TemplateError as error:
            self._refuse(at, error)
            return True
        if wanted in (True, "true", "True"):
            self._reader.taken(at)
            return False
        self._reader.left_out(at, Reason("is false: this is not made.", Outcome.NO_EFFECT))
        return True

    def _names(
        self, place: str, written: Mapping[str, Field], within: _Within, count: int
    ) -> tuple[str, ...] | None:
        at, name = written.get("name", (json_text.step(place, "name"), None))
        if name is None:
            self._reader.problem(at, "is missing. It is required.")
            return None
        try:
            found = within.evaluation.value(name)
        except AskedError as error:
            self._refuse(at, error)
            # The file is refused in the end, with everything that it lacks.
            return (_UNKNOWN_NAME,) * count
        except TemplateError as error:
            self._refuse(at, error)
            return None
        if not isinstance(found, str):
            self._reader.wrong(at, "text", found)
            return None
        names = tuple(found.split("/"))
        # A nested resource has the last part only, even if its type is written in full.
        whole = len(names) == count or (len(names) == 1 and len(within.names) == count - 1)
        if not whole or not all(names):
            self._reader.problem(
                at, f"must have {count} parts between slashes, one for each part of the type."
            )
            return None
        self._reader.taken(at, "" if found == name else f"is {found}.")
        return tuple(map(arm_id.entity_name, names))

    def _fields(self, written: Mapping[str, Field], within: _Within) -> dict[str, Field]:
        found: dict[str, Field] = {}
        for name, (at, value) in written.items():
            if name in ("properties", "sku"):
                try:
                    found[name] = at, within.evaluation.value(value)
                except TemplateError as error:
                    self._refuse(_below(at, error), error)
            elif name in _TAKEN:
                self._reader.taken(at, _TAKEN[name])
            elif name in forms.OF_RESOURCES:
                self._reader.left_out(at, forms.OF_RESOURCES[name])
            elif name not in _READ:
                self._reader.unknown(at, name, (*_READ, *_TAKEN, *forms.OF_RESOURCES))
        return found

    def _nested(
        self, place: str, written: Mapping[str, Field], within: _Within
    ) -> Iterator[Resource]:
        """Yield what is in a deployment that has its template in it."""
        at, properties = written.get("properties", (json_text.step(place, "properties"), None))
        at = json_text.step(at, "template")
        evaluation = self._inside(at, within.evaluation, properties)
        if evaluation is None:
            self._reader.problem(
                at.removesuffix(".template"),
                "has no template in it. Convert the file that it links to, by itself.",
            )
            return
        inside = _Within(evaluation, depth=within.depth + 1)
        resources = part(part(properties, "template"), "resources")
        yield from self._all(json_text.step(at, "resources"), resources, inside)


def _functions(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the functions that a template defines, by namespace and name in lower case."""
    found = part(template, "functions")
    made: dict[str, Any] = {}
    for each in found if isinstance(found, list) else ():
        space, members = part(each, "namespace"), part(each, "members")
        for name, definition in members.items() if isinstance(members, dict) else ():
            made[f"{space}.{name}".lower()] = definition
    return made


def _written(place: str, value: Mapping[str, Any]) -> dict[str, Field]:
    """Return the fields of a resource by their names in lower case."""
    return {name.lower(): (json_text.step(place, name), each) for name, each in value.items()}


def _below(place: str, error: TemplateError) -> str:
    for each in error.steps:
        place = f"{place}[{each}]" if isinstance(each, int) else json_text.step(place, each)
    return place
