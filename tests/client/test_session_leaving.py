"""Callers that leave, and sessions that are lost, while something is under way."""

import asyncio
from typing import Any

import pytest

from bendybus.client import exceptions
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.session_link import SessionLink
from bendybus.client.core.settlements import Settlement
from bendybus.domain.errors import OutcomeUnknown, RetryableError, SessionLockLost
from bendybus.v1 import receiver_pb2
from bendybus.v1.receiver_pb2 import ReceiveStreamRequest, ReceiveStreamResponse
from bendybus.wire import statuses
from tests.client.test_session_order import Waiter, _never, next_of, token

COMPLETE = receiver_pb2.DISPOSITION_COMPLETE


def opened(number: int = 1, name: str = "s") -> ReceiveStreamResponse:
    """Return the answer to the opening."""
    session = receiver_pb2.OpenedSession(
        session_id=name, session_token=b"%d" % number * 16, lock_remaining_ms=30_000
    )
    return ReceiveStreamResponse(opened=receiver_pb2.ReceiverOpened(session=session))


CLOSED = ReceiveStreamResponse(session_closed=receiver_pb2.SessionClosed())


def stream_of(wanted: str | None = "s", wait_s: float = 5.0, retries: int = 3) -> ReceiveStream:
    """Return the stream of a session's receiver."""
    opening = receiver_pb2.OpenReceiver(
        entity_path="q", receive_mode=receiver_pb2.RECEIVE_MODE_PEEK_LOCK
    )
    retry = RetryPolicy(total=retries, backoff_factor_s=0.01)
    link = SessionLink(wanted, wait_s, retry)
    return ReceiveStream(_never, asyncio.get_running_loop(), retry, opening, 0, session=link)


def link_of(stream: ReceiveStream) -> SessionLink:
    """Return its session."""
    assert stream.session is not None
    return stream.session


def locked() -> ReceiveStream:
    """Return the stream of a session that is locked."""
    stream = stream_of()
    stream.open_session(Waiter())
    next_of(stream)
    stream.handle(opened())
    return stream


def complete(stream: ReceiveStream, number: int = 1) -> Waiter:
    """Begin to complete a message."""
    waiter = Waiter()
    stream.settle(Settlement(COMPLETE, token(number), waiter, 60.0))
    return waiter


def failed(frame_id: int, error: Any) -> ReceiveStreamResponse:
    """Return the outcome of a settlement that failed."""
    failure = receiver_pb2.SettleFailure(indexes=[0], error=statuses.to_error(error))
    result = receiver_pb2.SettleResult(frame_id=frame_id, failures=[failure])
    return ReceiveStreamResponse(settle_result=result)


# Outcomes


@pytest.mark.requirement("R11", "R104")
async def test_a_repeat_that_finds_the_session_lost_has_an_unknown_outcome() -> None:
    stream = locked()
    waiter = complete(stream)
    next_of(stream)
    stream.broken(RetryableError("away"))
    next_of(stream)
    stream.handle(opened())
    assert next_of(stream).settle.repeat

    stream.handle(failed(1, SessionLockLost("over")))

    [outcome] = waiter.outcomes
    assert [type(error) for _, error in outcome.errors] == [exceptions.OutcomeUnknownError]


@pytest.mark.requirement("R104")
async def test_a_first_try_that_finds_the_session_lost_did_nothing() -> None:
    stream = locked()
    waiter = complete(stream)
    next_of(stream)

    stream.handle(failed(1, SessionLockLost("over")))

    [outcome] = waiter.outcomes
    assert [type(error) for _, error in outcome.errors] == [exceptions.SessionLockLostError]


@pytest.mark.requirement("R104")
@pytest.mark.parametrize("sent", [True, False])
async def test_settlements_of_a_session_that_is_lost_end_at_once(sent: bool) -> None:
    stream = locked()
    waiter = complete(stream)
    if sent:
        next_of(stream)
    stream.broken(RetryableError("away"))
    assert next_of(stream).HasField("open")

    stream.broken(SessionLockLost("restarted"))

    expected = exceptions.OutcomeUnknownError if sent else exceptions.SessionLockLostError
    assert [type(each) for each in waiter.outcomes] == [expected]
    assert not stream.has_work()


@pytest.mark.requirement("R11", "R104")
async def test_a_settlement_that_is_to_be_repeated_when_the_session_is_lost_is_unknown() -> None:
    stream = locked()
    waiter = complete(stream)
    next_of(stream)
    stream.handle(failed(1, OutcomeUnknown("late")))
    stream.broken(SessionLockLost("restarted"))
    await asyncio.sleep(0.1)

    assert [type(each) for each in waiter.outcomes] == [exceptions.OutcomeUnknownError]


# Callers that leave


def closes(stream: ReceiveStream) -> bool:
    """Whether the session is given up now."""
    request = stream.next_request()
    return request is not None and request.HasField("close_session")


@pytest.mark.requirement("R102", "R105")
@pytest.mark.parametrize("when", ["before", "after", "at once"])
async def test_a_session_that_no_caller_waits_for_any_more_is_given_up(when: str) -> None:
    stream, waiter = stream_of(None), Waiter()
    stream.open_session(waiter)
    assert next_of(stream).open.session.next_available
    if when == "at once":
        stream.handle(opened(1, "a"))

    stream.forget_session(waiter)
    if when == "after":
        stream.handle(opened(1, "a"))
    assert closes(stream)
    if when == "before":
        stream.handle(opened(1, "a"))
    stream.handle(CLOSED)

    # The next caller gets the next session, on a stream of its own.
    again = Waiter()
    stream.open_session(again)
    assert again.outcomes == []
    stream.broken(RetryableError("it ended"))
    assert next_of(stream).open.session.next_available
    stream.handle(opened(2, "b"))
    assert again.outcomes == [None]
    assert link_of(stream).session_id == "b"


@pytest.mark.requirement("R102")
async def test_a_session_is_kept_while_one_caller_waits_or_uses_it() -> None:
    stream, one, other = stream_of(), Waiter(), Waiter()
    stream.open_session(one)
    stream.open_session(other)
    next_of(stream)
    stream.forget_session(one)
    assert not closes(stream)
    stream.handle(opened())

    link_of(stream).used()
    stream.forget_session(other)
    assert not closes(stream)
    assert link_of(stream).ready


@pytest.mark.requirement("R102")
async def test_an_answer_that_comes_after_the_wait_leaves_no_session_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bendybus.client.core.session_link.GRACE_S", 0.01)
    stream, waiter = stream_of(wait_s=0.01), Waiter()
    stream.open_session(waiter)
    next_of(stream)
    await asyncio.sleep(0.1)
    assert [type(each) for each in waiter.outcomes] == [exceptions.OperationTimeoutError]

    stream.handle(opened())

    assert closes(stream)
    assert not link_of(stream).ready


@pytest.mark.requirement("R102")
async def test_a_caller_that_comes_while_the_session_is_given_up_gets_it_again() -> None:
    stream, waiter, again = stream_of(), Waiter(), Waiter()
    stream.open_session(waiter)
    next_of(stream)
    stream.handle(opened(1))
    stream.forget_session(waiter)

    stream.open_session(again)
    assert again.outcomes == []
    assert closes(stream)
    stream.handle(CLOSED)
    stream.broken(RetryableError("it ended"))
    assert next_of(stream).open.session.session_id == "s"
    stream.handle(opened(2))
    assert again.outcomes == [None]
    assert link_of(stream).token == b"2" * 16


@pytest.mark.requirement("R102")
async def test_a_wait_that_ends_before_the_stream_is_open_does_not_spoil_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bendybus.client.core.session_link.GRACE_S", 0.01)
    stream, again = stream_of(wait_s=0.01), Waiter()
    stream.open_session(Waiter())
    await asyncio.sleep(0.1)

    stream.open_session(again)
    next_of(stream)
    stream.handle(opened())
    assert again.outcomes == [None]
    assert link_of(stream).ready


async def test_a_caller_that_leaves_before_the_stream_is_open_leaves_nothing() -> None:
    stream, waiter = stream_of(), Waiter()
    stream.open_session(waiter)
    stream.forget_session(waiter)

    assert not stream.has_work()
    assert stream.next_request() is None
    stream.open_session(Waiter())
    request = next_of(stream)
    left_ms = request.open.session.max_wait_ms
    assert 4_000 < left_ms <= 5_000
    assert request == ReceiveStreamRequest(
        open=receiver_pb2.OpenReceiver(
            entity_path="q",
            receive_mode=receiver_pb2.RECEIVE_MODE_PEEK_LOCK,
            session=receiver_pb2.AcceptSession(session_id="s", max_wait_ms=left_ms),
        )
    )
