"""Marks inside a stage, one thing at a time: test_marks has all of them together, at random."""

from collections.abc import Sequence

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.broker import partition as broker
from bendybus.partition_server.broker.rule_table import COMMANDS
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Command, Settle
from bendybus.partition_server.state.turn import Turn
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.due_picture import due_times
from tests.partition_server.memory_store import MemoryStore

pytestmark = pytest.mark.requirement("R90")


@pytest.fixture
def driver() -> Driver:
    made = Driver(MemoryStore(fingerprint()))
    made.create("orders")
    return made


def begin(driver: Driver) -> Turn:
    state = driver.partition.state
    return Turn(state, state.begin_stage(), driver.now, False)


def decide(turn: Turn, commands: Sequence[Command]) -> None:
    """Let the rules decide, as `Partition.decide` does."""
    for command in commands:
        broker._handle(COMMANDS[type(command)], turn, command)


def receive(driver: Driver) -> bytes:
    """Return the token of one message."""
    [reserved] = driver.reserve()
    [(_, token)] = driver.tokens(reserved)
    return token


def test_a_lock_that_was_renewed_after_a_mark_ends_when_it_did_before(driver: Driver) -> None:
    driver.send(b"one")
    token = receive(driver)
    queue = driver.partition.state.queues.main_of(driver.ref().uid)
    [lock] = queue.locks.values()
    until_mono_ms = lock.until_mono_ms
    driver.advance(10_000)
    turn = begin(driver)

    mark = turn.mark()
    decide(turn, [Settle("s", 1, Disposition.RENEW_LOCK, token)])
    renewed_until_mono_ms = lock.until_mono_ms
    turn.take_back_to(mark)

    assert renewed_until_mono_ms == until_mono_ms + 10_000
    assert lock.until_mono_ms == until_mono_ms


def test_what_is_sent_before_and_after_a_mark_that_is_kept_is_received(driver: Driver) -> None:
    turn = begin(driver)

    decide(turn, [Append("t", driver.ref(), Batch([b"before"]))])
    turn.mark()
    decide(turn, [Append("t", driver.ref(), Batch([b"after"]))])
    driver.store.commit(turn.stage.changes)
    driver.partition.apply(turn.stage, driver.now)

    [reserved] = driver.reserve(2)
    assert [row.payload for row in reserved.delivery.rows] == [b"before", b"after"]


def test_what_is_taken_back_makes_nothing_due(driver: Driver) -> None:
    driver.send(b"one", time_to_live_ms=[1_000])
    token = receive(driver)
    # Expiry passes over what is locked; then the clock is corrected.
    driver.advance(2_000)
    driver.wall_ms -= 1_500
    state = driver.partition.state
    before = due_times(state)
    turn = begin(driver)

    mark = turn.mark()
    decide(turn, [Settle("s", 1, Disposition.DEFER, token)])
    deferred = due_times(state)
    turn.take_back_to(mark)

    assert deferred != before
    assert due_times(state) == before
