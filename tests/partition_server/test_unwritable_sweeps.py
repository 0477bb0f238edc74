"""A sweep that decided what no file can hold delays that piece of its work, and no other."""

from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state import budget, faults
from bendybus.partition_server.state.answers import Settled
from bendybus.partition_server.state.commands import Settle
from bendybus.partition_server.store.errors import Unwritable
from bendybus.partition_server.store.records import Changes, Row, row_id
from tests.partition_server.driver import Driver
from tests.partition_server.faulty_rules import is_internal


def refuse(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, counter: int
) -> Callable[[], list[bool]]:
    """Let a store write nothing of one message; return what tells the commits that failed."""
    commit, failed = driver.store.commit, list[bool]()

    def refusing(changes: Changes, *, keep: bool = True) -> None:
        gone = row_id(0, counter)
        if gone in changes.deletes or any(move.id == gone for move in changes.moves):
            failed.append(keep)
            raise Unwritable("a value")
        commit(changes, keep=keep)

    monkeypatch.setattr(driver.store, "commit", refusing)
    return lambda: [each for each in failed if each]


def dead(driver: Driver) -> set[bytes]:
    return {row.payload for row in driver.peek(dead_letter=True)}


@pytest.mark.requirement("R251")
def test_messages_expire_beside_one_whose_expiry_cannot_be_written(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.create(dead_lettering_on_message_expiration=True)
    faulty.send(b"a", b"poison", b"c", time_to_live_ms=[1_000] * 3)
    faulty.send(b"later", time_to_live_ms=[40_000])
    with monkeypatch.context() as patched:
        failed = refuse(faulty, patched, 2)
        faulty.advance(1_001)
        assert dead(faulty) == set()

        faulty.advance(faults.PAUSE_MS)
        assert dead(faulty) == {b"a", b"c"}
        for _ in range(100):
            faulty.advance(2_000)
        assert dead(faulty) == {b"a", b"c", b"later"}
        # It is found before it is committed, from the first time on.
        assert len(failed()) == 1
        assert {fault.work for fault in faulty.partition.state.faults.take()} == {"EXPIRY"}
        counts = faulty.counts()
        assert (counts.active, counts.dead_letter) == (1, 3)

    faulty.advance(faults.PAUSE_MS_MAX)

    assert dead(faulty) == {b"a", b"c", b"later", b"poison"}


@pytest.mark.requirement("R251")
def test_a_settlement_whose_next_step_cannot_be_written_ends_and_others_go_on(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 2)
    faulty.create()
    faulty.send(*[b"%d" % n for n in range(8)])
    tokens = [token for _, token in faulty.receive(8)]
    settled = [
        Settle("s", 1, Disposition.DEAD_LETTER, b"".join(tokens[:4])),
        Settle("s", 2, Disposition.DEAD_LETTER, b"".join(tokens[4:])),
    ]
    refuse(faulty, monkeypatch, 4)

    answers: list[Any] = faulty.run(*settled)
    for _ in range(4):
        answers += faulty.advance(faults.PAUSE_MS)

    found = {each.settle_id: each for each in answers if isinstance(each, Settled)}
    assert not found[2].failures
    assert [i for i, _ in found[1].failures] == [2, 3]
    assert all(is_internal(error) for _, error in found[1].failures)
    assert not faulty.partition.state.unfinished
    assert dead(faulty) == {b"0", b"1", b"4", b"5", b"6", b"7"}
    counts = faulty.counts()
    assert (counts.active, counts.locked, counts.dead_letter) == (2, 2, 6)


@pytest.mark.requirement("R251")
def test_a_sweep_that_is_only_tried_writes_nothing(driver: Driver) -> None:
    driver.create()
    driver.send(b"a")
    row: Row = driver.peek()[0]

    driver.store.commit(Changes(deletes=[row.id]), keep=False)

    assert [each.payload for each in driver.peek()] == [b"a"]
