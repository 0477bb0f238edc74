"""A rule with a bug in a running partition: the file stays open, locks hold, the log says it."""

import logging
from typing import Any

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.broker import partition_thread
from bendybus.partition_server.broker.partition_thread import FaultLog
from bendybus.partition_server.state import figures
from bendybus.partition_server.state.answers import Appended, Failed, Peeked, Reserved
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Ask, Peek, Settle
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.faults import Fault
from bendybus.partition_server.state.figures import Figures
from bendybus.partition_server.store.errors import StoreFull, Unwritable
from bendybus.partition_server.store.records import Changes
from tests.partition_server.driver import tokens_of
from tests.partition_server.faulty_rules import (
    Bug,
    break_command,
    break_sweep,
    is_internal,
    poisoned,
)
from tests.partition_server.running_partition import Runner, failing_once

# No file can hold it: half of a character.
UNWRITABLE = "\ud800"


def reserved_one(runner: Runner, ref: Any) -> Reserved:
    """Store a message and reserve it."""
    runner.ask(Append("t", ref, Batch([b"kept"])))
    reserved = runner.ask(Ask("stream", 1, ref, False, 1, 1 << 20))
    assert isinstance(reserved, Reserved)
    return reserved


def still_locked(runner: Runner, reserved: Reserved) -> bool:
    """Complete what is reserved."""
    tokens = tokens_of(reserved)
    return not runner.ask(Settle("stream", 2, Disposition.COMPLETE, tokens)).failures


@pytest.mark.requirement("R250")
def test_a_bug_costs_one_answer_and_no_lock_and_is_logged_and_counted(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ref = runner.create()
    reserved = reserved_one(runner, ref)
    break_command(monkeypatch, Append, poisoned)

    refused = [runner.ask(Append("t", ref, Batch([b"poison"]))) for _ in range(3)]

    assert all(isinstance(each, Failed) and is_internal(each.error) for each in refused)
    assert isinstance(runner.ask(Append("t", ref, Batch([b"after"]))), Appended)
    assert still_locked(runner, reserved)
    assert runner.thread.figures.faults == {("Append", "orders"): 3}
    [record] = [each for each in caplog.records if each.exc_info]
    assert record.exc_info
    assert record.exc_info[0] is Bug
    assert "internal error in Append of 'orders'" in record.getMessage()


@pytest.mark.requirement("R250")
def test_a_value_that_the_file_cannot_hold_costs_its_command_only(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    reserved = reserved_one(runner, ref)
    given = [
        [
            Append("first", ref, Batch([b"a"])),
            Append("bad", ref, Batch([b"b"], message_ids=[UNWRITABLE])),
            Append("last", ref, Batch([b"c"])),
        ]
    ]
    take = runner.thread._inbox.take
    monkeypatch.setattr(runner.thread._inbox, "take", lambda s: given.pop() if given else take(s))
    runner.thread._inbox.wake()

    told = {answer.to: answer.value for answer in (runner.next_answer() for _ in range(3))}

    assert isinstance(told["first"], Appended)
    assert isinstance(told["last"], Appended)
    assert is_internal(told["bad"].error)
    assert still_locked(runner, reserved)
    assert runner.answers.empty()


@pytest.mark.requirement("R251")
def test_a_sweep_that_finds_no_room_to_try_its_work_waits_and_no_lock_is_lost(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    reserved = reserved_one(runner, ref)
    commit, full = runner.store.commit, [StoreFull("no room")]

    def commit_or_not(changes: Changes, *, keep: bool = True) -> None:
        if not keep and full:
            raise full.pop()
        commit(changes, keep=keep)

    monkeypatch.setattr(runner.store, "commit", commit_or_not)
    # As after a piece of its work that could not be written.
    runner.thread._partition._sweeper._checked_until[Sweep.EXPIRY] = 1 << 62  # type: ignore[union-attr]

    runner.ask(Append("t", ref, Batch([b"short"], time_to_live_ms=[1])))
    left: Any = None
    while left is None or left.delivery.rows:
        left = runner.ask(Peek("t", ref, 2, 1, 1))

    assert not full
    assert still_locked(runner, reserved)


@pytest.mark.requirement("R251")
def test_a_sweep_that_cannot_be_written_waits_and_no_lock_is_lost(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    reserved = reserved_one(runner, ref)
    met = Unwritable("a value")

    monkeypatch.setattr(runner.store, "commit", failing_once(runner.store, met))
    state = runner.thread._partition.state  # type: ignore[union-attr]
    due = state.sweeps_due

    def once(now: Any, **options: Any) -> list[Sweep]:
        held = state.faults.wait_ms(Sweep.MARK, now.mono_ms) > 0
        return due(now, **options) if held else [Sweep.MARK]

    monkeypatch.setattr(state, "sweeps_due", once)

    assert isinstance(runner.ask(Peek("t", ref, 0, 1, 1)), Peeked)
    assert isinstance(runner.ask(Append("t", ref, Batch([b"after"]))), Appended)
    assert still_locked(runner, reserved)
    assert runner.thread.figures.faults == {("MARK", ""): 1}


@pytest.mark.requirement("R251")
def test_a_sweep_with_a_bug_leaves_the_partition_as_it_is(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    reserved = reserved_one(runner, ref)
    break_sweep(monkeypatch, Sweep.MARK, lambda: True)
    state = runner.thread._partition.state  # type: ignore[union-attr]
    monkeypatch.setattr(
        state,
        "sweeps_due",
        lambda now, **_: [Sweep.MARK] if state.faults.wait_ms(Sweep.MARK, now.mono_ms) <= 0 else [],
    )

    assert isinstance(runner.ask(Append("t", ref, Batch([b"a"]))), Appended)
    assert still_locked(runner, reserved)
    assert runner.thread.figures.faults["MARK", ""] >= 1


@pytest.mark.requirement("R250")
def test_a_fault_that_is_met_again_is_counted_and_logged_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_thread, "KINDS_MAX", 2)
    monkeypatch.setattr(figures, "FAULTS_MAX", 2)
    counted = Figures()
    log = FaultLog(3, counted)
    fault = Fault("Append", "orders", Bug("x"))

    with caplog.at_level(logging.ERROR):
        log.note([fault] * 10, 0)
        assert len(caplog.records) == 1
        log.note([fault], partition_thread.AGAIN_MS)
        assert "9 more" in caplog.records[-1].getMessage()
        log.note([Fault("Append", f"q{n}", Bug("x")) for n in range(5)], 0)

    assert counted.faults == {("Append", "orders"): 11, ("Append", "q0"): 1, ("Append", ""): 4}
    assert len(log._logged) == 2
