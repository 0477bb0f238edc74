"""The queue in front of a partition's thread."""

from collections.abc import Callable

import pytest

from bendybus.domain import limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.lock_token import TOKEN_BYTES
from bendybus.partition_server.broker import inbox
from bendybus.partition_server.broker.inbox import Inbox, Send
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    EntityRef,
    GetFence,
    SendFenced,
    Settle,
    Transact,
    Transfer,
    Withdraw,
)


def append(uid: str, payload: bytes = b"x") -> Append:
    """Return a send to a queue."""
    return Append("t", EntityRef(uid, 1), Batch([payload]))


def test_sends_of_different_queues_are_taken_in_turn() -> None:
    waiting = Inbox()
    for _ in range(3):
        waiting.put(append("busy"))
    waiting.put(append("quiet"))

    uids = [command.entity.uid for command in waiting.take(0) if isinstance(command, Append)]

    assert uids == ["busy", "quiet", "busy", "busy"]


def test_settling_and_asking_goes_before_sending() -> None:
    waiting = Inbox()
    waiting.put(append("a"))
    waiting.put(Withdraw("s", 1))

    assert isinstance(waiting.take(0)[0], Withdraw)


def test_one_commit_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "TAKE_BYTES", 100)
    waiting = Inbox()
    for _ in range(5):
        waiting.put(append("a", b"x" * 60))

    assert [len(waiting.take(0)) for _ in range(3)] == [2, 2, 1]


@pytest.mark.requirement("R466")
def test_settlements_of_thousands_of_locks_do_not_keep_sends_waiting() -> None:
    waiting = Inbox()
    for number in range(100):
        tokens = bytes(limits.SETTLE_TOKENS_MAX * TOKEN_BYTES)
        waiting.put(Settle("s", number, Disposition.COMPLETE, tokens))
    waiting.put(append("a"))

    *settled, sent = waiting.take(0)

    assert isinstance(sent, Append)
    assert len(settled) == inbox.TAKE_TOKENS // limits.SETTLE_TOKENS_MAX
    assert len(waiting.take(0)) == len(settled)


@pytest.mark.requirement("R466")
def test_renewals_and_asks_do_not_wait_for_all_that_others_settle_and_send() -> None:
    waiting = Inbox()
    many = bytes(limits.SETTLE_TOKENS_MAX * TOKEN_BYTES)
    batch = Batch([b"x"] * 400)
    for number in range(90):
        waiting.put(Settle("other", number, Disposition.COMPLETE, many))
        waiting.put(Append("t", EntityRef("busy", 1), batch))
    waiting.put(Withdraw("s", 1))
    waiting.put(Settle("s", 1, Disposition.RENEW_LOCK, bytes(TOKEN_BYTES)))

    first, *_ = waiting.take(0)

    assert isinstance(first, Settle)
    assert first.disposition is Disposition.RENEW_LOCK
    turns, messages, taken = 1, 0, waiting.take(0)
    while not any(isinstance(each, Withdraw) for each in taken):
        turns, taken = turns + 1, waiting.take(0)
        messages += sum(len(each.batch.payloads) for each in taken if isinstance(each, Append))
    assert turns <= 90 * limits.SETTLE_TOKENS_MAX // inbox.TAKE_TOKENS
    assert 0 < messages <= 1_200 * turns


@pytest.mark.requirement("R466")
def test_renewals_leave_half_of_a_commit_to_settlements() -> None:
    waiting = Inbox()
    many = bytes(limits.SETTLE_TOKENS_MAX * TOKEN_BYTES)
    for number in range(20):
        waiting.put(Settle("other", number, Disposition.RENEW_LOCK, many))
    waiting.put(Settle("s", 1, Disposition.COMPLETE, bytes(TOKEN_BYTES)))

    taken = [each.disposition for each in waiting.take(0) if isinstance(each, Settle)]

    assert taken == [Disposition.RENEW_LOCK, Disposition.COMPLETE]


def test_a_full_inbox_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "SEND_BYTES_MAX", 100)
    waiting = Inbox()

    assert waiting.put(append("a", b"x" * 1_000))
    assert not waiting.put(append("a"))
    waiting.take(0)
    assert waiting.put(append("a"))


def test_nothing_is_taken_when_nothing_waits() -> None:
    assert Inbox().take(0.001) == []


def fenced(uid: str, payload: bytes = b"x") -> SendFenced:
    """Return a send with a fence to a queue."""
    return SendFenced("t", EntityRef(uid, 1), b"p" * 16, 1, [1], Batch([payload]))


def transfer(uid: str, payload: bytes) -> Transact:
    """Return a transaction of a queue that sends to another one."""
    part = Transfer(EntityRef("other", 1), Batch([payload]))
    return Transact("t", EntityRef(uid, 1), b"i" * 16, [part])


@pytest.mark.requirement("R466")
@pytest.mark.parametrize("make", [fenced, transfer])
def test_the_bytes_of_every_send_are_bounded(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[str, bytes], Send]
) -> None:
    monkeypatch.setattr(inbox, "TAKE_BYTES", 100)
    monkeypatch.setattr(inbox, "SEND_BYTES_MAX", 200)
    waiting = Inbox()

    assert [waiting.put(make("a", b"x" * 60)) for _ in range(4)] == [True, True, True, False]
    assert [len(waiting.take(0)) for _ in range(2)] == [2, 1]


@pytest.mark.requirement("R466")
def test_sends_with_a_fence_keep_neither_other_queues_nor_settlements_waiting() -> None:
    waiting = Inbox()
    for _ in range(200):
        waiting.put(fenced("busy"))
    waiting.put(append("quiet"))
    waiting.put(Withdraw("s", 1))

    taken = waiting.take(0)

    assert [type(each) for each in taken[:3]] == [Withdraw, SendFenced, Append]
    # Each has a commit of its own.
    assert len(taken) == 52


@pytest.mark.requirement("R466")
def test_a_fence_is_read_behind_what_was_sent_before() -> None:
    waiting = Inbox()
    waiting.put(fenced("a"))
    waiting.put(GetFence("t", EntityRef("a", 1), b"p" * 16))

    assert [type(each) for each in waiting.take(0)] == [SendFenced, GetFence]
