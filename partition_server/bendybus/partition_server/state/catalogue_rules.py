"""Rules of subscriptions in the catalogue: how many there are, and what the registrar decides.

Called by `Catalogue` only. Each rule is compiled once, when it comes or changes.
"""

from dataclasses import replace
from typing import Final

from bendybus.domain import entity as entities
from bendybus.domain import errors, limits
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule_set import Figures, RuleAction, RuleChange, RuleSet
from bendybus.partition_server.state.commands import CommitEntity

_SQL: Final = "SQL filters"
_OTHER: Final = "correlation, true and false filters"
_ACTIONS: Final = "rules with an action"


class RuleCounts:
    """How many rules there are, by topic and in all."""

    def __init__(self) -> None:
        # By the key of the topic.
        self._by_topic: dict[str, Figures] = {}
        self._total = Figures()

    def count(self, subscription: Entity, change: int) -> None:
        """Note that a subscription exists from now on (1), or no longer does (-1)."""
        key, figures = subscription.topic_key, entities.rules_of(subscription).figures
        self._total = self._total.plus(figures, change)
        of_topic = self._by_topic.get(key, Figures()).plus(figures, change)
        if of_topic.rules:
            self._by_topic[key] = of_topic
        else:
            self._by_topic.pop(key, None)

    def check_room(self, topic_key: str, old: RuleSet, new: RuleSet) -> None:
        """Raise QuotaExceeded unless a subscription can have `new` rules instead of `old`."""
        more, known = new.figures.plus(old.figures, -1), self._by_topic.get(topic_key, Figures())
        for kind, count, added, most in (
            (_SQL, known.sql_filters, more.sql_filters, limits.SQL_FILTERS_PER_TOPIC),
            (_OTHER, known.others, more.others, limits.CORRELATION_FILTERS_PER_TOPIC),
            (_ACTIONS, known.actions, more.actions, limits.ACTIONS_PER_TOPIC),
        ):
            if added > 0 and count + added > most:
                raise errors.QuotaExceeded(
                    f"the topic has {count} {kind}, of at most {most}. Remove rules that are no "
                    "longer needed.",
                    metadata={"limit": str(most)},
                )
        count, most = self._total.rules, limits.RULES_PER_NAMESPACE
        if more.rules > 0 and count + more.rules > most:
            raise errors.QuotaExceeded(
                f"the namespace has {count} rules, of at most {most}. Remove rules that are "
                "no longer needed.",
                metadata={"limit": str(most)},
            )
        count, most = self._total.chars, limits.RULE_CHARS_PER_NAMESPACE
        if more.chars > 0 and count + more.chars > most:
            raise errors.QuotaExceeded(
                f"the rules of the namespace have {count} characters, of at most {most}. "
                "Remove rules that are no longer needed, or use shorter ones.",
                metadata={"limit": str(most)},
            )


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


def changed(
    subscription: Entity, change: RuleChange, *, counts: RuleCounts, now_ms: int
) -> SubscriptionDescription:
    """Return the description that a change of a rule leads to. Raises what refuses it."""
    described = subscription.description
    if not isinstance(described, SubscriptionDescription):
        raise errors.InvalidArgument("rule_change", f"{subscription.title} has no rules.")
    change = replace(change, rule=replace(change.rule, created_at_ms=now_ms))
    wanted = rule_set.changed(described.rules, change, subscription.name)
    rule_set.check_bounds(wanted)
    if change.action is not RuleAction.DELETE:
        new = rule_set.get(wanted, change.rule.name, subscription.name)
        rules.check(new, partitioned=subscription.partitioned)
    counts.check_room(subscription.topic_key, described.rules, wanted)
    return replace(described, rules=wanted)


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
    known: Final = RuleSet() if current is None else entities.rules_of(current)
    if wanted.rules is known:
        return wanted
    rule_set.check(wanted.rules, known, partitioned=topic.partitioned)
    counts.check_room(topic.key, known, wanted.rules)
    return replace(wanted, rules=rule_set.stamped(wanted.rules, known, now_ms))
