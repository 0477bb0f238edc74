"""Sweeps: what one turn does, where the next one goes on, and what happens when one fails."""

from typing import Any

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.limits import MB
from bendybus.partition_server.state import budget
from bendybus.partition_server.state.answers import Reserved
from bendybus.partition_server.state.due_times import DueTimes
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.stage import Stage
from tests.partition_server.driver import Driver

DAY_MS = 86_400_000


class Reads:
    """Counts what is read from a store: rows, and bytes of payloads."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.summaries = self.rows = self.payload_bytes = 0
        for name in ("summaries", "expiring", "activating", "active", "rows", "browse"):
            monkeypatch.setattr(store, name, self._counted(getattr(store, name)))

    def _counted(self, read: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            found = read(*arguments)
            if found and hasattr(found[0], "payload"):
                self.rows += len(found)
                self.payload_bytes += sum(len(row.payload) for row in found)
            else:
                self.summaries += len(found)
            return found

        return counted


def turns(driver: Driver, most: int = 10_000) -> list[Stage]:
    """Sweep until nothing is due; return the stages, one a turn."""
    stages = []
    while (stage := driver.partition.sweep(driver.now)) is not None:
        stages.append(stage)
        if stage.changes:
            driver.store.commit(stage.changes)
        driver.partition.apply(stage, driver.now)
        assert len(stages) < most, "sweeps do not come to an end"
    return stages


def fail_once(driver: Driver) -> None:
    """Let the next sweep fail to commit, as on a full disk."""
    stage = driver.partition.sweep(driver.now)
    assert stage is not None
    assert stage.changes
    driver.partition.take_back(stage)


# A sweep that fails is due again


def test_an_expiry_that_could_not_be_written_is_done_later(queue: Driver) -> None:
    queue.send(b"a", time_to_live_ms=[1_000])
    queue.wall_ms += 1_001

    fail_once(queue)
    assert queue.counts().active == 1
    queue.sweep()

    assert queue.counts().active == 0


def test_an_activation_that_could_not_be_written_is_done_later(queue: Driver) -> None:
    queue.send(b"a", scheduled_ms=[queue.wall_ms + 1_000])
    queue.wall_ms += 1_000

    fail_once(queue)
    assert queue.counts().scheduled == 1
    queue.sweep()

    assert [row.payload for row, _ in queue.receive()] == [b"a"]


def test_locks_whose_end_could_not_be_written_end_later(queue: Driver) -> None:
    queue.send(b"a")
    queue.receive()
    queue.wall_ms += 60_000
    queue.mono_ms += 60_000

    fail_once(queue)
    assert queue.counts().locked == 1
    queue.sweep()

    assert [row.delivery_count for row, _ in queue.receive()] == [1]


def test_keys_whose_purge_could_not_be_written_are_purged_later(driver: Driver) -> None:
    driver.create(requires_duplicate_detection=True)
    driver.send(b"a", message_ids=["m"])
    driver.receive(delete=True)
    driver.sweep()
    driver.wall_ms += DAY_MS
    driver.partition.state.due.next_expiry_ms = None

    stage = driver.partition.sweep(driver.now)
    while stage is not None and not stage.changes.history_deletes:
        driver.store.commit(stage.changes)
        driver.partition.apply(stage, driver.now)
        stage = driver.partition.sweep(driver.now)
    assert stage is not None
    driver.partition.take_back(stage)
    assert driver.counts().size_bytes > 0
    driver.sweep()

    assert driver.counts().size_bytes == 0


# Budgets of rows, bytes and time


def test_dropping_large_messages_reads_none_of_them(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(40):
        queue.send(b"x" * MB, time_to_live_ms=[1_000])
    queue.wall_ms += 1_001
    reads = Reads(queue.store, monkeypatch)

    stages = turns(queue)

    assert queue.counts().active == 0
    assert reads.payload_bytes == 0
    assert max(len(stage.changes.deletes) for stage in stages) <= 8


def test_dead_lettering_large_messages_moves_a_bounded_number_of_bytes_a_turn(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.create(dead_lettering_on_message_expiration=True)
    for _ in range(40):
        driver.send(b"x" * MB, time_to_live_ms=[1_000])
    driver.wall_ms += 1_001
    reads = Reads(driver.store, monkeypatch)

    stages = turns(driver)

    assert driver.counts().dead_letter == 40
    moved = [MB * len(stage.changes.moves) for stage in stages]
    assert sum(moved) == 40 * MB
    assert max(moved) <= budget.TURN_BYTES
    # They are moved within the file.
    assert reads.payload_bytes == 0


def test_activating_large_messages_moves_a_bounded_number_of_bytes_a_turn(queue: Driver) -> None:
    for _ in range(20):
        queue.send(b"x" * MB, scheduled_ms=[queue.wall_ms + 1_000])
    queue.wall_ms += 1_000

    moved = [sum(len(row.payload) for row in stage.changes.inserts) for stage in turns(queue)]

    assert sum(moved) == 20 * MB
    assert max(moved) <= budget.TURN_BYTES


def test_locks_that_end_with_dead_letters_move_a_bounded_number_of_bytes_a_turn(
    driver: Driver,
) -> None:
    driver.create(max_delivery_count=1)
    for _ in range(20):
        driver.send(b"x" * MB)
    while driver.receive(20):
        pass
    driver.wall_ms += 60_000
    driver.mono_ms += 60_000

    moved = [MB * len(stage.changes.moves) for stage in turns(driver)]

    assert driver.counts().dead_letter == 20
    assert max(moved) <= budget.TURN_BYTES


def test_a_sweep_stops_when_its_time_is_over_and_goes_on_in_the_next_turn(queue: Driver) -> None:
    ticks = iter(range(0, 10_000_000, 20))
    queue.partition.state.clock_ms = lambda: next(ticks)
    queue.send(*[b"x"] * 10, time_to_live_ms=[1_000] * 10)
    queue.wall_ms += 1_001

    removed = [len(stage.changes.deletes) for stage in turns(queue)]

    # 20 ms a look at the clock: three rows in 50 ms.
    assert sum(removed) == 10
    assert max(removed) <= 3


def test_locked_and_expired_messages_are_passed_over_once(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 3_000
    queue.send(*[b"x"] * count, time_to_live_ms=[1_000] * count)
    tokens = [token for _ in range(count // 500) for _, token in queue.receive(500)]
    queue.wall_ms += 1_001
    reads = Reads(queue.store, monkeypatch)
    turns(queue)
    assert reads.summaries == count

    # Each that comes back expires by itself: the others are not looked at for it.
    for token in tokens[:20]:
        queue.settle(Disposition.ABANDON, token)
        turns(queue)

    assert queue.counts().active == count - 20
    assert reads.summaries == count


def test_the_rows_of_a_deleted_queue_do_not_keep_expiry_from_others(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bendybus.domain.entity import Origin
    from bendybus.domain.lifecycle import EntityAction
    from bendybus.partition_server.state.commands import CommitEntity

    monkeypatch.setattr(budget, "TURN_ROWS", 100)
    driver.create()
    for _ in range(4):
        driver.send(*[b"x"] * 500, time_to_live_ms=[1_000] * 500)
        driver.send(*[b"x"] * 500, scheduled_ms=[driver.wall_ms + 1_000] * 500)
    driver.wall_ms += 1_001
    driver.run(CommitEntity("t", EntityAction.DELETE, "orders", Origin.CLIENT))
    driver.create("later")
    reads = Reads(driver.store, monkeypatch)

    stages = turns(driver)

    assert max(len(stage.changes.deletes) for stage in stages) <= 100
    # Looked at by expiry, by activation, and by the removal: never again and again.
    assert reads.summaries <= 3 * 4_000
    assert reads.payload_bytes == 0
    assert driver.store.summaries(0, 0, 2**44 - 1, 10) == []


def test_a_receive_gets_what_is_behind_expired_messages_before_they_are_swept(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(10):
        queue.send(*[b"old"] * 1_000, time_to_live_ms=[1_000] * 1_000)
    queue.restart()
    queue.send(b"live")
    queue.wall_ms += 1_001
    reads = Reads(queue.store, monkeypatch)

    [(row, _)] = queue.receive()

    assert row.payload == b"live"
    # The store passes over what is expired; it does not read it.
    assert reads.rows <= 1_001
    assert queue.counts().active == 10_001


def test_a_look_for_live_messages_is_bounded_and_goes_on_by_itself(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bendybus.partition_server.state import ready_set
    from bendybus.partition_server.state.commands import Ask

    monkeypatch.setattr(ready_set, "PAGE_COUNTERS", 100)
    for _ in range(10):
        queue.send(*[b"old"] * 100, time_to_live_ms=[1_000] * 100)
    queue.restart()
    queue.send(b"live")
    queue.wall_ms += 1_001
    ask = Ask("s", 1, queue.ref(), False, 1, 1 << 20)

    stage = queue.partition.decide([ask], queue.now)
    assert queue.partition.apply(stage, queue.now) == []
    assert queue.partition.state.wait_ms(queue.now) == 0
    answers: list[Any] = []
    looks = 0
    while not answers:
        looks += 1
        answers = queue.partition.go_on(queue.now)

    assert [row.payload for row in answers[0].value.delivery.rows] == [b"live"]
    assert looks > 2


def test_a_turn_gives_a_bounded_number_of_messages_to_those_who_ask(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bendybus.partition_server.state.commands import Ask

    monkeypatch.setattr(budget, "SERVE_ROWS", 100)
    queue.send(*[b"x"] * 500)
    asks = [Ask("s", n, queue.ref(), False, 50, 1 << 20) for n in range(10)]

    stage = queue.partition.decide(asks, queue.now)
    given = [queue.partition.apply(stage, queue.now)]
    while queue.partition.state.unserved:
        given.append(queue.partition.go_on(queue.now))

    counts = [
        sum(len(a.value.delivery.rows) for a in part if isinstance(a.value, Reserved))
        for part in given
    ]
    assert counts == [100] * 5


@pytest.mark.parametrize(
    ("look", "cursor"), [("expires_at", "expired_to"), ("activates_at", "activated_to")]
)
def test_what_is_due_at_the_very_time_that_was_reached_is_looked_for_again(
    look: str, cursor: str
) -> None:
    due = DueTimes(Journal())
    setattr(due, cursor, (100, 7))

    getattr(due, look)(101)
    assert getattr(due, cursor) == (100, 7)
    getattr(due, look)(100)

    # Rows of that time may have lower ids than the last one that was looked at.
    assert getattr(due, cursor)[0] == 99
