"""The session of a receiver in the client: how it opens, what goes back, when it is lost."""

import asyncio
import time
from typing import Any

import pytest

from bendybus.client import exceptions
from bendybus.client.core.retry_policy import Moved, RetryPolicy
from bendybus.client.core.session_link import SessionLink
from bendybus.client.core.settlements import Outcome, Settlement
from bendybus.domain.errors import (
    InvalidOperation,
    RetryableError,
    ServiceTimeout,
    SessionCannotBeLocked,
    SessionLockLost,
)
from bendybus.v1 import receiver_pb2
from bendybus.v1.receiver_pb2 import OpenReceiver

TOKEN = b"t" * 16
OPENED = receiver_pb2.OpenedSession(
    session_id="s", session_token=TOKEN, locked_until_ms=5_000, lock_remaining_ms=30_000
)


class Waiter:
    """Notes its outcome."""

    def __init__(self) -> None:
        self.outcomes: list[Any] = []

    def resolve(self, value: Any) -> None:
        """Note a result."""
        self.outcomes.append(value)

    def fail(self, error: BaseException) -> None:
        """Note an error."""
        self.outcomes.append(type(error))


def link_of(wanted: str | None = None, retries: int = 1) -> SessionLink:
    """Return a session that is not locked yet."""
    return SessionLink(wanted, 5.0, RetryPolicy(total=retries))


def opening(link: SessionLink) -> receiver_pb2.AcceptSession:
    """Return how the stream opens now."""
    made = link.opening(OpenReceiver(entity_path="q"), 0.0)
    assert made.entity_path == "q"
    return made.session


@pytest.mark.requirement("R101", "R104")
async def test_it_is_asked_for_by_name_once_and_by_its_token_from_then_on() -> None:
    link, waiter = link_of("s"), Waiter()
    link.open(waiter, asyncio.get_running_loop())
    assert link.has_work
    assert opening(link).session_id == "s"

    link.opened(OPENED, time.monotonic())
    assert waiter.outcomes == [None]
    assert link.ready
    assert not link.has_work
    link.hold(b"a" * 16 + b"b" * 16)
    link.settled(b"a" * 16)

    again = opening(link)
    assert again.WhichOneof("which") == "session_token"
    assert (again.session_token, again.held_lock_tokens) == (TOKEN, b"b" * 16)
    assert link.lock_end_s == pytest.approx(time.monotonic() + 30, abs=5)


async def test_an_empty_name_is_a_name() -> None:
    assert opening(link_of("")).WhichOneof("which") == "session_id"
    assert opening(link_of()).next_available


@pytest.mark.requirement("R102")
@pytest.mark.parametrize(
    ("errors", "outcome"),
    [
        ([ServiceTimeout("none free")], exceptions.OperationTimeoutError),
        ([InvalidOperation("no sessions")], exceptions.InvalidOperationError),
        (
            [SessionCannotBeLocked("taken"), SessionCannotBeLocked("taken")],
            exceptions.SessionCannotBeLockedError,
        ),
        (
            [RetryableError("away"), Moved("go"), RetryableError("away")],
            exceptions.ServiceBusConnectionError,
        ),
    ],
)
async def test_callers_are_told_what_is_final(errors: list[Any], outcome: type[Exception]) -> None:
    link, waiter = link_of(), Waiter()
    link.open(waiter, asyncio.get_running_loop())
    for error in errors[:-1]:
        link.broken(error)
        assert waiter.outcomes == []
    link.broken(errors[-1])

    assert waiter.outcomes == [outcome]
    assert not link.has_work
    # The next call tries again.
    link.open(Waiter(), asyncio.get_running_loop())
    assert link.has_work


@pytest.mark.requirement("R109", "R105")
async def test_a_lost_session_is_lost_for_good() -> None:
    link, waiter = link_of(), Waiter()
    link.opened(OPENED, time.monotonic())
    link.hold(b"a" * 16)
    link.broken(RetryableError("away"))
    assert link.ready

    link.broken(SessionLockLost("over"))
    assert not link.ready
    link.open(waiter, asyncio.get_running_loop())
    assert waiter.outcomes == [exceptions.SessionLockLostError]


@pytest.mark.requirement("R103")
async def test_what_goes_back_is_followed_to_its_end() -> None:
    link, waiter = link_of(), Waiter()
    back: list[None] = []
    abandon = Settlement(receiver_pb2.DISPOSITION_ABANDON, b"a" * 16, waiter, 1.0)
    complete = Settlement(receiver_pb2.DISPOSITION_COMPLETE, b"b" * 16, waiter, 1.0)
    link.opened(OPENED, time.monotonic())
    link.hold(b"a" * 16 + b"b" * 16)

    assert link.settling(abandon, lambda: back.append(None))
    assert not link.settling(complete, lambda: back.append(None))
    # A repeat is the same settlement.
    assert not link.settling(abandon, lambda: back.append(None))
    assert link.returning == 1
    complete.waiter.resolve(Outcome((), 0))
    assert back == []
    abandon.waiter.fail(exceptions.OutcomeUnknownError(message="lost"))

    assert (link.returning, len(back), len(waiter.outcomes)) == (0, 1, 2)
    assert not opening(link).held_lock_tokens


@pytest.mark.requirement("R105")
async def test_it_is_closed_once_in_a_stream_and_again_in_the_next() -> None:
    link = link_of()
    link.opened(OPENED, time.monotonic())
    assert link.next_close(open_sent=True) is None
    link.close()

    assert link.next_close(open_sent=False) is None
    assert link.next_close(open_sent=True) is not None
    assert link.next_close(open_sent=True) is None
    assert link.has_work
    opening(link)
    assert link.next_close(open_sent=True) is not None
    link.closed = True
    assert not link.has_work


async def test_the_bus_that_does_not_answer_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bendybus.client.core.session_link.GRACE_S", 0.01)
    link, waiter = SessionLink(None, 0.01, RetryPolicy()), Waiter()
    link.open(waiter, asyncio.get_running_loop())
    link.broken(RetryableError("away"))
    await asyncio.sleep(0.1)

    assert waiter.outcomes == [exceptions.ServiceBusConnectionError]
