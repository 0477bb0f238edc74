"""Values of parameters of a template: of the parameter's type, and within its constraints. Pure.

Source: "Parameters in Azure Resource Manager templates": types, allowedValues, minLength,
maxLength, minValue and maxValue. Case does not count in allowed values; a list may have any of
them.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds.imports import arm_functions
from bendybus.crds.imports.arm_expressions import TemplateError

# The types whose values may be given as texts, and what such a text must be.
_WRITTEN: Final[Mapping[str, tuple[type, str]]] = MappingProxyType(
    {
        "int": (int, "a whole number"),
        "bool": (bool, "true or false"),
        "array": (list, "a list, as JSON"),
        "object": (dict, "an object, as JSON"),
        "secureobject": (dict, "an object, as JSON"),
    }
)
_TEXTS: Final = ("string", "securestring")
_SHOWN_MAX: Final = 20


def checked(name: str, definition: Any, value: Any) -> Any:
    """Return a value as its parameter has it: a given text may be of another type.

    Raises TemplateError.
    """
    if not isinstance(definition, dict) or value is None:
        return value
    parameter = _Parameter(name, str(definition.get("type", "")).lower())
    made = parameter.typed(value)
    parameter.check_allowed(definition.get("allowedValues"), made)
    for least, most, size, what in _sizes(definition, made):
        if least is not None and size < least:
            raise parameter.wrong(f"{what} at least {least}", made)
        if most is not None and size > most:
            raise parameter.wrong(f"{what} at most {most}", made)
    return made


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter. `kind`: its type, in lower case."""

    name: str
    kind: str

    def typed(self, value: Any) -> Any:
        """Return a value of the type. Raises TemplateError."""
        wanted, words = _WRITTEN.get(self.kind, (None, "a text"))
        if wanted is None:
            if self.kind in _TEXTS and isinstance(value, bool | list | dict):
                raise self.wrong(f"be {words}", value)
            return value
        made = value
        if isinstance(value, str):
            text = value.lower() if self.kind == "bool" else value
            with suppress(TemplateError):
                made = arm_functions.FUNCTIONS["json"].call(text)
        # True is an integer in Python.
        if type(made) is not wanted:
            raise self.wrong(f"be {words}", value)
        return made

    def check_allowed(self, allowed: Any, value: Any) -> None:
        """Raise TemplateError for a value that is not in a list."""
        if not isinstance(allowed, list) or not allowed:
            return
        known = [_folded(each) for each in allowed]
        given = value if isinstance(value, list) and _folded(value) not in known else [value]
        for each in given:
            if _folded(each) not in known:
                shown = ", ".join(map(arm_functions.shown, allowed[:_SHOWN_MAX]))
                raise self.wrong(f"be one of {shown}", each)

    def wrong(self, must: str, value: Any) -> TemplateError:
        """Return the error for a value, which is not shown if it is a secret."""
        given = "a secret" if self.kind.startswith("secure") else arm_functions.shown(value)
        return TemplateError(f"needs the parameter {self.name}, which must {must} (got {given}).")


def _sizes(
    definition: Mapping[str, Any], value: Any
) -> list[tuple[int | None, int | None, int, str]]:
    """Return bounds, what is compared with them, and words for it."""
    if type(value) is int:
        names, size, what = ("minValue", "maxValue"), value, "be"
    elif isinstance(value, str | list):
        names, size, what = ("minLength", "maxLength"), len(value), "have a length of"
    else:
        return []
    least, most = (_bound(definition.get(name)) for name in names)
    return [(least, most, size, what)]


def _bound(value: Any) -> int | None:
    """Return a bound, which may be in quotes."""
    if type(value) is int:
        return value
    return int(value) if isinstance(value, str) and re.fullmatch("-?[0-9]{1,18}", value) else None


def _folded(value: Any) -> tuple[bool, Any]:
    """Return a value for comparison: case does not count, and true is not 1."""
    return isinstance(value, bool), value.lower() if isinstance(value, str) else value
