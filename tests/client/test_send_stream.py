"""Sending, through both surfaces, with faults."""

import asyncio
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bendybus import client as sync_client
from bendybus.client import ServiceBusClient, ServiceBusMessage, aio, exceptions
from bendybus.client.aio import ServiceBusClient as AsyncClient
from bendybus.client.amqp import AmqpAnnotatedMessage
from bendybus.client.core import round_robin, send_frame, send_stream
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.send_limit import SendLimit
from bendybus.client.messages.encode import Columns
from bendybus.domain import errors
from bendybus.v1 import sender_pb2
from bendybus.wire import statuses
from tests.client import memory_queue
from tests.client.conftest import RETRY, Either
from tests.client.fake_front_end import FakeFrontEnd


async def test_a_sent_message_is_received_as_it_was_written(sender: Any, receiver: Any) -> None:
    sent = ServiceBusMessage(
        "hello",
        message_id="m-1",
        partition_key="key",
        subject="greeting",
        content_type="text/plain",
        correlation_id="c",
        to="t",
        reply_to="r",
        reply_to_session_id="rs",
        time_to_live=timedelta(hours=1),
        application_properties={"number": 5, "text": "five", b"raw": b"\x00"},
    )

    await sender.send_messages(sent)
    [received] = await receiver.receive_messages()

    assert str(received) == "hello"
    assert b"".join(received.body) == b"hello"
    assert (received.message_id, received.partition_key) == ("m-1", "key")
    assert (received.subject, received.content_type) == ("greeting", "text/plain")
    assert (received.correlation_id, received.to, received.reply_to) == ("c", "t", "r")
    assert received.reply_to_session_id == "rs"
    assert received.time_to_live == timedelta(hours=1)
    assert received.application_properties == {b"number": 5, b"text": b"five", b"raw": b"\x00"}
    assert received.decoded_properties == {"number": 5, "text": "five", "raw": b"\x00"}
    assert received.partition == memory_queue.PARTITION
    assert received.sequence_number == memory_queue.FIRST_NUMBER
    assert received.delivery_count == 0
    assert received.expires_at_utc == received.enqueued_time_utc + timedelta(hours=1)
    assert received.locked_until_utc > datetime.now(UTC)


async def test_a_list_is_one_atomic_unit(sender: Any, fake: FakeFrontEnd) -> None:
    await sender.send_messages([ServiceBusMessage(str(index)) for index in range(5)])

    [frame] = fake.frames
    assert len(frame[4]) == 5
    assert frame[3] in ([], [5])


async def test_messages_mappings_amqp_messages_and_batches_can_be_sent(
    client: Any, sender: Any, fake: FakeFrontEnd
) -> None:
    batch = await sender.create_message_batch()
    batch.add_message(ServiceBusMessage("in a batch"))

    await sender.send_messages({"body": "mapping", "message_id": "map"})
    await sender.send_messages(AmqpAnnotatedMessage(value_body={"a": [1, "x"]}))
    await sender.send_messages(AmqpAnnotatedMessage(sequence_body=[[1, 2], ["x"]]))
    await sender.send_messages(AmqpAnnotatedMessage(data_body=[b"a", b"b"]))
    await sender.send_messages(batch)
    await sender.send_messages([])

    assert len(fake.queues["q"].messages) == 5
    assert fake.frames[0][4] == ["map"]


async def test_amqp_bodies_arrive_in_their_form(sender: Any, receiver: Any) -> None:
    await sender.send_messages(AmqpAnnotatedMessage(value_body={"a": [1, "x"]}))
    await sender.send_messages(AmqpAnnotatedMessage(sequence_body=[[1, 2], [b"x"]]))
    await sender.send_messages(AmqpAnnotatedMessage(data_body=[b"a", b"b"]))

    received: list[Any] = []
    while len(received) < 3:
        received += await receiver.receive_messages(3)

    value, sequence, data = received
    assert value.body == {b"a": [1, b"x"]}
    assert list(sequence.body) == [[1, 2], [b"x"]]
    assert list(data.body) == [b"a", b"b"]
    assert [one.body_type.value for one in received] == ["value", "sequence", "data"]


async def test_the_client_gives_ids_to_messages_without_one(
    sender: Any, fake: FakeFrontEnd
) -> None:
    message = ServiceBusMessage("x")

    await sender.send_messages(message)
    await sender.send_messages(message)

    assert message.message_id is None
    ids = [frame[4][0] for frame in fake.frames]
    assert all(ids)
    assert len(set(ids)) == 2


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
    fake: FakeFrontEnd, sender: Any
) -> None:
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
    rules = send_stream.SendStream(lambda: None, loop, RetryPolicy(), SendLimit())
    early, later = (Outcome(), Outcome())
    for waiter, deadline_s in ((early, 0.1), (later, 5.0)):
        columns = Columns()
        columns.add(ServiceBusMessage("x"))
        unit = send_frame.Unit("q", columns, waiter, 60.0)
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


def units_of(size: int) -> list[send_frame.Unit]:
    """Return units of one message without a key, in their places in a frame."""
    columns = Columns()
    columns.add(ServiceBusMessage("x"))
    units = [send_frame.Unit("q", columns, Outcome(), 60.0) for _ in range(size)]
    for position, unit in enumerate(units):
        unit.position = position
    return units


@pytest.mark.requirement("R29")
@pytest.mark.parametrize("pause_s", [0.0, 0.01, 0.3, 10.0])
@pytest.mark.parametrize("sizes", [[1, 63], [1], [320], [64, 1, 1_000, 7], [200, 30]])
@pytest.mark.parametrize("partitions", [2, 4, 16])
def test_no_partition_ever_has_more_than_twice_its_share_whatever_the_sizes_of_frames(
    sizes: list[int], partitions: int, pause_s: float
) -> None:
    round_robin_, got, sent = round_robin.RoundRobin(), Counter[int](), 0
    for turn in range(200):
        size = sizes[turn % len(sizes)]
        lane, run = round_robin_.assign("q", units_of(size), turn * pause_s)
        for position in range(size):
            got[(lane + position // run) % partitions] += 1
        sent += size
        # And one, because messages cannot be divided.
        assert max(got.values()) <= 2 * sent / partitions + 1


@pytest.mark.requirement("R29")
@pytest.mark.parametrize("partitions", [2, 4, 8, 16])
@pytest.mark.parametrize("before", [0, 100_000])
def test_sends_at_once_are_spread_over_all_partitions(partitions: int, before: int) -> None:
    round_robin_ = round_robin.RoundRobin()
    for _ in range(before // 1_000):
        round_robin_.assign("q", units_of(1_000), 0.0)

    # A moment after whatever was sent before.
    lane, run = round_robin_.assign("q", units_of(320), 2.0)

    got = Counter((lane + position // run) % partitions for position in range(320))
    assert got == dict.fromkeys(range(partitions), 320 // partitions)


def test_a_connection_that_sends_much_is_not_slowed_down_by_short_runs() -> None:
    round_robin_, runs, frames = round_robin.RoundRobin(), 0, 500
    for turn in range(frames):
        # 25,000 a second.
        _, run = round_robin_.assign("q", units_of(250), turn * 0.01)
        runs += -(-250 // run)

    assert runs <= frames + 2 * round_robin.LANES * (frames * 0.01 / round_robin.MEMORY_S)


def test_messages_with_a_key_do_not_count_where_others_are_dealt() -> None:
    round_robin_ = round_robin.RoundRobin()
    keyed = Columns()
    keyed.add(ServiceBusMessage("x", partition_key="k"))
    for _ in range(100):
        round_robin_.assign("q", [send_frame.Unit("q", keyed, Outcome(), 60.0)] * 100, 0.0)

    _, run = round_robin_.assign("q", units_of(320), 0.0)

    assert run == 20


@pytest.mark.requirement("R29")
async def test_a_repeat_of_some_units_is_dealt_like_the_first_try() -> None:
    loop = asyncio.get_running_loop()
    rules = send_stream.SendStream(lambda: None, loop, RetryPolicy(), SendLimit())
    for unit in units_of(40):
        rules.send(unit)
    first = rules.next_request()
    assert first is not None
    unknown = statuses.to_error(errors.OutcomeUnknown("it may be stored"))
    failures = [sender_pb2.GroupFailure(group=group, error=unknown) for group in (3, 17)]

    rules.handle(sender_pb2.SendStreamResponse(frame_id=first.frame_id, failures=failures))
    [again] = rules._resting

    assert again.request.positions == [3, 17]
    assert (again.request.lane, again.request.run) == (first.lane, first.run)
    assert first.run == 2
    await rules.close()


async def test_a_possible_duplicate_is_shown_by_its_message_id(
    fake: FakeFrontEnd, sender: Any
) -> None:
    fake.possible_duplicates = [0]

    await sender.send_messages(ServiceBusMessage("a", message_id="twice"))

    assert sender.target.possible_duplicates == ("twice",)


class Outcome:
    """A waiter that notes what it gets."""

    abandoned = False

    def __init__(self) -> None:
        self.resolved = False
        self.error: BaseException | None = None

    def resolve(self, value: Any) -> None:
        """Note it."""
        self.resolved = True

    def fail(self, error: BaseException) -> None:
        """Note it."""
        self.error = error


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


async def test_messages_are_scheduled_and_cancelled_by_their_numbers(
    sender: Any, receiver: Any, fake: FakeFrontEnd
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)

    numbers = await sender.schedule_messages(
        [ServiceBusMessage("a"), ServiceBusMessage("b")], later
    )
    [shown] = await receiver.peek_messages()
    await sender.cancel_scheduled_messages(numbers[0])

    assert numbers == [memory_queue.FIRST_NUMBER, memory_queue.FIRST_NUMBER + 1]
    assert abs(shown.scheduled_enqueue_time_utc - later) < timedelta(milliseconds=1)
    assert shown.state is sync_client.ServiceBusMessageState.SCHEDULED
    assert list(fake.queues["q"].messages) == [numbers[1]]
    with pytest.raises(exceptions.MessageNotFoundError):
        await sender.cancel_scheduled_messages(numbers)


async def test_a_cancellation_whose_answers_are_lost_is_of_unknown_outcome(
    sender: Any, fake: FakeFrontEnd
) -> None:
    fake.lose_cancels = 99

    with pytest.raises(exceptions.OutcomeUnknownError):
        await sender.cancel_scheduled_messages(5)


async def test_a_closed_sender_refuses(sender: Any) -> None:
    await sender.close()

    with pytest.raises(ValueError, match="closed"):
        await sender.send_messages(ServiceBusMessage("a"))


async def test_bad_timeouts_are_refused(sender: Any) -> None:
    with pytest.raises(ValueError, match="timeout"):
        await sender.send_messages(ServiceBusMessage("a"), timeout=0)


async def test_what_is_no_message_is_refused(sender: Any) -> None:
    with pytest.raises(TypeError, match="int"):
        await sender.send_messages(5)
    with pytest.raises(TypeError, match="str"):
        await sender.send_messages(["text"])


def test_threads_share_a_sender(sync: ServiceBusClient, fake: FakeFrontEnd) -> None:
    sender = sync.get_queue_sender("q")

    def send() -> None:
        for _ in range(50):
            sender.send_messages(ServiceBusMessage(b"x"))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(fake.queues["q"].messages) == 400
    assert len(fake.frames) < 400


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
