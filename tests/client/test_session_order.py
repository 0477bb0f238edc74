"""The stream of a session's receiver while a message goes back: nothing may overtake it."""

import asyncio
from typing import Any

import pytest

from bendybus.client.core.pending_receive import PendingReceive
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.session_link import SessionLink
from bendybus.client.core.settlements import Settlement
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.v1.receiver_pb2 import ReceiveStreamRequest, ReceiveStreamResponse

SESSION = b"t" * 16


class Waiter:
    """Notes its outcome."""

    def __init__(self) -> None:
        self.outcomes: list[Any] = []

    def resolve(self, value: Any) -> None:
        """Note a result."""
        self.outcomes.append(value)

    def fail(self, error: BaseException) -> None:
        """Note an error."""
        self.outcomes.append(error)


def token(number: int) -> bytes:
    """Return the lock token of a message."""
    return bytes([number]) * 16


def delivery(ask_id: int, *numbers: int) -> ReceiveStreamResponse:
    """Return the answer to an ask."""
    batch = message_pb2.DeliveredBatch(
        messages=[b""] * len(numbers),
        lock_tokens=b"".join(map(token, numbers)),
        lock_remaining_ms=60_000,
    )
    return ReceiveStreamResponse(delivery=receiver_pb2.Delivery(ask_id=ask_id, batches=[batch]))


def result(frame_id: int) -> ReceiveStreamResponse:
    """Return the outcome of a settlement."""
    return ReceiveStreamResponse(settle_result=receiver_pb2.SettleResult(frame_id=frame_id))


def next_of(stream: ReceiveStream) -> ReceiveStreamRequest:
    """Return what is written next."""
    request = stream.next_request()
    assert request is not None
    return request


def settled(stream: ReceiveStream) -> tuple[int, bytes]:
    """Return the disposition and the tokens of the settlement that is written next."""
    frame = next_of(stream).settle
    return frame.disposition, frame.lock_tokens


@pytest.mark.requirement("R103")
async def test_what_is_buffered_behind_a_message_goes_back_with_it_and_is_asked_for_after() -> None:
    stream, link = opened()
    first = Waiter()
    stream.receive(PendingReceive(1, 5.0, first))
    stream.handle(delivery(next_of(stream).ask.ask_id, 1, 2, 3))
    assert len(first.outcomes) == 1
    second_ask = next_of(stream).ask.ask_id

    abandoned = Waiter()
    stream.settle(Settlement(receiver_pb2.DISPOSITION_ABANDON, token(1), abandoned, 5.0))
    await asyncio.sleep(0)
    assert settled(stream) == (receiver_pb2.DISPOSITION_ABANDON, token(1))
    assert settled(stream) == (receiver_pb2.DISPOSITION_RELEASE, token(2) + token(3))

    # What was on its way by then goes back, too, also if a receive waits for it.
    waiting = Waiter()
    stream.receive(PendingReceive(1, 5.0, waiting))
    stream.handle(delivery(second_ask, 4))
    assert settled(stream) == (receiver_pb2.DISPOSITION_RELEASE, token(4))
    for frame_id in (1, 2):
        assert stream.next_request() is None
        stream.handle(result(frame_id))
    assert stream.next_request() is None
    stream.handle(result(3))

    stream.handle(delivery(next_of(stream).ask.ask_id, 1, 2, 3, 4))
    assert len(abandoned.outcomes) == len(waiting.outcomes) == 1
    [[(batch, start, stop)]] = waiting.outcomes
    assert batch.lock_tokens[start * 16 : stop * 16] == token(1)
    assert sorted(link._held) == [token(number) for number in (1, 2, 3, 4)]


@pytest.mark.requirement("R233")
async def test_nothing_overtakes_a_message_that_a_transaction_gives_back() -> None:
    stream, _ = opened()
    first = Waiter()
    stream.receive(PendingReceive(1, 5.0, first))
    stream.handle(delivery(next_of(stream).ask.ask_id, 1, 2, 3))
    second_ask = next_of(stream).ask.ask_id

    # The commit is under way, on a stream of its own.
    stream.begin_return()
    assert settled(stream) == (receiver_pb2.DISPOSITION_RELEASE, token(2) + token(3))
    stream.handle(result(1))
    waiting = Waiter()
    stream.receive(PendingReceive(1, 5.0, waiting))
    assert stream.next_request() is None

    # Its outcome is here before what was delivered earlier.
    stream.end_return()
    assert settled(stream) == (receiver_pb2.DISPOSITION_RELEASE, SESSION)
    stream.handle(delivery(second_ask, 4))
    assert settled(stream) == (receiver_pb2.DISPOSITION_RELEASE, token(4))
    stream.handle(result(2))
    assert stream.next_request() is None
    stream.handle(result(3))

    stream.handle(delivery(next_of(stream).ask.ask_id, 1, 2, 3, 4))
    [[(batch, start, stop)]] = waiting.outcomes
    assert batch.lock_tokens[start * 16 : stop * 16] == token(1)


def opened() -> tuple[ReceiveStream, SessionLink]:
    """Return the stream of a receiver whose session is locked."""
    opening = receiver_pb2.OpenReceiver(
        entity_path="q", receive_mode=receiver_pb2.RECEIVE_MODE_PEEK_LOCK
    )
    link = SessionLink("s", 5.0, RetryPolicy())
    loop = asyncio.get_running_loop()
    stream = ReceiveStream(_never, loop, RetryPolicy(), opening, 10, session=link)
    stream.open_session(Waiter())
    assert next_of(stream).open.session.session_id == "s"
    session = receiver_pb2.OpenedSession(
        session_id="s", session_token=SESSION, lock_remaining_ms=60_000
    )
    stream.handle(ReceiveStreamResponse(opened=receiver_pb2.ReceiverOpened(session=session)))
    return stream, link


async def _never() -> Any:
    raise AssertionError
