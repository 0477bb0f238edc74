"""The rules of every topic, compiled and arranged by topic; follows the catalogue.

Only subscriptions that take messages are in an index: not orphans, not disabled ones. It changes
at the commit of the entry, so that a publish meets the rules of the generation that it names.

`Matchings`: what messages have met of the rules of a topic, from one turn to the next.

    decision ──asks for each message or group──► met already: the result
                                            └──► not yet: steps, until the turn's budget is spent;
                                                 then NotMatched, and the decision is taken back

A decision that is tried again asks in the same order. What it asks for otherwise meets the rules
again, and so does all of it when the rules have changed: it is decided by those of one generation.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, TypeVar

from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.errors import BusError
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.conditions import CompiledFilter
from bendybus.domain.filters.rule import CompiledRule, Rule
from bendybus.domain.filters.rule_index import RuleIndex
from bendybus.domain.filters.values import FilterError
from bendybus.domain.filters.view import MessageView
from bendybus.domain.steps import Steps
from bendybus.partition_server.state.budget import Budget

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

    def changed(self) -> None:
        """Note that a subscription is another one from now on."""
        self.version += 1
        self.index.forget_outcomes()


class Topics:
    """The topics of a partition, by key."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        # Subscription → its topic's key.
        self._topic_of: dict[str, str] = {}
        # The rules of each subscription that are in the index.
        self._rules: dict[str, Sequence[Rule]] = {}

    def of(self, topic: Entity) -> Topic:
        """Return a topic, which may have no subscriptions."""
        found = self._topics.get(topic.key)
        if found is None:
            found = self._topics[topic.key] = Topic()
        return found

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
        self._rules.pop(uid, None)
        topic = self._topics.get(self._topic_of.pop(uid, ""))
        if topic is not None:
            topic.changed()
            topic.index.remove_subscription(uid)

    def _replace(self, entity: Entity, wanted: Sequence[Rule]) -> None:
        """Change what differs: most changes are of one rule among many."""
        self._topic_of[entity.uid] = entity.topic_key
        topic = self._topics.setdefault(entity.topic_key, Topic())
        topic.changed()
        index = topic.index
        gone, come = rule_set.difference(self._rules.get(entity.uid, ()), wanted)
        self._rules[entity.uid] = wanted
        # By its text: 1, 1.0 and true are equal, and not the same.
        stays = {repr(each) for each in gone} & {repr(each) for each in come}
        for each in gone:
            if repr(each) not in stays:
                index.remove(entity.uid, each.name)
        for each in come:
            if repr(each) in stays:
                continue
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


T = TypeVar("T")


class NotMatched(Exception):
    """Raised when messages cannot be stored in a topic in this turn.

    They have not met all of its rules, or others wait there before them. Not an error: what was
    decided is taken back and decided again in a later turn; see `rules.publications`.
    """

    def __init__(self, slot: int) -> None:
        super().__init__(slot)
        self.slot = slot


class Matchings:
    """The results of one decision that is tried until all of its messages have met the rules."""

    __slots__ = ("_asked", "_generation", "_met", "_name", "_steps", "moved")

    def __init__(self) -> None:
        # The topic, by slot, and the version of its rules.
        self._generation = (-1, -1)
        # In the order in which they are asked for: (what for, result).
        self._met: list[tuple[Hashable, Any]] = []
        # What is asked for after these, as far as it is.
        self._name: Hashable = None
        self._steps: Steps[Any] | None = None
        self._asked = 0
        # Whether this try took a step.
        self.moved = False

    def begin(self) -> None:
        """Begin a try of the decision."""
        self._asked, self.moved = 0, False

    def next(
        self,
        generation: tuple[int, int],
        name: Hashable,
        begin: Callable[[], Steps[T]],
        budget: Budget,
    ) -> T:
        """Return what a message or group makes; `name` tells it from the others of the decision.

        Raises NotMatched when the budget is spent; each try does at least a step.
        """
        if generation != self._generation:
            self._generation = generation
            self._forget(0)
        if self._asked < len(self._met):
            known, result = self._met[self._asked]
            if known == name:
                self._asked += 1
                return result  # type: ignore[no-any-return]
            self._forget(self._asked)
        if self._steps is None or self._name != name:
            self._name, self._steps = name, begin()
        result = self._step(self._steps, generation[0], budget)
        self._steps = None
        self._met.append((name, result))
        self._asked += 1
        return result  # type: ignore[no-any-return]

    def stored(self, count: int) -> None:
        """Forget the first results: the decision goes on behind them."""
        del self._met[:count]

    def _step(self, steps: Steps[Any], slot: int, budget: Budget) -> Any:
        while True:
            if self.moved and budget.matching_spent():
                raise NotMatched(slot)
            self.moved = True
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            except BaseException:
                # It may be half done.
                self._forget(0)
                raise

    def _forget(self, since: int) -> None:
        del self._met[since:]
        self._name = self._steps = None
