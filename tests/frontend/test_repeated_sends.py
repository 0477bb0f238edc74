"""Sends without a name of their own are repeated under one until their outcome is known."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import repeated_sends
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.repeated_sends import RepeatedSends
from bendybus.frontend.core.send import Respond, SendOutcome, SendRequest
from bendybus.v1 import message_pb2
from tests.frontend.entities import queue

UNKNOWN = errors.OutcomeUnknown("who knows")
BUSY = errors.ServerBusy("later")
FULL = errors.QuotaExceeded("full")


class Partitions:
    """Answers each try with what a test says."""

    def __init__(self, *answers: Sequence[BusError | int] | BusError) -> None:
        self.answers = list(answers)
        self.requests: list[SendRequest] = []
        self._names = itertools.count(1)

    def submit(self, request: SendRequest, respond: Respond, holder: Holder) -> None:
        if not request.producer_id:
            request.producer_id, request.producer_sequence = b"front end", next(self._names)
        self.requests.append(request)
        said = self.answers.pop(0)
        if isinstance(said, BusError):
            respond(said)
            return
        failures = {unit: each for unit, each in enumerate(said) if isinstance(each, BusError)}
        numbers = [0 if isinstance(each, BusError) else each for each in said]
        respond(SendOutcome(queue(), numbers, [], failures, frozenset()))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_sends, "PAUSE_S", 0.0)
    monkeypatch.setattr(repeated_sends, "PAUSE_S_MAX", 0.0)


def request(*bodies: str, timeout_ms: int = 60_000) -> SendRequest:
    messages = message_pb2.MessageBatch(messages=[body.encode() for body in bodies])
    return SendRequest(
        "orders",
        SubQueue.MAIN,
        messages,
        group_sizes=[1] * len(bodies) if len(bodies) > 1 else (),
        timeout_ms=timeout_ms,
    )


async def send(partitions: Partitions, given: SendRequest) -> SendOutcome:
    sends: Any = partitions
    return await RepeatedSends(sends, sends).send(given, Holder("c", ""))


async def test_what_is_known_at_once_is_sent_once() -> None:
    partitions = Partitions([7, FULL])

    outcome = await send(partitions, request("a", "b"))

    assert (list(outcome.numbers), dict(outcome.failures)) == ([7, 0], {1: FULL})
    assert len(partitions.requests) == 1


@pytest.mark.requirement("R489")
async def test_only_what_is_unknown_is_repeated_by_the_name_and_place_of_its_first_try() -> None:
    partitions = Partitions([1, UNKNOWN, FULL, UNKNOWN], [2, UNKNOWN], [4])

    outcome = await send(partitions, request("a", "b", "c", "d"))

    first, second, third = partitions.requests
    assert (list(outcome.numbers), dict(outcome.failures)) == ([1, 2, 0, 4], {2: FULL})
    assert [list(each.messages.messages) for each in (second, third)] == [[b"b", b"d"], [b"d"]]
    assert [list(each.positions) for each in (second, third)] == [[1, 3], [3]]
    names = {(each.producer_id, each.producer_sequence) for each in partitions.requests}
    assert len(names) == 1
    assert first.producer_id
    assert (first.age_ms, bool(second.age_ms), bool(third.age_ms)) == (0, True, True)


@pytest.mark.parametrize("answer", [[BUSY], BUSY])
@pytest.mark.requirement("R489")
async def test_a_refusal_of_a_repeat_says_nothing_of_the_first_try(
    answer: Sequence[BusError] | BusError,
) -> None:
    partitions = Partitions([UNKNOWN], answer, [5])

    outcome = await send(partitions, request("a"))

    assert (list(outcome.numbers), outcome.failures) == ([5], {})


async def test_what_stays_unknown_is_reported_so_when_the_time_is_over() -> None:
    partitions = Partitions(*[[UNKNOWN]] * 100_000)

    outcome = await send(partitions, request("a", timeout_ms=50))

    assert dict(outcome.failures) == {0: UNKNOWN}
    assert len(partitions.requests) > 1


async def test_what_is_refused_as_a_whole_is_refused() -> None:
    missing = errors.EntityNotFound("no such queue")

    with pytest.raises(errors.EntityNotFound):
        await send(Partitions(missing), request("a"))


async def test_two_requests_have_two_names() -> None:
    partitions = Partitions([1], [2])
    sends: Any = partitions
    repeated = RepeatedSends(sends, sends)

    holder = Holder("c", "")
    await asyncio.gather(*(repeated.send(request("a"), holder) for _ in range(2)))

    assert len({each.producer_sequence for each in partitions.requests}) == 2
