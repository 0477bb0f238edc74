"""A turn begins commands for a bounded time, however dear they are; the rest waits in order."""

import threading
import time
from typing import Any

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.lock_token import TOKEN_BYTES
from bendybus.partition_server.broker import inbox, partition_thread
from bendybus.partition_server.broker.inbox import Inbox
from bendybus.partition_server.state.answers import Appended, Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    CancelScheduled,
    Command,
    EntityRef,
    ReserveNumbers,
    SetSessionState,
    Settle,
    Withdraw,
)
from bendybus.partition_server.store.errors import StoreFailed
from tests.partition_server.driver import Driver
from tests.partition_server.running_partition import Runner

pytestmark = pytest.mark.requirement("R651")


class Clock:
    """A clock that goes on by a second at each look, if that is set."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.step_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def append(uid: str, payload: bytes = b"x") -> Append:
    """Return a send to a queue."""
    return Append("t", EntityRef(uid, 1), Batch([payload]))


def cancel(uid: str, *counters: int) -> CancelScheduled:
    """Return a cancellation."""
    return CancelScheduled("t", EntityRef(uid, 1), counters)


def test_a_turn_begins_one_command_of_each_kind_at_least_and_ends_in_time() -> None:
    clock = Clock()
    waiting = Inbox(clock)
    for number in range(3):
        waiting.put(Withdraw("s", number))
    for each in (append("a"), append("b"), cancel("a", 1)):
        waiting.put(each)
    begun = []
    for command in waiting.take(0):
        if waiting.begins(command):
            begun.append(command)
            clock.now_s += inbox.BEGIN_S

    assert begun == [Withdraw("s", 0), append("a"), cancel("a", 1)]
    assert waiting.left == [Withdraw("s", 1), Withdraw("s", 2), append("b")]


def test_what_is_put_back_comes_first_again_in_its_order() -> None:
    clock = Clock()
    waiting = Inbox(clock)
    renewal = Settle("s", 1, Disposition.RENEW_LOCK, bytes(TOKEN_BYTES))
    waiting.put(renewal)
    for number in range(3):
        waiting.put(Withdraw("s", number))
    waiting.put(append("a", b"1"))
    waiting.put(append("a", b"2"))
    begun = []
    for command in waiting.take(0):
        if waiting.begins(command):
            begun.append(command)
            clock.now_s += inbox.BEGIN_S
    assert begun == [renewal, append("a", b"1")]
    waiting.put(Withdraw("s", 3))
    waiting.put(append("a", b"3"))

    waiting.put_back()

    assert not waiting.left
    again = waiting.take(0)
    assert again[:4] == [Withdraw("s", number) for number in range(4)]
    assert again[4:] == [append("a", b"2"), append("a", b"3")]
    assert not waiting.take(0)
    assert (waiting._frames.total, waiting._bytes.total, waiting._waiting_looks.total) == (0, 0, 0)


def test_a_dear_send_of_one_entity_does_not_go_before_the_sends_of_another_each_time() -> None:
    clock = Clock()
    waiting = Inbox(clock)
    for _ in range(3):
        waiting.put(append("dear"))
    waiting.put(append("cheap"))
    begun = []
    for _ in range(2):
        for command in waiting.take(0):
            if waiting.begins(command):
                begun.append(command)
                clock.now_s += inbox.BEGIN_S
        waiting.put_back()
        waiting.put(append("dear"))

    assert begun == [append("dear"), append("cheap")]


def test_a_look_begins_in_each_turn_however_long_the_sends_take() -> None:
    clock = Clock()
    waiting = Inbox(clock)
    for _ in range(3):
        waiting.put(append("a"))
        waiting.put(cancel("a", 1))
    begun = []
    for command in waiting.take(0):
        if waiting.begins(command):
            begun.append(command)
        clock.now_s += 2 * inbox.BEGIN_S

    assert begun == [append("a"), cancel("a", 1)]


def test_what_was_left_is_answered_once_when_a_read_of_the_store_fails(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    monkeypatch.setattr(inbox, "BEGIN_S", 0.0)
    monkeypatch.setattr(partition_thread, "REOPEN_S", 0.01)
    partition: Any = runner.thread._partition
    held = threading.Event()

    def fails(commands: Any, now: Any, begins: Any) -> Any:
        assert held.wait(10)
        assert [begins(command) for command in commands]
        raise StoreFailed("disk I/O error")

    monkeypatch.setattr(partition, "decide", fails)
    for number in range(4):
        runner.thread.submit(ReserveNumbers(f"u{number}", ref, 1))
    runner.thread.submit(Append("t", ref, Batch([b"x"])))
    held.set()

    told = [runner.next_answer().to for _ in range(5)]
    time.sleep(0.5)

    assert sorted(map(str, told)) == ["t", "u0", "u1", "u2", "u3"]
    assert runner.answers.empty()


def test_a_thread_answers_all_that_it_puts_back(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    monkeypatch.setattr(inbox, "BEGIN_S", 0.0)

    for number in range(20):
        runner.thread.submit(Append("t", ref, Batch([b"%d" % number])))
    numbers: list[int] = []
    for _ in range(20):
        answer = runner.next_answer().value
        assert isinstance(answer, Appended)
        numbers += answer.numbers

    assert numbers == list(range(1, 21))


def test_a_turn_of_dear_commands_does_not_last_until_all_are_done(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = runner.create()
    taken: list[int] = []
    monkeypatch.setattr(inbox, "BEGIN_S", 0.02)
    partition: Any = runner.thread._partition
    decide = partition.decide

    def slow(commands: Any, now: Any, begins: Any) -> Any:
        begun = []

        def begins_slowly(command: Command) -> bool:
            if not begins(command):
                return False
            begun.append(command)
            time.sleep(0.01)
            return True

        stage = decide(commands, now, begins_slowly)
        taken.append(len(begun))
        return stage

    monkeypatch.setattr(partition, "decide", slow)
    monkeypatch.setattr(inbox, "TAKE_MESSAGES", 100)
    for _ in range(30):
        runner.thread.submit(Append("t", ref, Batch([b"x"])))
    for _ in range(30):
        assert isinstance(runner.next_answer().value, Appended)

    assert sum(taken) == 30
    assert max(taken) <= 3


def test_cancellations_wait_in_a_line_of_their_entity_that_is_bounded_in_numbers() -> None:
    waiting = Inbox()
    many = tuple(range(1, 5_001))
    refused = 0
    for _ in range(inbox.LOOKS_MAX):
        refused += not waiting.put(cancel("busy", *many))
    assert waiting.put(cancel("quiet", 1))
    assert waiting.put(SetSessionState("t", bytes(TOKEN_BYTES), b"", "quiet"))

    most = inbox.LOOKS_MAX // (len(many) // inbox.LOOK_NUMBERS)
    assert inbox.LOOKS_MAX - refused <= most
    taken = [waiting.take(0) for _ in range(3)]
    assert [len(each) for each in taken] == [1, 1, 1]
    assert cancel("quiet", 1) in [each for [each] in taken]


def test_a_cancellation_of_numbers_that_are_not_there_looks_up_the_first(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    store: Any = queue.partition.state.store
    summaries = store.summaries

    def counted(slot: int, first: int, *rest: Any) -> Any:
        looked.append(first)
        return summaries(slot, first, *rest)

    monkeypatch.setattr(store, "summaries", counted)

    [answer] = queue.run(CancelScheduled("t", queue.ref(), range(7, 5_007)))

    assert isinstance(answer, Failed)
    assert "no scheduled message has the sequence number 7 " in str(answer.error)
    assert looked.count(7) == 1
    assert len(looked) == 1
