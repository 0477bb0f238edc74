"""What one transaction writes: whether that is anything, and the numbers that it gives."""

from dataclasses import fields
from typing import Any

import pytest

from bendybus.domain import errors, sequence_number
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append
from bendybus.partition_server.store.records import Changes, ClockMark
from tests.partition_server import topic_changes
from tests.partition_server.driver import Driver

VALUES: dict[type, Any] = {list: [1], dict: {1: 1}, int: 1, type(None): ClockMark(1, 1, "")}


@pytest.mark.requirement("R345")
@pytest.mark.parametrize("name", [each.name for each in fields(Changes)])
def test_each_field_alone_is_something_to_write(name: str) -> None:
    changes = Changes()
    assert not changes

    setattr(changes, name, VALUES[type(getattr(changes, name))])

    assert changes


def last(driver: Driver, name: str = "orders", *, dead_letter: bool = False) -> Any:
    """Let a queue have given all numbers but one."""
    ref = driver.ref(name, dead_letter=dead_letter)
    queue = driver.partition.state.queues.of(ref.uid, ref.sub_queue)
    assert queue is not None
    queue.state.counter = sequence_number.COUNTER_MAX - 1
    return queue


@pytest.mark.requirement("R346")
def test_no_queue_gives_a_number_that_its_ids_have_no_room_for(driver: Driver) -> None:
    driver.create()
    queue = last(driver)
    driver.send(b"last")

    with pytest.raises(errors.QuotaExceeded, match="sequence numbers exhausted"):
        driver.send(b"one more")

    assert queue.state.counter == sequence_number.COUNTER_MAX


@pytest.mark.requirement("R346")
def test_a_dead_letter_queue_gives_no_such_number_either(driver: Driver) -> None:
    driver.create()
    driver.send(b"a", b"b")
    tokens = [token for _, token in driver.receive(2)]
    last(driver, dead_letter=True)

    settled = driver.settle(Disposition.DEAD_LETTER, *tokens)

    [(index, error)] = settled.failures
    assert (index, type(error)) == (1, errors.QuotaExceeded)
    assert (driver.counts().active, driver.counts().dead_letter) == (1, 1)
    # Its receiver has it still.
    [(_, error)] = driver.settle(Disposition.ABANDON, tokens[1]).failures
    assert isinstance(error, errors.QuotaExceeded)
    assert not driver.settle(Disposition.COMPLETE, tokens[1]).failures


@pytest.mark.requirement("R346")
def test_a_subscription_gives_no_such_number_either(driver: Driver) -> None:
    topic_changes.make_news(driver)
    last(driver, "news/Subscriptions/a")
    frame = [Append("t", driver.ref("news"), Batch([b""])) for _ in range(2)]

    [first, second] = [driver.run(each)[0] for each in frame]

    assert not first.failures
    assert isinstance(getattr(second, "error", None) or second.failures[0][1], errors.QuotaExceeded)
