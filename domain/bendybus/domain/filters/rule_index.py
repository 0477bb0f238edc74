"""All rules of a topic, arranged so that a message meets only those that it may fit.

The conditions of a filter (each a property that equals a constant, in one order for all filters)
are a path in a tree of tables:

    root ─ color ─┬ "red"  ─ size ─┬ 1 ─ rules
                  │                └ 2 ─ rules
                  └ "blue" ─ rules

A message follows the paths that its properties open. So the cost is that of the rules whose
conditions it fits, and not of the others, however many there are; filters without a condition,
such as price > 5, are at the root and evaluated for every message.

Rules that have nothing to evaluate match wherever a message comes by, so the places that it comes
by, and the rules that were evaluated, name what it makes. The copies of a name are arranged once.
"""

import dataclasses
import itertools
from collections.abc import Hashable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from bendybus.domain import limits, steps
from bendybus.domain.errors import EntityAlreadyExists, EntityNotFound, QuotaExceeded
from bendybus.domain.filters import conditions, values
from bendybus.domain.filters.conditions import CompiledFilter, Condition
from bendybus.domain.filters.rule import CompiledRule, Rule, SqlFilter
from bendybus.domain.filters.values import FilterError
from bendybus.domain.filters.view import MessageView
from bendybus.domain.steps import Steps

# What names a subscription for the caller.
S = TypeVar("S", bound=Hashable)
# What looking at a filter or a place costs beside what is evaluated.
_LOOK_STEPS: Final = 2
# Names and copies that are kept arranged, for each rule and beside that.
_KNOWN_PER_RULE: Final = 2
_KNOWN_SPARE: Final = 100


class Copy(NamedTuple, Generic[S]):
    """A copy of a message that a subscription gets."""

    subscription: S
    # None: the message as it is. Else the rule whose `changes` the copy has.
    rule: CompiledRule | None


class Outcome(tuple[Copy[S], ...], Generic[S]):
    """The copies of a message; the same object for messages that make the same copies."""

    # What the caller derives from it; lives no longer than the rules stay as they are.
    arranged: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Failure(Generic[S]):
    """A filter that could not be evaluated; the other rules are not affected."""

    subscription: S
    rule: CompiledRule
    error: FilterError


@dataclasses.dataclass(frozen=True, slots=True)
class Matches(Generic[S]):
    """What becomes of a message, in the order in which the rules were added."""

    copies: Outcome[S]
    failures: tuple[Failure[S], ...] = ()


class RuleIndex(Generic[S]):
    """The rules of one topic, by subscription and name."""

    def __init__(self) -> None:
        self._entries: dict[S, dict[str, _Entry[S]]] = {}
        self._root: _Node[S] = _Node()
        self._orders: Final = itertools.count()
        # By places and evaluated rules that a message fits; and how many these and copies are.
        self._known: dict[tuple[_Node[S] | _Entry[S], ...], Outcome[S]] = {}
        self._known_size = 0
        self.sql_filter_count = 0
        self.correlation_filter_count = 0

    def add(self, subscription: S, rule: CompiledRule) -> None:
        """Add a rule. Raises EntityAlreadyExists, QuotaExceeded."""
        self._check_new(subscription, rule.rule.name)
        self._check_room(rule)
        self.put(subscription, rule)

    def put(self, subscription: S, rule: CompiledRule) -> None:
        """Add a rule that was accepted elsewhere, however many there are by now.

        Raises EntityAlreadyExists.
        """
        name = rule.rule.name
        self._check_new(subscription, name)
        entry = _Entry(next(self._orders), subscription, rule)
        self._entries.setdefault(subscription, {})[name] = entry
        self._count(rule, 1)
        if rule.filter is not conditions.NOTHING:
            _add(self._root, entry)
        self.forget_outcomes()

    def remove(self, subscription: S, name: str) -> Rule:
        """Remove a rule and return it. Raises EntityNotFound."""
        entries = self._entries.get(subscription, {})
        entry = entries.pop(name, None)
        if entry is None:
            raise EntityNotFound(f"rule {name!r} does not exist in subscription {subscription}.")
        if not entries:
            del self._entries[subscription]
        self._count(entry.rule, -1)
        if entry.rule.filter is not conditions.NOTHING:
            _remove(self._root, entry)
        self.forget_outcomes()
        return entry.rule.rule

    def remove_subscription(self, subscription: S) -> None:
        """Remove all rules of a subscription, if it has any."""
        for name in list(self._entries.get(subscription, ())):
            self.remove(subscription, name)

    def forget_outcomes(self) -> None:
        """Arrange all copies again: the rules, or something of a subscription, have changed."""
        self._known.clear()
        self._known_size = 0

    @property
    def count(self) -> int:
        """How many rules there are."""
        return self.sql_filter_count + self.correlation_filter_count

    def rules(self, subscription: S) -> list[CompiledRule]:
        """Return the rules of a subscription, in the order in which they were added."""
        return [entry.rule for entry in self._entries.get(subscription, {}).values()]

    def match(self, view: MessageView) -> Matches[S]:
        """Return the copies that a message makes: one for all rules without an action, one each.

        Never raises FilterError: a filter that fails is in `failures`. Raises what the view raises
        for properties that cannot be decoded.
        """
        return steps.whole(self.matching(view))

    def matching(self, view: MessageView) -> Steps[Matches[S]]:
        """Do what `match` does, in steps. The rules must not change before the last one."""
        name: list[_Node[S] | _Entry[S]] = []
        failed: list[tuple[int, Failure[S]]] = []
        cost = 0
        for node in _open(self._root, view):
            if node.certain:
                name.append(node)
            for entry in node.evaluated.values():
                cost += _LOOK_STEPS + entry.rule.filter.steps
                if cost >= steps.STOP_STEPS:
                    yield
                    cost = 0
                try:
                    if entry.rule.filter.rest_matches(view):
                        name.append(entry)
                except FilterError as error:
                    failed.append((entry.order, Failure(entry.subscription, entry.rule, error)))
            cost += _LOOK_STEPS
            if cost >= steps.STOP_STEPS:
                yield
                cost = 0
        copies = self._known.get(tuple(name))
        if copies is None:
            copies = yield from self._arrange(tuple(name))
        if not failed:
            return Matches(copies)
        failed.sort(key=lambda each: each[0])
        return Matches(copies, tuple(failure for _, failure in failed))

    def _arrange(self, name: "tuple[_Node[S] | _Entry[S], ...]") -> Steps[Outcome[S]]:
        """Put the copies of all rules that match in order, and keep them."""
        found: list[_Entry[S]] = []
        cost = 0
        for each in name:
            for entry in (each,) if isinstance(each, _Entry) else each.certain.values():
                found.append(entry)
                cost += _LOOK_STEPS
                if cost >= steps.STOP_STEPS:
                    cost = 0
                    yield
        found.sort(key=_order_of)
        made = Outcome(_copies(found))
        # In proportion to the rules themselves.
        if self._known_size > _KNOWN_PER_RULE * self.count + _KNOWN_SPARE:
            self.forget_outcomes()
        self._known[name] = made
        self._known_size += 1 + len(name) + len(made)
        return made

    def _check_new(self, subscription: S, name: str) -> None:
        if name in self._entries.get(subscription, ()):
            raise EntityAlreadyExists(
                f"rule {name!r} exists already in subscription {subscription}. "
                "Choose another name, or remove it first."
            )

    def _check_room(self, rule: CompiledRule) -> None:
        if isinstance(rule.rule.filter, SqlFilter):
            count, most, kind = self.sql_filter_count, limits.SQL_FILTERS_PER_TOPIC, "SQL filters"
        else:
            count, most = self.correlation_filter_count, limits.CORRELATION_FILTERS_PER_TOPIC
            kind = "correlation, true and false filters"
        if count >= most:
            raise QuotaExceeded(
                f"the topic has {count} {kind}, of at most {most}. Remove rules that are no "
                "longer needed.",
                metadata={"limit": str(most)},
            )

    def _count(self, rule: CompiledRule, change: int) -> None:
        if isinstance(rule.rule.filter, SqlFilter):
            self.sql_filter_count += change
        else:
            self.correlation_filter_count += change


class _Entry(Generic[S]):
    __slots__ = ("order", "rule", "subscription")

    def __init__(self, order: int, subscription: S, rule: CompiledRule) -> None:
        self.order = order
        self.subscription = subscription
        self.rule = rule


class _Node(Generic[S]):
    """A place in the tree. Tables: property → key of its value → next place."""

    __slots__ = ("certain", "evaluated", "system", "user")

    def __init__(self) -> None:
        # Rules that match here, and those with a rest to evaluate; by order.
        self.certain: dict[int, _Entry[S]] = {}
        self.evaluated: dict[int, _Entry[S]] = {}
        self.system: dict[str, dict[Hashable, _Node[S]]] = {}
        self.user: dict[str, dict[Hashable, _Node[S]]] = {}

    def tables(self, condition: Condition) -> "dict[str, dict[Hashable, _Node[S]]]":
        return self.system if condition.system else self.user

    def entries(self, compiled: CompiledFilter) -> "dict[int, _Entry[S]]":
        return self.certain if compiled.rest is None else self.evaluated

    @property
    def is_empty(self) -> bool:
        return not (self.certain or self.evaluated or self.system or self.user)


def _add(root: _Node[S], entry: _Entry[S]) -> None:
    node = root
    for condition in entry.rule.filter.conditions:
        table = node.tables(condition).setdefault(condition.name, {})
        found = table.get(condition.key)
        if found is None:
            found = table[condition.key] = _Node()
        node = found
    node.entries(entry.rule.filter)[entry.order] = entry


def _remove(root: _Node[S], entry: _Entry[S]) -> None:
    node, way = root, list[tuple[_Node[S], Condition]]()
    for condition in entry.rule.filter.conditions:
        way.append((node, condition))
        node = node.tables(condition)[condition.name][condition.key]
    del node.entries(entry.rule.filter)[entry.order]
    for above, condition in reversed(way):
        if not node.is_empty:
            return
        tables = above.tables(condition)
        del tables[condition.name][condition.key]
        if not tables[condition.name]:
            del tables[condition.name]
        node = above


def _open(root: _Node[S], view: MessageView) -> Iterator[_Node[S]]:
    """Yield the places whose conditions a message fits."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        for name, table in node.system.items():
            value = view.system(name)
            if value is not None and (found := table.get(values.key(value))) is not None:
                waiting.append(found)
        if not node.user:
            continue
        user = view.user
        # From the smaller side: neither many tables nor many properties may make it slow.
        names = node.user if len(node.user) <= len(user) else user
        for name in names:
            value = user.get(name)
            if value is not None and name in node.user:
                found = node.user[name].get(values.key(value))
                if found is not None:
                    waiting.append(found)


def _copies(found: list[_Entry[S]]) -> Iterator[Copy[S]]:
    plain: set[S] = set()
    for entry in found:
        if entry.rule.action is not None:
            yield Copy(entry.subscription, entry.rule)
        elif entry.subscription not in plain:
            plain.add(entry.subscription)
            yield Copy(entry.subscription, None)


def _order_of(entry: _Entry[S]) -> int:
    return entry.order
