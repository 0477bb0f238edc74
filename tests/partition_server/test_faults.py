"""A rule with a bug costs one command its outcome, or one entity a delay; never the partition."""

from typing import Any

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import BusError
from bendybus.partition_server.broker.rule_table import COMMANDS
from bendybus.partition_server.rules import locks
from bendybus.partition_server.state.answers import (
    Appended,
    AskRefused,
    Failed,
    Peeked,
    Reserved,
    Settled,
)
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    CommitEntity,
    Peek,
    Settle,
    StreamEnded,
)
from bendybus.partition_server.store.errors import StoreFailed
from tests.partition_server.driver import Driver
from tests.partition_server.faulty_rules import (
    Bug,
    break_command,
    is_internal,
    poisoned,
)


def append(driver: Driver, *payloads: bytes, **columns: Any) -> Append:
    """Return a command that stores messages, each by itself."""
    return Append("t", driver.ref(), Batch(list(payloads), **columns), [1] * len(payloads))


# Commands


@pytest.mark.requirement("R250")
def test_a_command_whose_rule_raises_is_refused_and_the_others_of_its_turn_are_done(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    faulty.send(b"one", b"two")
    [(_, first), (_, second)] = faulty.receive(2)
    break_command(monkeypatch, Append, poisoned)

    answers = faulty.run(
        append(faulty, b"before"),
        Settle("s", 7, Disposition.COMPLETE, first),
        append(faulty, b"poison", b"with it"),
        append(faulty, b"after"),
        Peek("t", faulty.ref(), 0, 100, 1 << 20),
    )

    stored, settled, refused, also, peeked = answers
    assert isinstance(stored, Appended)
    assert isinstance(settled, Settled)
    assert not settled.failures
    assert isinstance(refused, Failed)
    assert is_internal(refused.error)
    assert "Append" in refused.error.message
    assert "'orders'" in refused.error.message
    assert isinstance(also, Appended)
    assert isinstance(peeked, Peeked)
    assert [row.payload for row in faulty.peek()] == [b"two", b"before", b"after"]
    counts = faulty.counts()
    assert (counts.active, counts.locked) == (3, 1)
    # The lock of the other message is what it was.
    assert not faulty.settle(Disposition.COMPLETE, second).failures
    [fault] = faulty.partition.state.faults.take()
    assert (fault.work, fault.entity, type(fault.error)) == ("Append", "orders", Bug)


@pytest.mark.requirement("R250")
def test_what_raises_only_beside_others_is_done_alone(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    seen: list[Any] = []

    def second(command: Any) -> bool:
        seen.append(command)
        return len(seen) == 2

    break_command(monkeypatch, Append, second)

    answers = faulty.run(append(faulty, b"a"), append(faulty, b"b"), append(faulty, b"c"))

    assert all(isinstance(answer, Appended) for answer in answers)
    assert [row.payload for row in faulty.peek()] == [b"a", b"b", b"c"]
    assert not faulty.partition.state.faults.noted


@pytest.mark.requirement("R250")
def test_each_of_many_commands_that_raise_costs_its_own_answer(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    break_command(monkeypatch, Append, poisoned)
    names = [b"poison" if n % 3 else b"m%d" % n for n in range(30)]

    answers = faulty.run(*(append(faulty, name) for name in names))

    assert [isinstance(answer, Appended) for answer in answers] == [n % 3 == 0 for n in range(30)]
    assert len(faulty.peek()) == 10
    assert len(faulty.partition.state.faults.noted) == 20


@pytest.mark.requirement("R250")
def test_a_stream_whose_end_raises_has_ended_and_its_locks_end_by_time(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create(lock_duration_ms=5_000)
    faulty.send(b"a")
    faulty.reserve(1)
    break_command(monkeypatch, StreamEnded, lambda _: True)

    assert faulty.run(StreamEnded("s"), append(faulty, b"b")) != []
    faulty.advance(5_001)

    assert [row.payload for row, _ in faulty.receive(5, stream="other")] == [b"a", b"b"]


@pytest.mark.requirement("R250")
def test_a_stream_whose_end_raises_at_once_is_given_nothing_more(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    faulty.run(Ask("gone", 5, faulty.ref(), False, 1, 1 << 20))
    rule = COMMANDS[StreamEnded]

    def handle(turn: Any, command: Any) -> None:
        raise Bug

    monkeypatch.setitem(COMMANDS, StreamEnded, rule._replace(handle=handle))

    faulty.run(StreamEnded("gone"))

    faulty.send(b"a")
    assert faulty.counts().locked == 0
    assert [row.payload for row, _ in faulty.receive(1, stream="other")] == [b"a"]


@pytest.mark.requirement("R250")
def test_a_change_of_the_catalogue_that_raises_is_not_made(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create("orders")
    break_command(monkeypatch, CommitEntity, lambda command: command.name == "poison")

    with pytest.raises(BusError, match="internal error in CommitEntity"):
        faulty.create("poison")

    assert [each.name for each in faulty.partition.state.catalogue.existing()] == ["orders"]
    faulty.create("audit")
    faulty.restart()
    names = sorted(each.name for each in faulty.partition.state.catalogue.existing())
    assert names == ["audit", "orders"]


@pytest.mark.requirement("R250")
def test_a_read_that_raises_is_refused(faulty: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty.create()
    break_command(monkeypatch, Peek, lambda command: command.start == 13)

    refused, stored, peeked = faulty.run(
        Peek("t", faulty.ref(), 13, 1, 1),
        append(faulty, b"a"),
        Peek("t", faulty.ref(), 0, 9, 1 << 20),
    )

    assert isinstance(stored, Appended) or isinstance(refused, Appended)
    failed = [each for each in (refused, stored, peeked) if isinstance(each, Failed)]
    assert len(failed) == 1
    assert is_internal(failed[0].error)


@pytest.mark.requirement("R250")
def test_an_ask_whose_rule_raises_is_refused_and_not_open(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    break_command(monkeypatch, Ask, lambda command: command.ask_id == 13)

    [refused] = faulty.run(Ask("s", 13, faulty.ref(), False, 1, 1 << 20))
    faulty.send(b"a")

    assert isinstance(refused, AskRefused)
    assert is_internal(refused.error)
    assert [row.payload for row, _ in faulty.receive(1)] == [b"a"]


@pytest.mark.requirement("R250")
def test_a_delivery_that_raises_refuses_one_ask_and_loses_no_message(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create()
    for ask_id in (1, 2):
        assert faulty.run(Ask("s", ask_id, faulty.ref(), False, 1, 1 << 20)) == []
    raised: list[int] = []

    def once(*_: Any) -> bool:
        raised.append(1)
        return len(raised) == 1

    lock = locks.lock
    monkeypatch.setattr(locks, "lock", lambda *a, **o: _raise() if once() else lock(*a, **o))

    answers = faulty.run(append(faulty, b"a", b"b"))

    [refused] = [each for each in answers if isinstance(each, AskRefused)]
    [reserved] = [each for each in answers if isinstance(each, Reserved)]
    assert refused.ask_id == 1
    assert is_internal(refused.error)
    assert [row.payload for row in reserved.delivery.rows] == [b"a"]
    assert [row.payload for row, _ in faulty.receive(5)] == [b"b"]


def _raise() -> None:
    raise Bug("lock")


@pytest.mark.requirement("R250")
def test_a_store_that_fails_is_no_fault_of_the_command(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> bool:
        raise StoreFailed("gone")

    break_command(monkeypatch, Append, failing)

    with pytest.raises(StoreFailed):
        queue.run(append(queue, b"a"))
