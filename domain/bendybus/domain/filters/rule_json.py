"""Rules as they are stored: as values of JSON in the entries of the catalogue.

A value of JSON is itself; other kinds are objects with one member that names the kind, and text.
"""

import base64
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from bendybus.domain.filters import rule as rules
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from bendybus.domain.filters.values import Duration, Int, Timestamp, Value


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """Return a rule as values of JSON."""
    made: dict[str, Any] = {"name": rule.name, "filter": _filter_to_json(rule.filter)}
    if rule.action is not None:
        made["action"] = _sql_to_json(rule.action)
    if rule.created_at_ms:
        made["created_at_ms"] = rule.created_at_ms
    return made


def rule_from_json(stored: Mapping[str, Any]) -> Rule:
    """Return the rule that was stored."""
    action = stored.get("action")
    return Rule(
        stored["name"],
        _filter_from_json(stored["filter"]),
        None if action is None else SqlRuleAction(action["sql"], _values_from_json(action)),
        stored.get("created_at_ms", 0),
    )


def _filter_to_json(given: Filter) -> Any:
    match given:
        case TrueFilter():
            return True
        case FalseFilter():
            return False
        case SqlFilter():
            return _sql_to_json(given)
        case CorrelationFilter(properties=properties):
            texts = {name: getattr(given, name) for name in rules.SYSTEM_PROPERTIES}
            made = {name: text for name, text in texts.items() if text is not None}
            return {"correlation": made, **_values_to_json(properties)}


def _filter_from_json(stored: Any) -> Filter:
    if isinstance(stored, bool):
        return TrueFilter() if stored else FalseFilter()
    if "sql" in stored:
        return SqlFilter(stored["sql"], _values_from_json(stored))
    return CorrelationFilter(**stored["correlation"], properties=_values_from_json(stored))


def _sql_to_json(given: SqlFilter | SqlRuleAction) -> dict[str, Any]:
    return {"sql": given.sql_expression, **_values_to_json(given.parameters)}


def _values_to_json(values: Mapping[str, Value]) -> dict[str, Any]:
    made: dict[str, Any] = {name: _value_to_json(value) for name, value in values.items()}
    ints = sorted(name for name, value in values.items() if type(value) is Int)
    ticks = {name: value.ticks for name, value in values.items() if type(value) is Duration}
    moments = {
        name: value.written
        for name, value in values.items()
        if type(value) is Timestamp and value.written
    }
    # Beside the values, where programs before 0.11 do not look: they see a null for a duration.
    beside = {"ints": ints, "ticks": ticks, "moments": moments}
    return {"values": made, **{name: found for name, found in beside.items() if found}}


def _values_from_json(stored: Mapping[str, Any]) -> dict[str, Value]:
    made = {name: _value_from_json(value) for name, value in stored["values"].items()}
    ints = {name: Int(stored["values"][name]) for name in stored.get("ints", ())}
    durations = {name: Duration(ticks) for name, ticks in stored.get("ticks", {}).items()}
    moments = {
        name: Timestamp(stored["values"][name]["timestamp_ms"], written)
        for name, written in stored.get("moments", {}).items()
    }
    return {**made, **ints, **durations, **moments}


def _value_to_json(value: Value) -> Any:
    match value:
        case bytes():
            return {"binary": base64.b64encode(value).decode()}
        case UUID():
            return {"uuid": str(value)}
        case Timestamp(ms=ms):
            return {"timestamp_ms": ms}
        case Duration():
            return None
        case _:
            return value


def _value_from_json(stored: Any) -> Value:
    match stored:
        case {"binary": text}:
            return base64.b64decode(text)
        case {"uuid": text}:
            return UUID(text)
        case {"timestamp_ms": ms}:
            return Timestamp(ms)
        case _:
            return stored  # type: ignore[no-any-return]
