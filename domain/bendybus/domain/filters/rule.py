"""Rules as users describe them: a name, a filter, perhaps an action. `compiled` makes them run.

A description may be wrong until it is checked; whoever stores one calls `check` first.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bendybus.domain import bounds, limits
from bendybus.domain.errors import InvalidArgument, InvalidOperation, QuotaExceeded
from bendybus.domain.filters import conditions, values
from bendybus.domain.filters.conditions import CompiledFilter
from bendybus.domain.filters.values import Value
from bendybus.domain.filters.view import Changes, CompiledAction, MessageView, UserChange

# The rule that a subscription gets when it is made without one.
DEFAULT_NAME: Final = "$Default"
# The application property that names the rule whose action made the copy.
RULE_NAME_PROPERTY: Final = "RuleName"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")
_SQL_FILTER: Final = "filter.sqlExpression"
_SQL_ACTION: Final = "action.sqlExpression"


@dataclasses.dataclass(frozen=True, slots=True)
class TrueFilter:
    """Takes every message."""


@dataclasses.dataclass(frozen=True, slots=True)
class FalseFilter:
    """Takes no message."""


@dataclasses.dataclass(frozen=True, slots=True)
class SqlFilter:
    """Takes the messages for which a SQL expression is true. Parameters: by name, @ or not."""

    sql_expression: str
    parameters: Mapping[str, Value] = dataclasses.field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqlFilter) and _typed(self) == _typed(other)


@dataclasses.dataclass(frozen=True, slots=True)
class CorrelationFilter:
    """Takes the messages that have all these properties with these values. None: any value."""

    correlation_id: str | None = None
    message_id: str | None = None
    to: str | None = None
    reply_to: str | None = None
    label: str | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    content_type: str | None = None
    properties: Mapping[str, Value] = dataclasses.field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CorrelationFilter) and _typed(self) == _typed(other)


Filter = TrueFilter | FalseFilter | SqlFilter | CorrelationFilter


@dataclasses.dataclass(frozen=True, slots=True)
class SqlRuleAction:
    """Changes properties of the copy that the rule makes. Parameters as in SqlFilter."""

    sql_expression: str
    parameters: Mapping[str, Value] = dataclasses.field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqlRuleAction) and _typed(self) == _typed(other)


def _typed(described: SqlFilter | CorrelationFilter | SqlRuleAction) -> list[object]:
    """Return what makes two descriptions the same: 1, 1.0 and true are equal in Python only."""
    found = (getattr(described, field.name) for field in dataclasses.fields(described))
    return [
        {name: (type(value), value) for name, value in each.items()}
        if isinstance(each, Mapping)
        else each
        for each in found
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a subscription."""

    name: str
    filter: Filter = TrueFilter()
    action: SqlRuleAction | None = None
    # Set by the registrar.
    created_at_ms: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule that is ready to be evaluated."""

    rule: Rule
    filter: CompiledFilter
    action: CompiledAction | None

    def changes(self, view: MessageView) -> Changes:
        """Return how the copy of a rule with an action differs. Raises FilterError."""
        assert self.action is not None
        made = self.action.changes(view)
        name = UserChange(RULE_NAME_PROPERTY, self.rule.name)
        return Changes({**made.user, values.fold(RULE_NAME_PROPERTY): name}, made.system)


# Of each field of CorrelationFilter, the system property.
SYSTEM_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "correlation_id": "CorrelationId",
        "message_id": "MessageId",
        "to": "To",
        "reply_to": "ReplyTo",
        "label": "Label",
        "session_id": "SessionId",
        "reply_to_session_id": "ReplyToSessionId",
        "content_type": "ContentType",
    }
)


def check_name(name: str) -> None:
    """Raise InvalidArgument unless `name` can be a rule's name."""
    bounds.check_text("ruleName", name, limits.RULE_NAME_CHARS_MAX)
    if name.lower() != DEFAULT_NAME.lower() and not _NAME.match(name):
        raise InvalidArgument(
            "ruleName",
            f"{name!r} must have only letters, digits and . - _, and not only dots; "
            f"{DEFAULT_NAME} is the default rule.",
        )


def check_values(rule: Rule) -> None:
    """Raise InvalidArgument unless the values of a rule fit the contract. Compiles nothing."""
    match rule.filter:
        case SqlFilter():
            values.check_constants("filter.parameters", rule.filter.parameters)
        case CorrelationFilter():
            values.check_constants("filter.properties", rule.filter.properties)
        case _:
            pass
    if rule.action is not None:
        values.check_constants("action.parameters", rule.action.parameters)


def check(rule: Rule, *, partitioned: bool) -> None:
    """Raise unless a topic can have the rule: InvalidArgument, InvalidOperation, QuotaExceeded."""
    made = compiled(rule, partitioned=partitioned)
    _check_steps(_SQL_FILTER, made.filter.steps)
    _check_steps(_SQL_ACTION, 0 if made.action is None else made.action.steps)


def _check_steps(title: str, steps: int) -> None:
    if steps > limits.RULE_STEPS_MAX:
        raise QuotaExceeded(
            f"{title} may take {steps} steps for one message, of at most {limits.RULE_STEPS_MAX}: "
            "a LIKE with _ in its pattern counts 700, one whose pattern is computed 2000, "
            "property() 50. Use fewer of them, or divide the rule.",
            metadata={"field": title, "limit": str(limits.RULE_STEPS_MAX)},
        )


def compiled(rule: Rule, *, partitioned: bool) -> CompiledRule:
    """Return the rule, checked and ready to run. Raises InvalidArgument, InvalidOperation.

    In a partitioned topic, an action must not change what decides the partition of a message: the
    copy stays in the partition of the original.
    """
    check_name(rule.name)
    action = None if rule.action is None else _compiled_action(rule.action)
    if partitioned and action is not None and action.keys:
        raise InvalidOperation(
            f"{_SQL_ACTION}: the action sets {' and '.join(sorted(action.keys))}, which decides "
            "the partition of a message; in a partitioned topic no action can. Remove it from "
            "the action.",
            metadata={"field": _SQL_ACTION},
        )
    return CompiledRule(rule, compiled_filter(rule.filter), action)


def compiled_filter(filter_: Filter) -> CompiledFilter:
    """Return a filter, checked and ready to run. Raises InvalidArgument."""
    match filter_:
        case SqlFilter():
            given = _parameters("filter.parameters", filter_.parameters)
            return _sql_filter(filter_.sql_expression, _hashable(given))
        case CorrelationFilter():
            return _compiled_correlation(filter_)
        case TrueFilter():
            return conditions.EVERYTHING
        case FalseFilter():
            return conditions.NOTHING


def _compiled_action(action: SqlRuleAction) -> CompiledAction:
    given = _parameters("action.parameters", action.parameters)
    return _sql_action(action.sql_expression, _hashable(given))


# Parsing takes milliseconds, and a rule is compiled more than once: where it is checked, where it
# is decided on, and where it becomes part of an index. So a shell can also parse what the thread of
# a partition is about to need.
_Parameters = tuple[tuple[str, type, Value], ...]


@functools.lru_cache(limits.COMPILED_TEXTS_MAX)
def _sql_filter(text: str, parameters: _Parameters) -> CompiledFilter:
    # Here, because only a process that compiles SQL pays for importing the language.
    from bendybus.domain.filters import sql_text

    given = {name: value for name, _, value in parameters}
    return sql_text.compiled_filter(text, given, _SQL_FILTER)


@functools.lru_cache(limits.COMPILED_TEXTS_MAX)
def _sql_action(text: str, parameters: _Parameters) -> CompiledAction:
    from bendybus.domain.filters import sql_text

    given = {name: value for name, _, value in parameters}
    return sql_text.compiled_action(text, given, _SQL_ACTION)


def _hashable(given: Mapping[str, Value]) -> _Parameters:
    # With its type: 1, 1.0 and true are different values here, and equal as keys.
    return tuple((name, type(given[name]), given[name]) for name in sorted(given))


def _parameters(field: str, given: Mapping[str, Value]) -> dict[str, Value]:
    values.check_constants(field, given)
    return values.folded({name.removeprefix("@"): value for name, value in given.items()})


def _compiled_correlation(wanted: CorrelationFilter) -> CompiledFilter:
    system: dict[str, Value] = {}
    for field, name in SYSTEM_PROPERTIES.items():
        text = getattr(wanted, field)
        if text is not None:
            bounds.check_text(f"filter.{field}", text, limits.RULE_VALUE_LENGTH_MAX)
            system[name] = text
    values.check_constants("filter.properties", wanted.properties)
    for name, value in wanted.properties.items():
        if values.key(value) is None:
            raise InvalidArgument(
                "filter.properties", f"{name!r} must not be null or NaN: nothing is equal to it."
            )
    if not system and not wanted.properties:
        raise InvalidArgument(
            "filter", "a correlation filter must have at least one property. Use a true filter."
        )
    return conditions.of_values(system, values.folded(wanted.properties))
