"""The thread of a partition: what it does when its store fails, fills up or stands still."""

from pathlib import Path
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.message_state import ACTIVE_ONLY
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.broker.partition import Partition
from bendybus.partition_server.state import budget
from bendybus.partition_server.state.answers import Appended, Done, Failed, Reserved
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    CancelScheduled,
    DeleteMessages,
    EntityRef,
    Now,
    Settle,
)
from bendybus.partition_server.state.figures import DECIDE_BOUNDS_S, Figures
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.store.errors import NotCommitted, StoreFailed
from bendybus.partition_server.store.records import Changes
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import fingerprint, tokens_of
from tests.partition_server.running_partition import WAIT_S, Runner, failing_once


def test_what_was_answered_is_there_after_a_stop(runner: Runner, tmp_path: Path) -> None:
    ref = runner.create()
    assert isinstance(runner.ask(Append("t", ref, Batch([b"a", b"b"]))), Appended)

    runner.thread.stop()

    again = SqliteStore(tmp_path, fingerprint())
    again.open()
    assert [row.payload for row in again.browse(0, 0, 10, 1 << 20)] == [b"a", b"b"]
    again.close()


@pytest.mark.parametrize("error", [StoreFailed("disk I/O error"), AssertionError("a defect")])
def test_a_store_that_fails_is_opened_anew_and_everybody_is_told(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    ref = runner.create()
    runner.ask(Append("t", ref, Batch([b"kept"])))
    reserved = runner.ask(Ask("stream", 1, ref, False, 1, 1 << 20))
    assert isinstance(reserved, Reserved)
    monkeypatch.setattr(runner.store, "commit", failing_once(runner.store, error))

    runner.thread.submit(Append("sender", ref, Batch([b"lost"])))
    told = {answer.to: answer.value for answer in (runner.next_answer(), runner.next_answer())}

    # The stream ends, because its locks are void. The commit may have been written before it
    # failed (a sync that fails says nothing about the data), so the sender is not told no.
    assert set(told) == {"stream", "sender"}
    assert isinstance(told["stream"].error, errors.PartitionUnavailable)
    assert isinstance(told["sender"].error, errors.OutcomeUnknown)
    outcome: Any = Failed(errors.BusError(""))
    while isinstance(outcome, Failed):
        outcome = runner.ask(Append("sender", ref, Batch([b"after"])))
    settled = runner.ask(Settle("s", 1, Disposition.COMPLETE, tokens_of(reserved)))
    assert isinstance(settled.failures[0][1], errors.MessageLockLost)
    again = runner.ask(Ask("new stream", 1, ref, False, 10, 1 << 20))
    assert [row.payload for row in again.delivery.rows] == [b"kept", b"after"]
    assert again.delivery.boot == reserved.delivery.boot + 1


def test_a_store_that_fails_before_commit_stored_nothing_and_says_so(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    error = NotCommitted("disk I/O error")
    monkeypatch.setattr(runner.store, "commit", failing_once(runner.store, error))

    refused = runner.ask(Append("t", ref, Batch([b"a"])))

    assert isinstance(refused.error, errors.PartitionUnavailable)


def test_a_read_that_fails_after_commit_leaves_the_outcome_unknown_not_undone(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    apply, failures = Partition.apply, [StoreFailed("disk I/O error")]

    def fail(self: Partition, *args: Any) -> Any:
        if failures:
            raise failures.pop()
        return apply(self, *args)

    monkeypatch.setattr(Partition, "apply", fail)
    named: dict[str, Any] = {"producer_id": b"p" * 16, "producer_sequence": 1}
    told = runner.ask(Append("t", ref, Batch([b"a"]), **named))
    again: Any = told
    while isinstance(again, Failed):
        again = runner.ask(Append("t", ref, Batch([b"a"]), age_ms=5, **named))

    assert isinstance(told.error, errors.OutcomeUnknown)
    # A repeat under the same name finds out.
    assert list(again.numbers) == [1]


def test_what_was_answered_before_the_store_failed_is_not_answered_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    commit = runner.store.commit
    calls: list[Any] = []

    def fail_second(changes: Any) -> None:
        calls.append(changes)
        if len(calls) == 2:
            raise StoreFailed("disk I/O error")
        commit(changes)

    monkeypatch.setattr(runner.store, "commit", fail_second)
    take = runner.thread._inbox.take
    both = [
        Append("first", ref, Batch([b"a"])),
        CancelScheduled("alone", ref, [77]),
        Append("second", ref, Batch([b"b"])),
    ]
    given = [both]
    monkeypatch.setattr(runner.thread._inbox, "take", lambda s: given.pop() if given else take(s))
    runner.thread._inbox.wake()

    told = [runner.next_answer() for _ in range(3)]

    assert [answer.to for answer in told] == ["first", "alone", "second"]
    assert isinstance(told[0].value, Appended)
    assert isinstance(told[2].value.error, errors.OutcomeUnknown)
    assert runner.answers.empty()


def test_an_error_outside_the_turn_opens_the_file_anew_too(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    runner.ask(Append("t", ref, Batch([b"kept"])))
    wait_s, errors_left = runner.thread._wait_s, [RuntimeError("a defect")]

    def fail_once() -> float:
        if errors_left:
            raise errors_left.pop()
        return wait_s()

    monkeypatch.setattr(runner.thread, "_wait_s", fail_once)
    reserved: Any = None
    while errors_left or not isinstance(reserved, Reserved):
        reserved = runner.ask(Ask("s", 1, ref, False, 10, 1 << 20))

    assert [row.payload for row in reserved.delivery.rows] == [b"kept"]
    assert runner.thread.died is None


def test_a_thread_that_ends_says_so_and_serves_no_more(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.create()

    def fail(*_: Any) -> None:
        raise RuntimeError("nothing helps")

    monkeypatch.setattr(runner.thread, "_turn", fail)
    monkeypatch.setattr(runner.thread, "_refuse", fail)
    runner.thread.submit(Append("t", EntityRef("uid", 1), Batch([b"a"])))
    runner.thread._thread.join(WAIT_S)

    assert isinstance(runner.thread.died, RuntimeError)
    assert not runner.thread.serving
    assert runner.thread.conditions == ("ThreadDied",)


async def test_a_process_whose_partition_has_no_thread_ends(runner: Runner) -> None:
    import asyncio

    from bendybus.partition_server import server

    class Health:
        async def set(self, *_: Any) -> None:
            """Take a status."""

    runner.thread.died = RuntimeError("nothing helps")
    stop = asyncio.Event()
    watching = asyncio.get_running_loop().create_task(
        server._watch_health(Health(), {0: runner.thread}, stop)  # type: ignore[arg-type]
    )

    await asyncio.wait_for(stop.wait(), WAIT_S)

    watching.cancel()


def test_turns_are_counted_by_their_time(runner: Runner) -> None:
    ref = runner.create()
    runner.ask(Append("t", ref, Batch([b"a"])))
    runner.thread.stop()

    assert sum(runner.thread.figures.turn_buckets) >= 2
    assert runner.thread.figures.turn_seconds > 0


@pytest.mark.requirement("R352")
def test_deciding_is_counted_without_the_commits_of_the_turn() -> None:
    figures = Figures()
    figures.committed(Changes(), 0.3)
    figures.committed(Changes(), 0.3)
    figures.turned(0.604)
    figures.turned(0.15)

    assert figures.decide_seconds == pytest.approx(0.154)
    shown = dict(zip(DECIDE_BOUNDS_S, figures.decide_buckets, strict=False))
    assert [bound for bound, count in shown.items() if count] == [0.005, 0.2]


def test_who_waits_for_a_batch_delete_is_told_when_the_store_fails(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 2)
    monkeypatch.setattr(budget, "TURN_MS", 60_000)
    ref = runner.create()
    runner.ask(Append("t", ref, Batch([b"x"] * 9)))
    commit, commits = runner.store.commit, []

    def fail_second(changes: Any) -> None:
        commits.append(changes)
        if len(commits) == 2:
            raise StoreFailed("disk I/O error")
        commit(changes)

    monkeypatch.setattr(runner.store, "commit", fail_second)

    told = runner.ask(DeleteMessages("t", ref, 9, 0, ACTIVE_ONLY))

    assert isinstance(told, Failed)


def test_who_waits_for_a_batch_delete_is_told_of_its_end_if_a_read_fails_after_that(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 2)
    monkeypatch.setattr(budget, "TURN_MS", 60_000)
    ref = runner.create()
    runner.ask(Append("t", ref, Batch([b"x"] * 9)))
    serve = Partition._serve

    def fail_at_the_end(partition: Partition, stage: Stage, now: Now) -> None:
        if any(answer.to == "caller" for answer in stage.answers):
            raise StoreFailed("disk I/O error")
        serve(partition, stage, now)

    monkeypatch.setattr(Partition, "_serve", fail_at_the_end)

    told = runner.ask(DeleteMessages("caller", ref, 9, 0, ACTIVE_ONLY))

    assert told == Done(9)


def test_who_waits_for_a_settlement_is_told_when_the_store_fails(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 10)
    monkeypatch.setattr(budget, "TURN_MS", 60_000)
    ref = runner.create()
    runner.ask(Append("t", ref, Batch([b"x"] * 25)))
    tokens = tokens_of(runner.ask(Ask("reader", 1, ref, False, 25, 1 << 20)))
    commit, commits = runner.store.commit, []

    def fail_the_second(changes: Any) -> None:
        commits.append(changes)
        if len(commits) == 2:
            raise StoreFailed("disk I/O error")
        commit(changes)

    monkeypatch.setattr(runner.store, "commit", fail_the_second)
    runner.thread.submit(Settle("settler", 1, Disposition.DEAD_LETTER, tokens))
    told = {answer.to: answer.value for answer in (runner.next_answer(), runner.next_answer())}

    assert isinstance(told["settler"].error, errors.OutcomeUnknown)
    assert isinstance(told["reader"].error, errors.PartitionUnavailable)
    # What the first turn moved stays there, and the rest is received again.
    again: Any = Failed(errors.BusError(""))
    while isinstance(again, Failed):
        again = runner.ask(Ask("new stream", 1, ref, False, 25, 1 << 20))
    dead = runner.ask(
        Ask("new stream", 2, ref._replace(sub_queue=SubQueue.DEAD_LETTER), False, 25, 1 << 20)
    )
    counters = [row.counter for row in again.delivery.rows]
    assert counters == list(range(11, 26))
    assert [row.enqueued_sequence_number for row in dead.delivery.rows] == list(range(1, 11))
