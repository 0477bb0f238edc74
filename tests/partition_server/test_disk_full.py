"""A partition without room on its volume: sends are refused, settling goes on, space returns."""

from pathlib import Path
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.message_state import EVERY_STATE
from bendybus.partition_server.broker import disk_space
from bendybus.partition_server.state.answers import Appended, Failed, Reserved, Settled
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    Deliver,
    Release,
    SendFenced,
    Settle,
    StreamEnded,
)
from bendybus.partition_server.store.errors import StoreFailed, StoreFull
from tests.partition_server.driver import tokens_of
from tests.partition_server.running_partition import Runner, failing_once


def test_without_room_sends_are_refused_and_settling_goes_on_with_the_reserve(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    runner.ask(Append("t", ref, Batch([b"a"])))
    reserved = runner.ask(Ask("s", 1, ref, False, 1, 1 << 20))
    runner.thread.submit(Deliver("s", 1, tokens_of(reserved)))
    assert runner.store.guard.reserve_path.stat().st_size == 1 << 20
    monkeypatch.setattr(runner.store, "commit", failing_once(runner.store, StoreFull("no room")))

    settled = runner.ask(Settle("s", 1, Disposition.COMPLETE, tokens_of(reserved)))

    assert isinstance(settled, Settled)
    assert not settled.failures
    assert runner.thread.serving


@pytest.mark.parametrize("how", ["release", "end"])
def test_what_is_given_back_in_a_turn_without_room_is_received_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    ref = runner.create()
    runner.ask(Append("t", ref, Batch([b"settled", b"given back"])))
    first = tokens_of(runner.ask(Ask("s", 1, ref, False, 1, 1 << 20)))
    second = tokens_of(runner.ask(Ask("r", 1, ref, False, 1, 1 << 20)))
    failures = [StoreFull("no room"), StoreFull("no room")]
    commit = runner.store.commit

    def fail_twice(changes: Any) -> None:
        if failures:
            raise failures.pop()
        commit(changes)

    monkeypatch.setattr(runner.store, "commit", fail_twice)
    at_once(
        runner,
        monkeypatch,
        Settle("s", 1, Disposition.COMPLETE, first),
        Release("r", second) if how == "release" else StreamEnded("r"),
        Ask("s", 2, ref, False, 1, 1 << 20),
    )

    told = [runner.next_answer().value, runner.next_answer().value]

    [refused] = [value for value in told if isinstance(value, Settled)]
    assert isinstance(refused.failures[0][1], errors.PartitionUnavailable)
    [again] = [value for value in told if isinstance(value, Reserved)]
    assert [row.payload for row in again.delivery.rows] == [b"given back"]


def test_a_send_without_room_says_so(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = runner.create()
    monkeypatch.setattr(runner.store, "commit", failing_once(runner.store, StoreFull("no room")))

    refused = runner.ask(Append("t", ref, Batch([b"a"])))

    assert isinstance(refused, Failed)
    assert isinstance(refused.error, errors.PartitionUnavailable)
    assert "no room" in refused.error.message


@pytest.mark.requirement("R465")
@pytest.mark.parametrize("payloads", [[b"a"], []])
def test_a_send_with_a_fence_without_room_says_so(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, payloads: list[bytes]
) -> None:
    ref = runner.create()
    monkeypatch.setattr(runner.store, "commit", failing_once(runner.store, StoreFull("no room")))
    fenced = SendFenced("t", ref, b"p" * limits.FENCE_PRODUCER_BYTES, 1, [1], Batch(payloads))

    refused = runner.ask(fenced)

    assert isinstance(refused, Failed)
    assert isinstance(refused.error, errors.PartitionUnavailable)
    assert "no room" in refused.error.message


def test_a_volume_below_its_mark_refuses_sends_and_shows_it(tmp_path: Path) -> None:
    runner = Runner(tmp_path, free_space_min_bytes=1 << 60)
    ref = runner.create()

    refused = runner.ask(Append("t", ref, Batch([b"a"])))
    runner.thread.stop()

    assert "keeps free" in refused.error.message
    assert runner.thread.conditions == ("DiskLow",)


def test_the_disk_is_looked_at_without_opening_a_file(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    ref = runner.create()
    opened: list[Any] = []
    open_file = os.open

    def counted(path: Any, *arguments: Any, **options: Any) -> int:
        opened.append(path)
        return open_file(path, *arguments, **options)

    monkeypatch.setattr(os, "open", counted)

    for _ in range(5):
        assert isinstance(runner.ask(Append("t", ref, Batch([b"a"]))), Appended)

    assert opened == []


@pytest.mark.slow
@pytest.mark.parametrize("reading", [False, True])
def test_space_of_deleted_messages_returns_to_the_volume(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, reading: bool
) -> None:
    import time

    from bendybus.partition_server.state.commands import Counts, DeleteMessages

    monkeypatch.setattr(disk_space, "SHRINK_BYTES_MIN", 1 << 20)
    ref = runner.create()
    for _ in range(16):
        runner.ask(Append("t", ref, Batch([b"x" * 1_000_000])))
    assert runner.store.path.stat().st_size > 10_000_000
    runner.ask(DeleteMessages("t", ref, 100, 0, EVERY_STATE))

    # Until it is so: how long that takes is the machine's.
    deadline = time.monotonic() + 60
    while runner.store.path.stat().st_size > 4_000_000 and time.monotonic() < deadline:
        if reading:
            runner.ask(Counts("t"))
        time.sleep(0.01)

    assert runner.store.path.stat().st_size <= 4_000_000


def test_sends_that_were_refused_without_room_are_not_answered_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    runner.ask(Append("t", ref, Batch([b"a"])))
    reserved = runner.ask(Ask("s", 1, ref, False, 1, 1 << 20))
    failures = [StoreFailed("disk I/O error"), StoreFull("no room")]
    commit = runner.store.commit

    def fail_twice(changes: Any) -> None:
        if failures:
            raise failures.pop()
        commit(changes)

    monkeypatch.setattr(runner.store, "commit", fail_twice)
    at_once(
        runner,
        monkeypatch,
        Append("sender", ref, Batch([b"b"])),
        Settle("s", 1, Disposition.COMPLETE, tokens_of(reserved)),
    )

    told = [runner.next_answer()]
    while told[-1].to != "end":
        runner.thread.submit(Append("end", ref, Batch([b"c"])))
        told.append(runner.next_answer())

    [refused] = [answer.value for answer in told if answer.to == "sender"]
    assert isinstance(refused.error, errors.PartitionUnavailable)


def test_a_repeat_of_what_is_stored_is_answered_so_without_room_too(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    named: dict[str, Any] = {"producer_id": b"p" * 16, "producer_sequence": 1}
    first = runner.ask(Append("t", ref, Batch([b"a"]), **named))
    monkeypatch.setattr(runner.store, "commit", failing_once(runner.store, StoreFull("no room")))
    at_once(
        runner,
        monkeypatch,
        Append("repeat", ref, Batch([b"a"]), age_ms=5, **named),
        Append("new", ref, Batch([b"b"])),
    )

    told = {answer.to: answer.value for answer in (runner.next_answer(), runner.next_answer())}

    assert list(told["repeat"].numbers) == list(first.numbers)
    assert isinstance(told["new"].error, errors.PartitionUnavailable)


def at_once(runner: Runner, monkeypatch: pytest.MonkeyPatch, *commands: Any) -> None:
    """Give the partition these commands in one turn."""
    take, given = runner.thread._inbox.take, [list(commands)]
    monkeypatch.setattr(runner.thread._inbox, "take", lambda s: given.pop() if given else take(s))
    runner.thread._inbox.wake()
