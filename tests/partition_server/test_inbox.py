"""The queue in front of a partition's thread."""

import pytest

from bendybus.partition_server.broker import inbox
from bendybus.partition_server.broker.inbox import Inbox
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, EntityRef, Withdraw


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


def test_a_full_inbox_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "SEND_BYTES_MAX", 100)
    waiting = Inbox()

    assert waiting.put(append("a", b"x" * 1_000))
    assert not waiting.put(append("a"))
    waiting.take(0)
    assert waiting.put(append("a"))


def test_nothing_is_taken_when_nothing_waits() -> None:
    assert Inbox().take(0.001) == []
