"""No turn of a partition decides for long, whatever it is made to do: counted by a table."""

from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Origin
from bendybus.domain.filters.conditions import CompiledFilter
from bendybus.domain.filters.rule import Rule, SqlFilter
from bendybus.domain.filters.view import MessageView
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.broker.partition import Partition
from bendybus.partition_server.state import budget
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    CommitEntity,
    Deliver,
    StreamEnded,
)
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.topic_changes import subscription, topic
from tests.partition_server.ways_into_topics import WAYS, Way
from tests.simulation.turn_work import DECIDE_US_MAX, MeteredStore

pytestmark = pytest.mark.requirement("R422")
# What one take of the inbox has at most; see `broker.inbox`.
TAKE = 20_000
FRAME = 1_000
# With a text of 30 KB each, which meets so many rules; no rule may take more.
MESSAGES, RULES, LIKES = 10, 20, 28
PAYLOAD = b"x" * 400


class Metered(Driver):
    """A partition whose clock goes on with its work."""

    def __init__(self) -> None:
        self.meter = MeteredStore(MemoryStore(fingerprint()))
        super().__init__(self.meter)

    def _open(self) -> Partition:
        return Partition(
            self.store.open(),
            self.store,
            self.now,
            new_id=self._new_id,
            clock_hold_ms=300_000,
            clock_ms=self.meter.clock_ms,
        )

    def fill(self, **columns: Any) -> None:
        """Store as many messages as one take has, in a queue."""
        self.create()
        batch = Batch([PAYLOAD] * FRAME, **{name: [v] * FRAME for name, v in columns.items()})
        self.run(*[Append("t", self.ref(), batch) for _ in range(TAKE // FRAME)])

    def lock(self) -> list[bytes]:
        """Reserve and deliver all messages; return their tokens."""
        return [token for _, token in self.receive(TAKE, size_bytes=1 << 30)]


def expiring(driver: Metered) -> None:
    """Messages whose time to live is over, which become dead letters."""
    driver.fill(time_to_live_ms=1_000)
    driver.advance(2_000)


def activated(driver: Metered) -> None:
    """Scheduled messages that are due."""
    driver.fill(scheduled_ms=driver.wall_ms + 1_000)
    driver.advance(2_000)


def locks_ended(driver: Metered) -> None:
    """Locks that end together."""
    driver.fill()
    driver.lock()
    driver.advance(60_000)


def stream_ended(driver: Metered) -> None:
    """A front end that goes with all that it reserved."""
    driver.fill()
    driver.run(Ask("s", 1, driver.ref(), False, TAKE, 1 << 30))
    driver.run(StreamEnded("s"))


def settled(disposition: Disposition) -> Callable[[Metered], None]:
    """Return what settles many messages in one frame."""

    def settle(driver: Metered) -> None:
        driver.fill()
        tokens = driver.lock()
        driver.settle(disposition, *tokens)
        driver.sweep()

    settle.__name__ = f"settled: {disposition.name}"
    return settle


def delivered(driver: Metered) -> None:
    """Receive-and-delete of all that there is."""
    driver.fill()
    answers = driver.run(Ask("s", 1, driver.ref(), True, TAKE, 1 << 30))
    tokens = [token for answer in answers for _, token in driver.tokens(answer)]
    driver.run(Deliver("s", 1, b"".join(tokens)))


def deleted(driver: Metered) -> None:
    """A queue that is deleted with what it holds."""
    driver.fill()
    driver.run(CommitEntity("t", EntityAction.DELETE, "orders", Origin.CLIENT, {}, uid=""))
    driver.advance(1_000)


WORK = [
    *(expiring, activated, locks_ended, stream_ended, delivered, deleted),
    *(settled(each) for each in Disposition),
]


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_work_on_many_messages_is_divided_over_turns(work: Callable[[Metered], None]) -> None:
    driver = Metered()

    work(driver)

    assert len(driver.meter.turns) > 1
    assert max(driver.meter.turns) <= DECIDE_US_MAX


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_rules_of_a_topic_are_met_over_turns_whatever_way_messages_come(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Metered()
    real = CompiledFilter.rest_matches

    def counted(self: CompiledFilter, view: MessageView) -> bool:
        driver.meter.spend(self.steps)
        return real(self, view)

    monkeypatch.setattr(CompiledFilter, "rest_matches", counted)
    driver.create("other")
    topic(driver)
    likes = " OR ".join(f"text LIKE '%{i}_y%'" for i in range(LIKES))
    for i in range(RULES):
        rule = Rule("r", SqlFilter(likes))
        subscription(driver, f"news/Subscriptions/s{i}", changes={"rules": (rule,)})
    subscription(driver, "news/Subscriptions/b")
    driver.meter.turns.clear()
    driver.meter.begin()

    driver.turn(*way(driver, list(range(MESSAGES))))
    # What a queue forwards, it forwards after that.
    driver.turn()
    while driver.partition.state.publications:
        driver.turn()

    assert sum(driver.meter.turns) > MESSAGES * RULES * LIKES * 700
    assert max(driver.meter.turns) <= DECIDE_US_MAX


def test_what_is_not_divided_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TURN_ROWS", "TURN_BYTES", "TURN_MS"):
        monkeypatch.setattr(budget, name, 1 << 40)
    driver = Metered()

    expiring(driver)

    assert max(driver.meter.turns) > DECIDE_US_MAX
