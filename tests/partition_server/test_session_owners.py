"""Who a session is for: its token leads to it for callers who were checked for its entity."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain import errors, lock_token
from bendybus.partition_server.state.commands import (
    AttachSession,
    CloseSession,
    ConfirmSession,
    GetSessionState,
    RenewSession,
    SetSessionState,
    ToldSession,
)
from tests.partition_server.session_driver import Sessions, held, payloads, picture

OTHER, OWN = "uid-of-another", "uid-orders"
REQUESTS: dict[str, Callable[[bytes, str], Any]] = {
    "attach": lambda token, uid: AttachSession("thief", 1, token, uid, release_others=True),
    "close": lambda token, uid: CloseSession("thief", 1, token, uid),
    "confirm": lambda token, uid: ConfirmSession("s", 1, token, uid),
    "get state": lambda token, uid: GetSessionState("r", token, uid),
    "renew": lambda token, uid: RenewSession("thief", 1, token, uid),
    "set state": lambda token, uid: SetSessionState("r", token, b"x", uid),
}


@pytest.mark.requirement("R322")
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_for_another_entity_is_lost_and_changes_nothing(
    sessions: Sessions, kind: str
) -> None:
    sessions.send(("a", b"1"), ("a", b"2"))
    token = sessions.accept("a")
    sessions.reserve(token, 1)
    before = picture(held(sessions))

    [answer] = sessions.driver.run(REQUESTS[kind](token, OTHER))
    assert isinstance(answer.error, errors.SessionLockLost)

    assert picture(held(sessions)) == before
    assert payloads(sessions.receive(token)) == [b"2"]


@pytest.mark.requirement("R322")
def test_a_receiver_of_another_entity_is_not_told(sessions: Sessions) -> None:
    [offer] = sessions.ask_accept("a")
    sessions.driver.run(ConfirmSession("s", 1, offer.session_token, OWN, tells=True))

    sessions.driver.run(ToldSession("thief", offer.session_token, OTHER))
    assert not held(sessions).told

    sessions.driver.run(ToldSession("s", offer.session_token, OWN))
    assert held(sessions).told


@pytest.mark.requirement("R322")
@pytest.mark.parametrize("kind", ["attach", "close", "confirm", "renew"])
def test_a_front_end_of_an_earlier_version_names_no_entity(sessions: Sessions, kind: str) -> None:
    token = sessions.accept("a")

    assert sessions.driver.run(REQUESTS[kind](token, ""))[0].error is None


@pytest.mark.requirement("R322")
def test_a_token_is_random_where_it_does_not_say_where_its_lock_is(sessions: Sessions) -> None:
    [first, second] = [
        next(lock_token.unpack(sessions.accept(session_id))) for session_id in ("a", "b")
    ]

    # 47 and 24 bits: what two of them have in common, or count on by, is chance.
    assert abs(first.counter - second.counter) > 2**24
    assert abs(first.generation - second.generation) > 2**8
    assert first[:2] == second[:2]
    assert first.boot == second.boot


@pytest.mark.requirement("R322")
def test_no_two_locks_have_one_token(sessions: Sessions) -> None:
    state = sessions.driver.partition.state
    drawn = [state.new_id() for _ in range(2)]
    ids = iter([drawn[0], drawn[0], drawn[1]])
    state.new_id = lambda: next(ids)

    assert sessions.accept("a") != sessions.accept("b")


@pytest.mark.requirement("R322")
def test_the_token_of_a_lock_that_ended_does_not_lead_to_one_of_its_number(
    sessions: Sessions,
) -> None:
    state = sessions.driver.partition.state
    drawn = state.new_id()
    ids = iter([drawn, uuid.UUID(int=drawn.int ^ 1)])
    state.new_id = lambda: next(ids)
    old = sessions.accept("a")
    sessions.driver.run(CloseSession("s", 1, old, OWN))
    sessions.accept("b")

    [answer] = sessions.driver.run(SetSessionState("r", old, b"x", OWN))

    assert isinstance(answer.error, errors.SessionLockLost)


@pytest.mark.requirement("R322")
@pytest.mark.parametrize("kind", ["attach", "get state", "renew", "set state"])
def test_a_session_that_is_only_offered_is_nobodys_yet(sessions: Sessions, kind: str) -> None:
    [offer] = sessions.ask_accept("a")

    [answer] = sessions.driver.run(REQUESTS[kind](offer.session_token, OWN))

    assert isinstance(answer.error, errors.SessionLockLost)
