"""The functions of expressions in templates of Azure Resource Manager: arguments → result. Pure.

These functions need only their arguments. `arm_evaluation` has the others, and asks for results
that only Azure knows. Names and keys are compared without case, as in Azure.

Source: "ARM template functions".
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from bendybus.crds.imports.arm_expressions import TemplateError

_MANY: Final = 1_000
_RANGE_MAX: Final = 10_000
_PAD_MAX: Final = 10_000
# The largest whole number, as in Azure.
_WHOLE_MAX: Final = 2**63 - 1
_PLACE: Final = re.compile(r"\{\{|\}\}|\{(\d{1,3})(?:,(-?\d{1,4}))?(?::([^{}]*))?\}")
# The formats of .NET for whole numbers: digits, hexadecimal, groups of thousands, zeros.
_NUMBER_FORMAT: Final = re.compile(r"([DdXxGgNn])(\d{0,2})|(0{1,40})")


class Function(NamedTuple):
    """A function, and how many arguments it takes. `gathers`: whether it makes lists of values."""

    call: Callable[..., Any]
    least: int
    most: int
    gathers: bool = False


def size_of(value: Any) -> int:
    """Return roughly how many steps it takes to make a value of others."""
    if isinstance(value, str):
        return len(value) // 16
    return len(value) if isinstance(value, list | dict) else 0


def whole_size_of(value: Any, most: int) -> int:
    """Return how many steps it takes to go through a value, `most` if there are more.

    A few lists of lists that are the same have more items than a memory holds.
    """
    steps, waiting = 0, [value]
    while waiting and steps < most:
        each = waiting.pop()
        steps += 1 + (len(each) // 16 if isinstance(each, str) else 0)
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += each.values()
    return min(steps, most)


def shown(value: Any) -> str:
    """Return a value for a sentence."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:57]}..."


def part(value: Any, name: str) -> Any:
    """Return a member of an object by its name in any case, or None."""
    if not isinstance(value, dict):
        return None
    lower = name.lower()
    return next((each for key, each in value.items() if key.lower() == lower), None)


def member(of: Any, key: Any) -> Any:
    """Return a member of an object, or an item of an array. Raises TemplateError."""
    if isinstance(of, dict):
        if not isinstance(key, str):
            raise TemplateError(f"looks for {shown(key)} in an object, whose keys are texts.")
        found = key_of(of, key)
        if found is None:
            raise TemplateError(f"looks for {key!r:.80}, which is not in the object.")
        return of[found]
    if isinstance(of, list):
        if not _is_number(key) or not -len(of) <= key < len(of):
            raise TemplateError(f"looks for item {shown(key)} of an array of {len(of)}.")
        return of[key]
    raise TemplateError(f"looks for {shown(key)} in {shown(of)}, which is no object and no array.")


def key_of(of: Mapping[str, Any], key: str) -> str | None:
    """Return a key of an object as it is written there; None: it is not there."""
    if key in of:
        return key
    lower = key.lower()
    return next((each for each in of if each.lower() == lower), None)


def text(value: Any) -> str:
    """Return a value as a text of Azure."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "True" if value else "False"
    return json.dumps(value, separators=(",", ":"))


def truth(value: Any) -> bool:
    """Return a boolean. Raises TemplateError."""
    if not isinstance(value, bool):
        raise TemplateError(f"needs true or false (got {shown(value)}).")
    return value


def whole(value: Any) -> int:
    """Return a whole number, which may be written as a text. Raises TemplateError."""
    text_of_one = isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,19}\s*", value)
    if text_of_one or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    if not _is_number(value):
        raise TemplateError(f"needs a whole number (got {shown(value)}).")
    if abs(value) > _WHOLE_MAX:
        raise TemplateError("has a number of more than 64 bits.")
    found: int = value
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise TemplateError(f"needs a text (got {shown(value)}).")
    return value


def _list_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TemplateError(f"needs an array (got {shown(value)}).")
    return value


def _object_of(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TemplateError(f"needs an object (got {shown(value)}).")
    return value


def _concat(*values: Any) -> Any:
    if all(isinstance(each, list) for each in values):
        return [item for each in values for item in each]
    return "".join(map(text, values))


def _format(template: Any, *values: Any) -> str:
    def filled(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]
        if int(found[1]) >= len(values):
            raise TemplateError(f"has {{{found[1]}}} in its format, and {len(values)} values.")
        made = _formatted(values[int(found[1])], found[3] or "")
        width = int(found[2] or 0)
        return made.ljust(-width) if width < 0 else made.rjust(width)

    return _PLACE.sub(filled, _text_of(template))


def _formatted(value: Any, wanted: str) -> str:
    """Return a value in a format of .NET, which only numbers have."""
    if not wanted or type(value) is not int:
        return text(value)
    found = _NUMBER_FORMAT.fullmatch(wanted)
    if found is None:
        raise TemplateError(
            f"has the format {wanted!r:.40}, which is not known here. Write its result instead."
        )
    sign, digits = "-" if value < 0 else "", str(abs(value))
    kind, size = (found[1] or "").lower(), int(found[2] or 0)
    if kind == "x":
        # As 64 bits.
        made = f"{value & (2**64 - 1):x}".rjust(size, "0")
        return made if found[1] == "x" else made.upper()
    if kind == "n":
        places = 2 if not found[2] else size
        return f"{value:,.{places}f}"
    return sign + digits.rjust(len(found[3]) if found[3] else size, "0")


def _shallow_merge(values: Any) -> dict[str, Any]:
    return _union({}, *map(_object_of, _list_of(values))) if values else {}


def _from_base64(value: Any) -> str:
    try:
        return base64.b64decode(_text_of(value), validate=True).decode("utf-8")
    except ValueError:
        raise TemplateError(f"needs a text in base64 (got {shown(value)}).") from None


def _equals(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    return type(one) is type(other) and bool(one == other)


def _compared(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(one: Any, other: Any) -> bool:
        if isinstance(one, str) and isinstance(other, str):
            return test(one, other)
        return test(whole(one), whole(other))

    return compare


def _contains(container: Any, wanted: Any) -> bool:
    if isinstance(container, str):
        return text(wanted) in container
    if isinstance(container, dict):
        return key_of(container, _text_of(wanted)) is not None
    return any(_equals(each, wanted) for each in _list_of(container))


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise TemplateError(f"needs a text, an array or an object (got {shown(value)}).")
    return len(value)


def _empty(value: Any) -> bool:
    return value is None or not _length(value)


def _first(value: Any) -> Any:
    if isinstance(value, str):
        return value[:1]
    return member(_list_of(value), 0)


def _last(value: Any) -> Any:
    if isinstance(value, str):
        return value[-1:]
    return member(_list_of(value), -1)


def _take(value: Any, count: Any) -> Any:
    return (value if isinstance(value, str) else _list_of(value))[: max(0, whole(count))]


def _skip(value: Any, count: Any) -> Any:
    return (value if isinstance(value, str) else _list_of(value))[max(0, whole(count)) :]


def _substring(value: Any, start: Any, length: Any = None) -> str:
    found, at = _text_of(value), whole(start)
    end = len(found) if length is None else at + whole(length)
    if not 0 <= at <= end <= len(found):
        raise TemplateError(f"takes characters {at} to {end} of a text of {len(found)}.")
    return found[at:end]


def _split(value: Any, at: Any) -> list[str]:
    signs = at if isinstance(at, list) else [at]
    wanted = [each for each in map(_text_of, signs) if each]
    if not wanted:
        return [_text_of(value)]
    return re.split("|".join(map(re.escape, wanted)), _text_of(value))


def _replace(value: Any, old: Any, new: Any) -> str:
    if not _text_of(old):
        raise TemplateError("replaces an empty text.")
    if len(value) // len(old) * len(_text_of(new)) > _PAD_MAX * _MANY:
        raise TemplateError("makes a text that is too long.")
    return _text_of(value).replace(old, new)


def _pad_left(value: Any, length: Any, sign: Any = " ") -> str:
    if whole(length) > _PAD_MAX:
        raise TemplateError(f"pads to {whole(length)} characters, more than {_PAD_MAX}.")
    return text(value).rjust(whole(length), _text_of(sign)[:1] or " ")


def _join(values: Any, sign: Any) -> str:
    return _text_of(sign).join(map(text, _list_of(values)))


def _union(*values: Any) -> Any:
    if all(isinstance(each, dict) for each in values):
        merged: dict[str, Any] = {}
        for each in values:
            for key, value in each.items():
                known = key_of(merged, key) or key
                both = isinstance(value, dict) and isinstance(merged.get(known), dict)
                merged[known] = _union(merged[known], value) if both else value
        return merged
    found: list[Any] = []
    for each in values:
        found += [item for item in _list_of(each) if item not in found]
    return found


def _intersection(*values: Any) -> Any:
    first = values[0]
    if isinstance(first, dict):
        others = [_object_of(each) for each in values[1:]]
        return {
            key: value
            for key, value in first.items()
            if all(key_of(each, key) and each[key_of(each, key) or ""] == value for each in others)
        }
    return [item for item in _list_of(first) if all(item in _list_of(each) for each in values[1:])]


def _create_object(*values: Any) -> dict[str, Any]:
    if len(values) % 2:
        raise TemplateError("needs a value for each key.")
    return {_text_of(key): value for key, value in zip(values[::2], values[1::2], strict=True)}


def _range(start: Any, count: Any) -> list[int]:
    if not 0 <= whole(count) <= _RANGE_MAX:
        raise TemplateError(f"makes {whole(count)} numbers, which must be 0 to {_RANGE_MAX}.")
    return list(range(whole(start), whole(start) + whole(count)))


def _divided(one: Any, other: Any) -> int:
    if not whole(other):
        raise TemplateError("divides by zero.")
    found = abs(whole(one)) // abs(whole(other))
    return found if (whole(one) < 0) == (whole(other) < 0) else -found


def _remainder(one: Any, other: Any) -> int:
    return whole(one) - whole(other) * _divided(one, other)


def _extreme(pick: Callable[[Sequence[int]], int]) -> Callable[..., int]:
    def call(*values: Any) -> int:
        numbers = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        if not numbers:
            raise TemplateError("needs at least one number.")
        return pick([whole(each) for each in numbers])

    return call


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false", "1", "0"):
        return value.lower() in ("true", "1")
    return bool(whole(value))


def _json(value: Any) -> Any:
    try:
        return json.loads(_text_of(value))
    except (ValueError, RecursionError):
        raise TemplateError(f"reads {shown(value)}, which is no JSON.") from None


def _string(value: Any) -> str:
    return value if isinstance(value, str) else text(value)


def _array(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _items(value: Any) -> list[dict[str, Any]]:
    found = sorted(_object_of(value).items(), key=lambda each: each[0].lower())
    return [{"key": key, "value": item} for key, item in found]


def _flatten(value: Any) -> list[Any]:
    return [item for each in _list_of(value) for item in _list_of(each)]


def _index_of(value: Any, wanted: Any) -> int:
    if isinstance(value, list):
        return next((at for at, each in enumerate(value) if _equals(each, wanted)), -1)
    return _text_of(value).lower().find(_text_of(wanted).lower())


def _last_index_of(value: Any, wanted: Any) -> int:
    if isinstance(value, list):
        return next((at for at in range(len(value) - 1, -1, -1) if _equals(value[at], wanted)), -1)
    return _text_of(value).lower().rfind(_text_of(wanted).lower())


def _from_end(values: Any, at: Any) -> Any:
    found, number = _list_of(values), whole(at)
    if not 1 <= number <= len(found):
        raise TemplateError(f"has no item {number} from the end, of {len(found)}.")
    return found[-number]


def _try_from_end(values: Any, at: Any) -> Any:
    try:
        return _from_end(values, at)
    except TemplateError:
        return None


def _to_base64(value: Any) -> str:
    return base64.b64encode(_text_of(value).encode("utf-8")).decode("ascii")


def _starts_with(value: Any, wanted: Any) -> bool:
    return _text_of(value).lower().startswith(_text_of(wanted).lower())


def _ends_with(value: Any, wanted: Any) -> bool:
    return _text_of(value).lower().endswith(_text_of(wanted).lower())


def _try_get(value: Any, *keys: Any) -> Any:
    for key in keys:
        try:
            value = member(value, key)
        except TemplateError:
            return None
    return value


FUNCTIONS: Final[Mapping[str, Function]] = {
    "concat": Function(_concat, 1, _MANY, gathers=True),
    "format": Function(_format, 1, _MANY),
    "tolower": Function(lambda value: _text_of(value).lower(), 1, 1),
    "toupper": Function(lambda value: _text_of(value).upper(), 1, 1),
    "trim": Function(lambda value: _text_of(value).strip(), 1, 1),
    "equals": Function(_equals, 2, 2),
    "less": Function(_compared(lambda one, other: one < other), 2, 2),
    "lessorequals": Function(_compared(lambda one, other: one <= other), 2, 2),
    "greater": Function(_compared(lambda one, other: one > other), 2, 2),
    "greaterorequals": Function(_compared(lambda one, other: one >= other), 2, 2),
    "not": Function(lambda value: not truth(value), 1, 1),
    "contains": Function(_contains, 2, 2),
    "length": Function(_length, 1, 1),
    "empty": Function(_empty, 1, 1),
    "first": Function(_first, 1, 1),
    "last": Function(_last, 1, 1),
    "take": Function(_take, 2, 2),
    "skip": Function(_skip, 2, 2),
    "substring": Function(_substring, 2, 3),
    "split": Function(_split, 2, 2),
    "replace": Function(_replace, 3, 3),
    "padleft": Function(_pad_left, 2, 3),
    "join": Function(_join, 2, 2),
    "union": Function(_union, 1, _MANY, gathers=True),
    "intersection": Function(_intersection, 1, _MANY),
    "createobject": Function(_create_object, 0, _MANY, gathers=True),
    "createarray": Function(lambda *values: list(values), 0, _MANY, gathers=True),
    "array": Function(_array, 1, 1),
    "items": Function(_items, 1, 1),
    "objectkeys": Function(lambda value: list(_object_of(value)), 1, 1),
    "flatten": Function(_flatten, 1, 1),
    "range": Function(_range, 2, 2),
    "add": Function(lambda one, other: whole(whole(one) + whole(other)), 2, 2),
    "sub": Function(lambda one, other: whole(whole(one) - whole(other)), 2, 2),
    "mul": Function(lambda one, other: whole(whole(one) * whole(other)), 2, 2),
    "div": Function(_divided, 2, 2),
    "mod": Function(_remainder, 2, 2),
    "min": Function(_extreme(min), 1, _MANY),
    "max": Function(_extreme(max), 1, _MANY),
    "int": Function(whole, 1, 1),
    "bool": Function(_bool, 1, 1),
    "string": Function(_string, 1, 1),
    "json": Function(_json, 1, 1),
    "null": Function(lambda: None, 0, 0),
    "true": Function(lambda: True, 0, 0),
    "false": Function(lambda: False, 0, 0),
    "indexof": Function(_index_of, 2, 2),
    "indexfromend": Function(_from_end, 2, 2),
    "tryindexfromend": Function(_try_from_end, 2, 2),
    "lastindexof": Function(_last_index_of, 2, 2),
    "shallowmerge": Function(_shallow_merge, 1, 1, gathers=True),
    "base64": Function(_to_base64, 1, 1),
    "base64tostring": Function(_from_base64, 1, 1),
    "base64tojson": Function(lambda value: _json(_from_base64(value)), 1, 1),
    "uricomponent": Function(lambda value: quote(_text_of(value), safe="-_.~"), 1, 1),
    "uricomponenttostring": Function(lambda value: unquote(_text_of(value)), 1, 1),
    "startswith": Function(_starts_with, 2, 2),
    "endswith": Function(_ends_with, 2, 2),
    "tryget": Function(_try_get, 2, _MANY),
}
