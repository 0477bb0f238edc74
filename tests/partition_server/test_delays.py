"""Messages that are abandoned with a delay: held, durable, bounded."""

from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.message_state import MessageState
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.answers import Done, Reserved
from bendybus.partition_server.state.commands import (
    Ask,
    DeleteMessages,
    ReceiveDeferred,
    Settle,
)
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver, tokens_of
from tests.partition_server.forwarding_driver import held, locked, send

HOUR_MS = 3_600_000


def abandoned(driver: Driver, delay_ms: int, count: int = 1, **options: Any) -> Any:
    """Receive messages and abandon them with a delay; return the answer."""
    token = locked(driver, "orders", count)
    return driver.settle(Disposition.ABANDON, token, delay_ms=delay_ms, **options)


def received(driver: Driver, name: str = "orders") -> list[tuple[bytes, int]]:
    """Return (body, delivery count) of what can be received now; it stays locked."""
    values = driver.run(Ask("s", 99, driver.ref(name), False, 100, 1 << 24))
    return [
        (row.payload, row.delivery_count)
        for value in values
        if isinstance(value, Reserved)
        for row in value.delivery.rows
    ]


@pytest.fixture
def orders(driver: Driver) -> Driver:
    """Return a partition with a queue of three messages."""
    driver.create("orders")
    send(driver, "orders", b"a", b"b", b"c")
    return driver


@pytest.mark.requirement("R226")
def test_a_message_is_not_received_before_its_delay_is_over(orders: Driver) -> None:
    assert not abandoned(orders, HOUR_MS).failures

    assert received(orders) == [(b"b", 0), (b"c", 0)]
    orders.advance(HOUR_MS - 1)
    assert (b"a", 1) not in received(orders)
    orders.advance(1)

    assert (b"a", 1) in received(orders)


@pytest.mark.requirement("R226")
def test_a_message_that_waits_is_shown_as_active(orders: Driver) -> None:
    abandoned(orders, HOUR_MS)

    counts = orders.counts()
    assert (counts.active, counts.locked, counts.scheduled, counts.deferred) == (3, 0, 0, 0)
    assert [(row.payload, row.state) for row in held(orders, "orders")] == [
        (b"a", 0),
        (b"b", 0),
        (b"c", 0),
    ]


@pytest.mark.requirement("R226")
def test_an_abandon_with_a_delay_counts_once_and_keeps_its_changes(orders: Driver) -> None:
    abandoned(orders, 1_000, changed_properties=b"\x0a\x00")
    orders.advance(1_000)

    [(_, count)] = [found for found in received(orders) if found[0] == b"a"]

    assert count == 1
    assert held(orders, "orders")[0].changed_properties == b"\x0a\x00"


@pytest.mark.requirement("R227")
def test_a_delay_outlasts_a_restart(orders: Driver) -> None:
    abandoned(orders, HOUR_MS)
    orders.restart()

    assert received(orders) == [(b"b", 0), (b"c", 0)]
    assert orders.counts().locked == 2
    orders.advance(HOUR_MS)
    assert (b"a", 1) in received(orders)
    orders.restart()
    assert (b"a", 1) in received(orders)


@pytest.mark.requirement("R227")
def test_a_delay_that_passed_while_the_partition_was_away_is_over(orders: Driver) -> None:
    abandoned(orders, 1_000)
    orders.wall_ms += 5_000
    orders.restart()
    orders.sweep()

    assert received(orders) == [(b"a", 1), (b"b", 0), (b"c", 0)]


@pytest.mark.requirement("R227")
def test_a_commit_that_fails_leaves_the_message_locked(orders: Driver) -> None:
    token = locked(orders, "orders", 1)
    settle = Settle("s", 1, Disposition.ABANDON, token, delay_ms=HOUR_MS)
    partition = orders.partition
    partition.take_back(partition.decide([settle], orders.now))

    assert orders.counts().locked == 1
    assert not orders.settle(Disposition.COMPLETE, token).failures
    assert orders.counts().active == 2
    orders.advance(2 * HOUR_MS)
    assert orders.counts().active == 2


@pytest.mark.requirement("R226")
def test_its_token_is_of_no_more_use(orders: Driver) -> None:
    token = locked(orders, "orders", 1)
    orders.settle(Disposition.ABANDON, token, delay_ms=HOUR_MS)

    for disposition in (Disposition.COMPLETE, Disposition.RENEW_LOCK, Disposition.ABANDON):
        [(_, error)] = orders.settle(disposition, token).failures
        assert isinstance(error, errors.MessageLockLost)


@pytest.mark.requirement("R226")
def test_the_last_delivery_is_dead_lettered_at_once(driver: Driver) -> None:
    driver.create("orders", max_delivery_count=1)
    send(driver, "orders", b"a")

    abandoned(driver, HOUR_MS)

    assert [row.payload for row in held(driver, "orders", SubQueue.DEAD_LETTER)] == [b"a"]


@pytest.mark.requirement("R226")
def test_a_message_whose_time_to_live_ends_first_is_not_received(driver: Driver) -> None:
    driver.create("orders", default_message_time_to_live_ms=2_000)
    send(driver, "orders", b"a")
    abandoned(driver, 5_000)

    driver.advance(5_000)
    driver.sweep()

    assert received(driver) == []
    assert driver.counts().active == 0


@pytest.mark.requirement("R267")
@pytest.mark.parametrize("dead_letters", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_message_that_waits_ends_with_its_time_to_live_and_not_with_its_delay(
    driver: Driver, dead_letters: bool, restarts: bool
) -> None:
    driver.create(
        "orders",
        default_message_time_to_live_ms=120_000,
        dead_lettering_on_message_expiration=dead_letters,
    )
    send(driver, "orders", b"a")
    abandoned(driver, HOUR_MS)
    if restarts:
        driver.restart()

    driver.advance(119_000)
    driver.sweep()
    before = driver.counts().active
    driver.advance(1_000)
    driver.sweep()

    assert before == 1
    counts = driver.counts()
    assert (counts.active, counts.dead_letter) == (0, int(dead_letters))
    driver.restart()
    driver.advance(2 * HOUR_MS)
    driver.sweep()
    assert received(driver) == []
    assert driver.counts().active == 0


@pytest.mark.requirement("R267")
def test_an_expiry_of_what_waits_that_is_not_committed_leaves_it_waiting(driver: Driver) -> None:
    driver.create("orders", default_message_time_to_live_ms=120_000)
    send(driver, "orders", b"a")
    abandoned(driver, HOUR_MS)
    driver.wall_ms += 120_000
    driver.mono_ms += 120_000
    partition = driver.partition
    # As `advance` does, without its sweep.
    partition.state.clock.waiting(driver.mono_ms - 120_000, driver.mono_ms)
    partition.state.clock.observe(driver.now)
    stage = partition.sweep(driver.now)
    while stage is not None and partition.state.held.total:
        # What else is due.
        driver.store.commit(stage.changes)
        partition.apply(stage, driver.now)
        stage = partition.sweep(driver.now)
    assert stage is not None

    while_undone = partition.state.held.total
    partition.take_back(stage)
    held_again = partition.state.held.total
    driver.sweep()

    assert (while_undone, held_again) == (0, 1)
    assert partition.state.held.total == 0
    assert driver.counts().active == 0


@pytest.mark.requirement("R228")
def test_a_purge_deletes_what_waits(orders: Driver) -> None:
    abandoned(orders, HOUR_MS)
    locked(orders, "orders", 1)

    values = orders.run(DeleteMessages("t", orders.ref(), 100, 0, frozenset({MessageState.ACTIVE})))
    values += orders.sweep()

    assert [value.count for value in values if isinstance(value, Done)] == [2]
    assert [row.payload for row in held(orders, "orders")] == [b"b"]
    orders.advance(2 * HOUR_MS)
    assert received(orders) == [(b"b", 1)]
    orders.restart()
    assert received(orders) == [(b"b", 1)]


@pytest.mark.requirement("R228")
def test_what_cannot_wait_is_refused(driver: Driver) -> None:
    driver.create("orders")
    send(driver, "orders", b"a")
    token = locked(driver, "orders", 1)

    for delay_ms in (-1, limits.ABANDON_DELAY_MS_MAX + 1):
        [(_, error)] = driver.settle(Disposition.ABANDON, token, delay_ms=delay_ms).failures
        assert isinstance(error, errors.InvalidArgument)
    [(_, error)] = driver.settle(Disposition.DEFER, token, delay_ms=1).failures
    assert "is only valid for an abandon" in str(error)

    assert not driver.settle(Disposition.DEFER, token).failures
    [delivered] = driver.run(ReceiveDeferred("t", driver.ref(), False, [1]))
    token = tokens_of(Reserved(1, delivered, 0, 0, False))
    [(_, error)] = driver.settle(Disposition.ABANDON, token, delay_ms=HOUR_MS).failures
    assert isinstance(error, errors.InvalidOperation)
    assert "deferred messages are received by sequence number only" in str(error)


@pytest.mark.requirement("R228")
def test_so_many_messages_wait_and_no_more(orders: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DELAYED_MESSAGES_MAX", 2)
    first = abandoned(orders, 1_000, 3)

    assert [index for index, _ in first.failures] == [2]
    [(_, error)] = first.failures
    assert isinstance(error, errors.ServerBusy)
    # One that is over makes room.
    orders.advance(1_000)
    assert not abandoned(orders, 1_000, 1).failures


@pytest.mark.requirement("R228")
def test_a_queue_that_is_deleted_makes_room(
    orders: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandoned(orders, HOUR_MS, 3)
    assert orders.partition.state.held.total == 3
    commit(orders, EntityAction.DELETE, "orders")
    orders.sweep()

    assert orders.partition.state.held.total == 0
    orders.restart()
    assert orders.partition.state.held.total == 0
