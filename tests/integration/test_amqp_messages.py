"""azure-servicebus, unmodified, on plain and partitioned queues; counted over gRPC."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import (
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusError,
)

from bendybus.domain.limits import Tier
from tests.integration.amqp import AmqpBus, take

# azure-servicebus leaves sockets of links that were refused to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def amqp_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    """A Standard bus: 16 partitions, in a few processes."""
    made = AmqpBus(tmp_path_factory.mktemp("amqp"), partitions=4, tier=Tier.PREMIUM)
    yield made
    made.end()


@pytest.fixture(scope="module")
def sdk(amqp_bus: AmqpBus) -> Iterator[SdkClient]:
    with amqp_bus.sdk() as made:
        yield made


@pytest.fixture
def queue(amqp_bus: AmqpBus) -> Callable[..., str]:
    """Return a function that creates a queue of a fresh name."""

    def create(**options: Any) -> str:
        name = f"queue-{uuid.uuid4().hex[:12]}"
        with amqp_bus.administration() as administration:
            administration.create_queue(name, **options)
        return name

    return create


def counts(bus: AmqpBus, name: str) -> tuple[int, int, int]:
    """Return how many messages are active, scheduled and dead-lettered, over gRPC."""
    with bus.administration() as administration:
        found = administration.get_queue_runtime_properties(name)
    return (
        found.active_message_count,
        found.scheduled_message_count,
        found.dead_letter_message_count,
    )


@pytest.mark.requirement("R486")
def test_what_is_sent_is_received_once_and_completed(
    amqp_bus: AmqpBus, sdk: SdkClient, queue: Callable[..., str]
) -> None:
    name = queue()
    sent = {f"message {number}" for number in range(40)}

    with sdk.get_queue_sender(name) as sender, sdk.get_queue_receiver(name) as receiver:
        sender.send_messages([ServiceBusMessage(body) for body in sorted(sent)])
        received = take(receiver, len(sent))
        for message in received:
            receiver.complete_message(message)

    assert sorted(map(str, received)) == sorted(sent)
    assert counts(amqp_bus, name) == (0, 0, 0)


@pytest.mark.requirement("R486")
def test_each_way_to_settle_does_what_it_says(
    amqp_bus: AmqpBus, sdk: SdkClient, queue: Callable[..., str]
) -> None:
    name = queue()
    with sdk.get_queue_sender(name) as sender, sdk.get_queue_receiver(name) as receiver:
        sender.send_messages([ServiceBusMessage(str(n), message_id=str(n)) for n in range(4)])
        found = {each.message_id: each for each in take(receiver, 4)}

        receiver.complete_message(found["0"])
        receiver.abandon_message(found["1"])
        receiver.defer_message(found["2"])
        receiver.dead_letter_message(found["3"], reason="why", error_description="because")

        [again] = take(receiver, 1)
        assert (again.message_id, again.delivery_count) == ("1", 1)
        receiver.complete_message(again)
        [deferred] = receiver.receive_deferred_messages(found["2"].sequence_number)
        receiver.complete_message(deferred)
        dead = sdk.get_queue_receiver(name, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        with dead:
            [rejected] = take(dead, 1)
            assert rejected.dead_letter_reason == "why"
            assert rejected.dead_letter_error_description == "because"
            assert counts(amqp_bus, name) == (0, 0, 1)
            dead.complete_message(rejected)
    assert counts(amqp_bus, name) == (0, 0, 0)


def test_a_lock_is_renewed_and_a_lost_one_is_an_error(
    sdk: SdkClient, queue: Callable[..., str]
) -> None:
    name = queue(lock_duration=timedelta(seconds=5))
    with sdk.get_queue_sender(name) as sender, sdk.get_queue_receiver(name) as receiver:
        sender.send_messages(ServiceBusMessage("one"))
        [message] = take(receiver, 1)
        before = message.locked_until_utc

        receiver.renew_message_lock(message)

        assert message.locked_until_utc > before
        receiver.complete_message(message)
        # Settled already, so there is no lock with this token any more.
        message._settled = False
        with pytest.raises(MessageLockLostError):
            receiver.renew_message_lock(message)


def test_messages_are_scheduled_shown_and_cancelled(
    amqp_bus: AmqpBus, sdk: SdkClient, queue: Callable[..., str]
) -> None:
    name = queue()
    due = datetime.now(UTC) + timedelta(hours=1)
    with sdk.get_queue_sender(name) as sender, sdk.get_queue_receiver(name) as receiver:
        numbers = sender.schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], due)

        shown: list[Any] = receiver.peek_messages(10)
        assert sorted(each.sequence_number for each in shown) == sorted(numbers)
        assert {each.scheduled_enqueue_time_utc.timestamp() for each in shown} == {
            int(due.timestamp() * 1_000) / 1_000
        }
        sender.cancel_scheduled_messages(numbers[0])

    assert counts(amqp_bus, name) == (0, 1, 0)


@pytest.mark.requirement("R571")
@pytest.mark.parametrize("sessions", [False, True])
def test_a_list_of_scheduled_messages_is_cancelled_whole_or_not_at_all(
    amqp_bus: AmqpBus, sdk: SdkClient, queue: Callable[..., str], sessions: bool
) -> None:
    name = queue(requires_session=sessions)
    due = datetime.now(UTC) + timedelta(hours=1)
    with sdk.get_queue_sender(name) as sender:
        numbers = [
            sender.schedule_messages(ServiceBusMessage("m", session_id=f"{n}"), due)[0]
            for n in range(8)
        ]
        gone = numbers.pop(3)
        sender.cancel_scheduled_messages(gone)

        with pytest.raises(MessageNotFoundError, match=str(gone)):
            sender.cancel_scheduled_messages([*numbers, gone])
        assert counts(amqp_bus, name) == (0, len(numbers), 0)
        sender.cancel_scheduled_messages(numbers)

    assert counts(amqp_bus, name) == (0, 0, 0)


@pytest.mark.requirement("R573")
def test_a_message_that_was_scheduled_says_so_where_it_is_received(
    sdk: SdkClient, queue: Callable[..., str]
) -> None:
    name = queue()
    with sdk.get_queue_sender(name) as sender, sdk.get_queue_receiver(name) as receiver:
        sender.send_messages(ServiceBusMessage("now"))
        sender.schedule_messages(
            ServiceBusMessage("later"), datetime.now(UTC) + timedelta(seconds=1)
        )
        before = {str(each): each.state for each in receiver.peek_messages(2)}
        received: list[Any] = []
        while len(received) < 2:
            received += receiver.receive_messages(2, max_wait_time=20)
        locked = {str(each): each.state for each in receiver.peek_messages(2, sequence_number=1)}
        for each in received:
            receiver.defer_message(each)
        deferred = [
            message
            for each in received
            for message in receiver.receive_deferred_messages(each.sequence_number)
        ]

    active, scheduled = ServiceBusMessageState.ACTIVE, ServiceBusMessageState.SCHEDULED
    assert before == {"now": active, "later": scheduled}
    assert {str(each): each.state for each in received} == before
    assert set(locked.values()) == {active}
    assert {each.state for each in deferred} == {ServiceBusMessageState.DEFERRED}


@pytest.mark.parametrize("page", [1, 7])
def test_pages_of_peeks_show_every_message_once(
    sdk: SdkClient, queue: Callable[..., str], page: int
) -> None:
    name = queue()
    with sdk.get_queue_sender(name) as sender, sdk.get_queue_receiver(name) as receiver:
        for number in range(30):
            sender.send_messages(ServiceBusMessage(str(number)))

        shown: list[str] = []
        last = 0
        while found := receiver.peek_messages(page, sequence_number=last + 1):
            shown += map(str, found)
            last = found[-1].sequence_number or 0

    assert sorted(shown, key=int) == [str(number) for number in range(30)]


def test_what_is_received_and_deleted_has_no_lock(
    amqp_bus: AmqpBus, sdk: SdkClient, queue: Callable[..., str]
) -> None:
    name = queue()
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with (
        sdk.get_queue_sender(name) as sender,
        sdk.get_queue_receiver(name, receive_mode=mode) as receiver,
    ):
        sender.send_messages([ServiceBusMessage(str(n)) for n in range(5)])
        found = take(receiver, 5)

    assert len(found) == 5
    assert found[0].lock_token is None
    assert found[0].locked_until_utc is None
    assert counts(amqp_bus, name) == (0, 0, 0)


def test_properties_keep_their_values(sdk: SdkClient, queue: Callable[..., str]) -> None:
    name = queue()
    given: dict[str | bytes, Any] = {"int": 1, "float": 1.5, "bool": True, "text": "x", "raw": b"y"}
    message = ServiceBusMessage(
        b"body",
        application_properties=dict(given),
        content_type="text/plain",
        correlation_id="c",
        subject="s",
        to="t",
        reply_to="r",
        reply_to_session_id="rs",
        partition_key="k",
        time_to_live=timedelta(minutes=5),
        message_id="m",
    )
    with sdk.get_queue_sender(name) as sender, sdk.get_queue_receiver(name) as receiver:
        sender.send_messages(message)
        [found] = take(receiver, 1)
        receiver.complete_message(found)

    assert {key.decode(): value for key, value in found.application_properties.items()} == {
        **given,
        "text": b"x",
    }
    for field in ("content_type", "correlation_id", "subject", "to", "reply_to", "partition_key"):
        assert getattr(found, field) == getattr(message, field), field
    assert (found.message_id, found.reply_to_session_id) == ("m", "rs")
    assert found.time_to_live == timedelta(minutes=5)
    assert found.expires_at_utc == found.enqueued_time_utc + timedelta(minutes=5)


def test_a_message_of_one_protocol_is_received_over_the_other(
    amqp_bus: AmqpBus, sdk: SdkClient, queue: Callable[..., str]
) -> None:
    from bendybus.client import ServiceBusMessage as OwnMessage

    name = queue()
    with (
        amqp_bus.client() as own,
        sdk.get_queue_sender(name) as sender,
        own.get_queue_sender(name) as own_sender,
        sdk.get_queue_receiver(name) as receiver,
        own.get_queue_receiver(name) as own_receiver,
    ):
        own_sender.send_messages(OwnMessage("own", application_properties={"n": 1}))
        [found] = take(receiver, 1)
        receiver.complete_message(found)
        sender.send_messages(ServiceBusMessage("sdk", application_properties={"n": 2}))
        [other] = own_receiver.receive_messages(1, max_wait_time=20)
        own_receiver.complete_message(other)

    assert (str(found), found.application_properties) == ("own", {b"n": 1})
    assert (str(other), other.application_properties) == ("sdk", {b"n": 2})


def test_what_is_larger_than_allowed_is_refused_and_the_sender_goes_on(
    sdk: SdkClient, queue: Callable[..., str]
) -> None:
    name = queue()
    with sdk.get_queue_sender(name) as sender, sdk.get_queue_receiver(name) as receiver:
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * 2 * 1024 * 1024))

        sender.send_messages(ServiceBusMessage(b"x" * 900 * 1024))

        [found] = take(receiver, 1)
        assert len(b"".join(found.body)) == 900 * 1024
        receiver.complete_message(found)


def test_what_is_missing_or_disabled_is_an_error_of_its_kind(
    amqp_bus: AmqpBus, sdk: SdkClient, queue: Callable[..., str]
) -> None:
    disabled = queue(status="Disabled")

    with pytest.raises(MessagingEntityNotFoundError, match="could not be found"):
        sdk.get_queue_sender("missing").send_messages(ServiceBusMessage("x"))
    with amqp_bus.sdk(retry_total=0) as once, pytest.raises(MessagingEntityDisabledError):
        once.get_queue_sender(disabled).send_messages(ServiceBusMessage("x"))
    with (
        amqp_bus.sdk(retry_total=0) as once,
        pytest.raises(ServiceBusError, match="sub-queue"),
        once.get_queue_sender(f"{disabled}/$DeadLetterQueue") as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))
