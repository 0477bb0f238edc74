"""Commits that fail, or are taken back in part: the locks of sessions are as they were."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.rules import receive
from bendybus.partition_server.state.answers import Failed, SessionStateRead
from bendybus.partition_server.state.commands import (
    AttachSession,
    CloseSession,
    GetSessionState,
    RenewSession,
    SetSessionState,
    Settle,
    StreamEnded,
)
from bendybus.partition_server.state.turn import Turn
from tests.partition_server.session_driver import (
    LOCK_MS,
    Sessions,
    held,
    payloads,
    picture,
    settle,
)


def fail(sessions: Sessions, *commands: Any) -> list[Any]:
    """Decide on commands whose commit fails; return the answers."""
    partition, now = sessions.driver.partition, sessions.driver.now
    stage = partition.decide(commands, now)
    answers = partition.abandon(stage, errors.PartitionUnavailable("no"), now, commands)
    return [value for _, value in answers]


@pytest.mark.requirement("R79")
def test_a_failed_commit_leaves_sessions_as_they_were(sessions: Sessions) -> None:
    sessions.send(("a", b"1"), ("a", b"2"), ("a", b"3"))
    token = sessions.accept("a")
    (_, first), (_, second) = sessions.receive(token, 2)
    sessions.reserve(token, 1)

    abandoned = fail(sessions, Settle("s", 1, Disposition.ABANDON, first))
    closed = fail(sessions, CloseSession("s", 2, token))
    set_ = fail(sessions, SetSessionState("t", token, b"x"))

    assert len(abandoned) == 1
    assert isinstance(abandoned[0].failures[0][1], errors.PartitionUnavailable)
    assert isinstance(closed[0].error, errors.PartitionUnavailable)
    assert isinstance(set_[0], Failed)
    assert sessions.driver.counts().locked == 3
    assert sessions.driver.run(GetSessionState("t", token)) == [SessionStateRead(None)]
    assert not settle(sessions, Disposition.COMPLETE, second)[0].failures
    sessions.close(token)
    assert sessions.driver.counts().locked == 0
    assert payloads(sessions.receive(sessions.accept("a"))) == [b"1", b"3"]


@pytest.mark.requirement("R79")
def test_several_changes_of_a_session_that_are_not_committed_leave_its_lock_as_it_was(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"1"))
    token = sessions.accept("a")
    before = picture(held(sessions))
    sessions.driver.mono_ms += 1_000

    moves = [AttachSession(stream, 1, token) for stream in ("second", "third")]
    fail(sessions, *moves, RenewSession("third", 2, token))

    assert picture(held(sessions)) == before
    assert payloads(sessions.receive(token)) == [b"1"]


@pytest.mark.requirement("R79")
def test_a_message_that_is_not_settled_is_locked_no_longer_than_its_session_is(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"1"), ("a", b"2"))
    token = sessions.accept("a")
    first, second = [each for _, each in sessions.receive(token)]
    driver = sessions.driver
    driver.mono_ms += LOCK_MS - 1_000

    fail(
        sessions,
        Settle("s", 1, Disposition.COMPLETE, first),
        RenewSession("s", 2, token),
        Settle("s", 3, Disposition.COMPLETE, second),
    )
    # Its lock is over, and no sweep has come yet.
    driver.mono_ms += 1_000
    [told] = settle(sessions, Disposition.COMPLETE, first, second, session_token=token)

    assert [index for index, _ in told.failures] == [0, 1]


@pytest.mark.requirement("R79")
def test_a_session_that_two_commands_of_a_turn_give_up_is_free_once(sessions: Sessions) -> None:
    sessions.send(("a", b"1"))
    sessions.ask_accept("a")
    lock, state = held(sessions), sessions.driver.partition.state
    turn = Turn(state, state.begin_stage(), sessions.driver.now, expiry_held=False)
    receive.end_stream(turn, StreamEnded("s"))
    mark = turn.mark()
    receive.end_stream(turn, StreamEnded("s"))

    turn.take_back_to(mark)

    assert lock.ended


@pytest.mark.requirement("R79")
def test_the_end_of_a_session_lock_that_cannot_be_written_is_due_again(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"1"), ("a", b"2"))
    sessions.receive(sessions.accept("a"))
    driver = sessions.driver
    driver.wall_ms += LOCK_MS
    driver.mono_ms += LOCK_MS
    driver.partition.state.clock.waiting(driver.mono_ms - LOCK_MS, driver.mono_ms)
    stage = driver.partition.sweep(driver.now)
    assert stage is not None
    driver.partition.abandon(stage, errors.PartitionUnavailable("no"), driver.now)
    assert driver.counts().locked == 2

    driver.sweep()

    rows = [row for row, _ in sessions.receive(sessions.accept("a"))]
    assert [row.delivery_count for row in rows] == [1, 1]
