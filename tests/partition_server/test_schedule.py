"""Scheduled messages: each comes at its time with a new number, unless it is cancelled."""

from typing import Any

import pytest

from bendybus.domain import errors, sequence_number
from bendybus.partition_server.state import budget
from bendybus.partition_server.state.answers import Done, Failed
from bendybus.partition_server.state.commands import CancelScheduled
from tests.partition_server.driver import Driver


def test_a_scheduled_message_comes_at_its_time_with_a_new_number(queue: Driver) -> None:
    due_ms = queue.wall_ms + 10_000
    [scheduled] = queue.send(b"later", scheduled_ms=[due_ms]).numbers
    queue.send(b"now")
    assert queue.counts().scheduled == 1
    assert [row.payload for row, _ in queue.receive(5)] == [b"now"]

    queue.advance(10_000)

    [(row, _)] = queue.receive()
    assert (row.payload, row.enqueued_ms) == (b"later", due_ms)
    assert row.counter > sequence_number.counter_of(scheduled)
    assert queue.counts().scheduled == 0


def test_a_schedule_survives_a_restart(queue: Driver) -> None:
    queue.send(b"later", scheduled_ms=[queue.wall_ms + 10_000])
    queue.restart()

    queue.advance(10_000)

    assert len(queue.receive()) == 1


def test_a_scheduled_time_in_the_past_is_now(queue: Driver) -> None:
    queue.send(b"a", scheduled_ms=[queue.wall_ms - 1])

    [(row, _)] = queue.receive()
    # As its sender said it.
    assert row.scheduled_ms == queue.wall_ms - 1


def test_a_scheduled_message_lives_from_its_activation_on(queue: Driver) -> None:
    queue.send(b"a", scheduled_ms=[queue.wall_ms + 10_000], time_to_live_ms=[5_000])

    queue.advance(10_000)
    [row] = queue.peek()

    assert row.expires_ms == queue.wall_ms + 5_000


def test_a_receiver_that_waits_gets_what_becomes_active(queue: Driver) -> None:
    queue.send(b"a", scheduled_ms=[queue.wall_ms + 1_000])
    queue.reserve(1)

    [reserved] = queue.advance(1_000)

    assert [row.payload for row in reserved.delivery.rows] == [b"a"]


def test_a_cancelled_schedule_never_comes(queue: Driver) -> None:
    [number] = queue.send(b"a", scheduled_ms=[queue.wall_ms + 1_000]).numbers

    [answer] = queue.run(CancelScheduled("t", queue.ref(), [sequence_number.counter_of(number)]))

    assert answer == Done(1)
    queue.advance(2_000)
    assert queue.receive() == []
    assert queue.counts().size_bytes == 0


@pytest.mark.requirement("R571")
def test_a_check_of_a_cancellation_deletes_nothing_and_is_not_remembered(queue: Driver) -> None:
    [number] = queue.send(b"a", scheduled_ms=[queue.wall_ms + 1_000]).numbers
    counter = sequence_number.counter_of(number)

    def ask(*counters: int, only_check: bool = False) -> Any:
        name = b"o" * 16
        command = CancelScheduled("t", queue.ref(), counters, name, only_check=only_check)
        return queue.run(command)[0]

    assert ask(counter, only_check=True) == Done(1)
    assert isinstance(ask(counter, counter + 1, only_check=True), Failed)
    assert queue.counts().scheduled == 1
    assert ask(counter) == Done(1)
    assert queue.counts().scheduled == 0
    # Its repeat is known, also to a check.
    assert ask(counter, only_check=True) == Done(1)


@pytest.mark.requirement("R571")
def test_a_repeat_in_a_partition_that_forgot_cancels_what_is_still_scheduled(queue: Driver) -> None:
    [number] = queue.send(b"a", scheduled_ms=[queue.wall_ms + 1_000]).numbers
    counter = sequence_number.counter_of(number)

    def repeat(name: bytes) -> Any:
        command = CancelScheduled("t", queue.ref(), [counter], name, age_ms=10_000_000)
        return queue.run(command)[0]

    assert repeat(b"o" * 16) == Done(1)
    assert queue.counts().scheduled == 0
    assert repeat(b"o" * 16) == Done(1)
    # It may have been cancelled by the first try.
    other = repeat(b"p" * 16)
    assert isinstance(other, Failed)
    assert isinstance(other.error, errors.OutcomeUnknown)


def test_only_what_is_scheduled_can_be_cancelled(queue: Driver) -> None:
    queue.send(b"a")

    [answer] = queue.run(CancelScheduled("t", queue.ref(), [1]))

    assert isinstance(answer, Failed)
    assert isinstance(answer.error, errors.MessageNotFound)
    assert queue.counts().active == 1


def test_many_activations_are_many_bounded_transactions(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 10)
    queue.send(*[b"x"] * 35, scheduled_ms=[queue.wall_ms + 1_000] * 35)
    queue.wall_ms += 1_000

    sizes = []
    while (stage := queue.partition.sweep(queue.now)) is not None and stage.changes:
        sizes.append(len(stage.changes.inserts))
        queue.store.commit(stage.changes)
        queue.partition.apply(stage, queue.now)

    assert sum(sizes) == 35
    assert max(sizes) == 10
