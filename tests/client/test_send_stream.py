"""The send stream: frames, repeats, outcomes and deadlines, with faults."""

import asyncio
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage, aio, exceptions
from bendybus.client.aio import ServiceBusClient as AsyncClient
from bendybus.client.core import send_queue, send_stream
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.send_queue import SendLimit
from bendybus.client.messages.encode import Columns
from bendybus.domain import errors
from bendybus.v1 import sender_pb2
from tests.client.conftest import RETRY, Either
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.outcome import Outcome


async def test_sends_that_wait_share_frames_and_keep_their_own_outcomes(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient
) -> None:
    fake.hold_frames = asyncio.Event()
    fake.group_errors["bad"] = [errors.QuotaExceeded("full")]
    sender = asynchronous.get_queue_sender("q")
    ids = [f"m-{index}" for index in range(300)] + ["bad"]

    sends = [
        asyncio.create_task(sender.send_messages(ServiceBusMessage("x", message_id=one)))
        for one in ids
    ]
    while not fake.frames:  # noqa: ASYNC110 - another thread fills it
        await asyncio.sleep(0.005)
    fake.call(fake.hold_frames.set)
    outcomes = await asyncio.gather(*sends, return_exceptions=True)

    assert outcomes[:-1] == [None] * 300
    assert isinstance(outcomes[-1], exceptions.ServiceBusQuotaExceededError)
    assert len(fake.frames) < 30
    assert len(fake.queues["q"].messages) == 300


async def test_a_unit_of_unknown_outcome_is_repeated_under_the_name_of_its_frame(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient
) -> None:
    away = errors.OutcomeUnknown("partition 3 is away")
    fake.group_errors["pinned"] = [away] * 5
    sender = asynchronous.get_queue_sender("q")

    await sender.send_messages(ServiceBusMessage("x", message_id="pinned"))

    # More often than retry_total: as long as there is time.
    assert len(fake.frames) == 6
    assert len({frame[:2] for frame in fake.frames}) == 1


async def test_an_outcome_that_stays_unknown_has_an_exception_of_its_own(
    fake: FakeFrontEnd, sender: Any
) -> None:
    fake.group_errors["pinned"] = [errors.OutcomeUnknown("partition 3 is away")] * 999

    with pytest.raises(exceptions.OutcomeUnknownError, match="partition 3") as raised:
        await sender.send_messages(ServiceBusMessage("x", message_id="pinned"), timeout=0.3)

    # Code that expects azure-servicebus's way of saying so catches it, too.
    assert isinstance(raised.value, exceptions.OperationTimeoutError)
    assert raised.value.reason == "OUTCOME_UNKNOWN"


async def test_a_refused_repeat_leaves_an_unknown_outcome_unknown(
    fake: FakeFrontEnd, sender: Any
) -> None:
    fake.break_send_streams = 1
    fake.refuse_repeats = errors.EntityDisabled("SendDisabled")

    with pytest.raises(exceptions.OutcomeUnknownError):
        await sender.send_messages(ServiceBusMessage("x"), timeout=0.4)

    assert len({frame[:2] for frame in fake.frames}) == 1
    assert len(fake.frames) > 1


async def test_the_time_that_the_caller_gave_is_used_while_a_partition_is_away(
    fake: FakeFrontEnd, sender: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_stream, "_REPEAT_PAUSE_S_MAX", 0.05)
    # More often than retry_total.
    fake.group_errors["m"] = [errors.PartitionUnavailable("the only partition is away")] * 9

    await sender.send_messages(ServiceBusMessage("a", message_id="m"), timeout=20)

    assert len(fake.frames) == 10


async def test_a_cancelled_send_that_was_not_written_is_never_sent(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient
) -> None:
    fake.hold_frames = asyncio.Event()
    sender = asynchronous.get_queue_sender("q")
    first = [
        asyncio.create_task(sender.send_messages(ServiceBusMessage("x" * 500_000)))
        for _ in range(40)
    ]
    while not fake.frames:  # noqa: ASYNC110 - another thread fills it
        await asyncio.sleep(0.005)
    late = asyncio.create_task(sender.send_messages(ServiceBusMessage("late", message_id="late")))
    await asyncio.sleep(0.05)

    late.cancel()
    await asyncio.wait([late])
    fake.call(fake.hold_frames.set)
    await asyncio.gather(*first)
    await sender.send_messages(ServiceBusMessage("after"))

    assert "late" not in {one for frame in fake.frames for one in frame[4]}
    send_limit = sender._shared.get().send_limit
    assert (send_limit._messages, send_limit._bytes) == (0, 0)


async def test_each_unit_of_a_frame_has_its_own_deadline() -> None:
    loop = asyncio.get_running_loop()
    rules = send_stream.SendStream(_never, loop, RetryPolicy(), SendLimit())
    early, later = (Outcome(), Outcome())
    for waiter, deadline_s in ((early, 0.1), (later, 5.0)):
        columns = Columns()
        columns.add(ServiceBusMessage("x"))
        unit = send_queue.Unit("q", columns, waiter, 60.0)
        unit.deadline_s = loop.time() + deadline_s
        rules.send(unit)
    request = rules.next_request()
    assert request is not None
    assert 4_000 < request.timeout_ms <= 5_000
    await asyncio.sleep(0.1 + 0.5 + 0.1)

    answer = sender_pb2.SendStreamResponse(frame_id=request.frame_id, sequence_numbers=[1, 2])
    rules.handle(answer)

    assert isinstance(early.error, exceptions.OutcomeUnknownError)
    assert (later.error, later.resolved) == (None, True)
    await rules.close()


async def test_a_possible_duplicate_is_shown_by_its_message_id(
    fake: FakeFrontEnd, sender: Any
) -> None:
    fake.possible_duplicates = [0]

    await sender.send_messages(ServiceBusMessage("a", message_id="twice"))

    assert sender.target.possible_duplicates == ("twice",)


async def test_a_unit_that_is_known_not_to_be_stored_goes_into_a_new_frame(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient
) -> None:
    fake.group_errors["busy"] = [errors.ServerBusy("later")]
    sender = asynchronous.get_queue_sender("q")

    await sender.send_messages(ServiceBusMessage("x", message_id="busy"))

    first, second = fake.frames
    assert first[0] == second[0]
    assert first[1] != second[1]


async def test_a_frame_is_repeated_exactly_when_the_stream_breaks(
    sender: Any, fake: FakeFrontEnd
) -> None:
    fake.break_send_streams = 1

    await sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])

    first, second = fake.frames
    assert first[:2] == second[:2]
    assert first[3:] == second[3:]
    assert first[2] == 0
    assert second[2] > 0
    assert len(fake.queues["q"].messages) == 2


async def test_a_frame_refused_as_busy_is_repeated_with_its_number(
    sender: Any, fake: FakeFrontEnd
) -> None:
    fake.frame_errors = [errors.ServerBusy("wait", retry_after_ms=5)]

    await sender.send_messages(ServiceBusMessage("a"))

    assert [frame[1] for frame in fake.frames] == [1, 1]
    assert len(fake.queues["q"].messages) == 1


async def test_a_unit_that_failed_retryably_goes_into_a_new_frame(
    sender: Any, fake: FakeFrontEnd
) -> None:
    fake.group_errors["m"] = [errors.PartitionUnavailable("partition 3 is away")]

    await sender.send_messages(ServiceBusMessage("a", message_id="m"))

    assert [frame[1] for frame in fake.frames] == [1, 2]
    assert len(fake.queues["q"].messages) == 1


async def test_retries_end_with_the_policy(sender: Any, fake: FakeFrontEnd) -> None:
    fake.group_errors["m"] = [errors.PartitionUnavailable("partition 3 is away")] * 9

    with pytest.raises(exceptions.PartitionUnavailableError, match="partition 3") as raised:
        await sender.send_messages(ServiceBusMessage("a", message_id="m"))

    assert isinstance(raised.value, exceptions.ServiceBusCommunicationError)
    assert raised.value.reason == "PARTITION_UNAVAILABLE"
    assert len(fake.frames) == 4


async def test_what_is_not_retryable_fails_at_once(client: Any, fake: FakeFrontEnd) -> None:
    sender = Either(client.get_queue_sender("nowhere"))

    with pytest.raises(exceptions.MessagingEntityNotFoundError, match="nowhere"):
        await sender.send_messages(ServiceBusMessage("a"))

    assert len(fake.frames) == 1


async def test_an_answer_that_never_comes_leaves_the_outcome_unknown(
    sender: Any, fake: FakeFrontEnd
) -> None:
    fake.swallow_frames = 99

    with pytest.raises(exceptions.OperationTimeoutError, match="outcome is unknown"):
        await sender.send_messages(ServiceBusMessage("a"), timeout=0.1)


async def test_a_front_end_that_is_not_there_is_a_connection_error() -> None:
    async with AsyncClient("127.0.0.1:1", "key", use_tls=False, retry_total=1, **RETRY) as client:
        sender = client.get_queue_sender("q")

        with pytest.raises(exceptions.ServiceBusConnectionError):
            await sender.send_messages(ServiceBusMessage("a"), timeout=20)


async def test_closing_the_client_fails_what_is_under_way(fake: FakeFrontEnd) -> None:
    fake.swallow_frames = 99
    client = AsyncClient.from_connection_string(fake.connection_string)
    under_way = asyncio.create_task(
        client.get_queue_sender("q").send_messages(ServiceBusMessage("a"))
    )
    while not fake.frames:  # noqa: ASYNC110 - another thread fills it
        await asyncio.sleep(0.005)

    await client.close()

    with pytest.raises(exceptions.ServiceBusConnectionError, match="closed"):
        await under_way


async def test_callers_wait_when_there_is_no_room(
    fake: FakeFrontEnd, sender: Any, asynchronous: aio.ServiceBusClient
) -> None:
    sender.target._shared.get().send_limit._messages_max = 0
    sender.target._shared.get().send_limit.try_acquire(1, 1)

    with pytest.raises(exceptions.OperationTimeoutError, match="Nothing was sent"):
        await sender.send_messages(ServiceBusMessage("a"), timeout=0.05)

    sender.target._shared.get().send_limit.release(1, 1)
    await sender.send_messages(ServiceBusMessage("b"))
    assert len(fake.frames) == 1


async def _never() -> Any:
    raise AssertionError


@pytest.mark.requirement("R483")
async def test_a_send_that_is_to_be_repeated_ends_as_its_client_is_closed(
    fake: FakeFrontEnd,
) -> None:
    fake.group_errors["pinned"] = [errors.ServerBusy("busy")]
    async with AsyncClient.from_connection_string(
        fake.connection_string, retry_backoff_factor=30
    ) as client:
        sender = client.get_queue_sender("q")
        message = ServiceBusMessage("x", message_id="pinned")
        sending = asyncio.create_task(sender.send_messages(message))
        while not fake.frames:  # noqa: ASYNC110 - another thread fills it
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.2)

    await asyncio.wait({sending}, timeout=2)

    assert sending.done()
    assert "The client was closed" in str(sending.exception())
