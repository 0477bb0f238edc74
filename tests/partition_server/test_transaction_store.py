"""Cancellations and states of sessions that are parts of transactions of one partition."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state.answers import Done, Failed, Transacted
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    CancelPart,
    CancelScheduled,
    Part,
    StatePart,
    TransactAlone,
)
from bendybus.partition_server.state.session_commands import GetSessionState, SetSessionState
from tests.partition_server.driver import Driver
from tests.partition_server.session_driver import Sessions
from tests.partition_server.transacting import ID, held, settling

HOUR_MS = 3_600_000

pytestmark = pytest.mark.requirement("R561")


def transact(driver: Driver, *parts: Part, id_: bytes = ID) -> Any:
    [value] = driver.run(TransactAlone("t", driver.ref(), id_, parts))
    return value


def scheduled(driver: Driver, count: int) -> None:
    """Send messages that are due in an hour; their counters begin with 1."""
    due_ms = [driver.now.wall_ms + HOUR_MS] * count
    batch = Batch([b"later"] * count, scheduled_ms=due_ms)
    driver.run(Append("s", driver.ref(), batch))


def state_of(sessions: Sessions, token: bytes) -> bytes | None:
    [read] = sessions.driver.run(GetSessionState("g", token))
    state: bytes | None = read.state
    return state


def test_cancelled_messages_are_gone_with_the_commit(driver: Driver) -> None:
    driver.create()
    scheduled(driver, 3)

    outcome = transact(driver, CancelPart([1, 3]))

    assert isinstance(outcome, Transacted)
    assert outcome.error is None
    assert driver.counts().scheduled == 1


def test_nothing_is_cancelled_if_another_part_is_refused(driver: Driver) -> None:
    driver.create()
    scheduled(driver, 2)
    before = held(driver), driver.counts().scheduled

    outcome = transact(driver, CancelPart([1]), CancelPart([9]))

    assert isinstance(outcome.error, errors.MessageNotFound)
    assert outcome.refused_part == 1
    assert (held(driver), driver.counts().scheduled) == before


def test_a_message_is_cancelled_once_in_a_transaction(driver: Driver) -> None:
    driver.create()
    scheduled(driver, 2)

    outcome = transact(driver, CancelPart([1]), CancelPart([2, 1]))

    assert isinstance(outcome.error, errors.InvalidOperation)
    assert driver.counts().scheduled == 2


def test_a_message_is_cancelled_once_by_what_waits_at_the_same_time(driver: Driver) -> None:
    driver.create()
    scheduled(driver, 2)
    one = TransactAlone("t", driver.ref(), ID, [CancelPart([1])])

    first, second = driver.run(one, CancelScheduled("c", driver.ref(), [1]))

    assert first.error is None
    assert isinstance(second, Failed)
    assert isinstance(second.error, errors.MessageNotFound)
    assert driver.counts().scheduled == 1


def test_the_last_of_several_states_is_kept_and_counted_once(driver: Driver) -> None:
    sessions = Sessions(driver)
    sessions.send(("a", b"one"))
    token = sessions.accept("a")
    driver.run(SetSessionState("s", token, b"x" * 10))
    before_bytes = driver.counts().size_bytes

    outcome = transact(driver, StatePart(token, b"y" * 500), StatePart(token, b"z" * 20))

    assert outcome.error is None
    assert state_of(sessions, token) == b"z" * 20
    assert driver.counts().size_bytes == before_bytes + 10


def test_a_state_stays_as_it_was_if_another_part_is_refused(driver: Driver) -> None:
    sessions = Sessions(driver)
    sessions.send(("a", b"one"))
    token = sessions.accept("a")
    driver.run(SetSessionState("s", token, b"before"))
    before = held(driver)

    lost = settling(Disposition.COMPLETE, b"\0" * 16, session_token=token)
    outcome = transact(driver, StatePart(token, None), StatePart(token, b"after"), lost)

    assert isinstance(outcome.error, errors.MessageLockLost)
    assert state_of(sessions, token) == b"before"
    assert held(driver) == before


def test_a_repeat_changes_nothing_that_was_set_since(driver: Driver) -> None:
    sessions = Sessions(driver)
    sessions.send(("a", b"one"))
    token = sessions.accept("a")
    transact(driver, StatePart(token, b"first"))
    assert driver.run(SetSessionState("s", token, b"second")) == [Done()]

    [again] = driver.run(TransactAlone("t", driver.ref(), ID, [StatePart(token, b"first")], 1_000))

    assert again.error is None
    assert state_of(sessions, token) == b"second"
