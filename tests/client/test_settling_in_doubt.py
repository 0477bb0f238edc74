"""A settlement whose first try may have been done stays in doubt until somebody knows."""

import asyncio
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage, aio
from bendybus.client.core import io_thread
from bendybus.client.core.io_thread import LoopWaiter
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.settlements import Outcome, Settlement, Settlements
from bendybus.client.exceptions import (
    MessageLockLostError,
    OperationTimeoutError,
    OutcomeUnknownError,
    PartitionUnavailableError,
    ServiceBusConnectionError,
)
from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.v1 import receiver_pb2
from bendybus.wire import statuses
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.memory_queue import MemoryQueue

TOKEN = b"t" * 16
AWAY = errors.PartitionUnavailable("partition 1 is unavailable")
LOST = errors.MessageLockLost("the lock is lost")


class Waiter:
    """Keeps the outcome."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None

    def resolve(self, value: Outcome) -> None:
        """Take the outcome."""
        self.outcome = value

    def fail(self, error: BaseException) -> None:
        """Take the error."""
        self.error = error


def answer(frame: Any, error: BusError) -> receiver_pb2.SettleResult:
    """Return a result in which the only token failed."""
    failure = receiver_pb2.SettleFailure(indexes=[0], error=statuses.to_error(error))
    return receiver_pb2.SettleResult(frame_id=frame.frame_id, failures=[failure])


def told(disposition: Any, *tries: BusError | None) -> type[Exception]:
    """Return what a caller is told; None: the stream breaks before an answer."""
    rules = Settlements(RetryPolicy(total=len(tries) - 1))
    waiter = Waiter()
    rules.add(Settlement(disposition, TOKEN, waiter, 60.0))
    for error in tries:
        frame = rules.next_frame()
        if error is None:
            rules.stream_broke(errors.RetryableError("the stream broke"))
            continue
        for _, again in rules.answered(answer(frame, error)):
            rules.add(again)
    if waiter.error is not None:
        return type(waiter.error)  # type: ignore[return-value]  # set in every case
    assert waiter.outcome is not None
    [(_, found)] = waiter.outcome.errors
    return type(found)


COMPLETE = receiver_pb2.DISPOSITION_COMPLETE
RENEW = receiver_pb2.DISPOSITION_RENEW_LOCK
UNKNOWN = errors.OutcomeUnknown("its stream broke")


@pytest.mark.parametrize(
    ("disposition", "tries", "expected"),
    [
        (COMPLETE, (AWAY,), PartitionUnavailableError),
        (COMPLETE, (LOST,), MessageLockLostError),
        (COMPLETE, (AWAY, LOST), MessageLockLostError),
        (COMPLETE, (UNKNOWN, AWAY), OutcomeUnknownError),
        (COMPLETE, (UNKNOWN, AWAY, LOST), OutcomeUnknownError),
        (COMPLETE, (None, AWAY), OutcomeUnknownError),
        (COMPLETE, (None, LOST), OutcomeUnknownError),
        # To renew twice is to renew.
        (RENEW, (None, LOST), MessageLockLostError),
    ],
)
def test_only_an_answer_of_who_knows_ends_the_doubt(
    disposition: Any, tries: tuple[BusError | None, ...], expected: type[Exception]
) -> None:
    assert told(disposition, *tries) is expected


def delayed(delay_ms: int) -> Settlement:
    """Return an abandon with a delay."""
    return Settlement(receiver_pb2.DISPOSITION_ABANDON, TOKEN, Waiter(), 60.0, delay_ms=delay_ms)


@pytest.mark.requirement("R229")
def test_abandons_share_a_frame_only_with_those_of_the_same_delay() -> None:
    rules = Settlements(RetryPolicy(total=0))
    for delay_ms in (5, 5, 0, 7):
        rules.add(delayed(delay_ms))

    frames = [rules.next_frame() for _ in range(3)]

    assert [(frame.delay_ms, len(frame.lock_tokens) // 16) for frame in frames] == [
        (5, 2),
        (0, 1),
        (7, 1),
    ]


@pytest.mark.requirement("R229")
def test_a_front_end_that_would_ignore_a_delay_is_not_sent_one() -> None:
    rules = Settlements(RetryPolicy(total=0))
    late, plain = delayed(5), delayed(0)
    rules.add(late)
    rules.add(plain)

    rules.refuse_delayed()

    assert isinstance(late.waiter, Waiter)
    assert "older version" in str(late.waiter.error)
    assert rules.next_frame().delay_ms == 0
    assert not rules.has_waiting


@pytest.mark.requirement("R229")
async def test_a_delay_waits_for_what_the_front_end_says_of_itself() -> None:
    for knows in (False, True):
        stream = ReceiveStream(
            _never,
            asyncio.get_running_loop(),
            RetryPolicy(total=0),
            receiver_pb2.OpenReceiver(entity_path="q"),
            0,
        )
        settlement = delayed(5)
        stream.settle(settlement)
        stream.next_request()
        opened = receiver_pb2.ReceiverOpened(knows_delays=knows)
        stream.handle(receiver_pb2.ReceiveStreamResponse(opened=opened))

        assert (stream.next_request() is not None) is knows
        assert isinstance(settlement.waiter, Waiter)
        assert (settlement.waiter.error is None) is knows


@pytest.mark.requirement("R483")
@pytest.mark.parametrize(
    ("refused", "expected"),
    [(AWAY, ServiceBusConnectionError), (UNKNOWN, OutcomeUnknownError)],
)
def test_a_settlement_that_is_to_be_repeated_ends_as_its_receiver_is_closed(
    refused: BusError, expected: type[Exception]
) -> None:
    rules, waiter = Settlements(RetryPolicy()), Waiter()
    rules.add(Settlement(COMPLETE, TOKEN, waiter, 60.0))
    [(_, settlement)] = rules.answered(answer(rules.next_frame(), refused))

    assert not rules.all_ended
    rules.fail_all()

    assert type(waiter.error) is expected
    assert not rules.take_rested(settlement)
    assert rules.all_ended


@pytest.mark.requirement("R483")
def test_a_settlement_is_not_repeated_beyond_its_timeout() -> None:
    rules, waiter = Settlements(RetryPolicy()), Waiter()
    settlement = Settlement(COMPLETE, TOKEN, waiter, 60.0)
    settlement.deadline_s = 60.0
    rules.add(settlement)
    rules.answered(answer(rules.next_frame(), AWAY))

    rules.expire(59.0)
    assert waiter.error is None
    rules.expire(60.0)

    assert isinstance(waiter.error, OperationTimeoutError)
    assert not rules.take_rested(settlement)


@pytest.mark.requirement("R483")
@pytest.mark.parametrize("closed_first", [False, True])
async def test_a_settlement_ends_with_its_receiver(
    fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch, closed_first: bool
) -> None:
    def away(self: MemoryQueue, frame: Any, token: bytes) -> None:
        raise AWAY

    async with aio.ServiceBusClient.from_connection_string(
        fake.connection_string, retry_backoff_factor=30
    ) as client:
        await client.get_queue_sender("q").send_messages(ServiceBusMessage(b"x"))
        receiver = client.get_queue_receiver("q", max_wait_time=2)
        (message,) = await receiver.receive_messages()
        monkeypatch.setattr(MemoryQueue, "settle", away)
        io, stream = io_thread.current(), receiver._receive_stream()
        completing: asyncio.Task[Any]
        if closed_first:
            await receiver.close()
            waiter: LoopWaiter[Outcome] = io.loop_waiter()
            io.submit(stream.settle, Settlement(COMPLETE, TOKEN, waiter, 60.0))
            completing = asyncio.create_task(waiter.wait(60))
        else:
            completing = asyncio.create_task(receiver.complete_message(message))
            await asyncio.sleep(0.2)
            await receiver.close()

        await asyncio.wait({completing}, timeout=3)

        assert completing.done()
        assert "closed" in str(completing.exception())


async def _never() -> Any:
    raise AssertionError
