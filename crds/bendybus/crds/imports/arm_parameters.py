"""Values of parameters of a template: of the parameter's type, and within its constraints. Pure.

Source: "Parameters in Azure Resource Manager templates": types, allowedValues, minLength,
maxLength, minValue and maxValue. Case does not count in allowed values; a list may have any of
them.
"""

from collections.abc import Mapping
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
    kind = str(definition.get("type", "")).lower()
    made = _typed(name, kind, value)
    _check_allowed(name, definition.get("allowedValues"), made)
    for least, most, size, what in _sizes(definition, made):
        if type(least) is int and size < least:
            raise _wrong(name, f"{what} at least {least}", made)
        if type(most) is int and size > most:
            raise _wrong(name, f"{what} at most {most}", made)
    return made


def _sizes(definition: Mapping[str, Any], value: Any) -> list[tuple[Any, Any, int, str]]:
    """Return bounds, what is compared with them, and words for it."""
    if type(value) is int:
        return [(definition.get("minValue"), definition.get("maxValue"), value, "be")]
    if isinstance(value, str | list):
        bounds = definition.get("minLength"), definition.get("maxLength")
        return [(*bounds, len(value), "have a length of")]
    return []


def _typed(name: str, kind: str, value: Any) -> Any:
    wanted, words = _WRITTEN.get(kind, (None, ""))
    made = value
    if wanted is not None and isinstance(value, str):
        try:
            made = arm_functions.FUNCTIONS["json"].call(value.lower() if kind == "bool" else value)
        except TemplateError:
            made = value
    if wanted is None:
        wrong = kind in _TEXTS and isinstance(value, bool | list | dict)
        words = "a text"
    else:
        wrong = type(made) is not wanted
    if wrong:
        raise _wrong(name, f"be {words}", value)
    return made


def _check_allowed(name: str, allowed: Any, value: Any) -> None:
    if not isinstance(allowed, list):
        return
    known = [_folded(each) for each in allowed]
    given = value if isinstance(value, list) and _folded(value) not in known else [value]
    for each in given:
        if _folded(each) not in known:
            shown = ", ".join(map(arm_functions.shown, allowed[:_SHOWN_MAX]))
            raise _wrong(name, f"be one of {shown}", each)


def _wrong(name: str, must: str, value: Any) -> TemplateError:
    given = arm_functions.shown(value)
    return TemplateError(f"needs the parameter {name}, which must {must} (got {given}).")


def _folded(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value
