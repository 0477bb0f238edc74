"""Topics against a model: subscriptions and rules come and go, messages are published and settled.

The model knows, for each rule of a small set, by plain Python which messages it takes and what its
copy looks like. Whatever happens, each subscription has the copies that the model has, and what is
kept of bodies is what the copies need.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
)

from bendybus.domain import limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Rule,
    SqlFilter,
    SqlRuleAction,
)
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.publishing import (
    collect,
    head,
    properties_of,
    publish,
    receive,
    rows,
    set_rules,
    topic_bytes,
)
from tests.partition_server.topic_changes import DELETE, subscription, topic

COLORS = ("red", "blue", "green")
# Name → (rule, which messages it takes, the tag of its copy: None for a rule without an action).
KNOWN: dict[str, tuple[Rule, Callable[[str, int], bool], int | None]] = {
    "any": (Rule("any"), lambda color, n: True, None),
    "none": (Rule("none", FalseFilter()), lambda color, n: False, None),
    "red": (Rule("red", SqlFilter("color = 'red'")), lambda color, n: color == "red", None),
    "blue": (
        Rule("blue", CorrelationFilter(properties={"color": "blue"}), SqlRuleAction("SET tag = 1")),
        lambda color, n: color == "blue",
        1,
    ),
    "even": (
        Rule("even", SqlFilter("n % 2 = 0"), SqlRuleAction("SET tag = 2")),
        lambda color, n: n % 2 == 0,
        2,
    ),
}
FAILING = Rule("failing", SqlFilter("n / 0 = 1"))
# (number of the message, tag of the copy); a dead letter has the tag -1.
Copies = Counter[tuple[int, int]]


class TopicMachine(RuleBasedStateMachine):
    """A topic of one partition and its model."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(MemoryStore(fingerprint()))
        topic(self.driver)
        self.wanted: dict[str, frozenset[str]] = {}
        self.held: dict[str, Copies] = {}
        self.sizes: dict[int, int] = {}
        self.made = self.number = 0

    @rule(target=names, wanted=st.frozensets(st.sampled_from(sorted(KNOWN))))
    def add(self, wanted: frozenset[str]) -> str:
        """Create a subscription."""
        self.made += 1
        name = f"s{self.made}"
        rules = tuple(KNOWN[each][0] for each in sorted(wanted))
        subscription(self.driver, f"news/Subscriptions/{name}", changes={"rules": rules})
        self.wanted[name], self.held[name] = wanted, Counter()
        return name

    @rule(name=consumes(names))
    def remove(self, name: str) -> None:
        """Delete a subscription, with what it has."""
        subscription(self.driver, f"news/Subscriptions/{name}", DELETE)
        del self.wanted[name], self.held[name]

    @rule(name=names, wanted=st.frozensets(st.sampled_from([*sorted(KNOWN), "failing"])))
    def change(self, name: str, wanted: frozenset[str]) -> None:
        """Give a subscription other rules."""
        found = (FAILING if each == "failing" else KNOWN[each][0] for each in sorted(wanted))
        set_rules(self.driver, name, *found)
        self.wanted[name] = wanted

    @rule(
        colors=st.lists(st.sampled_from(COLORS), min_size=1, max_size=3),
        size=st.sampled_from([1, limits.SHARED_BODY_BYTES_MIN, 500]),
        due=st.booleans(),
    )
    def publish(self, colors: list[str], size: int, due: bool) -> None:
        """Publish messages; scheduled ones are due at once."""
        numbers = range(self.number, self.number + len(colors))
        self.number += len(colors)
        heads = [head(color=color, n=n) for color, n in zip(colors, numbers, strict=True)]
        columns: dict[str, Any] = {}
        if due:
            columns["scheduled_ms"] = [self.driver.wall_ms + 10] * len(colors)
        publish(self.driver, *heads, body=b"x" * size, **columns)
        if due:
            self.driver.advance(10)
        for color, n in zip(colors, numbers, strict=True):
            self.sizes[n] = size
            for name, wanted in self.wanted.items():
                self.held[name].update(_expected(wanted, color, n))

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), name=names, dead=st.booleans())
    def settle(self, data: st.DataObject, name: str, dead: bool) -> None:
        """Complete a message of a subscription, or dead-letter it."""
        for row, token in receive(self.driver, name):
            how = Disposition.DEAD_LETTER if dead else Disposition.COMPLETE
            assert not self.driver.settle(how, token).failures
            n, tag = _copy_of(row, dead=False)
            self.held[name][n, tag] -= 1
            if dead:
                self.held[name][n, -1] += 1
            self.held[name] += Counter()

    @rule()
    def restart(self) -> None:
        """Lose all that is not stored."""
        self.driver.restart()

    @rule()
    def collect(self) -> None:
        """Let time pass."""
        collect(self.driver)

    @invariant()
    def every_subscription_has_its_copies(self) -> None:
        """Compare with the model."""
        for name, held in self.held.items():
            found: Copies = Counter()
            for dead in (False, True):
                for row in rows(self.driver, name, dead_letter=dead):
                    n, tag = _copy_of(row, dead=dead)
                    assert len(row.payload) == self.sizes[n]
                    found[n, tag] += 1
            assert found == held, name

    def teardown(self) -> None:
        """Settle everything: nothing is left, and nothing counts."""
        for name in self.held:
            for dead in (False, True):
                while pairs := receive(self.driver, name, 100, dead_letter=dead):
                    tokens = [token for _, token in pairs]
                    self.driver.settle(Disposition.COMPLETE, *tokens)
        collect(self.driver)
        state = self.driver.partition.state
        slot = state.queues.main_of(self.driver.ref("news").uid).slot
        assert self.driver.store.bodies.of_slot(slot, 9) == []
        assert topic_bytes(self.driver) == 0
        assert self.driver.counts_of("news").size_bytes == 0


def _expected(wanted: frozenset[str], color: str, n: int) -> Copies:
    copies: Copies = Counter()
    plain = False
    for each in wanted - {"failing"}:
        _, takes, tag = KNOWN[each]
        if takes(color, n):
            if tag is None:
                plain = True
            else:
                copies[n, tag] += 1
    if plain:
        copies[n, 0] += 1
    if "failing" in wanted:
        copies[n, -1] += 1
    return copies


def _copy_of(row: Any, *, dead: bool) -> tuple[int, int]:
    found = properties_of(row)
    number, tag = found["n"], found.get("tag", 0)
    assert isinstance(number, int)
    assert isinstance(tag, int)
    return number, -1 if dead else tag


TopicMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
test_topics_do_what_the_model_does = TopicMachine.TestCase
