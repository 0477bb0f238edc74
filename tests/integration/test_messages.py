"""Messages through real processes, with the public client."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from bendybus.client import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
)
from bendybus.client.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
)
from bendybus.domain import partitioning
from tests.integration.processes import Bus, eventually

NewQueue = Callable[..., str]


def drain(client: ServiceBusClient, name: str, *, wait_s: float = 1.0) -> list[str]:
    """Receive and complete everything; return the bodies."""
    bodies = []
    with client.get_queue_receiver(name) as receiver:
        while messages := receiver.receive_messages(100, max_wait_time=wait_s):
            bodies += [str(message) for message in messages]
            receiver.complete_messages(messages)
    return bodies


@pytest.mark.requirement("R10")
@pytest.mark.requirement("R29")
def test_messages_without_a_key_are_spread_round_robin(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    with client.get_queue_sender(name) as sender:
        for n in range(32):
            sender.send_messages(ServiceBusMessage(str(n)))

    with client.get_queue_receiver(name) as receiver:
        seen: Counter[int] = Counter()
        while messages := receiver.receive_messages(32, max_wait_time=1):
            seen.update(message.partition for message in messages)
            receiver.complete_messages(messages)

    assert seen == {0: 8, 1: 8, 2: 8, 3: 8}


@pytest.mark.requirement("R18")
@pytest.mark.requirement("R20")
@pytest.mark.requirement("R23")
def test_messages_of_a_key_are_in_the_partition_of_the_key(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    keys = ["alpha", "beta", "gamma", "Beta"]
    with client.get_queue_sender(name) as sender:
        for n in range(20):
            sender.send_messages(ServiceBusMessage(str(n), partition_key=keys[n % 4]))

    with client.get_queue_receiver(name) as receiver:
        where: dict[str | None, set[int]] = {}
        received = 0
        while messages := receiver.receive_messages(32, max_wait_time=1):
            received += len(messages)
            for message in messages:
                where.setdefault(message.partition_key, set()).add(message.partition)
            receiver.complete_messages(messages)

    assert received == 20
    assert where == {key: {partitioning.partition_of(key, 4)} for key in keys}


@pytest.mark.requirement("R22")
def test_messages_of_a_session_id_are_in_one_partition(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    with client.get_queue_sender(name) as sender:
        for n in range(6):
            sender.send_messages(ServiceBusMessage(str(n), session_id="s"))

    with client.get_queue_receiver(name) as receiver:
        messages = receiver.receive_messages(6, max_wait_time=5)

    assert {message.partition for message in messages} == {partitioning.partition_of("s", 4)}
    assert {message.session_id for message in messages} == {"s"}


@pytest.mark.requirement("R25")
@pytest.mark.requirement("R26")
@pytest.mark.requirement("R27")
def test_copies_of_a_message_are_found_whichever_way_they_come(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue(requires_duplicate_detection=True)
    with client.get_queue_sender(name) as sender:
        for _ in range(5):
            sender.send_messages(ServiceBusMessage("copy", message_id="one"))
        for _ in range(5):
            sender.send_messages(ServiceBusMessage("no id: each its own"))

    bodies = Counter(drain(client, name))

    assert bodies == {"copy": 1, "no id: each its own": 5}


@pytest.mark.requirement("R13")
@pytest.mark.parametrize("partitioned", [True, False])
def test_a_receiver_need_not_know_of_partitioning(standard_bus: Bus, partitioned: bool) -> None:
    name = f"cycle-{partitioned}"
    with standard_bus.administration() as administration:
        administration.create_queue(name, enable_partitioning=partitioned, max_delivery_count=3)
    with standard_bus.client() as client:
        with client.get_queue_sender(name) as sender:
            for body in ("complete", "abandon", "defer", "dead", "renew"):
                sender.send_messages(
                    ServiceBusMessage(body, subject=body, application_properties={"n": 1})
                )
        with client.get_queue_receiver(name) as receiver:
            held: dict[str, ServiceBusReceivedMessage] = {}
            while len(held) < 5:
                for message in receiver.receive_messages(5, max_wait_time=5):
                    held[str(message)] = message
            assert {m.delivery_count for m in held.values()} == {0}
            receiver.complete_message(held["complete"])
            receiver.abandon_message(held["abandon"])
            receiver.defer_message(held["defer"])
            receiver.dead_letter_message(held["dead"], reason="why", error_description="how")
            until = held["renew"].locked_until_utc
            assert until is not None
            assert receiver.renew_message_lock(held["renew"]) >= until
            receiver.complete_message(held["renew"])
            [again] = receiver.receive_messages(5, max_wait_time=5)
            assert (str(again), again.delivery_count) == ("abandon", 1)
            receiver.complete_message(again)
            number = held["defer"].sequence_number or 0
            [deferred] = receiver.receive_deferred_messages(number)
            assert (str(deferred), deferred.subject) == ("defer", "defer")
            receiver.complete_message(deferred)
            assert receiver.receive_messages(1, max_wait_time=0.3) == []
        with client.get_queue_receiver(name, sub_queue="deadletter") as dead_letters:
            [dead] = dead_letters.receive_messages(5, max_wait_time=5)
            assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("why", "how")
            dead_letters.complete_message(dead)
    with standard_bus.administration() as administration:
        runtime = administration.get_queue_runtime_properties(name)
    assert runtime.total_message_count == 0


@pytest.mark.requirement("R13")
def test_prefetched_messages_are_released_uncounted(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    with client.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage(str(n)) for n in range(20)])
    with client.get_queue_receiver(name, prefetch_count=20) as receiver:
        [first] = receiver.receive_messages(1, max_wait_time=5)
        receiver.complete_message(first)

    with client.get_queue_receiver(name) as receiver:
        rest: list[ServiceBusReceivedMessage] = []
        while len(rest) < 19:
            rest += receiver.receive_messages(50, max_wait_time=5)

    assert {message.delivery_count for message in rest} == {0}


@pytest.mark.requirement("R14")
def test_peeking_a_plain_queue_shows_the_oldest_first(standard_bus: Bus) -> None:
    with standard_bus.administration() as administration:
        administration.create_queue("peek-plain")
    with standard_bus.client() as client:
        with client.get_queue_sender("peek-plain") as sender:
            for n in range(5):
                sender.send_messages(ServiceBusMessage(str(n)))
        with client.get_queue_receiver("peek-plain") as receiver:
            bodies = [str(message) for message in receiver.peek_messages(10)]

    assert bodies == ["0", "1", "2", "3", "4"]


@pytest.mark.requirement("R15")
@pytest.mark.requirement("R39")
def test_repeated_peeks_of_a_partitioned_queue_show_each_message_once(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    with client.get_queue_sender(name) as sender:
        for n in range(30):
            sender.send_messages(ServiceBusMessage(str(n)))

    with client.get_queue_receiver(name) as receiver:
        shown, first = [], None
        while messages := receiver.peek_messages(7):
            first = first or messages[0]
            shown += [str(message) for message in messages]

    assert first is not None
    assert first.sequence_number is not None
    assert first.sequence_number & (2**48 - 1) == 1
    assert sorted(shown, key=int) == [str(n) for n in range(30)]


@pytest.mark.requirement("R17")
def test_peeking_from_a_number_goes_on_through_later_partitions(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    with client.get_queue_sender(name) as sender:
        for n in range(16):
            sender.send_messages(ServiceBusMessage(str(n)))

    with client.get_queue_receiver(name) as receiver:
        numbers, start = [], 1
        while messages := receiver.peek_messages(5, sequence_number=start):
            numbers += [message.sequence_number or 0 for message in messages]
            start = numbers[-1] + 1

    assert len(numbers) == 16
    assert numbers == sorted(set(numbers))


def _all_shown(client: ServiceBusClient, name: str) -> list[str]:
    with client.get_queue_receiver(name) as receiver:
        shown: list[str] = []
        while messages := receiver.peek_messages(5):
            shown += map(str, messages)
    return sorted(shown)


def test_scheduled_messages_come_at_their_time_and_can_be_cancelled(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    soon = datetime.now(UTC) + timedelta(seconds=1.5)
    with client.get_queue_sender(name) as sender:
        keep = sender.schedule_messages([ServiceBusMessage("keep")], soon)
        drop = sender.schedule_messages([ServiceBusMessage("drop")], soon + timedelta(hours=1))

        with client.get_queue_receiver(name) as receiver:
            [message] = receiver.receive_messages(5, max_wait_time=10)
            came = datetime.now(UTC)
        waiting = _all_shown(client, name)
        sender.cancel_scheduled_messages(drop)

    assert came >= soon
    assert waiting == ["drop", "keep"]
    assert _all_shown(client, name) == ["keep"]
    assert str(message) == "keep"
    assert message.sequence_number != keep[0]


def test_a_lock_that_ends_gives_the_message_to_another_receiver(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue(lock_duration=timedelta(seconds=5))
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("a"))
    slow, quick = client.get_queue_receiver(name), client.get_queue_receiver(name)
    [held] = slow.receive_messages(1, max_wait_time=5)

    [again] = quick.receive_messages(1, max_wait_time=15)

    assert again.delivery_count == 1
    with pytest.raises(MessageLockLostError):
        slow.complete_message(held)
    quick.complete_message(again)
    slow.close()
    quick.close()


def test_receive_and_delete_leaves_nothing(client: ServiceBusClient, new_queue: NewQueue) -> None:
    name = new_queue()
    with client.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage(str(n)) for n in range(10)])

    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(name, receive_mode=mode) as receiver:
        bodies: list[str] = []
        while messages := receiver.receive_messages(4, max_wait_time=1):
            bodies += map(str, messages)

    assert sorted(bodies, key=int) == [str(n) for n in range(10)]
    assert drain(client, name, wait_s=0.3) == []


def test_purge_and_delete(bus: Bus, client: ServiceBusClient, new_queue: NewQueue) -> None:
    name = new_queue()
    with client.get_queue_sender(name) as sender:
        for n in range(40):
            sender.send_messages(ServiceBusMessage(str(n)))
        sender.schedule_messages([ServiceBusMessage("s")], datetime.now(UTC) + timedelta(hours=1))

    with client.get_queue_receiver(name) as receiver:
        assert receiver.delete_messages(10) == 10
        receiver.purge_messages()

    with bus.administration() as administration:
        runtime = administration.get_queue_runtime_properties(name)
    assert runtime.active_message_count == 0


@pytest.mark.requirement("R40")
def test_the_size_limit_is_an_error_that_says_so(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    with (
        client.get_queue_sender(name) as sender,
        pytest.raises(MessageSizeExceededError, match="1048576"),
    ):
        sender.send_messages(ServiceBusMessage(b"x" * (1024 * 1024 + 1)))

    assert drain(client, name, wait_s=0.3) == []


@pytest.mark.requirement("R31")
def test_a_send_has_sixty_seconds_by_default_and_may_have_less(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    from bendybus.domain import limits

    assert limits.SEND_TIMEOUT_MS_DEFAULT == 60_000
    name = new_queue()
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("quick"), timeout=2)

    assert drain(client, name, wait_s=0.5) == ["quick"]


def test_the_front_end_frees_an_idle_receivers_cache(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    with client.get_queue_sender(name) as sender:
        for n in range(4):
            sender.send_messages(ServiceBusMessage(str(n)))
    idle, other = client.get_queue_receiver(name), client.get_queue_receiver(name)
    idle.receive_messages(1, max_wait_time=5)

    found: list[object] = []

    def all_found() -> bool:
        found.extend(other.receive_messages(4, max_wait_time=1))
        return len(found) == 3

    eventually(
        all_found,
        within_s=12,
        what="what the idle receiver had cached",
    )
    idle.close()
    other.close()


@pytest.mark.parametrize("number", [999_999, 5 << 48 | 3, 0])
def test_a_number_that_no_message_of_a_plain_queue_has_is_not_found(
    standard_bus: Bus, number: int
) -> None:
    with standard_bus.administration() as administration:
        administration.create_queue(f"plain-{number}")
    with (
        standard_bus.client() as client,
        client.get_queue_sender(f"plain-{number}") as sender,
        client.get_queue_receiver(f"plain-{number}") as receiver,
    ):
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages([number])
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(number)
