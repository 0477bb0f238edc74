"""Settling: what becomes of locked messages."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity_settings import QueueDescription
from bendybus.partition_server.state.answers import Delivery, Failed
from bendybus.partition_server.state.commands import CancelScheduled, ReceiveDeferred, Settle
from bendybus.v1 import message_pb2
from tests import sequence_numbers
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint


def changed(**values: str) -> bytes:
    """Return changed properties as they come over the wire."""
    entries = {key: message_pb2.Value(string_value=value) for key, value in values.items()}
    return message_pb2.ValueMap(entries=entries).SerializeToString()


@pytest.mark.requirement("R13")
def test_a_completed_message_is_gone_for_good(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()

    assert not queue.settle(Disposition.COMPLETE, token).failures

    queue.restart()
    assert queue.receive() == []
    assert queue.counts().size_bytes == 0


def test_completing_twice_is_a_lost_lock(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    queue.settle(Disposition.COMPLETE, token)

    [(index, error)] = queue.settle(Disposition.COMPLETE, token).failures

    assert index == 0
    assert isinstance(error, errors.MessageLockLost)


def test_each_token_of_a_settlement_has_its_own_outcome(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c")
    [(_, a), (_, b), (_, c)] = queue.receive(3)
    queue.settle(Disposition.COMPLETE, b)

    settled = queue.settle(Disposition.COMPLETE, a, b, c)

    assert [index for index, _ in settled.failures] == [1]
    assert queue.counts().active == 0


def test_abandoning_counts_a_delivery_durably(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()

    queue.settle(Disposition.ABANDON, token)
    queue.restart()

    [(row, _)] = queue.receive()
    assert row.delivery_count == 1


def test_abandoning_changes_properties_and_the_later_change_wins(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    queue.settle(Disposition.ABANDON, token, changed_properties=changed(x="1", y="1"))
    [(_, token)] = queue.receive()
    queue.settle(Disposition.ABANDON, token, changed_properties=changed(x="2"))

    [(row, _)] = queue.receive()

    entries = message_pb2.ValueMap.FromString(row.changed_properties).entries
    assert {key: value.string_value for key, value in entries.items()} == {"x": "2", "y": "1"}
    assert row.payload == b"a"


def test_changed_properties_have_a_bound(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()

    settled = queue.settle(Disposition.ABANDON, token, changed_properties=changed(x="v" * 70_000))

    [(_, error)] = settled.failures
    assert isinstance(error, errors.InvalidArgument)
    assert not queue.settle(Disposition.COMPLETE, token).failures


def test_a_message_that_fails_too_often_is_dead_lettered(driver: Driver) -> None:
    driver.create(max_delivery_count=2)
    driver.send(b"a")
    for _ in range(2):
        [(_, token)] = driver.receive()
        driver.settle(Disposition.ABANDON, token)

    assert driver.receive() == []
    [(row, _)] = driver.receive(dead_letter=True)
    assert row.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert row.delivery_count == 2
    assert row.payload == b"a"


def test_lost_locks_count_to_the_deliveries_that_dead_letter(driver: Driver) -> None:
    driver.create(max_delivery_count=1)
    driver.send(b"a")
    driver.receive()

    driver.advance(60_001)

    assert (driver.counts().active, driver.counts().dead_letter) == (0, 1)


@pytest.mark.requirement("R13")
def test_a_deferred_message_is_received_only_by_its_number(queue: Driver) -> None:
    queue.send(b"a")
    [(row, token)] = queue.receive()
    queue.settle(Disposition.DEFER, token)
    assert queue.receive() == []
    assert queue.counts().deferred == 1

    queue.restart()
    [delivery] = queue.run(ReceiveDeferred("t", queue.ref(), False, [row.counter]))

    assert isinstance(delivery, Delivery)
    assert [found.payload for found in delivery.rows] == [b"a"]


def receive_deferred(queue: Driver, counter: int) -> bytes:
    """Lock a deferred message and return its token."""
    from bendybus.partition_server.state.answers import Reserved

    [delivery] = queue.run(ReceiveDeferred("t", queue.ref(), False, [counter]))
    assert isinstance(delivery, Delivery), delivery
    [(_, token)] = queue.tokens(Reserved(0, delivery, 0, 0, False))
    return token


def defer_one(queue: Driver) -> int:
    """Send and defer a message; return its counter."""
    queue.send(b"a")
    [(row, token)] = queue.receive()
    queue.settle(Disposition.DEFER, token)
    return row.counter


def test_a_deferred_message_that_is_completed_is_gone(queue: Driver) -> None:
    counter = defer_one(queue)

    assert not queue.settle(Disposition.COMPLETE, receive_deferred(queue, counter)).failures

    assert (queue.counts().deferred, queue.counts().size_bytes) == (0, 0)


def test_a_deferred_message_that_is_abandoned_stays_deferred(queue: Driver) -> None:
    counter = defer_one(queue)

    queue.settle(Disposition.ABANDON, receive_deferred(queue, counter))

    assert queue.receive() == []
    assert queue.counts().deferred == 1
    receive_deferred(queue, counter)


def test_a_locked_deferred_message_is_not_found_by_others(queue: Driver) -> None:
    counter = defer_one(queue)
    receive_deferred(queue, counter)

    [answer] = queue.run(ReceiveDeferred("t", queue.ref(), False, [counter]))

    assert isinstance(answer, Failed)
    assert isinstance(answer.error, errors.MessageNotFound)


@pytest.mark.parametrize("call", ["deferred", "scheduled"])
def test_a_message_that_is_not_found_is_named_by_the_number_that_callers_know(
    make_store: MakeStore, call: str
) -> None:
    queue = Driver(make_store(fingerprint(3)))
    queue.put(QueueDescription(enable_partitioning=True))
    make: Any = CancelScheduled if call == "scheduled" else ReceiveDeferred
    more: tuple[Any, ...] = ([7],) if call == "scheduled" else (False, [7])

    [answer] = queue.run(make("t", queue.ref(), *more))

    number = sequence_numbers.of(3, 7)
    assert f"no {call} message has the sequence number {number} " in str(answer.error)
    assert answer.error.metadata["sequence_number"] == str(number)


def test_deferred_messages_are_received_all_or_none(queue: Driver) -> None:
    counter = defer_one(queue)

    [answer] = queue.run(ReceiveDeferred("t", queue.ref(), False, [counter, 99]))

    assert isinstance(answer, Failed)
    assert "99" in answer.error.message
    receive_deferred(queue, counter)


def test_a_deferred_message_can_be_received_and_deleted(queue: Driver) -> None:
    counter = defer_one(queue)

    queue.run(ReceiveDeferred("t", queue.ref(), True, [counter]))

    assert queue.counts().deferred == 0


@pytest.mark.requirement("R13")
def test_dead_lettering_keeps_reason_description_and_original_number(queue: Driver) -> None:
    queue.send(b"a", b"b")
    [_, (row, token)] = queue.receive(2)

    queue.settle(
        Disposition.DEAD_LETTER,
        token,
        dead_letter_reason="bad",
        dead_letter_error_description="cannot parse",
    )

    queue.restart()
    [(dead, _)] = queue.receive(dead_letter=True)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("bad", "cannot parse")
    assert dead.counter == 1
    assert dead.enqueued_sequence_number == row.counter


def test_a_dead_letter_cannot_be_dead_lettered_again(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    queue.settle(Disposition.DEAD_LETTER, token)
    [(_, dead)] = queue.receive(dead_letter=True)

    [(_, error)] = queue.settle(Disposition.DEAD_LETTER, dead).failures

    assert isinstance(error, errors.InvalidOperation)
    assert not queue.settle(Disposition.COMPLETE, dead).failures


def test_dead_letters_are_not_dead_lettered_by_deliveries(driver: Driver) -> None:
    driver.create(max_delivery_count=1)
    driver.send(b"a")
    [(_, token)] = driver.receive()
    driver.settle(Disposition.ABANDON, token)

    for _ in range(3):
        [(_, dead)] = driver.receive(dead_letter=True)
        driver.settle(Disposition.ABANDON, dead)

    assert driver.counts().dead_letter == 1


def test_a_reason_that_is_too_long_is_refused(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()

    settled = queue.settle(Disposition.DEAD_LETTER, token, dead_letter_reason="r" * 4_097)

    [(_, error)] = settled.failures
    assert isinstance(error, errors.InvalidArgument)
    assert not queue.settle(Disposition.COMPLETE, token).failures


@pytest.mark.requirement("R13")
def test_renewing_gives_a_whole_lock_duration_more(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    queue.advance(50_000)

    settled = queue.settle(Disposition.RENEW_LOCK, token)
    queue.advance(59_000)

    assert settled.locked_until_ms == queue.wall_ms + 1_000
    assert not queue.settle(Disposition.COMPLETE, token).failures


def test_a_lock_that_ended_cannot_be_renewed(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    queue.mono_ms += 60_001

    [(_, error)] = queue.settle(Disposition.RENEW_LOCK, token).failures

    assert isinstance(error, errors.MessageLockLost)


def test_a_released_message_comes_back_without_a_delivery(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()

    queue.settle(Disposition.RELEASE, token)

    [(row, _)] = queue.receive()
    assert row.delivery_count == 0


def test_a_settlement_whose_commit_fails_leaves_the_lock(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    now = queue.now

    stage = queue.partition.decide([Settle("s", 1, Disposition.COMPLETE, token)], now)
    [(_, answer)] = queue.partition.abandon(stage, errors.PartitionUnavailable("disk"), now)

    assert [index for index, _ in answer.failures] == [0]
    assert not queue.settle(Disposition.COMPLETE, token).failures


def test_tokens_of_other_partitions_and_nonsense_are_lost_locks(queue: Driver) -> None:
    settled = queue.settle(Disposition.COMPLETE, b"\x00\x07" + b"x" * 14)

    [(_, error)] = settled.failures
    assert isinstance(error, errors.MessageLockLost)


@pytest.mark.parametrize(
    "disposition", [Disposition.COMPLETE, Disposition.ABANDON, Disposition.RENEW_LOCK]
)
def test_a_receiver_of_another_entity_cannot_settle_with_a_guessed_token(
    queue: Driver, disposition: Disposition
) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()

    stolen = queue.settle(disposition, token, entity_uid="of another queue")

    [(_, error)] = stolen.failures
    assert isinstance(error, errors.MessageLockLost)
    assert not queue.settle(Disposition.COMPLETE, token, entity_uid=queue.ref().uid).failures


def test_tokens_of_a_wrong_length_are_an_invalid_argument(queue: Driver) -> None:
    [(_, error)] = queue.settle(Disposition.COMPLETE, b"short").failures

    assert isinstance(error, errors.InvalidArgument)


def test_a_lock_that_was_renewed_twice_at_once_ends_once(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    queue.settle(Disposition.RENEW_LOCK, token)

    queue.advance(60_001)

    [(row, _)] = queue.receive()
    assert row.delivery_count == 1


def test_changed_properties_and_texts_of_dead_letters_count_to_the_size(queue: Driver) -> None:
    queue.send(b"abandoned", b"deferred", b"dead")
    before = queue.counts().size_bytes
    [(_, abandoned), (_, deferred), (_, dead)] = queue.receive(3)

    queue.settle(Disposition.ABANDON, abandoned, changed_properties=b"c" * 100)
    queue.settle(Disposition.DEFER, deferred, changed_properties=b"c" * 200)
    queue.settle(
        Disposition.DEAD_LETTER,
        dead,
        changed_properties=b"c" * 400,
        dead_letter_reason="r" * 800,
        dead_letter_error_description="d" * 1_600,
    )

    assert queue.counts().size_bytes - before == 100 + 200 + 400 + 800 + 1_600
    queue.restart()
    assert queue.counts().size_bytes - before == 100 + 200 + 400 + 800 + 1_600
    [(_, again)] = queue.receive(1)
    queue.settle(Disposition.ABANDON, again, changed_properties=b"e" * 10)
    assert queue.counts().size_bytes - before == 100 + 10 + 200 + 400 + 800 + 1_600

    queue.receive(5, delete=True)
    queue.receive(5, delete=True, dead_letter=True)
    from bendybus.partition_server.state.commands import ReceiveDeferred

    queue.run(ReceiveDeferred("t", queue.ref(), True, [2]))
    assert queue.counts().size_bytes == 0


def test_an_expired_message_is_dead_lettered_as_it_was_abandoned(driver: Driver) -> None:
    driver.create(dead_lettering_on_message_expiration=True)
    driver.send(b"a", time_to_live_ms=[1_000])
    [(_, token)] = driver.receive()
    driver.wall_ms += 1_001

    driver.settle(Disposition.ABANDON, token, changed_properties=b"why")

    [(row, dead)] = driver.receive(dead_letter=True)
    assert (row.changed_properties, row.delivery_count) == (b"why", 1)
    driver.settle(Disposition.COMPLETE, dead)
    assert driver.counts().size_bytes == 0
