"""What a drain removes: active messages up to a number, or those listed."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
)
from bendybus.partition_server.state.pipeline_commands import DrainAction, DrainEntity, RangeSettled
from tests.partition_server import draining
from tests.partition_server.draining import (
    LEASE_MS,
    asked,
    bodies,
    drained,
    range_of,
    ref,
    settle,
)
from tests.partition_server.driver import Driver

DEAD = ("orders", SubQueue.DEAD_LETTER)


@pytest.fixture
def orders(queue: Driver) -> Driver:
    """Return a partition with a queue of four messages."""
    queue.send(b"a", b"b", b"c", b"d")
    return queue


@pytest.mark.requirement("R277")
def test_settling_up_to_a_number_deletes_what_is_active_and_nothing_else(queue: Driver) -> None:
    queue.send(b"deferred", b"a")
    [(_, token)] = queue.receive(1)
    queue.settle(Disposition.DEFER, token)
    queue.send(b"scheduled", scheduled_ms=[queue.wall_ms + 5_000])
    queue.send(b"b", b"c")
    epoch = drained(queue)

    assert settle(queue, epoch, 4) == RangeSettled(2)

    assert [row.payload for row in queue.peek()] == [b"deferred", b"scheduled", b"c"]
    assert queue.counts().active == 1
    assert range_of(queue).lost == 0


@pytest.mark.requirement("R277")
def test_settling_again_deletes_nothing_more(orders: Driver) -> None:
    epoch = drained(orders)

    assert settle(orders, epoch, 2) == RangeSettled(2)
    assert settle(orders, epoch, 2) == RangeSettled(0)
    assert settle(orders, epoch, 1) == RangeSettled(0)
    assert settle(orders, epoch, 3) == RangeSettled(1)
    assert bodies(orders) == [b"d"]


@pytest.mark.requirement("R277")
def test_much_is_settled_in_steps_that_pass_over_what_stays(queue: Driver) -> None:
    for _ in range(5):
        queue.send(*[b"x"] * 1_000, groups=(1,) * 1_000)
    epoch = drained(queue)
    deleted, steps = 0, 0
    while True:
        done = settle(queue, epoch, 4_999)
        deleted, steps = deleted + done.deleted, steps + 1
        if not done.more:
            break

    assert (deleted, bodies(queue)) == (4_999, [b"x"])
    assert 1 < steps < 20


@pytest.mark.requirement("R277")
def test_listed_numbers_are_settled_and_what_is_gone_is_no_error(orders: Driver) -> None:
    epoch = drained(orders)

    assert settle(orders, epoch, counters=(1, 3, 99)) == RangeSettled(2)
    assert settle(orders, epoch, counters=(1, 3)) == RangeSettled(0)
    assert bodies(orders) == [b"b", b"d"]


@pytest.mark.requirement("R277")
def test_what_waits_after_an_abandon_with_a_delay_is_drained_too(orders: Driver) -> None:
    [(_, token)] = orders.receive(1)
    orders.settle(Disposition.ABANDON, token, delay_ms=3_600_000)
    epoch = drained(orders)

    assert settle(orders, epoch, 4) == RangeSettled(4)

    assert orders.counts().locked == 0
    orders.restart()
    assert bodies(orders) == []


@pytest.mark.requirement("R277")
def test_dead_letters_are_drained_for_themselves(orders: Driver) -> None:
    [(_, token)] = orders.receive(1)
    orders.settle(Disposition.DEAD_LETTER, token)
    epoch = drained(orders, *DEAD)

    # Receivers of the main queue go on.
    assert len(orders.receive(1)) == 1
    assert settle(orders, epoch, 0, *DEAD, counters=(1,)) == RangeSettled(1)


@pytest.mark.parametrize(
    ("options", "field"),
    [({"owner": ""}, "owner"), ({"owner": "x" * 129}, "owner"), ({"duration_ms": 1}, "duration")],
)
def test_what_cannot_be_a_lease_is_refused(
    queue: Driver, options: dict[str, Any], field: str
) -> None:
    values = {"owner": "capture", "duration_ms": LEASE_MS, **options}

    with pytest.raises(errors.InvalidArgument) as caught:
        asked(queue, DrainEntity("t", ref(queue), DrainAction.GRANT, **values))

    assert caught.value.field == field


def test_a_topic_cannot_be_drained(driver: Driver) -> None:
    from tests.partition_server.topic_changes import topic

    topic(driver)

    with pytest.raises(errors.InvalidOperation, match="subscriptions"):
        draining.grant(driver, "capture", "news")


def test_a_send_is_stored_while_the_store_is_drained(orders: Driver) -> None:
    epoch = drained(orders)

    answered = orders.run(Append("t", orders.ref(), Batch([b"e"])))

    assert answered[0].numbers
    assert settle(orders, epoch, 5) == RangeSettled(5)


@pytest.mark.requirement("R277")
def test_listed_messages_that_are_large_are_deleted_over_several_calls(queue: Driver) -> None:
    for _ in range(20):
        queue.send(bytes(1 << 20))
    epoch, listed = drained(queue), tuple(range(1, 20))

    first = settle(queue, epoch, counters=listed)

    assert first.more
    assert 0 < first.deleted < 19
    found = [first]
    while found[-1].more:
        found.append(settle(queue, epoch, counters=listed))
    assert sum(each.deleted for each in found) == 19
    assert range_of(queue).active == 1
