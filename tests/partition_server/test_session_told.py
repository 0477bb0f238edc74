"""Sessions that are locked for receivers which may not have been told of it."""

from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.rules import session_locks
from bendybus.partition_server.state.answers import SessionOffered, SessionResult
from bendybus.partition_server.state.commands import (
    AttachSession,
    ConfirmSession,
    GetSessionState,
    RenewSession,
    StreamEnded,
    ToldSession,
)
from tests.partition_server.session_driver import LOCK_MS, Sessions, settle


def confirm(sessions: Sessions, name: str = "a", *, tells: bool = True) -> bytes:
    """Lock a session for a receiver that is to be told; return its token."""
    [offer] = sessions.ask_accept(name)
    assert isinstance(offer, SessionOffered), offer
    command = ConfirmSession("s", sessions.next_id(), offer.session_token, tells=tells)
    [result] = sessions.driver.run(command)
    assert isinstance(result, SessionResult)
    assert result.error is None
    return offer.session_token


def free(sessions: Sessions, name: str = "a") -> bool:
    """Whether a session can be locked."""
    [answer] = sessions.ask_accept(name, stream="another")
    if isinstance(answer, SessionOffered):
        return True
    assert isinstance(answer.error, errors.SessionCannotBeLocked)
    return False


@pytest.mark.requirement("R242")
def test_a_lock_of_which_no_receiver_was_told_is_soon_over_when_its_stream_ends(
    sessions: Sessions,
) -> None:
    sessions.send(("a", b"1"))
    confirm(sessions)
    sessions.driver.run(StreamEnded("s"))
    assert not free(sessions)
    assert sessions.ask_accept(stream="next") == []

    assert sessions.driver.advance(session_locks.UNTOLD_MS - 1) == []
    [offer] = sessions.driver.advance(1)

    assert isinstance(offer, SessionOffered)
    assert offer.session_id == "a"
    # No delivery was counted.
    token = offer.session_token
    sessions.driver.run(ConfirmSession("next", 5, token))
    [(row, _)] = sessions.receive(token, stream="next")
    assert row.delivery_count == 0


USES: dict[str, Callable[[Sessions, bytes], Any]] = {
    "told": lambda sessions, token: sessions.driver.run(ToldSession("s", token)),
    "asks": lambda sessions, token: sessions.receive(token),
    "renews": lambda sessions, token: sessions.driver.run(RenewSession("s", 9, token)),
    "state": lambda sessions, token: sessions.driver.run(GetSessionState("t", token)),
    "attached": lambda sessions, token: sessions.driver.run(AttachSession("s", 9, token)),
}


@pytest.mark.requirement("R243")
@pytest.mark.parametrize("use", USES)
def test_a_lock_that_its_receiver_knows_of_lasts_when_its_stream_ends(
    sessions: Sessions, use: str
) -> None:
    sessions.send(("a", b"1"))
    token = confirm(sessions)
    USES[use](sessions, token)
    sessions.driver.run(StreamEnded("s"))

    sessions.driver.advance(LOCK_MS - 1)
    assert not free(sessions)
    sessions.driver.advance(1)
    assert free(sessions)


@pytest.mark.requirement("R243")
def test_front_ends_of_a_version_that_does_not_tell_keep_their_locks(sessions: Sessions) -> None:
    confirm(sessions, tells=False)
    sessions.driver.run(StreamEnded("s"))

    sessions.driver.advance(LOCK_MS - 1)
    assert not free(sessions)


@pytest.mark.requirement("R243")
@pytest.mark.parametrize("use", ["attached", "state"])
def test_a_receiver_that_was_told_after_all_and_comes_in_time_has_its_whole_lock(
    sessions: Sessions, use: str
) -> None:
    sessions.send(("a", b"1"))
    token = confirm(sessions)
    sessions.driver.run(StreamEnded("s"))
    sessions.driver.advance(session_locks.UNTOLD_MS - 1)

    # Through another front end.
    answers = USES[use](sessions, token)

    sessions.driver.advance(LOCK_MS - session_locks.UNTOLD_MS)
    assert not free(sessions)
    if use == "attached":
        assert answers[0].lock_remaining_ms == LOCK_MS - session_locks.UNTOLD_MS + 1
        [(_, lock)] = sessions.receive(token)
        assert not settle(sessions, Disposition.COMPLETE, lock)[0].failures
    sessions.driver.advance(1)
    assert free(sessions)


@pytest.mark.requirement("R243")
def test_a_short_lock_is_not_made_longer_by_a_lost_stream(sessions: Sessions) -> None:
    token = confirm(sessions)
    sessions.driver.advance(LOCK_MS - 1_000)
    sessions.driver.run(StreamEnded("s"))

    sessions.driver.advance(999)
    assert not free(sessions)
    sessions.driver.advance(1)
    assert free(sessions)
    [lost] = sessions.driver.run(RenewSession("s", 9, token))
    assert isinstance(lost.error, errors.SessionLockLost)


@pytest.mark.requirement("R243")
def test_a_lock_that_is_soon_over_gets_the_time_that_the_process_was_suspended(
    sessions: Sessions,
) -> None:
    token = confirm(sessions)
    sessions.driver.run(StreamEnded("s"))
    [queue] = sessions.driver.partition.state.queues.all_of(sessions.driver.ref().uid)[:1]
    queue.extend_locks(10_000)
    sessions.driver.advance(session_locks.UNTOLD_MS + 9_999)

    [attached] = sessions.driver.run(AttachSession("new", 9, token))

    assert attached.lock_remaining_ms == LOCK_MS - session_locks.UNTOLD_MS + 1
