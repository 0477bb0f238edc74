"""Rules of subscriptions in the catalogue: how many there are, and what the registrar decides.

Called by `Catalogue` only. Each rule is compiled once, when it comes or changes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from bendybus.domain import errors, limits
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule, SqlFilter
from bendybus.domain.filters.rule_set import RuleChange
from bendybus.partition_server.state.commands import CommitEntity

_SQL: Final = "SQL filters"
_OTHER: Final = "correlation, true and false filters"
_ACTIONS: Final = "rules with an action"


class RuleCounts:
    """How many rules there are, by topic."""

    def __init__(self) -> None:
        # (key of the topic, what is counted) → how many.
        self._by_topic: Counter[tuple[str, str]] = Counter()
        self._total = 0
        self._chars = 0

    def count(self, subscription: Entity, change: int) -> None:
        """Note that a subscription exists from now on (1), or no longer does (-1)."""
        self._add(subscription.topic_key, _rules_of(subscription), change)

    def check_room(self, topic_key: str, old: tuple[Rule, ...], new: tuple[Rule, ...]) -> None:
        """Raise QuotaExceeded unless a subscription can have `new` rules instead of `old`."""
        before, after = Counter(_kinds(old)), Counter(_kinds(new))
        for kind, most in (
            (_SQL, limits.SQL_FILTERS_PER_TOPIC),
            (_OTHER, limits.CORRELATION_FILTERS_PER_TOPIC),
            (_ACTIONS, limits.ACTIONS_PER_TOPIC),
        ):
            count, more = self._by_topic[topic_key, kind], after[kind] - before[kind]
            if more > 0 and count + more > most:
                raise errors.QuotaExceeded(
                    f"the topic has {count} {kind}, of at most {most}. Remove rules that are no "
                    "longer needed.",
                    metadata={"limit": str(most)},
                )
        most = limits.RULES_PER_NAMESPACE
        if len(new) > len(old) and self._total + len(new) - len(old) > most:
            raise errors.QuotaExceeded(
                f"the namespace has {self._total} rules, of at most {most}. Remove rules that are "
                "no longer needed.",
                metadata={"limit": str(most)},
            )

        more, most = _chars(new) - _chars(old), limits.RULE_CHARS_PER_NAMESPACE
        if more > 0 and self._chars + more > most:
            raise errors.QuotaExceeded(
                f"the rules of the namespace have {self._chars} characters, of at most {most}. "
                "Remove rules that are no longer needed, or use shorter ones.",
                metadata={"limit": str(most)},
            )

    def _add(self, topic_key: str, rules: tuple[Rule, ...], change: int) -> None:
        for kind in _kinds(rules):
            self._by_topic[topic_key, kind] += change
            if not self._by_topic[topic_key, kind]:
                del self._by_topic[topic_key, kind]
        self._total += change * len(rules)
        self._chars += change * _chars(rules)


def in_manifest(command: CommitEntity, current: Entity | None) -> bool:
    """Whether the rules are a manifest's after a creation, an update or an adoption.

    They are if it has some, or the empty list; else they are the clients' to change.
    """
    if command.rule_change is not None:
        return current is not None and current.manifest_rules
    return command.origin is Origin.MANIFEST and "rules" in command.changes


def check_may_change(command: CommitEntity, current: Entity) -> None:
    """Raise ManagedByManifest when a client would change a rule that is in a manifest."""
    if current.manifest_rules and command.origin is not Origin.MANIFEST:
        raise errors.ManagedByManifest(
            f"{current.title}: its rules are in a manifest or Config.json and are changed only "
            "there: edit the file; or remove spec.rules (Config.json: Rules) from it, so that "
            "clients can change the rules.",
            metadata={"entity": current.name, "field": "rules"},
        )


def changed(subscription: Entity, change: RuleChange) -> SubscriptionDescription:
    """Return the description that a change of a rule leads to. Raises what refuses it."""
    described = subscription.description
    if not isinstance(described, SubscriptionDescription):
        raise errors.InvalidArgument("rule_change", f"{subscription.title} has no rules.")
    return replace(described, rules=rule_set.changed(described.rules, change, subscription.name))


def settled(
    wanted: SubscriptionDescription,
    current: Entity | None,
    *,
    counts: RuleCounts,
    topic: Entity,
    now_ms: int,
) -> SubscriptionDescription:
    """Return a description with its rules checked, each with the time of its creation.

    Raises InvalidArgument, InvalidOperation or QuotaExceeded. `current`: the subscription as it is.
    """
    known: Final = () if current is None else _rules_of(current)
    if wanted.rules is known:
        return wanted
    rule_set.check(wanted.rules, known, partitioned=topic.partitioned)
    counts.check_room(topic.key, known, wanted.rules)
    return replace(wanted, rules=rule_set.stamped(wanted.rules, known, now_ms))


def _kinds(rules: Iterable[Rule]) -> Iterator[str]:
    """Yield what each rule counts as."""
    for each in rules:
        yield _SQL if isinstance(each.filter, SqlFilter) else _OTHER
        if each.action is not None:
            yield _ACTIONS


def _chars(rules: tuple[Rule, ...]) -> int:
    return sum(map(rule_set.size, rules))


def _rules_of(subscription: Entity) -> tuple[Rule, ...]:
    described = subscription.description
    return described.rules if isinstance(described, SubscriptionDescription) else ()
