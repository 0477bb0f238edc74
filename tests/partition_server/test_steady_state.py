"""What a partition keeps per message, and looks at per message, while it is used for long.

These tests count entries and rows, never time: a benchmark of ten seconds sees none of this.
"""

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.message_state import EVERY_STATE
from bendybus.partition_server.state import message_queue
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    CancelScheduled,
    Now,
    StreamEnded,
    Withdraw,
)
from bendybus.partition_server.state.ready_set import ReadyWindow
from tests.partition_server.driver import Driver

SPARE = 20


@pytest.fixture(autouse=True)
def few_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundred messages show what hundreds of thousands would."""
    monkeypatch.setattr(message_queue, "NOTES_SPARE", SPARE)


def consume(queue: Driver, count: int, *, every_ms: int = 10) -> None:
    """Send, receive and complete `count` messages, one after the other."""
    for _ in range(count):
        queue.send(b"x")
        [(_, token)] = queue.receive()
        queue.settle(Disposition.COMPLETE, token)
        queue.wall_ms += every_ms
        queue.mono_ms += every_ms
        queue.partition.state.clock.waiting(queue.mono_ms - every_ms, queue.mono_ms)
        queue.partition.state.clock.observe(queue.now)
        queue.sweep()


def test_a_partition_has_one_due_time_a_queue_however_many_reservations_it_makes(
    queue: Driver,
) -> None:
    queue.send(b"held")
    [(_, held)] = queue.receive()

    for _ in range(5):
        consume(queue, 20)
        queue.settle(Disposition.RENEW_LOCK, held)

    assert len(queue.partition.state.due.lock_ends) <= 2


def test_completed_messages_leave_nothing_behind_until_their_locks_would_have_ended(
    queue: Driver,
) -> None:
    consume(queue, 100, every_ms=1)

    held = queue.partition.state.queues.at(0)
    assert held is not None
    noted = sum(len(entries) for _, entries in held.lock_ends)
    assert noted <= SPARE + 2
    assert isinstance(held.ready, ReadyWindow)
    assert not held.ready.gone


def test_renewing_a_lock_for_long_leaves_one_note_of_it(queue: Driver) -> None:
    queue.send(b"x")
    [(_, token)] = queue.receive()

    for _ in range(3 * SPARE):
        queue.settle(Disposition.RENEW_LOCK, token)

    held = queue.partition.state.queues.at(0)
    assert held is not None
    assert len(held.lock_ends) <= SPARE + 2


def test_locks_end_in_time_after_their_notes_were_made_anew(queue: Driver) -> None:
    queue.send(b"kept", b"renewed")
    [(_, _), (_, renewed)] = queue.receive(2)
    queue.advance(30_000)
    queue.settle(Disposition.RENEW_LOCK, renewed)
    consume(queue, 2 * SPARE, every_ms=0)

    queue.advance(29_999)
    assert queue.receive(5) == []
    queue.advance(1)
    [(row, token)] = queue.receive(5)
    assert (row.payload, row.delivery_count) == (b"kept", 1)
    queue.settle(Disposition.COMPLETE, token)
    queue.advance(30_000)

    assert [row.payload for row, _ in queue.receive(5)] == [b"renewed"]


def test_looking_for_ended_locks_looks_at_each_lock_once(queue: Driver) -> None:
    queue.send(*[b"x"] * 60)
    for _ in range(60):
        queue.receive(1)
        queue.advance(1)
    held = queue.partition.state.queues.at(0)
    assert held is not None
    assert len(held.locks) == 60

    # One stage at the first end of a lock, and one a lock at most: never one per lock per turn.
    stages = 0
    for _ in range(620):
        queue.wall_ms += 100
        queue.mono_ms += 100
        queue.partition.state.clock.waiting(queue.mono_ms - 100, queue.mono_ms)
        while (stage := queue.partition.sweep(queue.now)) is not None:
            stages += 1
            queue.store.commit(stage.changes)
            queue.partition.apply(stage, queue.now)

    assert queue.counts().locked == 0
    assert stages <= 60


def test_schedules_that_are_cancelled_leave_nothing_behind(queue: Driver) -> None:
    queue.send(*[b"ready"] * 10)
    queue.receive(1)
    for _ in range(30):
        [number] = queue.send(b"later", scheduled_ms=[queue.wall_ms + 60_000]).numbers
        queue.run(CancelScheduled("t", queue.ref(), [number]))

    held = queue.partition.state.queues.at(0)
    assert held is not None
    assert isinstance(held.ready, ReadyWindow)
    assert not held.ready.gone


def test_what_was_deleted_is_forgotten_when_the_window_is_empty(queue: Driver) -> None:
    from bendybus.partition_server.state.commands import DeleteMessages

    for _ in range(20):
        queue.send(*[b"x"] * 10)
        queue.receive(1)
        queue.run(DeleteMessages("t", queue.ref(), 100, 0, EVERY_STATE))
        assert queue.receive(5) == []

    held = queue.partition.state.queues.at(0)
    assert held is not None
    assert isinstance(held.ready, ReadyWindow)
    assert not held.ready.gone


def test_an_ask_is_withdrawn_without_a_look_at_the_others(queue: Driver) -> None:
    ref = queue.ref()
    queue.run(*[Ask("s", n, ref, False, 1, 1 << 20) for n in range(1, 4_001)])
    held = queue.partition.state.queues.at(0)
    assert held is not None

    # A dictionary by name: nothing to search through.
    assert ("s", 3_500) in held.asks
    queue.run(Withdraw("s", 3_500))
    assert ("s", 3_500) not in held.asks
    assert len(held.asks) == 3_999


def test_asks_are_served_in_turn_after_withdrawals(queue: Driver) -> None:
    ref = queue.ref()
    queue.run(*[Ask("s", n, ref, False, 1, 1 << 20) for n in (1, 2, 3)])
    queue.run(Withdraw("s", 1))

    [_, reserved] = queue.run(Append("t", ref, Batch([b"first"])))
    queue.run(Ask("s", 4, ref, False, 1, 1 << 20))
    assert reserved.ask_id == 2
    orders = queue.partition.state.queues.at(0)
    assert orders is not None
    assert [ask.ask_id for ask in orders.asks.values()] == [3, 4]
    queue.run(StreamEnded("s"))
    assert not orders.asks
    assert not queue.partition.state.streams


def test_a_partition_that_holds_locks_sleeps_until_the_first_one_ends(queue: Driver) -> None:
    queue.send(b"a")
    queue.receive()
    queue.advance(1_000)

    assert queue.partition.state.wait_ms(Now(queue.wall_ms, queue.mono_ms)) == 59_000


def test_a_turn_gives_a_bounded_number_of_bytes_however_many_queues_are_asked(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bendybus.partition_server.state import budget
    from bendybus.partition_server.state.answers import Reserved
    from bendybus.partition_server.state.commands import Append, Ask, Batch

    monkeypatch.setattr(budget, "SERVE_BYTES", 10_000)
    asks = []
    for number in range(20):
        name = f"queue-{number}"
        driver.create(name)
        driver.run(Append("t", driver.ref(name), Batch([b"x" * 5_000] * 4)))
        asks += [Ask("s", number * 10 + i, driver.ref(name), False, 2, 1 << 20) for i in (0, 1)]

    stage = driver.partition.decide(asks, driver.now)
    given = [driver.partition.apply(stage, driver.now)]
    while driver.partition.state.unserved:
        given.append(driver.partition.go_on(driver.now))

    served = [[a.value for a in turn if isinstance(a.value, Reserved)] for turn in given]
    sizes = [sum(len(r.payload) for v in turn for r in v.delivery.rows) for turn in served]
    assert sizes == [10_000] * 40
    # In turn: every queue gives something before one that gave in this row gives again.
    first = {value.ask_id // 10 for turn in served[1:21] for value in turn}
    assert len(first) == 20
