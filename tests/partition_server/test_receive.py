"""Receiving, inside one partition: reservations, locks, order."""

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Origin
from bendybus.domain.entity_settings import EntityStatus
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state import ready_set
from bendybus.partition_server.state.answers import AskRefused, Delivered, Reserved, Withdrawn
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    CommitEntity,
    Deliver,
    Release,
    StreamEnded,
    Withdraw,
)
from tests.partition_server.driver import Driver


@pytest.mark.requirement("R13")
def test_messages_come_oldest_first_with_a_delivery_count_of_zero(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c")

    rows = [row for row, _ in queue.receive(2)]

    assert [row.payload for row in rows] == [b"a", b"b"]
    assert [row.delivery_count for row in rows] == [0, 0]


def test_a_locked_message_is_not_given_to_another_receiver(queue: Driver) -> None:
    queue.send(b"a")
    queue.receive(stream="one")

    assert queue.receive(stream="two") == []


def test_an_ask_waits_for_a_message_and_gets_it_after_its_commit(queue: Driver) -> None:
    assert queue.reserve(5) == []

    values = queue.run(Append("t", queue.ref(), Batch([b"a"])))

    [reserved] = [value for value in values if isinstance(value, Reserved)]
    assert [row.payload for row in reserved.delivery.rows] == [b"a"]
    assert not reserved.more


def test_a_receive_returns_what_is_there_and_does_not_wait_to_fill_up(queue: Driver) -> None:
    queue.send(b"a", b"b")

    [reserved] = queue.reserve(10)

    assert len(reserved.delivery.rows) == 2


def test_asks_are_served_in_turn(queue: Driver) -> None:
    queue.reserve(10, stream="one")
    queue.reserve(10, stream="two")

    first = queue.run(Append("t", queue.ref(), Batch([b"a"])))
    second = queue.run(Append("t", queue.ref(), Batch([b"b"])))

    reserved = [value for value in first + second if isinstance(value, Reserved)]
    assert [value.ask_id for value in reserved] == [1, 2]


def test_a_locked_message_is_delivered_again_after_its_lock_ends(queue: Driver) -> None:
    queue.send(b"a")
    queue.receive()

    queue.advance(60_001)

    [(row, _)] = queue.receive()
    assert row.delivery_count == 1


def test_a_lock_is_valid_until_its_end(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    queue.advance(59_999)

    assert not queue.settle(Disposition.COMPLETE, token).failures


def test_a_message_that_was_only_reserved_comes_back_uncounted(queue: Driver) -> None:
    queue.send(b"a")
    queue.reserve()

    queue.advance(60_001)

    [(row, _)] = queue.receive()
    assert row.delivery_count == 0


def test_a_stream_that_ends_gives_back_what_it_had_reserved_but_not_what_it_delivered(
    queue: Driver,
) -> None:
    queue.send(b"seen", b"unseen")
    [reserved] = queue.reserve(2)
    [(_, seen), _] = queue.tokens(reserved)
    queue.run(Deliver("s", 1, seen))

    queue.run(StreamEnded("s"))

    assert [(row.payload, row.delivery_count) for row, _ in queue.receive(5, stream="x")] == [
        (b"unseen", 0)
    ]


def test_released_messages_come_back_in_their_place_by_number(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c")
    [reserved] = queue.reserve(2)
    [(_, first), (_, second)] = queue.tokens(reserved)

    queue.run(Release("s", second), Release("s", first))

    assert [row.payload for row, _ in queue.receive(5)] == [b"a", b"b", b"c"]


def test_an_abandoned_message_comes_back_in_its_place_by_number(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c")
    [(_, token), *_] = queue.receive(2)

    queue.settle(Disposition.ABANDON, token)

    assert [row.payload for row, _ in queue.receive(5)] == [b"a", b"c"]


def test_receive_and_delete_deletes_only_what_is_handed_over(queue: Driver) -> None:
    queue.send(b"a", b"b")
    [reserved] = queue.reserve(2, delete=True)
    [(_, first), _] = queue.tokens(reserved)

    [delivered] = queue.run(Deliver("s", 7, first))
    queue.run(StreamEnded("s"))

    assert delivered == Delivered(7, [])
    assert queue.counts().active == 1
    assert [row.payload for row, _ in queue.receive(5)] == [b"b"]


def test_receive_and_delete_does_not_hand_over_what_it_lost(queue: Driver) -> None:
    queue.send(b"a")
    [reserved] = queue.reserve(1, delete=True)
    [(_, token)] = queue.tokens(reserved)
    queue.advance(60_001)

    [delivered] = queue.run(Deliver("s", 7, token))

    assert list(delivered.lost) == [0]
    assert queue.counts().active == 1


def test_a_restart_frees_all_locks_and_voids_their_tokens(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()

    queue.restart()

    [(_, error)] = queue.settle(Disposition.COMPLETE, token).failures
    assert isinstance(error, errors.MessageLockLost)
    assert len(queue.receive()) == 1


def test_a_token_does_not_fit_a_later_lock_of_the_same_message(queue: Driver) -> None:
    queue.send(b"a")
    [(_, old)] = queue.receive()
    queue.advance(60_001)
    [(_, new)] = queue.receive()

    assert queue.settle(Disposition.COMPLETE, old).failures
    assert not queue.settle(Disposition.COMPLETE, new).failures


def test_a_withdrawn_ask_gets_nothing_more(queue: Driver) -> None:
    queue.reserve(5)

    assert queue.run(Withdraw("s", 1)) == [Withdrawn(1)]

    assert not any(
        isinstance(value, Reserved) for value in queue.run(Append("t", queue.ref(), Batch([b"a"])))
    )


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.RECEIVE_DISABLED])
def test_a_queue_that_is_disabled_for_receives_refuses_asks(
    driver: Driver, status: EntityStatus
) -> None:
    driver.create(status=status)

    [refused] = driver.reserve()

    assert isinstance(refused.error, errors.EntityDisabled)


def test_an_ask_that_waits_is_refused_when_the_queue_changes(queue: Driver) -> None:
    queue.reserve()

    values = queue.run(
        CommitEntity(
            "t",
            EntityAction.UPDATE,
            "orders",
            Origin.CLIENT,
            {"status": EntityStatus.RECEIVE_DISABLED},
        )
    )

    [refused] = [value for value in values if isinstance(value, AskRefused)]
    assert isinstance(refused.error, errors.GenerationMismatch)


def test_an_ask_is_bounded_in_bytes_but_gives_one_message_always(queue: Driver) -> None:
    queue.send(b"x" * 1_000, b"x" * 1_000, b"x" * 1_000)

    [reserved] = queue.reserve(10, size_bytes=1_500)

    assert len(reserved.delivery.rows) == 1
    [large] = queue.reserve(1, size_bytes=1)
    assert len(large.delivery.rows) == 1


def test_waiting_receives_have_a_bound(queue: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    from bendybus.domain import limits

    monkeypatch.setattr(limits, "RECEIVERS_PER_ENTITY", 2)
    queue.reserve()
    queue.reserve()

    [refused] = queue.reserve()

    assert isinstance(refused.error, errors.ServerBusy)


@pytest.mark.requirement("R43")
def test_a_backlog_larger_than_the_window_comes_in_order(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready_set, "PAGE_ROWS", 3)
    monkeypatch.setattr(ready_set, "WINDOW_ROWS_MAX", 5)
    sent = [str(i).encode() for i in range(40)]
    for start in range(0, 40, 4):
        queue.send(*sent[start : start + 4])

    received = []
    while pairs := queue.receive(7):
        received += [row.payload for row, _ in pairs]
        queue.settle(Disposition.COMPLETE, *(token for _, token in pairs))

    assert received == sent


def test_the_window_is_bounded_while_the_backlog_grows(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready_set, "WINDOW_ROWS_MAX", 100)
    for _ in range(20):
        queue.send(*[b"x"] * 50)
    queue.receive(1)

    held = queue.partition.state.queues.at(0)
    assert held is not None
    assert isinstance(held.ready, ready_set.ReadyWindow)
    assert len(held.ready.window) <= max(100, ready_set.PAGE_ROWS)


def test_locks_are_extended_by_the_time_that_the_process_stood_still(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    queue.partition.state.clock.observe(queue.now)

    queue.wall_ms += 120_000
    queue.mono_ms += 120_000
    gap_ms = queue.partition.state.clock.observe(queue.now)
    queue.partition.state.extend_locks(gap_ms)

    assert gap_ms == 120_000
    assert not queue.settle(Disposition.COMPLETE, token).failures


def test_an_ask_for_nothing_is_refused(queue: Driver) -> None:
    [refused] = queue.run(Ask("s", 1, queue.ref(), False, 0, 100))

    assert isinstance(refused.error, errors.InvalidArgument)


def test_an_ask_that_comes_together_with_the_end_of_its_stream_locks_nothing(
    queue: Driver,
) -> None:
    queue.send(b"a")

    values = queue.run(Ask("gone", 7, queue.ref(), False, 1, 1_000), StreamEnded("gone"))

    assert values == []
    assert [row.payload for row, _ in queue.receive(stream="here")] == [b"a"]
