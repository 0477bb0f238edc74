"""Batch deletes: bounded turns, repeats, and what ends them."""

from typing import Any

import pytest

from bendybus.domain.message_state import ACTIVE_ONLY, EVERY_STATE
from bendybus.partition_server.state import budget
from bendybus.partition_server.state.answers import Done, Failed
from bendybus.partition_server.state.commands import DeleteMessages
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.store.errors import StoreFull
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


def test_a_batch_delete_that_could_not_be_written_is_told_and_not_done_behind_the_back(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 10)
    queue.send(*[b"x"] * 35)
    command = DeleteMessages("t", queue.ref(), 30, 0, ACTIVE_ONLY)
    [group] = queue.partition.grouped([command])
    first = queue.partition.decide(group, queue.now)
    queue.store.commit(first.changes)
    assert queue.partition.apply(first, queue.now) == []

    second = queue.partition.sweep(queue.now)
    assert second is not None
    error = StoreFull("no room")
    from bendybus.domain import errors

    answers = queue.partition.abandon(second, errors.PartitionUnavailable(str(error)), queue.now)

    assert [(to, type(value)) for to, value in answers] == [("t", Failed)]
    queue.sweep()
    assert queue.counts().active == 25


@pytest.mark.parametrize("everything", [False, True])
def test_a_batch_delete_gets_past_any_number_of_messages_that_it_leaves(
    queue: Driver, monkeypatch: pytest.MonkeyPatch, everything: bool
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 100)
    queue.send(*[b"locked"] * 500)
    queue.receive(500)
    queue.send(*[b"later"] * 2_000, scheduled_ms=[queue.wall_ms + 60_000] * 2_000)
    queue.send(*[b"x"] * 50)
    reads = Reads(queue.store, monkeypatch)

    answers = queue.run(
        DeleteMessages("t", queue.ref(), 4_000, 0, EVERY_STATE if everything else ACTIVE_ONLY)
    )
    assert answers == []
    answers = queue.sweep()

    assert answers == [Done(2_050 if everything else 50)]
    counts = queue.counts()
    assert (counts.active, counts.scheduled) == (500, 0 if everything else 2_000)
    assert reads.payload_bytes == 0


def test_batch_deletes_take_turns(queue: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 10)
    queue.create("other")
    queue.send(*[b"x"] * 100)

    queue.run(
        DeleteMessages("long", queue.ref(), 100, 0, ACTIVE_ONLY),
        DeleteMessages("short", queue.ref("other"), 100, 0, ACTIVE_ONLY),
    )
    ends = [answer.to for stage in turns(queue) for answer in stage.answers]

    # The short one ended in its first turn.
    assert ends == ["long"]


def test_a_batch_delete_whose_queue_is_deleted_ends(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bendybus.domain.entity import Origin
    from bendybus.domain.lifecycle import EntityAction
    from bendybus.partition_server.state.commands import CommitEntity

    monkeypatch.setattr(budget, "TURN_ROWS", 10)
    queue.send(*[b"x"] * 100)
    queue.run(DeleteMessages("t", queue.ref(), 100, 0, ACTIVE_ONLY))

    queue.run(CommitEntity("c", EntityAction.DELETE, "orders", Origin.CLIENT))

    assert queue.sweep() == [Done(10)]
