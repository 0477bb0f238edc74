"""Drains: one data pipeline alone removes messages, under a lease whose epochs rise."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.message_state import ACTIVE_ONLY
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server import metrics
from bendybus.partition_server.state.answers import AskRefused, Done, Failed, SessionOffered
from bendybus.partition_server.state.commands import (
    AcceptSession,
    Ask,
    Counts,
    DeleteMessages,
    ReceiveDeferred,
)
from bendybus.partition_server.state.pipeline_commands import (
    DrainAction,
    DrainEntity,
    RangeSettled,
    SettleRange,
)
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.draining import (
    LEASE_MS,
    answers,
    asked,
    bodies,
    drained,
    grant,
    hold,
    page,
    range_of,
    release,
    settle,
)
from tests.partition_server.driver import Driver

DEAD = ("orders", SubQueue.DEAD_LETTER)
LABELS = ("entity", "sub_queue", "owner", "partition")


def refusal(driver: Driver, command: Any) -> Exception:
    """Return what refuses a command."""
    [value] = driver.run(command)
    assert isinstance(value, AskRefused | Failed), value
    return value.error


@pytest.fixture
def orders(queue: Driver) -> Driver:
    """Return a partition with a queue of four messages."""
    queue.send(b"a", b"b", b"c", b"d")
    return queue


@pytest.mark.requirement("R275")
def test_a_drained_queue_refuses_receivers_and_names_the_pipeline(orders: Driver) -> None:
    drained(orders)
    of = orders.ref()

    for command in (
        Ask("s", 1, of, False, 1, 1 << 20),
        ReceiveDeferred("t", of, False, [1]),
        DeleteMessages("t", of, 10, 0, ACTIVE_ONLY),
    ):
        error = refusal(orders, command)

        assert isinstance(error, errors.EntityDrained)
        assert "queue 'orders' is drained by the data pipeline 'capture'" in str(error)
        assert f"its lease then ends within {LEASE_MS // 1_000} s" in str(error)
    assert bodies(orders) == [b"a", b"b", b"c", b"d"]


@pytest.mark.requirement("R275")
def test_a_batch_delete_that_is_under_way_ends_where_a_drain_begins(queue: Driver) -> None:
    for _ in range(4):
        queue.send(*[b"x"] * 1_000, groups=(1,) * 1_000)
    assert queue.run(DeleteMessages("delete", queue.ref(), 4_000, 0, ACTIVE_ONLY)) == []

    found = answers(queue, DrainEntity("t", queue.ref(), DrainAction.GRANT, "capture", LEASE_MS))
    [done] = [each.value for each in found if each.to == "delete"]

    left = len(page(queue, count=5_000).delivery.rows)
    assert 0 < left < 4_000
    assert done == Done(4_000 - left)


@pytest.mark.requirement("R275")
def test_receivers_that_wait_are_refused_when_a_drain_begins(queue: Driver) -> None:
    queue.run(Ask("s", 7, queue.ref(), False, 1, 1 << 20))
    epoch = grant(queue)

    command = DrainEntity("t", queue.ref(), DrainAction.HOLD, "capture", LEASE_MS, epoch)
    # The registrar's own receivers are refused at the grant already.
    found = answers(queue, command)

    assert [each.to for each in found] == ["t"]
    queue.send(b"a")
    assert bodies(queue) == [b"a"]
    assert [each.asks for each in queue.partition.state.queues if each.asks] == []


@pytest.mark.requirement("R275")
def test_a_waiting_receiver_is_told_why(queue: Driver) -> None:
    queue.run(Ask("s", 7, queue.ref(), False, 1, 1 << 20))

    found = answers(queue, DrainEntity("t", queue.ref(), DrainAction.GRANT, "capture", LEASE_MS))

    [told] = [each.value for each in found if each.to == "s"]
    assert isinstance(told, AskRefused)
    assert (told.ask_id, type(told.error)) == (7, errors.EntityDrained)


@pytest.mark.requirement("R275")
def test_sessions_of_a_drained_queue_cannot_be_accepted(driver: Driver) -> None:
    driver.create(requires_session=True)
    driver.send(b"a", session_ids=["s1"], session_present=[True])
    epoch = drained(driver)

    error = refusal(driver, AcceptSession("s", 1, driver.ref(), "s1"))

    assert isinstance(error, errors.EntityDrained)
    assert settle(driver, epoch, 1) == RangeSettled(1)
    release(driver, epoch)
    [offered] = driver.run(AcceptSession("s", 2, driver.ref(), "s1"))
    assert isinstance(offered, SessionOffered)


@pytest.mark.requirement("R275")
def test_sends_go_on_during_a_drain(orders: Driver) -> None:
    drained(orders)

    orders.send(b"e")

    assert bodies(orders, 4) == [b"e"]


@pytest.mark.requirement("R275")
def test_a_drain_waits_for_the_locks_of_before(orders: Driver) -> None:
    [(_, token), _] = orders.receive(2)
    epoch = grant(orders)

    assert hold(orders, epoch) == 2
    with pytest.raises(errors.InvalidOperation, match="receivers have 2 messages locked"):
        settle(orders, epoch, 4)
    orders.settle(Disposition.COMPLETE, token)
    assert hold(orders, epoch) == 1
    # The lock ends before the lease, which is renewed.
    for _ in range(2):
        orders.advance(LEASE_MS // 2)
        left = hold(orders, epoch)

    assert left == 0
    assert settle(orders, epoch, 4) == RangeSettled(3)


@pytest.mark.requirement("R275")
def test_a_second_drain_is_refused_as_long_as_the_first_lasts(orders: Driver) -> None:
    drained(orders, owner="first")

    with pytest.raises(errors.EntityDrained, match="'first'"):
        grant(orders, "second")
    orders.advance(LEASE_MS)

    assert grant(orders, "second") == 2


@pytest.mark.requirement("R275")
def test_an_earlier_epoch_can_delete_nothing_any_more(orders: Driver) -> None:
    first = drained(orders)
    second = drained(orders)

    with pytest.raises(errors.DrainLeaseLost, match="epoch 2 of 'capture' follows it"):
        settle(orders, first, 4)
    with pytest.raises(errors.DrainLeaseLost):
        hold(orders, first)
    assert settle(orders, second, 1) == RangeSettled(1)
    assert bodies(orders) == [b"b", b"c", b"d"]


@pytest.mark.requirement("R275")
def test_nothing_is_deleted_when_the_time_of_the_lease_is_over(orders: Driver) -> None:
    epoch = drained(orders)
    orders.advance(LEASE_MS)

    with pytest.raises(errors.DrainLeaseLost, match="its time is over"):
        settle(orders, epoch, 4)

    assert len(orders.receive(5)) == 4


@pytest.mark.requirement("R275")
def test_a_renewed_lease_lasts(orders: Driver) -> None:
    epoch = drained(orders)
    for _ in range(5):
        orders.advance(LEASE_MS - 1)
        hold(orders, epoch)

    assert settle(orders, epoch, 4) == RangeSettled(4)


@pytest.mark.requirement("R275")
def test_a_released_lease_cannot_be_held_again(orders: Driver) -> None:
    epoch = drained(orders)
    release(orders, epoch)

    assert len(orders.receive(1)) == 1
    with pytest.raises(errors.DrainLeaseLost, match="it was ended"):
        hold(orders, epoch)
    release(orders, epoch)


@pytest.mark.requirement("R275")
def test_another_pipeline_cannot_release_a_lease(orders: Driver) -> None:
    epoch = drained(orders)

    release(orders, epoch, "other")
    release(orders, epoch - 1)

    assert settle(orders, epoch, 1) == RangeSettled(1)


def test_the_leases_of_a_deleted_queue_are_gone(orders: Driver) -> None:
    drained(orders)
    commit(orders, EntityAction.DELETE, "orders")
    orders.sweep()

    assert list(orders.store.open().leases) == []
    assert not orders.partition.state.drains


# What pauses


@pytest.mark.requirement("R276")
@pytest.mark.parametrize("dead_letters", [False, True])
def test_nothing_expires_during_a_drain_and_all_of_it_afterwards(
    driver: Driver, dead_letters: bool
) -> None:
    driver.create(dead_lettering_on_message_expiration=dead_letters)
    driver.send(b"a", b"b", time_to_live_ms=[1_000, 2_000])
    epoch = drained(driver)

    driver.advance(5_000)
    assert bodies(driver) == [b"a", b"b"]
    assert settle(driver, epoch, 1) == RangeSettled(1)
    release(driver, epoch)
    driver.advance(0)

    assert bodies(driver) == []
    assert bodies(driver, 0, 0, *DEAD) == ([b"b"] if dead_letters else [])


@pytest.mark.requirement("R276")
def test_what_expired_meanwhile_ends_when_the_lease_lapses(queue: Driver) -> None:
    queue.send(b"a", time_to_live_ms=[1_000])
    drained(queue)

    queue.advance(LEASE_MS - 1)
    assert bodies(queue) == [b"a"]
    queue.advance(1)

    assert bodies(queue) == []
    assert range_of(queue).lost == 1


@pytest.mark.requirement("R276")
def test_what_expires_while_it_waits_after_an_abandon_stays_during_a_drain(queue: Driver) -> None:
    queue.send(b"a", time_to_live_ms=[20_000])
    [(_, token)] = queue.receive(1)
    queue.settle(Disposition.ABANDON, token, delay_ms=30_000)
    epoch = drained(queue)

    queue.advance(LEASE_MS - 1)
    assert bodies(queue) == [b"a"]
    release(queue, epoch)
    queue.advance(0)

    assert bodies(queue) == []
    assert range_of(queue).lost == 1


@pytest.mark.requirement("R276")
@pytest.mark.parametrize("disposition", [Disposition.ABANDON, None])
def test_what_expires_while_a_receiver_has_it_stays_during_a_drain(
    driver: Driver, disposition: Disposition | None
) -> None:
    driver.create(lock_duration_ms=30_000)
    driver.send(b"a", time_to_live_ms=[20_000])
    [(_, token)] = driver.receive(1)
    epoch = drained(driver)
    driver.advance(25_000)

    if disposition is not None:
        driver.settle(disposition, token)
    driver.advance(5_000)

    assert hold(driver, epoch) == 0
    assert bodies(driver) == [b"a"]
    assert settle(driver, epoch, 1) == RangeSettled(1)


@pytest.mark.requirement("R276")
def test_a_queue_that_forwards_cannot_be_drained(driver: Driver) -> None:
    driver.create("target")
    driver.create("orders", forward_to="target")

    with pytest.raises(errors.InvalidOperation, match="forwards to 'target'"):
        grant(driver)


@pytest.mark.requirement("R276")
def test_forwarding_that_is_set_during_a_drain_begins_after_it(driver: Driver) -> None:
    driver.create("target")
    driver.create("orders")
    driver.send(b"a")
    epoch = drained(driver)
    commit(driver, EntityAction.UPDATE, "orders", changes={"forward_to": "target"})
    driver.advance(1_000)
    assert bodies(driver) == [b"a"]

    driver.advance(LEASE_MS)

    assert bodies(driver) == []
    assert bodies(driver, 0, 0, "target") == [b"a"]
    assert epoch == 1


@pytest.mark.requirement("R285")
def test_nothing_is_settled_by_numbers_of_another_incarnation(orders: Driver) -> None:
    epoch, now = drained(orders), range_of(orders).incarnation

    for upto, counters in ((4, []), (0, [1, 2])):
        with pytest.raises(errors.InvalidOperation, match="partition 0 were reset"):
            asked(orders, SettleRange("t", orders.ref(), epoch, upto, counters, "0123abcd-old"))
    assert bodies(orders) == [b"a", b"b", b"c", b"d"]

    assert asked(orders, SettleRange("t", orders.ref(), epoch, 4, [], now)) == RangeSettled(4)


@pytest.mark.requirement("R275")
def test_the_metrics_say_which_pipeline_drains_a_queue_and_nothing_when_it_ended(
    orders: Driver,
) -> None:
    epoch = drained(orders)

    assert leases(orders) == [("orders", "main", "capture", "0")]
    release(orders, epoch)
    assert leases(orders) == []


def leases(driver: Driver) -> list[tuple[str, ...]]:
    """Return what a scrape shows of leases."""
    [counts] = driver.run(Counts("t", forwarding=True))
    samples = metrics._drains({0: counts}).samples
    return [tuple(each.labels[name] for name in LABELS) for each in samples if each.value]
