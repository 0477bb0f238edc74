"""The rules of one subscription: what they may be together, and how one of them changes.

Names are unique without regard to case. Filters and actions are checked by compiling them, which
takes long for many: `check` compiles only those that differ from the ones that were checked before.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from bendybus.domain import limits, subscription_name
from bendybus.domain.errors import (
    EntityAlreadyExists,
    EntityNotFound,
    InvalidArgument,
    QuotaExceeded,
)
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters.rule import CorrelationFilter, Rule, SqlFilter

# What a subscription has that is created without rules.
DEFAULT: Final = (Rule(rules.DEFAULT_NAME),)


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
            raise InvalidArgument("rules", f"there are two with the name {each.name!r}.")
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


# Of a value that is neither text nor binary, and of a rule without its texts.
_FIXED_CHARS: Final = 16
