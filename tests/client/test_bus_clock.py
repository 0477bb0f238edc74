"""What a client knows of the bus's clock, and what it drops by it."""

import asyncio
import time
from typing import Any

import pytest

from bendybus.client.core.pending_receive import PendingReceive
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.session_link import SessionLink
from bendybus.client.core.stream import BusClock
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.v1.receiver_pb2 import ReceiveStreamResponse
from bendybus.wire import streams
from tests.client.test_session_order import Waiter, next_of, settled

BUS_MS = 5_000_000


@pytest.mark.requirement("R321")
def test_the_clock_of_the_bus_is_known_to_the_quickest_round_trip() -> None:
    clock = BusClock()
    assert clock.at(BUS_MS, 100.0) == 100.0

    # Asked at 10, and answered some time after that; then answered at once.
    clock.answered(10.0, BUS_MS)
    clock.answered(30.0, BUS_MS + 15_000)
    clock.answered(31.0, BUS_MS + 30_000)

    assert clock.at(BUS_MS + 20_000, 100.0) == 35.0
    # Never later than now.
    assert clock.at(BUS_MS + 20_000, 34.0) == 34.0
    clock.restart()
    assert clock.at(BUS_MS, 100.0) == 100.0


def test_a_server_that_tells_no_clock_is_understood() -> None:
    assert streams.clock_of((streams.clock(7), ("other", "x"))) == 7
    assert streams.clock_of(None) == streams.clock_of((("bendybus-clock-ms", "x"),)) == 0


def opened(mode: receiver_pb2.ReceiveMode, link: SessionLink | None = None) -> ReceiveStream:
    """Return an open stream, of a session or none, whose bus told its clock 7 s ago."""
    opening = receiver_pb2.OpenReceiver(entity_path="orders", receive_mode=mode)
    loop = asyncio.get_running_loop()

    async def never() -> Any:
        raise AssertionError

    stream = ReceiveStream(never, loop, RetryPolicy(), opening, 0, session=link)
    stream.stream.clock.answered(time.monotonic() - 7.0, BUS_MS)
    stream.receive(PendingReceive(1, 30.0, Waiter()))
    next_of(stream)
    opened = receiver_pb2.ReceiverOpened(lock_duration_ms=5_000)
    stream.handle(ReceiveStreamResponse(opened=opened))
    return stream


def delivery(ask_id: int, body: bytes, sent_ms: int, lock_ms: int = 5_000) -> ReceiveStreamResponse:
    """Return a delivery of one message, written at a time of the bus."""
    batch = message_pb2.DeliveredBatch(
        messages=[body], lock_tokens=b"t" * 16 if lock_ms else b"", lock_remaining_ms=lock_ms
    )
    made = receiver_pb2.Delivery(ask_id=ask_id, batches=[batch], sent_ms=sent_ms)
    return ReceiveStreamResponse(delivery=made)


@pytest.mark.requirement("R321")
async def test_a_message_whose_lock_ended_on_the_way_is_dropped_and_asked_for_again() -> None:
    stream = opened(receiver_pb2.RECEIVE_MODE_PEEK_LOCK)
    waiting = stream._asks.pending[0]
    first = next_of(stream).ask
    # Asked for 7 s ago, too, and answered at once.
    stream._asks._sent_s[first.ask_id] -= 7.1
    stream.handle(delivery(first.ask_id, b"old", BUS_MS))

    assert waiting in stream._asks.pending
    again = next_of(stream).ask
    stream.handle(delivery(again.ask_id, b"new", BUS_MS + 7_000))

    assert waiting not in stream._asks.pending
    [[(delivered, _, _)]] = waiting.waiter.outcomes  # type: ignore[attr-defined]
    assert list(delivered.proto.messages) == [b"new"]


@pytest.mark.requirement("R321")
async def test_what_is_deleted_as_it_is_delivered_is_never_dropped() -> None:
    stream = opened(receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE)
    waiting = stream._asks.pending[0]
    ask = next_of(stream).ask
    stream._asks._sent_s[ask.ask_id] -= 7.1

    late = delivery(ask.ask_id, b"old", BUS_MS, lock_ms=0)
    # As front ends before 0.7 give it.
    late.delivery.batches[0].lock_tokens = b"t" * 16
    stream.handle(late)

    assert len(waiting.waiter.outcomes) == 1  # type: ignore[attr-defined]


def session() -> SessionLink:
    """Return a session that was locked for 5 s, 7 s ago."""
    link = SessionLink("s", 5.0, RetryPolicy())
    opened = receiver_pb2.OpenedSession(
        session_id="s", session_token=b"s" * 16, lock_remaining_ms=5_000
    )
    link.opened(opened, time.monotonic() - 7.0)
    return link


@pytest.mark.requirement("R431")
async def test_a_message_that_was_late_is_handed_over_if_its_session_was_renewed() -> None:
    link = session()
    stream = opened(receiver_pb2.RECEIVE_MODE_PEEK_LOCK, link)
    waiting = stream._asks.pending[0]
    ask = next_of(stream).ask
    stream._asks._sent_s[ask.ask_id] -= 7.1
    # The line was mute for what the bus wrote: the renewal had reached it.
    link.renewed(0, 5_000, time.monotonic() - 2.0)

    stream.handle(delivery(ask.ask_id, b"first", BUS_MS))

    [[(delivered, _, _)]] = waiting.waiter.outcomes  # type: ignore[attr-defined]
    assert list(delivered.proto.messages) == [b"first"]


@pytest.mark.requirement("R431")
async def test_a_message_that_was_late_goes_back_if_its_session_seems_to_have_ended() -> None:
    stream = opened(receiver_pb2.RECEIVE_MODE_PEEK_LOCK, session())
    waiting = stream._asks.pending[0]
    ask = next_of(stream).ask
    stream._asks._sent_s[ask.ask_id] -= 7.1

    stream.handle(delivery(ask.ask_id, b"first", BUS_MS))

    # Where the lock was renewed after all, the bus gives it again, before what comes after it.
    assert waiting.waiter.outcomes == []  # type: ignore[attr-defined]
    assert settled(stream) == (receiver_pb2.DISPOSITION_RELEASE, b"t" * 16)
    assert stream.next_request() is None
