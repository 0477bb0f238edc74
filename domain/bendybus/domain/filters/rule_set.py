"""The rules of one subscription: what they may be together, how one changes, how they are stored.

Names are unique without regard to case. Filters and actions are checked by compiling them, which
takes long for many: `check` compiles only those that differ from the ones that were checked before.

The catalogue's entries hold rules as values of JSON. A value of JSON is itself; other kinds are
objects with one member that names the kind, and text.
"""

import base64
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from bendybus.domain import limits, subscription_name
from bendybus.domain.errors import (
    EntityAlreadyExists,
    EntityNotFound,
    InvalidArgument,
    QuotaExceeded,
)
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

# What a subscription has that is created without rules.
DEFAULT: Final = (Rule(rules.DEFAULT_NAME),)
# Of a value that is neither text nor binary, and of a rule without its texts.
_FIXED_CHARS: Final = 16


class RuleAction(StrEnum):
    """What happens to a rule."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclasses.dataclass(frozen=True, slots=True)
class RuleChange:
    """A change of one rule. Of a rule that is deleted, only its name counts."""

    action: RuleAction
    rule: Rule


def find(known: Iterable[Rule], name: str) -> Rule | None:
    """Return the rule of a name, None if there is none."""
    key = name.lower()
    return next((each for each in known if each.name.lower() == key), None)


def get(known: Iterable[Rule], name: str, subscription: str) -> Rule:
    """Return the rule of a name. Raises EntityNotFound."""
    found = find(known, name)
    if found is None:
        raise EntityNotFound(
            f"rule {name!r} of subscription {subscription!r} does not exist. List what exists: "
            f"bendybus get rules {_words(subscription)}.",
            metadata={"entity": subscription, "rule": name},
        )
    return found


def _words(subscription: str) -> str:
    """Return a subscription as commands take it: its topic and its name."""
    return " ".join(subscription_name.split(subscription) or (subscription,))


def changed(known: Sequence[Rule], change: RuleChange, subscription: str) -> tuple[Rule, ...]:
    """Return the rules after a change. Raises EntityAlreadyExists, EntityNotFound."""
    name = change.rule.name
    if change.action is RuleAction.CREATE:
        if find(known, name) is not None:
            raise EntityAlreadyExists(
                f"rule {name!r} of subscription {subscription!r} already exists. Choose another "
                "name, or update it.",
                metadata={"entity": subscription, "rule": name},
            )
        return (*known, change.rule)
    old = get(known, name, subscription)
    if change.action is RuleAction.DELETE:
        return tuple(each for each in known if each is not old)
    new = dataclasses.replace(change.rule, name=old.name, created_at_ms=old.created_at_ms)
    return tuple(new if each is old else each for each in known)


def stamped(wanted: Iterable[Rule], known: Iterable[Rule], now_ms: int) -> tuple[Rule, ...]:
    """Return rules with the time when each was created: now, unless one of its name is known."""
    since = {each.name.lower(): each.created_at_ms for each in known}
    return tuple(
        dataclasses.replace(each, created_at_ms=since.get(each.name.lower(), now_ms))
        for each in wanted
    )


def check(wanted: Sequence[Rule], known: Sequence[Rule], *, partitioned: bool) -> None:
    """Raise unless a subscription can have these rules; `known` ones were checked before."""
    check_bounds(wanted)
    checked = {each.name: each for each in known}
    for each in wanted:
        if checked.get(each.name) != each:
            rules.check(each, partitioned=partitioned)


def check_bounds(wanted: Sequence[Rule]) -> None:
    """Raise unless these are no more rules than a subscription can have, each of another name."""
    most = limits.RULES_PER_SUBSCRIPTION
    if len(wanted) > most:
        raise QuotaExceeded(
            f"a subscription can have at most {most} rules (got {len(wanted)}). Use more "
            "subscriptions, or filters that say more.",
            metadata={"limit": str(most)},
        )
    chars = sum(map(size, wanted))
    if chars > limits.RULE_CHARS_PER_SUBSCRIPTION:
        raise QuotaExceeded(
            f"the rules of a subscription can have at most {limits.RULE_CHARS_PER_SUBSCRIPTION} "
            f"characters together (got {chars}). Use more subscriptions.",
            metadata={"limit": str(limits.RULE_CHARS_PER_SUBSCRIPTION)},
        )
    names: set[str] = set()
    for each in wanted:
        if each.name.lower() in names:
            raise InvalidArgument(
                "rules", f"there are two with the name {each.name!r}; case does not count."
            )
        names.add(each.name.lower())


def size(rule: Rule) -> int:
    """Return about how many characters describe a rule."""
    count = len(rule.name) + _FIXED_CHARS
    named = [] if rule.action is None else [rule.action.parameters]
    if rule.action is not None:
        count += len(rule.action.sql_expression)
    match rule.filter:
        case SqlFilter(sql_expression=text, parameters=parameters):
            count += len(text)
            named.append(parameters)
        case CorrelationFilter(properties=properties):
            texts = (getattr(rule.filter, name) for name in rules.SYSTEM_PROPERTIES)
            count += sum(len(text) for text in texts if text is not None)
            named.append(properties)
        case _:
            pass
    for values in named:
        for name, value in values.items():
            count += len(name) + (len(value) if isinstance(value, str | bytes) else _FIXED_CHARS)
    return count


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
    ints = [name for name, value in values.items() if type(value) is Int]
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
