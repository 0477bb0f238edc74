"""Rules of subscriptions ↔ protobuf."""

from collections.abc import Iterable, Mapping
from typing import Final

from bendybus.domain import bounds, limits
from bendybus.domain.errors import InvalidArgument
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
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.filters.values import Value
from bendybus.internal.v1 import entity_pb2
from bendybus.v1 import management_pb2, message_pb2
from bendybus.wire import message_properties

_ACTION_TO_WIRE: Final = {
    RuleAction.CREATE: entity_pb2.RuleChange.CREATE,
    RuleAction.UPDATE: entity_pb2.RuleChange.UPDATE,
    RuleAction.DELETE: entity_pb2.RuleChange.DELETE,
}
_ACTION_FROM_WIRE: Final = {wire: action for action, wire in _ACTION_TO_WIRE.items()}


def set_to_proto(given: Iterable[Rule]) -> management_pb2.RuleSet:
    """Return the rules of a subscription."""
    return management_pb2.RuleSet(rules=[to_proto(each) for each in given])


def set_from_proto(proto: management_pb2.RuleSet) -> tuple[Rule, ...]:
    """Return the rules of a subscription. Raises InvalidArgument for too many or a bad one."""
    bounds.check_number("rules", len(proto.rules), limits.RULES_PER_SUBSCRIPTION)
    return tuple(from_proto(each) for each in proto.rules)


def to_proto(rule: Rule) -> management_pb2.Rule:
    """Return a rule as it travels."""
    made = management_pb2.Rule(name=rule.name, created_at_ms=rule.created_at_ms)
    match rule.filter:
        case TrueFilter():
            made.boolean_filter = True
        case FalseFilter():
            made.boolean_filter = False
        case SqlFilter(sql_expression=text, parameters=parameters):
            made.sql_filter.sql_expression = text
            _set_values(made.sql_filter.parameters, parameters)
        case CorrelationFilter(properties=properties):
            # Also of a filter without any text, which is refused by name.
            made.correlation_filter.SetInParent()
            for field in rules.SYSTEM_PROPERTIES:
                text = getattr(rule.filter, field)
                if text is not None:
                    setattr(made.correlation_filter, field, text)
            _set_values(made.correlation_filter.properties, properties)
    if rule.action is not None:
        made.action.sql_expression = rule.action.sql_expression
        _set_values(made.action.parameters, rule.action.parameters)
    return made


def from_proto(proto: management_pb2.Rule) -> Rule:
    """Return the rule that `proto` carries, not checked. Raises InvalidArgument."""
    action = None
    if proto.HasField("action"):
        action = SqlRuleAction(
            proto.action.sql_expression, _values("action.parameters", proto.action.parameters)
        )
    bounds.check_number("created_at", proto.created_at_ms, bounds.TIME_MS_MAX)
    return Rule(proto.name, _filter(proto), action, proto.created_at_ms)


def change_to_proto(change: RuleChange) -> entity_pb2.RuleChange:
    """Return a change of a rule as it travels to the registrar."""
    return entity_pb2.RuleChange(kind=_ACTION_TO_WIRE[change.action], rule=to_proto(change.rule))


def change_from_proto(proto: entity_pb2.RuleChange) -> RuleChange:
    """Return the change of a rule. Raises InvalidArgument for an unknown kind."""
    action = _ACTION_FROM_WIRE.get(proto.kind)
    if action is None:
        raise InvalidArgument("rule_change", f"unknown kind {proto.kind}; a later version has it.")
    return RuleChange(action, from_proto(proto.rule))


def _filter(proto: management_pb2.Rule) -> Filter:
    match proto.WhichOneof("filter"):
        case "sql_filter":
            sql = proto.sql_filter
            return SqlFilter(sql.sql_expression, _values("filter.parameters", sql.parameters))
        case "correlation_filter":
            wanted = proto.correlation_filter
            texts = {
                name: getattr(wanted, name)
                for name in rules.SYSTEM_PROPERTIES
                if wanted.HasField(name)
            }
            return CorrelationFilter(
                **texts, properties=_values("filter.properties", wanted.properties)
            )
        case "boolean_filter":
            return TrueFilter() if proto.boolean_filter else FalseFilter()
        case _:
            raise InvalidArgument(
                "filter", "is missing, or of a kind that this version does not know."
            )


def _values(field: str, given: Mapping[str, message_pb2.Value]) -> dict[str, Value]:
    bounds.check_number(field, len(given), limits.RULE_VALUES_MAX)
    return {name: message_properties.from_value(value) for name, value in given.items()}


def _set_values(entries: object, given: Mapping[str, Value]) -> None:
    for name, value in given.items():
        entries[name].CopyFrom(message_properties.to_value(value))  # type: ignore[index]
