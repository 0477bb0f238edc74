"""The table of conversions of docs/reference/filters.md, computed.

`python -m tests.domain.filters.conversion_table` prints it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from bendybus.domain.filters import rule
from bendybus.domain.filters.rule import Rule, SqlRuleAction
from bendybus.domain.filters.values import FilterError, Timestamp, Value
from bendybus.domain.filters.view import Properties

ID: Final = UUID("00000000-0000-4000-8000-000000000001")
MOMENT: Final = Timestamp(1_764_302_400_000)
# What is set: as an expression, for the page.
VALUES: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "'red'": "red",
        "'12'": "12",
        "'2.5'": "2.5",
        "'True'": "True",
        f"'{ID}'": str(ID),
        "'2025-11-28T04:00:00Z'": "2025-11-28T04:00:00Z",
        "'00:05:00'": "00:05:00",
        "'PT5M'": "PT5M",
        "1": 1,
        "12": 12,
        "12.0": 12.0,
        "2.5": 2.5,
        "TRUE": True,
        "a UUID": ID,
        "a timestamp": MOMENT,
        "binary data": b"\x01\x02",
        "NULL": None,
    }
)
# What was there before.
TARGETS: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "string": "old",
        "integer": 7,
        "float": 7.5,
        "boolean": False,
        "UUID": UUID(int=7),
        "timestamp": Timestamp(7),
        "binary data": b"old",
    }
)
TEXT_PROPERTIES: Final = (
    "MessageId",
    "SessionId",
    "PartitionKey",
    "CorrelationId",
    "Label",
    "To",
    "ReplyTo",
    "ReplyToSessionId",
    "ContentType",
)


def set_user(existing: Value, value: Value) -> Value:
    """Return what SET makes of a value where an application property has one already."""
    described = Rule("r", action=SqlRuleAction("SET a = v"))
    message = Properties({"a": existing, "v": value})
    return rule.compiled(described, partitioned=False).changes(message).user["a"].value


def set_system(name: str, value: Value) -> Value:
    """Return what SET makes of a value for a system property. Raises FilterError."""
    described = Rule("r", action=SqlRuleAction(f"SET sys.{name} = v"))
    message = Properties({"v": value})
    return rule.compiled(described, partitioned=False).changes(message).system[name]


def table() -> list[str]:
    """Return the lines of the table."""
    heads = ["`SET` to", *TARGETS, "text `sys.`", "`sys.TimeToLive`"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for name, value in VALUES.items():
        cells = [_shown(value, set_user(existing, value)) for existing in TARGETS.values()]
        cells += [_system("Label", value), _system("TimeToLive", value)]
        shown = f"`{name}`" if name[0] in "'0123456789NT" else name
        lines.append(_line([shown, *cells]))
    return lines


def _system(name: str, value: Value) -> str:
    try:
        return _shown(value, set_system(name, value))
    except FilterError:
        return "error"


def _shown(given: Value, found: Value) -> str:
    if type(found) is type(given) and found == given:
        return "as it is"
    if type(found) is str:
        return f"`'{found}'`"
    if type(found) is UUID:
        return "the UUID"
    if type(found) is Timestamp:
        return "the time"
    return f"`{str(found).upper()}`"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print("\n".join(table()))
