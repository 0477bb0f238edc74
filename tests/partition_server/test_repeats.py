"""Repeats whose first answer was lost get the first outcome; what remembers them is bounded."""

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import InvalidArgument, OutcomeUnknown
from bendybus.domain.message_state import ACTIVE_ONLY, EVERY_STATE
from bendybus.partition_server.state import outcomes, settler_memory
from bendybus.partition_server.state.answers import Delivery, Done, Failed
from bendybus.partition_server.state.commands import (
    CancelScheduled,
    DeleteMessages,
    Now,
    ReceiveDeferred,
)
from bendybus.partition_server.state.outcomes import Operations
from bendybus.partition_server.state.settler_memory import Settlers
from tests.partition_server.driver import Driver

ME, OTHER = b"m" * 16, b"o" * 16


@pytest.mark.parametrize(
    "disposition", [Disposition.COMPLETE, Disposition.ABANDON, Disposition.DEAD_LETTER]
)
def test_a_repeated_settlement_succeeds(queue: Driver, disposition: Disposition) -> None:
    queue.send(b"a", b"b")
    tokens = [token for _, token in queue.receive(2)]
    queue.settle(disposition, tokens[0], settler_id=ME)

    # With one more message, as a client puts repeats together anew.
    settled = queue.settle(disposition, *tokens, settler_id=ME, repeat=True)

    assert list(settled.failures) == []
    assert queue.counts().dead_letter == (2 if disposition is Disposition.DEAD_LETTER else 0)


def test_only_the_same_receivers_repeat_of_the_same_thing_succeeds(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    queue.settle(Disposition.COMPLETE, token, settler_id=ME)

    for settler_id, disposition, repeat in (
        (OTHER, Disposition.COMPLETE, True),
        (ME, Disposition.ABANDON, True),
        (ME, Disposition.COMPLETE, False),
        (b"", Disposition.COMPLETE, True),
    ):
        settled = queue.settle(disposition, token, settler_id=settler_id, repeat=repeat)
        assert [index for index, _ in settled.failures] == [0]


def test_a_repeat_in_the_same_turn_as_the_first_try_succeeds(queue: Driver) -> None:
    from bendybus.partition_server.state.commands import Settle

    queue.send(b"a")
    [(_, token)] = queue.receive()
    first = Settle("s", 1, Disposition.COMPLETE, token, settler_id=ME)
    again = Settle("t", 2, Disposition.COMPLETE, token, settler_id=ME, repeat=True)

    answers = queue.run(first, again)

    assert [list(settled.failures) for settled in answers] == [[], []]


def test_what_receivers_settled_is_bounded_in_frames_bytes_and_age() -> None:
    memory = Settlers()
    for index in range(settler_memory.FRAMES_PER_SETTLER_MAX + 10):
        memory.remember(ME, Disposition.COMPLETE, index.to_bytes(16, "big"), 1_000)
    assert len(memory.settled(ME, Disposition.COMPLETE)) == settler_memory.FRAMES_PER_SETTLER_MAX

    for index in range(200):
        many = index.to_bytes(16, "big") * 5_000
        memory.remember(index.to_bytes(16, "big"), Disposition.COMPLETE, many, 1_000)
        memory.remember(index.to_bytes(16, "big"), Disposition.COMPLETE, many, 1_000)
    assert memory.used()[1] <= settler_memory.BYTES_MAX

    memory.remember(OTHER, Disposition.COMPLETE, b"x" * 16, 1_001 + settler_memory.AGE_MS_MAX)
    assert memory.used()[1] == 16 + settler_memory.ENTRY_BYTES


def test_a_repeated_batch_delete_deletes_nothing_more(queue: Driver) -> None:
    queue.send(*[b"x"] * 12)
    delete = DeleteMessages("t", queue.ref(), 5, 0, ACTIVE_ONLY, operation_id=ME)

    assert queue.run(delete) == [Done(5)]
    assert queue.run(delete) == [Done(5)]
    assert queue.run(DeleteMessages("t", queue.ref(), 5, 0, ACTIVE_ONLY, operation_id=OTHER)) == [
        Done(5)
    ]

    assert queue.counts().active == 2


def test_what_an_operation_deleted_is_told_without_deleting(queue: Driver) -> None:
    queue.send(*[b"x"] * 12)
    ask = DeleteMessages("t", queue.ref(), 1, 0, ACTIVE_ONLY, operation_id=ME, only_known=True)

    assert queue.run(ask) == [Done(0)]
    assert queue.run(DeleteMessages("t", queue.ref(), 5, 0, ACTIVE_ONLY, operation_id=ME)) == [
        Done(5)
    ]
    assert queue.run(ask) == [Done(5)]

    assert queue.counts().active == 7


def test_a_repeated_cancellation_is_not_told_that_there_is_no_such_message(queue: Driver) -> None:
    due_ms = queue.wall_ms + 60_000
    counter = queue.send(b"a", scheduled_ms=[due_ms]).numbers[0] & (2**48 - 1)
    cancel = CancelScheduled("t", queue.ref(), [counter], operation_id=ME)

    assert [type(value) for value in queue.run(cancel) + queue.run(cancel)] == [Done, Done]


def test_a_repeated_receive_of_deferred_messages_gets_the_same_locks(queue: Driver) -> None:
    queue.send(b"a")
    [(row, token)] = queue.receive()
    queue.settle(Disposition.DEFER, token)
    receive = ReceiveDeferred("t", queue.ref(), False, [row.counter], operation_id=ME)

    [first] = queue.run(receive)
    queue.mono_ms += 10_000
    [again] = queue.run(receive)

    assert isinstance(first, Delivery)
    assert isinstance(again, Delivery)
    assert again.generations == first.generations
    assert again.lock_remaining_ms == first.lock_remaining_ms - 10_000


def test_a_repeated_receive_and_delete_of_deferred_messages_gets_them(queue: Driver) -> None:
    queue.send(b"a")
    [(row, token)] = queue.receive()
    queue.settle(Disposition.DEFER, token)
    receive = ReceiveDeferred("t", queue.ref(), True, [row.counter], operation_id=ME)

    [first], [again] = queue.run(receive), queue.run(receive)

    assert [row.payload for row in again.rows] == [row.payload for row in first.rows] == [b"a"]


def test_an_operation_that_may_have_been_done_before_the_file_was_opened_is_unknown(
    queue: Driver,
) -> None:
    queue.send(b"a")

    delete = DeleteMessages("t", queue.ref(), 5, 0, ACTIVE_ONLY, operation_id=ME, age_ms=5_000)
    [answer] = queue.run(delete)

    assert isinstance(answer, Failed)
    assert isinstance(answer.error, OutcomeUnknown)
    assert queue.counts().active == 1


def test_outcomes_of_operations_are_bounded_and_what_is_forgotten_is_unknown() -> None:
    memory = Operations(Now(0, 1_000))
    for index in range(outcomes.OPERATIONS_MAX + 1):
        memory.remember(index.to_bytes(16, "big"), Done(1), Now(0, 2_000))

    assert memory.outcome_of((1).to_bytes(16, "big"), 10, Now(0, 3_000), Done) == Done(1)
    with pytest.raises(OutcomeUnknown):
        memory.outcome_of((0).to_bytes(16, "big"), 2_000, Now(0, 3_000), Done)
    assert memory.outcome_of(ME, 500, Now(0, 3_000), Done) is None


def test_the_name_of_an_operation_of_another_kind_is_refused(queue: Driver) -> None:
    queue.send(b"a")
    [(row, token)] = queue.receive()
    queue.settle(Disposition.DEFER, token)
    delete = DeleteMessages("t", queue.ref(), 5, 0, ACTIVE_ONLY, operation_id=ME)
    receive = ReceiveDeferred("t", queue.ref(), False, [row.counter], operation_id=OTHER)
    queue.run(delete, receive)

    answers = queue.run(
        ReceiveDeferred("t", queue.ref(), False, [row.counter], operation_id=ME),
        DeleteMessages("t", queue.ref(), 5, 0, ACTIVE_ONLY, operation_id=OTHER),
        CancelScheduled("t", queue.ref(), [row.counter], operation_id=OTHER),
    )

    for answer in answers:
        assert isinstance(answer, Failed)
        assert isinstance(answer.error, InvalidArgument)
        assert "another kind" in answer.error.message


def test_the_same_name_at_another_queue_is_another_operation(queue: Driver) -> None:
    queue.send(b"a", b"b")
    first, other = queue.ref(), queue.ref(dead_letter=True)
    [(_, token), _] = queue.receive(2)
    queue.settle(Disposition.DEAD_LETTER, token)
    queue.create("other")
    none = queue.ref("other")

    done = [
        queue.run(DeleteMessages("t", ref, 5, 0, EVERY_STATE, operation_id=ME))[0].count
        for ref in (other, none, first, other)
    ]

    assert done == [1, 0, 0, 1]
    queue.advance(600_000)
    assert (
        queue.run(DeleteMessages("t", first, 5, 0, EVERY_STATE, operation_id=OTHER))[0].count == 1
    )


def test_an_operation_that_is_done_once_more_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outcomes, "BYTES_MAX", 1_000)
    memory = Operations(Now(0, 1_000))

    for _ in range(10):
        memory.remember(ME, Done(1), Now(0, 2_000))
    memory.remember(OTHER, Done(2), Now(0, 2_000))

    assert memory.outcome_of(ME, 10, Now(0, 3_000), Done) == Done(1)
    assert memory.outcome_of(OTHER, 10, Now(0, 3_000), Done) == Done(2)


def test_a_withdrawal_that_comes_with_its_ask_gives_what_is_there(queue: Driver) -> None:
    from bendybus.partition_server.state.answers import Reserved, Withdrawn
    from bendybus.partition_server.state.commands import Ask, Withdraw

    queue.send(b"a")

    answers = queue.run(Ask("s", 7, queue.ref(), False, 1, 1_000), Withdraw("s", 7))

    assert [type(answer) for answer in answers] == [Reserved, Withdrawn]


def test_an_ask_is_answered_once_and_says_whether_there_is_more(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c")

    [first] = queue.reserve(2)
    [second] = queue.reserve(5)

    assert (len(first.delivery.rows), first.more) == (2, True)
    assert (len(second.delivery.rows), second.more) == (1, False)
    assert second.locked_until_mono_ms == queue.mono_ms + second.lock_remaining_ms
    queue.send(b"d")
    assert len(queue.reserve(1)) == 1


def test_lost_locks_of_a_frame_share_one_error(queue: Driver) -> None:
    settled = queue.settle(Disposition.COMPLETE, *[bytes(16)] * 5_000)

    assert len({id(error) for _, error in settled.failures}) == 1


def test_a_repeat_of_one_settlement_does_not_go_through_all_that_are_remembered() -> None:
    memory = settler_memory.Settlers()
    tokens = [b"%016d" % i for i in range(1_000)]
    for i in range(0, 1_000, 100):
        memory.remember(ME, Disposition.COMPLETE, b"".join(tokens[i : i + 100]), 0)
    # It lies there, but across the border of two tokens.
    across = (tokens[3] + tokens[4])[7:23]
    memory.settled = None  # type: ignore[method-assign,assignment]

    assert memory.among(ME, Disposition.COMPLETE, {tokens[0], tokens[999], b"?" * 16}) == {
        tokens[0],
        tokens[999],
    }
    assert memory.among(ME, Disposition.COMPLETE, {across}) == set()
    assert memory.among(ME, Disposition.ABANDON, {tokens[0]}) == set()
