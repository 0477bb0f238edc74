"""The rules of every topic, compiled and arranged by topic; follows the catalogue.

Only subscriptions that take messages are in an index: not orphans, not disabled ones. It changes
at the commit of the entry, so that a publish meets the rules of the generation that it names.
"""

from collections.abc import Iterable
from typing import Final

from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.errors import BusError
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters.conditions import CompiledFilter
from bendybus.domain.filters.rule import CompiledRule, Rule
from bendybus.domain.filters.rule_index import RuleIndex
from bendybus.domain.filters.values import FilterError
from bendybus.domain.filters.view import MessageView

# How long the size of a topic is taken for what it was, with what was published since.
SIZE_MS: Final = 1_000


class Topic:
    """One topic: its rules, by UID of the subscription, and its size as it was measured last."""

    def __init__(self) -> None:
        self.index: RuleIndex[str] = RuleIndex()
        # Rises with each change of a subscription.
        self.version = 0
        self.size_bytes = 0
        self.measured_mono_ms = -SIZE_MS


class Topics:
    """The topics of a partition, by key."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        # Subscription → its topic's key.
        self._topic_of: dict[str, str] = {}

    def of(self, topic: Entity) -> Topic:
        """Return a topic, which may have no subscriptions."""
        return self._topics.setdefault(topic.key, Topic())

    def open(self, entities: Iterable[Entity]) -> None:
        """Take the subscriptions that the file has."""
        for entity in entities:
            self.put(entity)

    def put(self, entity: Entity) -> None:
        """Take an entry as it is from now on."""
        if entity.deleted:
            self.drop(entity.uid)
            if entity.kind is EntityKind.TOPIC:
                self._topics.pop(entity.key, None)
            return
        if not isinstance(entity.description, SubscriptionDescription):
            return
        takes = not entity.orphaned and entity.description.status.sends
        self._replace(entity, entity.description.rules if takes else ())

    def drop(self, uid: str) -> None:
        """Forget a subscription that was deleted, if it is one."""
        topic = self._topics.get(self._topic_of.pop(uid, ""))
        if topic is not None:
            topic.version += 1
            topic.index.remove_subscription(uid)

    def _replace(self, entity: Entity, wanted: tuple[Rule, ...]) -> None:
        """Change what differs: most changes are of one rule among many."""
        self._topic_of[entity.uid] = entity.topic_key
        topic = self._topics.setdefault(entity.topic_key, Topic())
        topic.version += 1
        index = topic.index
        known = {each.rule.name: each.rule for each in index.rules(entity.uid)}
        names = {each.name for each in wanted}
        for name in known:
            if name not in names:
                index.remove(entity.uid, name)
        for each in wanted:
            # By its text: 1, 1.0 and true are equal, and not the same.
            old = known.get(each.name)
            if old is each or (old == each and repr(old) == repr(each)):
                continue
            if old is not None:
                index.remove(entity.uid, each.name)
            # Counted by the registrar alone: entries are copied one after the other, and those of
            # another subscription, which had more rules before, may come later.
            index.put(entity.uid, _compiled(each, partitioned=entity.partitioned))


def _compiled(rule: Rule, *, partitioned: bool) -> CompiledRule:
    """Return a rule that is ready to run; one that a later version made fails for each message."""
    try:
        return rules.compiled(rule, partitioned=partitioned)
    except BusError as error:
        sentence = f"rule {rule.name!r} cannot be used by this version: {error.message}"
        return CompiledRule(rule, CompiledFilter(rest=lambda view: _fail(view, sentence)), None)


def _fail(view: MessageView, sentence: str) -> bool:
    raise FilterError(sentence)
