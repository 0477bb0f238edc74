"""Evaluates expressions of a template of Azure Resource Manager, where it has what they need. Pure.

    parameters('x')       given, else its default, else asked for
    variables('x')        evaluated when it is used, once
    copyIndex()           of the copy that is being made
    resourceGroup(), …    only Azure knows them: given, else asked for by name
    resourceId(…)         the end of the id, which names the resource

Only what is used is evaluated. Steps and sizes are bounded, and so is how deep one value leads to
the next.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cmp_to_key, partial
from typing import Any, Final

from bendybus.crds.imports import arm_expressions, arm_functions, arm_parameters
from bendybus.crds.imports.arm_expressions import Call, Expression, Literal, Member, TemplateError
from bendybus.crds.imports.arm_functions import truth, whole

# The bound for one file; the largest of the corpus need about ten thousand.
STEPS_MAX: Final = 2_000_000
_DEPTH_MAX: Final = 60
# Their results are Azure's own.
OF_AZURE: Final = (
    *("resourcegroup", "subscription", "deployment", "environment", "tenant", "managementgroup"),
    *("uniquestring", "newguid", "guid", "utcnow", "reference", "listkeys", "deployer"),
)
_IDS: Final = (
    *("resourceid", "subscriptionresourceid", "tenantresourceid", "extensionresourceid"),
)
# Calls of functions of the template within each other; Azure takes no recursion.
_CALLS_MAX: Final = 20
# Names of values that one error asks for.
_ASKED_MAX: Final = 50
Names = Mapping[str, Any]


class AskedError(TemplateError):
    """Raised for values that the template lacks. `names`: under which they can be given."""

    def __init__(self, *names: str) -> None:
        self.names = names
        shown = names[:_ASKED_MAX]
        options = " ".join(f"--set {name}=VALUE" for name in shown)
        *others, last = [*shown, *([f"{len(names) - _ASKED_MAX} more"] if shown != names else [])]
        which = f"{', '.join(others)} and {last}" if others else last
        super().__init__(
            f"needs {which}, which the file lacks: give {'them' if others else 'it'} with "
            f"{options}."
        )


@dataclass(frozen=True, slots=True)
class Copied:
    """A value that is a list, with an item for each copy: as templates define variables, too."""

    copy: Mapping[str, Any]


class Budget:
    """The steps that are left for the evaluation of one file."""

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take steps. Raises TemplateError when there are no more."""
        self.left -= steps
        if self.left < 0:
            raise TemplateError("is too much to evaluate: the file makes too many or large values.")


# A value that is not in the file.
UNKNOWN: Final = object()


@dataclass(frozen=True, slots=True)
class Passed:
    """A value that a template passes to one inside it, as it is written there."""

    evaluation: "Evaluation"
    written: Any


class _Given(dict[str, Any]):
    """The members that are given of a result of Azure. `name`: of the result."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


@dataclass(frozen=True, slots=True)
class _Lambda:
    """A function that a template has: its parameters' names, and its expression."""

    names: tuple[str, ...]
    body: Expression
    variables: Names


@dataclass(slots=True)
class Evaluation:
    """The values to which expressions of a template refer; all names are in lower case.

    `given`: values from outside, of parameters and of Azure's own functions, such as
    `resourcegroup.location`. `parameters`: definitions. `variables`: as they are written.
    """

    given: Names
    parameters: Names
    variables: Names
    budget: Budget
    # Whether it is of a deployment, whose parameters nobody else gives.
    inner: bool = False
    # User-defined functions, by namespace and name.
    functions: Names = field(default_factory=dict)
    # How deep it is in calls of such functions.
    calls: int = 0
    # Outputs of deployments of the template, by an id or a symbol, and a name; UNKNOWN: of others.
    outputs: Callable[[str, str], Any] | None = None
    # By the name of the copy, the index in it; the one that is being made is the last.
    copies: dict[str, int] = field(default_factory=dict)
    _known: dict[tuple[str, str], Any] = field(default_factory=dict)
    # The values that are being evaluated, by which one that needs itself is found.
    _under_way: list[tuple[str, str]] = field(default_factory=list)
    # The number of objects and lists around the value.
    _depth: int = 0

    @contextmanager
    def copying(self, name: str, index: int) -> Iterator[None]:
        """Evaluate a copy of something."""
        before = dict(self.copies)
        self.copies.pop(name.lower(), None)
        self.copies[name.lower()] = index
        try:
            yield
        finally:
            self.copies = before

    def value(self, written: Any) -> Any:
        """Return a value of the template: all its expressions evaluated. Raises TemplateError."""
        self.budget.spend(1)
        if isinstance(written, str):
            if not arm_expressions.is_expression(written):
                return arm_expressions.plain(written)
            try:
                return self._evaluated(arm_expressions.parse(written), {})
            except RecursionError:
                raise TemplateError("leads from one value to the next too often.") from None
        if isinstance(written, Copied):
            [made] = self._copies("copy", [written.copy]).values()
            return made
        if isinstance(written, list):
            return list(self._parts(enumerate(written)).values())
        if isinstance(written, dict):
            found = self._parts((name, each) for name, each in written.items() if name != "copy")
            return found | self._copies("copy", written["copy"]) if "copy" in written else found
        return written

    def _parts(self, written: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
        """Return the parts of a value. Raises TemplateError, for all that is asked for at once.

        Names may be expressions, too.
        """
        return _gathered(
            (self._key(step), partial(self._part, step, each)) for step, each in written
        )

    def _key(self, written: str | int) -> str | int:
        found = self.value(written)
        if type(found) is not type(written):
            shown = arm_functions.shown(found)
            raise TemplateError(f"has a member whose name is no text ({shown}).")
        return str(found) if isinstance(written, str) else written

    def _part(self, step: str | int, written: Any) -> Any:
        if self._depth >= _DEPTH_MAX:
            raise TemplateError(f"is nested more than {_DEPTH_MAX} deep.")
        self._depth += 1
        try:
            return self.value(written)
        except TemplateError as error:
            error.steps.insert(0, step)
            raise
        finally:
            self._depth -= 1

    def _copies(self, step: str, copies: Any) -> dict[str, Any]:
        """Return the members of an object that are made as often as their count says."""
        if not isinstance(copies, list):
            # A member that has this name.
            return {step: self._part(step, copies)}
        found: dict[str, Any] = {}
        for each in copies:
            if not isinstance(each, dict) or not {"name", "count", "input"} <= set(each):
                raise TemplateError("has a copy without name, count or input.")
            name, count = str(self.value(each["name"])), whole(self.value(each["count"]))
            made: list[Any] = []
            for index in range(max(0, count)):
                with self.copying(name, index):
                    made.append(self.value(each["input"]))
            found[name] = made
        return found

    def _evaluated(self, expression: Expression, names: Names) -> Any:
        self.budget.spend(1)
        match expression:
            case Literal(value):
                return value
            case Member(of, key):
                if (output := self._output(expression, names)) is not UNKNOWN:
                    return output
                found_key = self._evaluated(key, names)
                try:
                    value = self._evaluated(of, names)
                except AskedError as error:
                    name = error.names[0]
                    of_azure = name.lower().partition(".")[0] in OF_AZURE
                    if of_azure and len(error.names) == 1 and isinstance(key, Literal):
                        return self._of_azure(f"{name}.{found_key}")
                    raise
                if not isinstance(value, _Given):
                    return arm_functions.member(value, found_key)
                # Items of a list, too, are given by their number after a dot.
                step = str(found_key).lower()
                if step not in value:
                    raise AskedError(f"{value.name}.{found_key}")
                return value[step]
            case Call():
                found = self._called(expression, names)
                self.budget.spend(arm_functions.size_of(found))
                return found

    def _output(self, expression: Member, names: Names) -> Any:
        """Return an output of a deployment in the file, if the expression is one; else UNKNOWN."""
        match expression:
            case Member(
                Member(Member(Call(name="reference") as call, Literal(first)), Literal(name)),
                Literal(last),
            ) if self.outputs is not None and call.arguments:
                given = f"reference.{first}.{name}.{last}".lower()
                if f"{first}.{last}".lower() == "outputs.value" and given not in self.given:
                    return self.outputs(str(self._evaluated(call.arguments[0], names)), str(name))
        return UNKNOWN

    def _called(self, call: Call, names: Names) -> Any:
        special = _SPECIAL.get(call.name)
        if special is not None:
            return special(self, call, names)
        if call.name in OF_AZURE:
            return self._of_azure(call.written)
        if call.name in self.functions:
            return self._defined(call, names)
        function = arm_functions.FUNCTIONS.get(call.name)
        if function is None:
            raise TemplateError(
                f"uses {call.written}(), which is not known here. Write its result instead."
            )
        _check_count(call, function.least, function.most)
        values = self._arguments(call, names)
        self.budget.spend(sum(map(arm_functions.size_of, values)))
        try:
            found = function.call(*values)
        except TemplateError as error:
            raise TemplateError(f"{call.written}() {error.sentence}") from None
        if function.gathers:
            self._spend_on(found)
        return found

    def _arguments(self, call: Call, names: Names) -> list[Any]:
        """Return arguments. Raises TemplateError, for all that is asked for at once."""
        found = (
            (at, partial(self._evaluated, each, names)) for at, each in enumerate(call.arguments)
        )
        return list(_gathered(found).values())

    def _defined(self, call: Call, names: Names) -> Any:
        """Return the output of a function of the template, which knows its parameters alone."""
        definition = self.functions[call.name]
        found = arm_functions.part(definition, "parameters")
        listed = found if isinstance(found, list) else ()
        parameters = [each for each in listed if isinstance(each, dict) and "name" in each]
        _check_count(call, len(parameters), len(parameters))
        known = [str(each["name"]).lower() for each in parameters]
        if self.calls >= _CALLS_MAX:
            raise TemplateError(f"{call.written}() calls other functions too deeply.")
        inside = Evaluation(
            dict(zip(known, self._arguments(call, names), strict=True)),
            dict(zip(known, parameters, strict=True)),
            {},
            self.budget,
            inner=True,
            functions=self.functions,
            calls=self.calls + 1,
        )
        return inside.value(arm_functions.part(arm_functions.part(definition, "output"), "value"))

    def _spend_on(self, made: Any) -> None:
        self.budget.spend(arm_functions.whole_size_of(made, self.budget.left + 1))

    def _of_azure(self, name: str) -> Any:
        lower = name.lower()
        if lower in self.given:
            return self.given[lower]
        below = f"{lower}."
        found = _Given(name)
        for each in self.given:
            if each.startswith(below):
                step = each.removeprefix(below).partition(".")[0]
                found[step] = self._of_azure(f"{name}.{step}")
        if not found:
            raise AskedError(name)
        return found

    def _parameter(self, call: Call, names: Names) -> Any:
        name = self._name(call, names)
        definition = self.parameters.get(name.lower())
        if definition is not None and name.lower() in self.given:
            return self._given(name.lower(), definition)
        if definition is None:
            raise TemplateError(f"uses the parameter {name!r:.80}, which the file does not have.")
        if not isinstance(definition, dict) or "defaultValue" not in definition:
            if isinstance(definition, dict) and definition.get("nullable") is True:
                return None
            if self.inner:
                raise TemplateError(f"needs the parameter {name!r:.80}, which is not passed to it.")
            raise AskedError(name)
        key = "default", name.lower()
        if key not in self._known:
            found = self._once("parameter", name, definition["defaultValue"])
            self._known[key] = arm_parameters.checked(name, definition, found)
        return self._known[key]

    def _given(self, name: str, definition: Any) -> Any:
        """Return a value from outside, checked once."""
        key = "given", name
        if key not in self._known:
            given = self.given[name]
            if isinstance(given, Passed):
                given = given.evaluation.value(given.written)
            self._known[key] = arm_parameters.checked(name, definition, given)
        return self._known[key]

    def _variable(self, call: Call, names: Names) -> Any:
        name = self._name(call, names)
        if name.lower() not in self.variables:
            raise TemplateError(f"uses the variable {name!r:.80}, which the file does not have.")
        return self._once("variable", name, self.variables[name.lower()])

    def _once(self, kind: str, name: str, written: Any) -> Any:
        key = kind, name.lower()
        if key in self._under_way:
            raise TemplateError(f"needs the {kind} {name!r:.80}, which needs itself.")
        if len(self._under_way) >= _DEPTH_MAX:
            raise TemplateError("leads from one value to the next too often.")
        if key not in self._known:
            self._under_way.append(key)
            try:
                found = self._known[key] = self.value(written)
                self._spend_on(found)
            finally:
                self._under_way.pop()
        return self._known[key]

    def _name(self, call: Call, names: Names) -> str:
        _check_count(call, 1, 1)
        name = self._evaluated(call.arguments[0], names)
        if not isinstance(name, str):
            raise TemplateError(f"{call.written}() needs a name (got {arm_functions.shown(name)}).")
        return name

    def _copy_index(self, call: Call, names: Names) -> int:
        _check_count(call, 0, 2)
        values = [self._evaluated(each, names) for each in call.arguments]
        name = str(values.pop(0)) if values and isinstance(values[0], str) else ""
        last = next(reversed(self.copies.values()), None)
        index = self.copies.get(name.lower()) if name else last
        if index is None:
            where = f"the copy {name!r:.80}" if name else "a copy"
            raise TemplateError(f"{call.written}() is not in {where}.")
        return index + (whole(values[0]) if values else 0)

    def _if(self, call: Call, names: Names) -> Any:
        _check_count(call, 3, 3)
        test, yes, no = call.arguments
        return self._evaluated(yes if truth(self._evaluated(test, names)) else no, names)

    def _and(self, call: Call, names: Names) -> bool:
        return all(truth(self._evaluated(each, names)) for each in call.arguments)

    def _or(self, call: Call, names: Names) -> bool:
        return any(truth(self._evaluated(each, names)) for each in call.arguments)

    def _coalesce(self, call: Call, names: Names) -> Any:
        for each in call.arguments:
            found = self._evaluated(each, names)
            if found is not None:
                return found
        return None

    def _resource_id(self, call: Call, names: Names) -> str:
        values = [str(self._evaluated(each, names)) for each in call.arguments]
        kinds = next((at for at, each in enumerate(values) if "/" in each and "." in each), None)
        if kinds is None:
            raise TemplateError(f"{call.written}() needs a type of resources, with its provider.")
        provider, *types = values[kinds].split("/")
        named = "".join(f"/{a}/{b}" for a, b in zip(types, values[kinds + 1 :], strict=False))
        return f"/providers/{provider}{named}"

    def _lambda(self, call: Call, names: Names) -> _Lambda:
        *given, body = call.arguments
        written = tuple(str(self._evaluated(each, names)).lower() for each in given)
        return _Lambda(written, body, names)

    def _lambda_variable(self, call: Call, names: Names) -> Any:
        name = self._name(call, names).lower()
        if name not in names:
            raise TemplateError(f"uses the variable {name!r:.80} of a lambda that it is not in.")
        return names[name]

    def _apply(self, function: Any, *values: Any) -> Any:
        if not isinstance(function, _Lambda):
            raise TemplateError("needs a lambda.")
        mine = dict(zip(function.names, values, strict=False))
        return self._evaluated(function.body, {**function.variables, **mine})

    def _map(self, call: Call, names: Names) -> list[Any]:
        values, function = self._list_and_lambda(call, names)
        return [self._apply(function, each, at) for at, each in enumerate(values)]

    def _filter(self, call: Call, names: Names) -> list[Any]:
        values, function = self._list_and_lambda(call, names)
        return [each for at, each in enumerate(values) if truth(self._apply(function, each, at))]

    def _reduce(self, call: Call, names: Names) -> Any:
        _check_count(call, 3, 3)
        values, found, function = (self._evaluated(each, names) for each in call.arguments)
        if not isinstance(values, list):
            raise TemplateError(f"{call.written}() needs an array.")
        for at, each in enumerate(values):
            found = self._apply(function, found, each, at)
        return found

    def _map_values(self, call: Call, names: Names) -> dict[str, Any]:
        _check_count(call, 2, 2)
        values, function = (self._evaluated(each, names) for each in call.arguments)
        if not isinstance(values, dict):
            raise TemplateError(f"{call.written}() needs an object.")
        return {name: self._apply(function, each) for name, each in values.items()}

    def _to_object(self, call: Call, names: Names) -> dict[str, Any]:
        _check_count(call, 2, 3)
        values, key, *value = (self._evaluated(each, names) for each in call.arguments)
        if not isinstance(values, list):
            raise TemplateError(f"{call.written}() needs an array.")
        return {
            arm_functions.text(self._apply(key, each)): self._apply(value[0], each)
            if value
            else each
            for each in values
        }

    def _group_by(self, call: Call, names: Names) -> dict[str, list[Any]]:
        values, function = self._list_and_lambda(call, names)
        made: dict[str, list[Any]] = {}
        for each in values:
            made.setdefault(arm_functions.text(self._apply(function, each)), []).append(each)
        return made

    def _sort(self, call: Call, names: Names) -> list[Any]:
        values, function = self._list_and_lambda(call, names)

        def compared(one: Any, other: Any) -> int:
            if truth(self._apply(function, one, other)):
                return -1
            return 1 if truth(self._apply(function, other, one)) else 0

        return sorted(values, key=cmp_to_key(compared))

    def _list_and_lambda(self, call: Call, names: Names) -> tuple[list[Any], Any]:
        _check_count(call, 2, 2)
        values, function = (self._evaluated(each, names) for each in call.arguments)
        if not isinstance(values, list):
            raise TemplateError(f"{call.written}() needs an array.")
        return values, function


def _gathered(parts: Iterable[tuple[Any, Callable[[], Any]]]) -> dict[Any, Any]:
    """Return values by their keys. Raises TemplateError: AskedError for all that is asked for."""
    found: dict[Any, Any] = {}
    asked: list[AskedError] = []
    wrong: TemplateError | None = None
    for key, value in parts:
        if key in found:
            raise TemplateError(f"has {key!r:.80} twice. Remove one of them.")
        try:
            found[key] = value()
        except AskedError as error:
            asked.append(error)
        except TemplateError as error:
            wrong = wrong or error
    if len(asked) == 1:
        # It says where.
        raise asked[0]
    if asked:
        # Case does not count in names.
        names = {name.lower(): name for each in reversed(asked) for name in reversed(each.names)}
        raise AskedError(*reversed(names.values()))
    if wrong is not None:
        raise wrong
    return found


def _check_count(call: Call, least: int, most: int) -> None:
    count = len(call.arguments)
    if not least <= count <= most:
        wanted = str(least) if least == most else f"{least} or more"
        raise TemplateError(f"{call.written}() has {count} arguments, and needs {wanted}.")


_SPECIAL: Final[Mapping[str, Any]] = {
    "parameters": Evaluation._parameter,
    "variables": Evaluation._variable,
    "copyindex": Evaluation._copy_index,
    "if": Evaluation._if,
    "and": Evaluation._and,
    "or": Evaluation._or,
    "coalesce": Evaluation._coalesce,
    "lambda": Evaluation._lambda,
    "lambdavariables": Evaluation._lambda_variable,
    "map": Evaluation._map,
    "filter": Evaluation._filter,
    "reduce": Evaluation._reduce,
    "mapvalues": Evaluation._map_values,
    "toobject": Evaluation._to_object,
    "groupby": Evaluation._group_by,
    "sort": Evaluation._sort,
    **dict.fromkeys(_IDS, Evaluation._resource_id),
}
