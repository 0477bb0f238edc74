"""Sequence numbers that clients get before the messages that they schedule are committed."""

from typing import Any

import pytest

from bendybus.domain import errors, limits, sequence_number
from bendybus.domain.entity_settings import EntityStatus
from bendybus.partition_server.state.answers import Done, Failed, NumbersReserved, Transacted
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    CancelScheduled,
    ReserveNumbers,
    TransactAlone,
    Transfer,
)
from tests.partition_server import draining, topic_changes
from tests.partition_server.driver import Driver
from tests.partition_server.forwarding_driver import bodies, held
from tests.partition_server.partition_pair import NAMES
from tests.partition_server.test_transaction_store import transact
from tests.partition_server.test_transfer import Sending, entity

HOUR_MS = 3_600_000

pytestmark = pytest.mark.requirement("R580")


def reserve(driver: Driver, count: int = 1, name: str = "orders") -> int:
    """Reserve `count` numbers; return the first."""
    [value] = driver.run(ReserveNumbers("r", driver.ref(name), count))
    if isinstance(value, Failed):
        raise value.error
    assert isinstance(value, NumbersReserved), value
    return value.first


def later(driver: Driver, *numbers: int, name: str = "orders", **columns: Any) -> Append:
    """Return a part that schedules a message for each number; 0: none is reserved for it."""
    due_ms = [driver.wall_ms + HOUR_MS] * len(numbers)
    payloads = [f"later {n}".encode() for n in range(len(numbers))]
    keys = ["k"] * len(payloads)
    batch = Batch(payloads, partition_keys=keys, scheduled_ms=due_ms, reserved=numbers, **columns)
    return Append(None, driver.ref(name), batch)


def numbers_of(outcome: Any) -> list[int]:
    assert isinstance(outcome, Transacted), outcome
    assert outcome.error is None, outcome.error
    return [number for part in outcome.parts for number in part.numbers]


def cancel(driver: Driver, number: int, name: str = "orders") -> object:
    counters = [sequence_number.counter_of(number)]
    [answer] = driver.run(CancelScheduled("c", driver.ref(name), counters))
    return answer


def test_a_message_is_stored_under_its_number_and_cancelled_by_it(queue: Driver) -> None:
    first = reserve(queue, 2)
    queue.send(b"between")

    outcome = transact(queue, later(queue, first, first + 1))

    assert numbers_of(outcome) == [first, first + 1]
    assert queue.counts().scheduled == 2
    assert isinstance(cancel(queue, first), Done)
    queue.advance(HOUR_MS)
    assert [row.payload for row, _ in queue.receive(5)] == [b"between", b"later 1"]


def test_numbers_of_a_transaction_that_is_rolled_back_are_never_given_again(queue: Driver) -> None:
    first = reserve(queue, 3)
    queue.restart()

    [number] = queue.send(b"a").numbers

    assert number == first + 3
    assert [row.payload for row, _ in queue.receive(2)] == [b"a"]
    assert isinstance(cancel(queue, first), Failed)


def test_what_is_sent_after_a_reservation_is_received_at_once(queue: Driver) -> None:
    queue.reserve(1)
    reserve(queue, 100)

    answers = queue.run(Append("t", queue.ref(), Batch([b"a"])))

    assert len(answers) == 2, "the receiver waits no longer"


def test_a_message_that_is_due_at_the_commit_gets_a_new_number(queue: Driver) -> None:
    first, part = reserve(queue), later(queue, 0)
    part.batch.reserved = [first]
    queue.advance(HOUR_MS)

    [number] = numbers_of(transact(queue, part))

    assert number == first + 1
    assert [row.payload for row, _ in queue.receive(2)] == [b"later 0"]


@pytest.mark.parametrize("number", [0, -1, 7 << 48 | 1, 99])
def test_a_number_that_was_not_reserved_here_is_not_used(queue: Driver, number: int) -> None:
    queue.send(b"a")

    outcome = transact(queue, later(queue, number))

    assert numbers_of(outcome) == [2]


def test_a_number_belongs_to_one_message(queue: Driver) -> None:
    first = reserve(queue)

    outcome = transact(queue, later(queue, first, first))
    again = transact(queue, later(queue, first), id_=b"transaction-0002")

    assert numbers_of(outcome) == [first, first + 1]
    assert numbers_of(again) == [first + 2]
    assert queue.counts().scheduled == 3


def test_a_duplicate_gets_the_number_of_the_first(driver: Driver) -> None:
    driver.create(requires_duplicate_detection=True)
    first = reserve(driver, 2)

    sent = transact(driver, later(driver, first, message_ids=["a"]))
    driver.send(b"other")
    again = transact(driver, later(driver, first + 1, message_ids=["a"]), id_=b"transaction-0002")

    assert (numbers_of(sent), numbers_of(again)) == ([first], [first])
    assert again.parts[0].duplicates == [True]
    assert driver.counts().scheduled == 1


def test_a_topic_keeps_a_message_under_its_number_until_it_is_due(driver: Driver) -> None:
    topic_changes.make_news(driver)
    first = reserve(driver, 2, "news")
    part = later(driver, first, first + 1, name="news")
    part.batch.payloads = [b"", b""]
    driver.run(Append("s", driver.ref("news"), Batch([b""])))

    [outcome] = driver.run(TransactAlone("t", driver.ref("news"), b"transaction-0001", [part]))

    assert numbers_of(outcome) == [first, first + 1]
    assert isinstance(cancel(driver, first, "news"), Done)
    driver.advance(HOUR_MS)
    assert len(bodies(driver, "news/Subscriptions/a")) == 2
    assert driver.counts_of("news").scheduled == 0


def test_a_message_at_its_number_does_not_mislead_a_search_by_time(queue: Driver) -> None:
    queue.send(b"a")
    first = reserve(queue)
    [last] = queue.send(b"b").numbers
    queue.advance(1_000)

    transact(queue, later(queue, first))

    found = draining.number_at(queue, queue.wall_ms)
    assert found.after == sequence_number.counter_of(last)


@pytest.mark.parametrize("count", [0, limits.TRANSACTION_MESSAGES_MAX + 1])
def test_no_more_numbers_are_reserved_than_a_transaction_has_messages(
    queue: Driver, count: int
) -> None:
    with pytest.raises(errors.InvalidArgument, match="count"):
        reserve(queue, count)


def test_what_takes_no_messages_reserves_no_numbers(queue: Driver) -> None:
    queue.create("closed", status=EntityStatus.SEND_DISABLED)

    with pytest.raises(errors.EntityDisabled):
        reserve(queue, name="closed")


@pytest.mark.parametrize("restarted", [False, True])
def test_a_message_for_another_entity_gets_the_number_that_is_reserved_there(
    restarted: bool,
) -> None:
    pair = Sending()
    there = pair.drivers[1]
    key = next(name for name in NAMES if entity("invoices").partition_of(name) == 1)
    number = reserve(there, name="invoices")
    part = Transfer(pair.source.ref("invoices"), later(there, number, name="invoices").batch)
    part.batch.partition_keys = [key]

    pair.transact(pair.received(b"order"), part)
    if restarted:
        pair.restart(0)
    pair.finish()

    assert isinstance(cancel(there, number, "invoices"), Done)


def test_a_message_that_goes_to_another_queue_has_the_first_number_of_its_way() -> None:
    """A number in the transfer queue is not mistaken for a reserved one."""
    pair = Sending()
    pair.transact(pair.to("invoices", *[name.encode() for name in NAMES], partition_keys=NAMES))
    pair.finish()

    rows = [row for driver in pair.drivers for row in held(driver, "invoices")]
    assert sorted(row.enqueued_sequence_number for row in rows) == list(range(1, len(NAMES) + 1))
