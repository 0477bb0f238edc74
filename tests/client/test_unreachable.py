"""Receives of a bus that cannot answer fail; repeats are named; closing waits once."""

import asyncio
import threading
import time
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, exceptions
from bendybus.client.core.pending_receive import PendingReceive
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.settlements import FRAME_TOKENS_MAX, Settlement, Settlements
from bendybus.client.exceptions import ServiceBusConnectionError
from bendybus.domain import errors
from bendybus.domain.errors import RetryableError
from bendybus.v1 import receiver_pb2
from bendybus.wire import statuses
from tests.client.conftest import Either
from tests.client.fake_front_end import FakeFrontEnd

NOWHERE = (
    "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=k;SharedAccessKey=s;UseDevelopmentEmulator=true"
)


@pytest.mark.parametrize("prefetch", [0, 10])
def test_an_unreachable_bus_is_not_an_empty_queue(prefetch: int) -> None:
    with (
        ServiceBusClient.from_connection_string(NOWHERE) as client,
        client.get_queue_receiver("q", prefetch_count=prefetch) as receiver,
        pytest.raises(ServiceBusConnectionError),
    ):
        receiver.receive_messages(max_wait_time=1)


def test_a_bus_that_is_not_there_is_told_with_its_address_and_what_to_check() -> None:
    with (
        ServiceBusClient.from_connection_string(NOWHERE, retry_total=0) as client,
        client.get_queue_sender("q") as sender,
        pytest.raises(
            ServiceBusConnectionError, match=r"^No bus answers at 127\.0\.0\.1:1\. Check"
        ),
    ):
        sender.send_messages(ServiceBusMessage("x"), timeout=20)


def test_an_iterator_does_not_end_silently_when_the_bus_is_away() -> None:
    with (
        ServiceBusClient.from_connection_string(NOWHERE) as client,
        client.get_queue_receiver("q", max_wait_time=1) as receiver,
        pytest.raises(ServiceBusConnectionError),
    ):
        list(receiver)


async def test_a_receive_ends_empty_with_prefetch_when_the_bus_says_so(client: Any) -> None:
    receiver = Either(client.get_queue_receiver("q", prefetch_count=10))

    assert await receiver.receive_messages(max_wait_time=0.3) == []


async def test_an_answer_without_messages_that_names_a_reason_is_an_error(
    fake: FakeFrontEnd, receiver: Any
) -> None:
    fake.ask_errors = [errors.PartitionUnavailable("no partition could be asked.")] * 10

    with pytest.raises(exceptions.PartitionUnavailableError):
        await receiver.receive_messages(max_wait_time=0.3)


@pytest.mark.parametrize("prefetch", [0, 10])
async def test_the_time_to_open_a_receiver_is_no_part_of_a_short_wait(
    fake: FakeFrontEnd, client: Any, prefetch: int
) -> None:
    opened = fake.hold_receivers = asyncio.Event()
    receiver = Either(client.get_queue_receiver("q", prefetch_count=prefetch))
    opening = threading.Timer(0.3, fake.call, [opened.set])
    opening.start()

    assert await receiver.receive_messages(max_wait_time=0.05) == []
    opening.join()


async def test_a_disabled_queue_is_told_to_receives_with_short_waits(
    fake: FakeFrontEnd, receiver: Any
) -> None:
    fake.open_errors = [errors.EntityDisabled("receiving is disabled.")] * 10

    with pytest.raises(exceptions.MessagingEntityDisabledError):
        await receiver.receive_messages(max_wait_time=0.3)


class Noted:
    """A waiter that notes."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None

    def resolve(self, value: Any) -> None:
        """Note the outcome."""
        self.value = value

    def fail(self, error: BaseException) -> None:
        """Note the failure."""
        self.error = error


def settlement(tokens: bytes) -> Settlement:
    """Return a completion."""
    return Settlement(receiver_pb2.DISPOSITION_COMPLETE, tokens, Noted(), 60.0)


def test_what_was_under_way_when_a_stream_broke_is_repeated_as_such() -> None:
    settling = Settlements(RetryPolicy())
    settling.add(settlement(b"a" * 16))
    assert not settling.next_frame().repeat

    settling.stream_broke(RetryableError("broken"))
    settling.add(settlement(b"b" * 16))

    first, second = settling.next_frame(), settling.next_frame()
    assert (first.lock_tokens, first.repeat) == (b"a" * 16, True)
    assert (second.lock_tokens, second.repeat) == (b"b" * 16, False)


def test_a_settlement_of_unknown_outcome_is_repeated() -> None:
    settling = Settlements(RetryPolicy())
    settling.add(settlement(b"a" * 16))
    settling.next_frame()
    lost = statuses.to_error(errors.OutcomeUnknown("partition 1 did not answer."))
    failure = receiver_pb2.SettleFailure(indexes=[0], error=lost)

    [(_, again)] = settling.answered(receiver_pb2.SettleResult(frame_id=1, failures=[failure]))
    settling.add(again)

    assert settling.next_frame().repeat


@pytest.mark.parametrize(
    "refusal", [errors.PartitionUnavailable("away"), errors.MessageLockLost("gone")]
)
def test_what_may_have_been_settled_stays_unknown_through_refused_repeats(
    refusal: errors.BusError,
) -> None:
    settling = Settlements(RetryPolicy(total=1))
    whole = settlement(b"a" * 16)
    settling.add(whole)
    settling.next_frame()
    settling.stream_broke(RetryableError("broken"))
    frame = settling.next_frame()
    failure = receiver_pb2.SettleFailure(indexes=[0], error=statuses.to_error(refusal))

    settling.answered(receiver_pb2.SettleResult(frame_id=frame.frame_id, failures=[failure]))

    assert isinstance(whole.waiter, Noted)
    [(_, error)] = whole.waiter.value.errors
    assert isinstance(error, exceptions.OutcomeUnknownError)


def test_a_settlement_larger_than_a_frame_goes_in_parts_and_has_one_outcome() -> None:
    settling = Settlements(RetryPolicy())
    whole = settlement(b"".join(n.to_bytes(16, "big") for n in range(FRAME_TOKENS_MAX + 2)))
    settling.add(whole)
    gone = statuses.to_error(errors.MessageLockLost("gone"))

    frames = [settling.next_frame(), settling.next_frame()]
    for frame in frames:
        settling.answered(
            receiver_pb2.SettleResult(
                frame_id=frame.frame_id,
                failures=[receiver_pb2.SettleFailure(indexes=[1], error=gone)],
            )
        )

    assert [len(frame.lock_tokens) // 16 for frame in frames] == [FRAME_TOKENS_MAX, 2]
    assert isinstance(whole.waiter, Noted)
    assert [index for index, _ in whole.waiter.value.errors] == [1, FRAME_TOKENS_MAX + 1]


async def test_a_writer_that_dies_fails_what_waits_and_the_next_request_gets_through(
    sender: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await receiver.receive_messages()
    good = Settlements.next_frame

    def poisoned(self: Settlements) -> Any:
        good(self)
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    monkeypatch.setattr(Settlements, "next_frame", poisoned)
    with pytest.raises(exceptions.ServiceBusError):
        await asyncio.wait_for(receiver.complete_message(message), 20)
    monkeypatch.setattr(Settlements, "next_frame", good)

    await receiver.complete_message(message)


def test_a_hung_bus_delays_closing_many_receivers_once(fake: FakeFrontEnd) -> None:
    client = ServiceBusClient.from_connection_string(fake.connection_string)
    receivers = [client.get_queue_receiver("q") for _ in range(5)]
    for receiver in receivers:
        assert receiver.receive_messages(max_wait_time=0.1) == []
    fake.hang_receives = True
    for receiver in receivers:
        current = receiver._receive_stream()
        current._loop.call_soon_threadsafe(current.receive, PendingReceive(1, 60.0, Noted()))
    time.sleep(0.3)

    began = time.monotonic()
    client.close()

    assert time.monotonic() - began < 8
