"""The time to live of messages that are forwarded: when it begins, and under a wrong clock."""

from typing import Any

import pytest

from bendybus.domain.entity_settings import EntityStatus
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Transact, Transfer
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.forwarding_driver import bodies, held, send
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.partition_pair import NAMES, Pair
from tests.partition_server.test_transfer import Sending, entity
from tests.partition_server.transacting import ID

LIFE_MS = 50_000
LONG_MS = 200_000
DAY_MS = 86_400_000
AWAY = next(name for name in NAMES if entity("invoices").partition_of(name) == 1)


def _only(driver: Driver, name: str) -> Any:
    [row] = held(driver, name)
    return row


@pytest.mark.requirement("R236")
@pytest.mark.parametrize("waited_ms", [0, 10_000])
def test_a_scheduled_message_that_waits_to_go_on_lives_from_its_schedule_on(
    waited_ms: int,
) -> None:
    pair = Sending(entity("invoices", 1))
    due_ms = pair.source.wall_ms + 30_000
    pair.transact(pair.to("invoices", b"later", time_to_live_ms=[LIFE_MS], scheduled_ms=[due_ms]))
    pair.put(entity("invoices", 1, 6, status=EntityStatus.SEND_DISABLED))
    pair.source.advance(30_000)
    pair.source.advance(waited_ms)

    pair.put(entity("invoices", 1, 7))
    pair.source.advance(10_000)

    row = _only(pair.source, "invoices")
    assert (row.state, row.expires_ms) == (0, due_ms + LIFE_MS)


@pytest.mark.requirement("R236")
def test_what_waits_longer_than_it_lives_but_was_scheduled_later_is_not_ended() -> None:
    pair = Sending(entity("invoices", 1))
    due_ms = pair.source.wall_ms + 40_000
    pair.transact(pair.to("invoices", b"later", time_to_live_ms=[10_000], scheduled_ms=[due_ms]))
    pair.put(entity("invoices", 1, 6, status=EntityStatus.SEND_DISABLED))
    pair.source.advance(41_000)
    pair.put(entity("invoices", 1, 7))
    pair.source.advance(2_000)
    pair.source.advance(5_000)

    assert bodies(pair.source, "invoices") == [b"later"]
    pair.source.advance(3_000)
    assert bodies(pair.source, "invoices") == []


class _Queue(Pair):
    """`source` forwards to `target`, which is in both partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.put_in("source", LONG_MS)

    def put_in(self, name: str, life_ms: int) -> None:
        """Let a message wait for ten seconds, since there is no way to its partition."""
        self.source.partition.state.forward_link = None
        send(self.source, name, b"a", partition_keys=[AWAY], time_to_live_ms=[life_ms])
        self.wait()

    def wait(self) -> None:
        for driver in self.drivers:
            driver.advance(10_000)

    def arrived(self, jump_ms: int) -> Any:
        """Let the clock of the source jump; return the message as its destination has it."""
        self.source.partition.state.forward_link = None
        self.source.advance(jump_ms, wall_only=True)
        self.source.partition.state.forward_link = "link"
        self.finish()
        return _only(self.drivers[1], "target")


class _Transfer(_Queue):
    """It is sent to `target` in a transaction of `source`."""

    def put_in(self, name: str, life_ms: int) -> None:
        self.describe("", generation=6)
        self.source.partition.state.forward_link = None
        batch = Batch([b"a"], partition_keys=[AWAY], time_to_live_ms=[life_ms])
        part = Transfer(self.source.ref("target"), batch)
        self.source.run(Transact("t", self.source.ref(name), ID, [part]))
        self.wait()


BOTH = pytest.mark.parametrize("made", [_Queue, _Transfer])


@BOTH
@pytest.mark.requirement("R269")
def test_a_message_takes_along_what_is_left_of_its_life(made: type[_Queue]) -> None:
    assert made().arrived(0).time_to_live_ms == LONG_MS - 10_000


@BOTH
@pytest.mark.requirement("R269")
def test_a_clock_that_is_ahead_takes_nothing_of_the_life_in_another_partition(
    made: type[_Queue],
) -> None:
    # It jumps by less than what is left: beyond its end, a message of a queue is not forwarded.
    row = made().arrived(150_000)

    assert row.time_to_live_ms == LONG_MS


@pytest.mark.requirement("R269")
def test_what_a_transaction_sends_elsewhere_is_not_ended_by_a_clock_that_is_ahead() -> None:
    row = _Transfer().arrived(30 * DAY_MS)

    assert row.time_to_live_ms == LONG_MS


@pytest.mark.requirement("R269")
def test_what_a_clock_that_is_ahead_holds_back_is_forwarded_when_that_is_corrected() -> None:
    pair = _Queue()
    pair.source.advance(30 * DAY_MS, wall_only=True)
    pair.source.partition.state.forward_link = "link"
    pair.finish()
    assert held(pair.drivers[1], "target") == []

    row = pair.arrived(-30 * DAY_MS)

    assert row.time_to_live_ms == LONG_MS


@BOTH
@pytest.mark.requirement("R269")
def test_a_clock_that_goes_back_lets_nothing_outlive_its_time(made: type[_Queue]) -> None:
    pair = made()
    pair.source.advance(-30 * DAY_MS, wall_only=True)
    pair.source.advance(301_000)

    assert pair.arrived(0).time_to_live_ms == LONG_MS


@pytest.mark.requirement("R269")
def test_what_stays_in_its_partition_ends_when_it_would_have_under_every_clock() -> None:
    driver = Driver(MemoryStore(fingerprint()))
    driver.create("audit")
    driver.create("orders", forward_to="audit")
    commit(driver, EntityAction.UPDATE, "audit", changes={"status": EntityStatus.DISABLED})
    send(driver, "orders", b"a", time_to_live_ms=[LONG_MS])
    ends_ms = driver.wall_ms + LONG_MS
    driver.sweep()

    driver.advance(150_000, wall_only=True)
    commit(driver, EntityAction.UPDATE, "audit", changes={"status": EntityStatus.ACTIVE})
    driver.mono_ms += 2_000
    driver.sweep()

    assert _only(driver, "audit").expires_ms == ends_ms
