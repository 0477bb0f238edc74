"""What is wrong with a field of a manifest, in the words of this project.

The models find errors; their library's own sentences ("Input should be a valid dictionary or
instance of QueueSpec") name classes that no user knows.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

_SHOWN_MAX: Final = 60
_MAPPING: Final = "a mapping of fields"
_WHOLE: Final = "a whole number"
_BOOLEAN: Final = "true or false"
_TYPES: Final[Mapping[str, str]] = {
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "list_type": "a list",
    "tuple_type": "a list",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "string_type": "text",
    "string_sub_type": "text",
    "none_required": "null",
}
_BOUNDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "greater_than_equal": lambda bound: f"at least {bound['ge']}",
    "greater_than": lambda bound: f"greater than {bound['gt']}",
    "less_than_equal": lambda bound: f"at most {bound['le']}",
    "less_than": lambda bound: f"less than {bound['lt']}",
    "literal_error": lambda bound: str(bound["expected"]).replace("'", ""),
    "enum": lambda bound: str(bound["expected"]).replace("'", ""),
    "string_too_short": lambda bound: f"text of at least {_characters(bound['min_length'])}",
    "string_too_long": lambda bound: f"text of at most {_characters(bound['max_length'])}",
    "string_pattern_mismatch": lambda bound: f"text that matches {bound['pattern']}",
    "too_short": lambda bound: f"a list of at least {bound['min_length']}",
    "too_long": lambda bound: f"a list of at most {bound['max_length']}",
}


def sentence(detail: ErrorDetails) -> str:
    """Return what a field must be, and what it is. Total: an unknown error is no valid value."""
    kind, given = detail["type"], shown(detail["input"])
    if kind in _TYPES:
        return f"must be {_TYPES[kind]} (got {given})."
    if kind in _BOUNDS:
        return f"must be {_BOUNDS[kind](detail.get('ctx', {}))} (got {given})."
    return f"is not valid here (got {given})."


def _characters(count: int) -> str:
    return f"{count} character" + ("" if count == 1 else "s")


def shown(value: object) -> str:
    """Return a value as YAML and JSON write it, not too long."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…"
