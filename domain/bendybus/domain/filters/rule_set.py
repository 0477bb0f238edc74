"""The rules of one subscription: what they may be together, and how one changes.

Names are unique without regard to case. Filters and actions are checked by compiling them, which
takes long for many: `check` compiles only those that differ from the ones that were checked before.

A subscription may have 2,000 rules, and they change one at a time. So a `RuleSet` knows what it
counts to limits, its rules by name and its stored form, and a changed one gets them from it: a
change costs a copy of some lists, and nothing else for the rules that stay.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple

from bendybus.domain import limits, subscription_name
from bendybus.domain.errors import (
    EntityAlreadyExists,
    EntityNotFound,
    InvalidArgument,
    QuotaExceeded,
)
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters import rule_json
from bendybus.domain.filters.rule import CorrelationFilter, Rule, SqlFilter

_DIGEST_BYTES: Final = 8
_DIGEST_MASK: Final = 2 ** (8 * _DIGEST_BYTES) - 1
# Of a value that is neither text nor binary, and of a rule without its texts.
_FIXED_CHARS: Final = 16


class Figures(NamedTuple):
    """Rules in figures, for the limits of subscriptions, topics and namespaces."""

    rules: int = 0
    sql_filters: int = 0
    correlation_filters: int = 0
    actions: int = 0
    chars: int = 0

    @property
    def others(self) -> int:
        """Filters that are no SQL: correlation, true and false filters."""
        return self.rules - self.sql_filters

    def plus(self, other: "Figures", sign: int = 1) -> "Figures":
        """Return the sum; with `sign` -1 the difference."""
        return Figures(*(mine + sign * theirs for mine, theirs in zip(self, other, strict=True)))

    def with_rule(self, rule: Rule, sign: int = 1) -> "Figures":
        """Return the figures with a rule; with `sign` -1: without it."""
        return Figures(
            self.rules + sign,
            self.sql_filters + sign * isinstance(rule.filter, SqlFilter),
            self.correlation_filters + sign * isinstance(rule.filter, CorrelationFilter),
            self.actions + sign * (rule.action is not None),
            self.chars + sign * size(rule),
        )


class RuleSet(tuple[Rule, ...]):
    """The rules of a subscription, in their order. Equal to a tuple of the same rules."""

    # The mark of the set that this one was made from by one change, and what the change took out
    # and put in.
    made_from: "tuple[object, list[Rule], list[Rule]] | None" = None

    @cached_property
    def mark(self) -> object:
        """An object that names this set, so that a set made from it need not keep it."""
        return object()

    @cached_property
    def figures(self) -> Figures:
        """The rules in figures."""
        figures = Figures()
        for each in self:
            figures = figures.with_rule(each)
        return figures

    @cached_property
    def by_name(self) -> dict[str, Rule]:
        """Each by its name in lower case."""
        return {each.name.lower(): each for each in self}

    @cached_property
    def texts(self) -> list[str]:
        """The stored form of each, as JSON."""
        return [json.dumps(rule_json.rule_to_json(each)) for each in self]

    @cached_property
    def digest(self) -> int:
        """A number of 64 bits that tells it from sets of other rules, whatever their order."""
        return sum(map(_digest, self)) & _DIGEST_MASK

    def __reduce__(self) -> Any:
        """Pickle the rules alone."""
        return RuleSet, (tuple(self),)

    def with_rule(self, rule: Rule) -> "RuleSet":
        """Return the set with a rule whose name it does not have, at its end."""
        return self._changed(len(self), None, rule)

    def replaced(self, old: Rule, new: Rule) -> "RuleSet":
        """Return the set with a rule in the place of one that it has, of the same name."""
        return self._changed(self._place(old), old, new)

    def without(self, old: Rule) -> "RuleSet":
        """Return the set without a rule that it has."""
        return self._changed(self._place(old), old, None)

    def _place(self, rule: Rule) -> int:
        # By identity: comparing rules costs more than looking at all of them.
        return list(map(id, self)).index(id(rule))

    def _changed(self, place: int, old: Rule | None, new: Rule | None) -> "RuleSet":
        after = place if old is None else place + 1
        come = () if new is None else (new,)
        made = RuleSet((*self[:place], *come, *self[after:]))
        figures = self.figures if old is None else self.figures.with_rule(old, -1)
        made.figures = figures if new is None else figures.with_rule(new)
        made.made_from = (self.mark, [] if old is None else [old], list(come))
        made.by_name = dict(self.by_name)
        if new is not None:
            made.by_name[new.name.lower()] = new
        elif old is not None:
            del made.by_name[old.name.lower()]
        if "digest" in self.__dict__:
            changed = sum(map(_digest, come)) - (0 if old is None else _digest(old))
            made.digest = (self.digest + changed) & _DIGEST_MASK
        if "texts" in self.__dict__:
            texts = [json.dumps(rule_json.rule_to_json(each)) for each in come]
            made.texts = [*self.texts[:place], *texts, *self.texts[after:]]
        return made


def _digest(rule: Rule) -> int:
    # Maps of protobuf arrive in any order.
    text = json.dumps(rule_json.rule_to_json(rule), sort_keys=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest(), "big")


def of(given: Iterable[Rule]) -> RuleSet:
    """Return rules as a set, with what is known of them already."""
    return given if isinstance(given, RuleSet) else RuleSet(given)


# The rules of a subscription that is created without any.
DEFAULT: Final = RuleSet((Rule(rules.DEFAULT_NAME),))


def difference(old: Sequence[Rule], new: Sequence[Rule]) -> tuple[list[Rule], list[Rule]]:
    """Return the rules that only `old` has, and those that only `new` has, as objects.

    Rules that stay are the same objects, unless all were read again.
    """
    if isinstance(new, RuleSet) and isinstance(old, RuleSet) and new.made_from is not None:
        mark, gone, come = new.made_from
        if mark is old.mark:
            return gone, come
    before, after = set(map(id, old)), set(map(id, new))
    if before == after:
        return [], []
    gone = [each for each in old if id(each) not in after]
    return gone, [each for each in new if id(each) not in before]


class RulesEdit(NamedTuple):
    """How the rules of a subscription became others, where few of many changed."""

    # By name.
    removed: tuple[str, ...]
    # Each in the place of the one with its name.
    replaced: tuple[Rule, ...]
    # In this order, after all others.
    added: tuple[Rule, ...]


# The most rules in an edit; a larger change travels as all rules.
EDIT_RULES_MAX: Final = 16


def edit_between(old: RuleSet, new: RuleSet) -> RulesEdit | None:
    """Return the edit that makes `new` of `old`; None: it would name too many, or none does."""
    gone, come = difference(old, new)
    if len(gone) + len(come) > EDIT_RULES_MAX:
        return None
    gone_names, come_names = {each.name for each in gone}, {each.name for each in come}
    edit = RulesEdit(
        tuple(each.name for each in gone if each.name not in come_names),
        tuple(each for each in come if each.name in gone_names),
        tuple(each for each in come if each.name not in gone_names),
    )
    # Rules may have changed their order.
    return edit if list(map(id, edited(old, edit))) == list(map(id, new)) else None


def edited(known: RuleSet, edit: RulesEdit) -> RuleSet:
    """Return the rules after an edit; a part of it that was done before is not done again."""
    for name in edit.removed:
        old = find(known, name)
        known = known if old is None else known.without(old)
    for each in (*edit.replaced, *edit.added):
        old = find(known, each.name)
        known = known.with_rule(each) if old is None else known.replaced(old, each)
    return known


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


def find(known: RuleSet, name: str) -> Rule | None:
    """Return the rule of a name, None if there is none."""
    return known.by_name.get(name.lower())


def get(known: RuleSet, name: str, subscription: str) -> Rule:
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


def changed(known: RuleSet, change: RuleChange, subscription: str) -> RuleSet:
    """Return the rules after a change; those that it does not name are the same objects.

    Raises EntityAlreadyExists, EntityNotFound.
    """
    name = change.rule.name
    if change.action is RuleAction.CREATE:
        if find(known, name) is not None:
            raise EntityAlreadyExists(
                f"rule {name!r} of subscription {subscription!r} already exists. Choose another "
                "name, or update it.",
                metadata={"entity": subscription, "rule": name},
            )
        return known.with_rule(change.rule)
    old = get(known, name, subscription)
    if change.action is RuleAction.DELETE:
        return known.without(old)
    new = dataclasses.replace(change.rule, name=old.name, created_at_ms=old.created_at_ms)
    return known.replaced(old, new)


def stamped(wanted: Iterable[Rule], known: Iterable[Rule], now_ms: int) -> RuleSet:
    """Return rules with the time when each was created: now, unless one of its name is known."""
    since = {name: each.created_at_ms for name, each in of(known).by_name.items()}
    return RuleSet(
        dataclasses.replace(each, created_at_ms=since.get(each.name.lower(), now_ms))
        for each in wanted
    )


def check(wanted: Iterable[Rule], known: Iterable[Rule], *, partitioned: bool) -> None:
    """Raise unless a subscription can have these rules; `known` ones were checked before."""
    rules_wanted = of(wanted)
    check_bounds(rules_wanted)
    checked = {each.name: each for each in known}
    for each in rules_wanted:
        if checked.get(each.name) != each:
            rules.check(each, partitioned=partitioned)


def check_bounds(given: Iterable[Rule]) -> None:
    """Raise unless these are no more rules than a subscription can have, each of another name."""
    wanted = of(given)
    most, figures = limits.RULES_PER_SUBSCRIPTION, wanted.figures
    if figures.rules > most:
        raise QuotaExceeded(
            f"a subscription can have at most {most} rules (got {figures.rules}). Use more "
            "subscriptions, or filters that say more.",
            metadata={"limit": str(most)},
        )
    if figures.chars > limits.RULE_CHARS_PER_SUBSCRIPTION:
        raise QuotaExceeded(
            f"the rules of a subscription can have at most {limits.RULE_CHARS_PER_SUBSCRIPTION} "
            f"characters together (got {figures.chars}). Use more subscriptions.",
            metadata={"limit": str(limits.RULE_CHARS_PER_SUBSCRIPTION)},
        )
    if len(wanted.by_name) == figures.rules:
        return
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
