"""Settlements of clients that cannot repeat them are repeated until their outcome is known."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import BusError
from bendybus.frontend.core import repeated_settles
from bendybus.frontend.core.repeated_settles import RepeatedSettles
from bendybus.frontend.core.settle import SettleOutcome, SettleRequest, Settling

UNKNOWN = errors.OutcomeUnknown("who knows")
AWAY = errors.PartitionUnavailable("away")
BUSY = errors.ServerBusy("later")
LOST = errors.MessageLockLost("lost")
SETTLER = b"settler"


class Partitions:
    """Answers each try with what a test says: why each token is not settled, or None."""

    def __init__(self, *answers: Sequence[BusError | None]) -> None:
        self.answers = list(answers)
        self.requests: list[SettleRequest] = []

    def start(
        self,
        request: SettleRequest,
        answer: Callable[[Settling], None],
        let_go: Callable[[], None] | None = None,
    ) -> Settling:
        self.requests.append(request)
        settling = Settling(request, answer, 0.0)
        for index, error in enumerate(self.answers.pop(0)):
            if error is not None:
                settling.outcome.failures.append(([index], error))
        answer(settling)
        if let_go is not None:
            let_go()
        return settling


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_settles, "PAUSE_S", 0.0)
    monkeypatch.setattr(repeated_settles, "PAUSE_S_MAX", 0.0)


def token(number: int) -> bytes:
    return bytes([number]) * 16


def request(count: int, disposition: Disposition = Disposition.COMPLETE) -> SettleRequest:
    return SettleRequest(disposition, b"".join(map(token, range(count))), settler_id=SETTLER)


async def settle(partitions: Partitions, given: SettleRequest) -> dict[int, BusError]:
    settles: Any = partitions
    outcome: SettleOutcome = await RepeatedSettles(settles).settle(given)
    return {index: error for indexes, error in outcome.failures for index in indexes}


async def test_what_is_known_is_not_repeated() -> None:
    partitions = Partitions([None, LOST, AWAY, BUSY])

    assert await settle(partitions, request(4)) == {1: LOST, 2: AWAY, 3: BUSY}
    assert len(partitions.requests) == 1


@pytest.mark.requirement("R495")
@pytest.mark.parametrize("lost", [LOST, errors.SessionLockLost("lost")])
async def test_a_lock_that_is_lost_in_a_repeat_may_have_been_settled(lost: BusError) -> None:
    # A partition that stopped between the two tries has forgotten the first.
    partitions = Partitions([UNKNOWN, UNKNOWN], [lost, UNKNOWN], [None])

    found = await settle(partitions, request(2))

    assert list(found) == [0]
    assert isinstance(found[0], errors.OutcomeUnknown)
    assert "may be settled" in str(found[0])
    assert [each.lock_tokens for each in partitions.requests[1:]] == [token(0) + token(1), token(1)]


@pytest.mark.requirement("R495")
async def test_only_tokens_of_unknown_outcome_are_repeated_by_the_same_settler() -> None:
    partitions = Partitions([None, UNKNOWN, LOST, UNKNOWN], [None, UNKNOWN], [None])

    assert await settle(partitions, request(4)) == {2: LOST}
    assert [each.lock_tokens for each in partitions.requests[1:]] == [token(1) + token(3), token(3)]
    assert [each.repeat for each in partitions.requests] == [False, True, True]
    assert {each.settler_id for each in partitions.requests} == {SETTLER}


@pytest.mark.requirement("R495")
@pytest.mark.parametrize("later", [UNKNOWN, AWAY, BUSY])
async def test_a_repeat_that_says_nothing_new_is_repeated(later: BusError) -> None:
    partitions = Partitions([UNKNOWN], [later], [later], [None])

    assert await settle(partitions, request(1)) == {}
    assert len(partitions.requests) == 4


async def test_what_stays_unknown_is_said_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_settles, "REPEAT_S", 0.05)
    monkeypatch.setattr(repeated_settles, "PAUSE_S", 0.02)
    monkeypatch.setattr(repeated_settles, "PAUSE_S_MAX", 0.02)
    partitions = Partitions([UNKNOWN], *[[AWAY]] * 10)

    async with asyncio.timeout(5):
        assert await settle(partitions, request(1)) == {0: UNKNOWN}
    assert 2 <= len(partitions.requests) <= 4


async def test_renewals_are_not_repeated() -> None:
    partitions = Partitions([UNKNOWN])

    assert await settle(partitions, request(1, Disposition.RENEW_LOCK)) == {0: UNKNOWN}


@pytest.mark.requirement("R648")
async def test_its_locks_are_let_go_once_when_no_try_is_left() -> None:
    partitions: Any = Partitions([UNKNOWN, None], [UNKNOWN], [None])
    let_go: list[int] = []

    await RepeatedSettles(partitions).settle(
        request(2), lambda: let_go.append(len(partitions.requests))
    )

    assert let_go == [3]
