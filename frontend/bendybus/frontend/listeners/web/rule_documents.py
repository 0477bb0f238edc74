"""Rules of subscriptions in Atom documents.

    <RuleDescription> Filter (xsi:type SqlFilter, TrueFilter, FalseFilter, CorrelationFilter),
                      Action (xsi:type SqlRuleAction, EmptyRuleAction), CreatedAt, Name

Parameters and properties are lists of key and typed value, as .NET's serialiser writes them. A
value has one of the forms that XML Schema gives its type (https://www.w3.org/TR/xmlschema-2/), and
no other that Python reads, such as 1_0.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID
from xml.etree.ElementTree import Element

from bendybus.domain import bounds, limits
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters.rule import (
    SYSTEM_PROPERTIES,
    CorrelationFilter,
    FalseFilter,
    Filter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from bendybus.domain.filters.values import (
    MOMENT_CHARS_MAX,
    Duration,
    Int,
    Timestamp,
    Value,
    moment_ms,
)
from bendybus.frontend.listeners.web import atom
from bendybus.frontend.listeners.web.atom import element, text

DESCRIPTION: Final = "RuleDescription"
_COMPATIBILITY: Final = "<CompatibilityLevel>20</CompatibilityLevel>"
_LONG_MAX: Final = 2**63 - 1
_EMPTY_ACTION: Final = "EmptyRuleAction"
# Of the children of filters and actions: says nothing here.
_IGNORED: Final = frozenset({"CompatibilityLevel", "RequiresPreprocessing"})


def written(rule: Rule) -> str:
    """Return the description of a rule."""
    return atom.description(
        DESCRIPTION,
        f"{_filter_written(rule.filter)}{_action_written(rule.action)}"
        f"<CreatedAt>{atom.moment(rule.created_at_ms)}</CreatedAt>"
        f"<Name>{text(rule.name)}</Name>",
    )


def _filter_written(given: Filter) -> str:
    match given:
        case TrueFilter():
            return _sql("Filter", "TrueFilter", "1=1", {})
        case FalseFilter():
            return _sql("Filter", "FalseFilter", "1=0", {})
        case SqlFilter(sql_expression=expression, parameters=parameters):
            return _sql("Filter", "SqlFilter", expression, parameters)
        case CorrelationFilter(properties=properties):
            texts = ((name, getattr(given, field)) for field, name in SYSTEM_PROPERTIES.items())
            content = "".join(element(name, text(each)) for name, each in texts if each is not None)
            content += element("Properties", _values_written(properties)) if properties else ""
            return element("Filter", content, ' i:type="CorrelationFilter"')


def _action_written(action: SqlRuleAction | None) -> str:
    if action is None:
        return f'<Action i:type="{_EMPTY_ACTION}"/>'
    return _sql("Action", "SqlRuleAction", action.sql_expression, action.parameters)


def _sql(name: str, kind: str, expression: str, parameters: Mapping[str, Value]) -> str:
    content = (
        f"<SqlExpression>{text(expression)}</SqlExpression>{_COMPATIBILITY}"
        f"{element('Parameters', _values_written(parameters))}"
    )
    return element(name, content, f' i:type="{kind}"')


def _values_written(values: Mapping[str, Value]) -> str:
    return "".join(
        element("KeyValueOfstringanyType", f"<Key>{text(key)}</Key>{_value_written(value)}")
        for key, value in sorted(values.items())
    )


def _value_written(value: Value) -> str:
    namespace = atom.SCHEMA
    match value:
        case bool():
            kind, content = "boolean", str(value).lower()
        case Int():
            kind, content = "int", str(value)
        case int():
            kind, content = "long" if value <= _LONG_MAX else "unsignedLong", str(value)
        case float():
            kind, content = "double", _double_written(value)
        case str():
            kind, content = "string", text(value)
        case bytes():
            kind, content = "base64Binary", base64.b64encode(value).decode("ascii")
        case Timestamp(ms=ms, written=written):
            kind, content = "dateTime", text(written) or atom.written_moment(ms)
        case Duration(ticks=ticks):
            namespace, kind, content = atom.SERIALIZATION, "duration", _duration_written(ticks)
        case UUID():
            namespace, kind, content = atom.SERIALIZATION, "guid", str(value)
        case _:
            # With a type, since the clients of SDKs for Python and Go expect one of every value.
            return f'<Value xmlns:d6p1="{namespace}" i:type="d6p1:string" i:nil="true"/>'
    return element("Value", content, f' xmlns:d6p1="{namespace}" i:type="d6p1:{kind}"')


def _duration_written(ticks: int) -> str:
    """Return a duration as .NET's XmlConvert writes it: days, hours, minutes, seconds."""
    seconds, fraction = divmod(abs(ticks), _TICKS_A_SECOND)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    exact = f"{seconds}.{fraction:07}".rstrip("0") if fraction else str(seconds)
    parts = [(hours, f"{hours}H"), (minutes, f"{minutes}M"), (seconds or fraction, f"{exact}S")]
    time = "".join(part for amount, part in parts if amount)
    date = f"{days}D" if days else ""
    text = f"P{date}T{time}" if time else f"P{date}" if date else "PT0S"
    return f"-{text}" if ticks < 0 else text


def _double_written(value: float) -> str:
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return "NaN" if math.isnan(value) else repr(value)


# Reading


def read(described: Element, name: str = "") -> Rule:
    """Return the rule of a description, not checked. Raises InvalidArgument.

    `name`: that of the path, which counts; else that of the description.
    """
    found = atom.child_map(described)
    for each in found:
        if each not in ("Filter", "Action", "Name", "CreatedAt"):
            raise InvalidArgument(f"{DESCRIPTION}.{each}", "is unknown.")
    named = name or (atom.text_of(found["Name"]) if "Name" in found else "")
    action = _action(found["Action"]) if "Action" in found else None
    if "Filter" not in found:
        raise InvalidArgument("Filter", "is required.")
    return Rule(named, _filter(found["Filter"]), action)


def _filter(given: Element) -> Filter:
    match atom.type_of(given):
        case "TrueFilter":
            return TrueFilter()
        case "FalseFilter":
            return FalseFilter()
        case "SqlFilter":
            return SqlFilter(*_sql_read("Filter", given))
        case "CorrelationFilter":
            return _correlation(given)
        case other:
            raise InvalidArgument(
                "Filter",
                "its type must be SqlFilter, TrueFilter, FalseFilter or CorrelationFilter "
                f"(got {other[:100]!r}).",
            )


def _correlation(given: Element) -> CorrelationFilter:
    fields = {name: field for field, name in SYSTEM_PROPERTIES.items()}
    texts: dict[str, str] = {}
    properties: dict[str, Value] = {}
    for name, each in atom.children(given):
        if name == "Properties":
            properties = _values("Filter.Properties", each)
        elif name in fields:
            # A client that leaves something out may write it as empty.
            if each.text:
                texts[fields[name]] = each.text
        elif name not in _IGNORED:
            raise InvalidArgument(f"Filter.{name}", "is unknown.")
    return CorrelationFilter(**texts, properties=properties)


def _action(given: Element) -> SqlRuleAction | None:
    match atom.type_of(given):
        case "SqlRuleAction":
            return SqlRuleAction(*_sql_read("Action", given))
        case kind if kind == _EMPTY_ACTION or (not kind and not len(given)):
            return None
        case other:
            raise InvalidArgument(
                "Action",
                f"its type must be SqlRuleAction or {_EMPTY_ACTION} (got {other[:100]!r}).",
            )


def _sql_read(field: str, given: Element) -> tuple[str, dict[str, Value]]:
    expression: str | None = None
    parameters: dict[str, Value] = {}
    for name, each in atom.children(given):
        if name == "SqlExpression":
            expression = each.text or ""
        elif name == "Parameters":
            parameters = _values(f"{field}.Parameters", each)
        elif name not in _IGNORED:
            raise InvalidArgument(f"{field}.{name}", "is unknown.")
    if expression is None:
        raise InvalidArgument(f"{field}.SqlExpression", "is required.")
    return expression, parameters


def _values(field: str, given: Element) -> dict[str, Value]:
    bounds.check_number(field, len(given), limits.RULE_VALUES_MAX)
    made: dict[str, Value] = {}
    for each in given:
        found = atom.child_map(each)
        if set(found) != {"Key", "Value"}:
            raise InvalidArgument(field, "each must have a Key and a Value.")
        key = found["Key"].text or ""
        if key in made:
            raise InvalidArgument(field, f"must have each key once (got {key[:100]!r} twice).")
        made[key] = _value(field, found["Value"])
    return made


def _value(field: str, given: Element) -> Value:
    if atom.is_nil(given):
        return None
    kind, content = atom.type_of(given), given.text or ""
    reader = _READERS.get(kind)
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise InvalidArgument(
            field, f"a value must be of one of the types {known} (got {kind[:100]!r})."
        )
    try:
        return reader(content)
    except (ValueError, OverflowError, binascii.Error):
        raise InvalidArgument(field, f"{content[:100]!r} is not a valid {kind}.") from None


def _formed(form: re.Pattern[str], content: str) -> str:
    """Return a text without white space around it. Raises ValueError unless it has the form."""
    found = content.strip(_WHITE_SPACE)
    if not form.fullmatch(found):
        raise ValueError
    return found


def _integer(content: str) -> int:
    found = int(_formed(_INTEGER, content))
    if not -(2**63) <= found < 2**64:
        raise OverflowError
    return found


def _int(content: str) -> int:
    found = _integer(content)
    # Some clients call every whole number so.
    return Int(found) if -(2**31) <= found < 2**31 else found


def _moment(content: str) -> Timestamp:
    written = content.strip(_WHITE_SPACE)
    ms = moment_ms(written)
    if not atom.TIME_MS_MIN <= ms <= bounds.TIME_MS_MAX:
        raise OverflowError
    says_more = len(written) <= MOMENT_CHARS_MAX and written != atom.written_moment(ms)
    return Timestamp(ms, written if says_more else "")


def _duration(content: str) -> Duration:
    found = _DURATION.fullmatch(content.strip(_WHITE_SPACE))
    if found is None or not any(map(found.group, _UNITS)):
        raise ValueError
    # A tick has seven digits; further ones are dropped.
    fraction = (found["fraction"] or "").ljust(7, "0")[:7]
    seconds = sum(int(found[unit] or 0) * size for unit, size in _UNITS.items())
    ticks = seconds * _TICKS_A_SECOND + int(fraction)
    ticks = -ticks if found["sign"] else ticks
    if not -(2**63) <= ticks < 2**63:
        raise OverflowError
    return Duration(ticks)


def _binary(content: str) -> bytes:
    return base64.b64decode(content.translate(_NO_WHITE_SPACE), validate=True)


# Of XML, which is less than Python's.
_WHITE_SPACE: Final = " \t\r\n"
_NO_WHITE_SPACE: Final = str.maketrans("", "", _WHITE_SPACE)
_PLAIN_NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(_PLAIN_NUMBER)
_DOUBLE: Final = re.compile(rf"{_PLAIN_NUMBER}(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN")
# Not of XML Schema, but of .NET's serialiser, which also reads it in braces.
_GUID_PLAIN: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_GUID: Final = re.compile(rf"{_GUID_PLAIN}|\{{{_GUID_PLAIN}\}}")
# Without years and months, which have no length. Longer numbers are beyond a TimeSpan.
_UNITS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_TICKS_A_SECOND: Final = 10**7
_DURATION: Final = re.compile(
    r"(?P<sign>-?)P(?:(?P<days>[0-9]{1,15})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,15})H)?(?:(?P<minutes>[0-9]{1,15})M)?"
    r"(?:(?P<seconds>[0-9]{1,15})(?:\.(?P<fraction>[0-9]{1,20}))?S)?)?"
)
_BOOLEAN: Final = re.compile(r"true|false|1|0")
_INTEGERS: Final = (
    "int", "long", "short", "byte", "unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte",
)  # fmt: skip
_READERS: Final[Mapping[str, Callable[[str], Value]]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    "int": _int,
    **dict.fromkeys(("double", "float"), lambda content: float(_formed(_DOUBLE, content))),
    "decimal": lambda content: float(_formed(_DECIMAL, content)),
    "string": str,
    "boolean": lambda content: _formed(_BOOLEAN, content) in ("true", "1"),
    "dateTime": _moment,
    "duration": _duration,
    "guid": lambda content: UUID(_formed(_GUID, content)),
    "base64Binary": _binary,
}
