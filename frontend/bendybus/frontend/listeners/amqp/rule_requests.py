"""Requests about the rules of a subscription, and rules as AMQP describes them.

rule-description   0x137_0000_0004   [filter, action, name]
empty-rule-action  0x137_0000_0005   []
sql-rule-action    0x137_0000_0006   [expression, compatibility level]
sql-filter         0x137_000_0006    [expression, compatibility level]
true-filter        0x137_000_0007    []
false-filter       0x137_000_0008    []
correlation-filter 0x137_000_0009    [eight properties, map of application properties]
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from bendybus.amqp import encoding
from bendybus.amqp.values import Described, EncodedValue, Int, Ulong
from bendybus.domain import bounds, errors, limits
from bendybus.domain.entity import Entity, rules_of
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from bendybus.domain.filters.rule_set import RuleAction
from bendybus.domain.filters.values import Value
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota.bounds import RULES_A_TURN
from bendybus.frontend.listeners.amqp import amqp_values
from bendybus.frontend.listeners.amqp.fields import Fields
from bendybus.v1 import message_pb2
from bendybus.wire import message_properties

_RULE: Final = Ulong(0x13700000004)
_NO_ACTION: Final = Ulong(0x13700000005)
_SQL_ACTION: Final = Ulong(0x13700000006)
_SQL_FILTER: Final = Ulong(0x1370000006)
_TRUE_FILTER: Final = Ulong(0x1370000007)
_FALSE_FILTER: Final = Ulong(0x1370000008)
_CORRELATION_FILTER: Final = Ulong(0x1370000009)
# Of the SQL dialect, as the service reports it.
_COMPATIBILITY: Final = Int(20)
# In the order of the described list; fields of CorrelationFilter.
_PROPERTIES: Final = (
    "correlation_id",
    "message_id",
    "to",
    "reply_to",
    "label",
    "session_id",
    "reply_to_session_id",
    "content_type",
)


async def add(front_end: FrontEnd, path: str, fields: Fields) -> dict[str, Any]:
    """Create a rule."""
    subscription = _subscription(front_end, path)
    await front_end.manager.change_rule(subscription, RuleAction.CREATE, rule_of(fields))
    return {}


def rule_of(fields: Fields) -> Rule:
    """Return the rule that a request describes. Raises InvalidArgument."""
    described = Fields(fields.required("rule-description", dict))
    return Rule(fields.required("rule-name", str), _filter(described), _action(described))


async def remove(front_end: FrontEnd, path: str, fields: Fields) -> dict[str, Any]:
    """Delete a rule."""
    rule = Rule(fields.required("rule-name", str))
    subscription = _subscription(front_end, path)
    await front_end.manager.change_rule(subscription, RuleAction.DELETE, rule)
    return {}


async def listed(front_end: FrontEnd, path: str, fields: Fields) -> dict[str, Any] | None:
    """Return rules by name, from `skip` on, at most `top`.

    All of them if that is asked for, as the SDK for Java does: it asks once.
    """
    skip, top = fields.required("skip", int), fields.required("top", int)
    rules = rules_of(_subscription(front_end, path))
    found = sorted(rules, key=lambda rule: rule.name.lower())
    made: list[EncodedValue] = []
    for rule in found[max(0, skip) :][: max(0, top)]:
        made.append(EncodedValue(encoding.encode({"rule-description": _described(rule)})))
        if not len(made) % RULES_A_TURN:
            await asyncio.sleep(0)
    return {"rules": made} if made else None


def _subscription(front_end: FrontEnd, path: str) -> Entity:
    return front_end.directory.find(path, EntityKind.SUBSCRIPTION)


def _filter(described: Fields) -> Filter:
    sql = described.optional("sql-filter", dict)
    if sql is not None:
        return SqlFilter(Fields(sql).required("expression", str))
    correlation = described.optional("correlation-filter", dict)
    if correlation is None:
        raise errors.InvalidArgument(
            "rule-description", "must have a sql-filter or a correlation-filter."
        )
    wanted = Fields(correlation)
    texts = {name: wanted.optional(name.replace("_", "-"), str) for name in _PROPERTIES}
    return CorrelationFilter(**texts, properties=_values(wanted.optional("properties", dict) or {}))


def _action(described: Fields) -> SqlRuleAction | None:
    """Return the action of a rule. An empty one is none: some clients write it for each rule."""
    action = described.optional("sql-rule-action", dict)
    expression = Fields(action).optional("expression", str) if action else ""
    return SqlRuleAction(expression) if expression else None


def _values(given: Mapping[Any, Any]) -> dict[str, Value]:
    bounds.check_number("properties", len(given), limits.RULE_VALUES_MAX)
    made: dict[str, Value] = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise errors.InvalidArgument("properties", f"a name must be a string (got {name!r}).")
        proto = message_pb2.Value()
        amqp_values.fill(proto, value, 0)
        made[str(name)] = message_properties.from_rule_value(proto)
    return made


def _described(rule: Rule) -> Described:
    if rule.action is None:
        action = Described(_NO_ACTION, [])
    else:
        action = Described(_SQL_ACTION, [rule.action.sql_expression, _COMPATIBILITY])
    return Described(_RULE, [_described_filter(rule.filter), action, rule.name])


def _described_filter(given: Filter) -> Described:
    if isinstance(given, TrueFilter):
        return Described(_TRUE_FILTER, [])
    if isinstance(given, FalseFilter):
        return Described(_FALSE_FILTER, [])
    if isinstance(given, SqlFilter):
        return Described(_SQL_FILTER, [given.sql_expression, _COMPATIBILITY])
    properties = {
        name: amqp_values.from_value(message_properties.to_value(value))
        for name, value in given.properties.items()
    }
    texts = [getattr(given, name) for name in _PROPERTIES]
    return Described(_CORRELATION_FILTER, [*texts, properties])
