"""Partitions read by number, drained and written with fences, through a bus of real processes."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bendybus.client import (
    PartitionBrowser,
    PartitionSender,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusSubQueue,
)
from bendybus.client.exceptions import (
    InvalidOperationError,
    InvalidRequestError,
    MessagingEntityDrainedError,
    MessagingEntityNotFoundError,
    ProducerFencedError,
    ServiceBusAuthorizationError,
)
from tests.integration.processes import Bus
from tests.integration.secured import LISTEN_KEY, SEND_KEY, SecuredBus

PRODUCER = b"query-1, task-00"


@pytest.fixture
def queue(client: ServiceBusClient, new_queue: Callable[..., str]) -> str:
    """A partitioned queue of 40 messages."""
    name = new_queue(enable_partitioning=True)
    with client.get_queue_sender(name) as sender:
        for number in range(40):
            sender.send_messages(ServiceBusMessage(str(number), partition_key=f"k{number % 8}"))
    return name


@pytest.fixture
def browser(client: ServiceBusClient, queue: str) -> PartitionBrowser:
    return client.get_partition_browser(queue_name=queue)


def read_all(browser: PartitionBrowser, size: int = 3) -> list[str]:
    """Return the bodies of all partitions, page by page."""
    found: list[str] = []
    for each in browser.describe_partitions().partitions:
        after, complete = 0, False
        while not complete:
            page = browser.browse(
                each.partition, after=after, upto=each.stable_tail, max_messages=size
            )
            found += [str(message) for message in page.messages]
            after, complete = page.next_after, page.complete
    return found


@pytest.mark.requirement("R280")
def test_all_partitions_are_read_page_by_page_and_nothing_is_locked(
    client: ServiceBusClient, browser: PartitionBrowser, queue: str
) -> None:
    assert sorted(map(int, read_all(browser))) == list(range(40))

    with client.get_queue_receiver(queue) as receiver:
        assert receiver.receive_messages(5, max_wait_time=5)
    assert len(read_all(browser)) == 40


@pytest.mark.requirement("R280")
def test_the_description_of_partitions_counts_what_is_there(browser: PartitionBrowser) -> None:
    found = browser.describe_partitions()

    assert [each.partition for each in found.partitions] == [0, 1, 2, 3]
    assert sum(each.active_message_count for each in found.partitions) == 40
    assert {each.error for each in found.partitions} == {None}
    assert len({each.incarnation for each in found.partitions}) == 4
    for each in found.partitions:
        assert each.stable_tail >> 48 == each.partition
    key = found.partition_of("k3")
    assert "3" in [str(each) for each in browser.browse(key).messages]


@pytest.mark.requirement("R280")
def test_states_and_bodies_are_chosen(client: ServiceBusClient, browser: PartitionBrowser) -> None:
    with client.get_queue_sender(browser.entity_name) as sender:
        later = datetime.now(UTC) + timedelta(hours=1)
        [number] = sender.schedule_messages(ServiceBusMessage("x", subject="late"), later)

    page = browser.browse(
        number >> 48, states=[ServiceBusMessageState.SCHEDULED], bodies=False, max_messages=100
    )

    [message] = page.messages
    assert (message.subject, b"".join(message.body)) == ("late", b"")


@pytest.mark.requirement("R280")
def test_the_number_at_a_time_leads_to_what_came_since(
    client: ServiceBusClient, browser: PartitionBrowser
) -> None:
    time.sleep(0.01)
    since = datetime.now(UTC)
    with client.get_queue_sender(browser.entity_name) as sender:
        sender.send_messages(ServiceBusMessage("new", partition_key="k1"))
    partition = browser.describe_partitions().partition_of("k1")

    after = browser.sequence_number_at(partition, since)

    assert [str(each) for each in browser.browse(partition, after=after).messages] == ["new"]


@pytest.mark.requirement("R281")
def test_a_drain_empties_a_queue_and_receivers_wait_for_its_end(
    client: ServiceBusClient, browser: PartitionBrowser, queue: str
) -> None:
    lease = browser.acquire_drain_lease("capture", duration=30)
    assert lease.ready == {0, 1, 2, 3}
    with client.get_queue_receiver(queue) as receiver:
        with pytest.raises(MessagingEntityDrainedError, match="data pipeline 'capture'"):
            receiver.receive_messages(1, max_wait_time=5)
        deleted = sum(
            lease.settle_up_to(each.partition, each.stable_tail)
            for each in browser.describe_partitions().partitions
        )
        assert deleted == 40
        lease.release()
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("after"))
        assert [str(each) for each in receiver.receive_messages(1, max_wait_time=10)] == ["after"]


@pytest.mark.requirement("R281")
def test_a_drain_waits_for_messages_that_receivers_have_locked(
    client: ServiceBusClient, browser: PartitionBrowser, queue: str
) -> None:
    with client.get_queue_receiver(queue) as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=5)
        where = (message.sequence_number or 0) >> 48
        lease = browser.acquire_drain_lease("capture", duration=30)
        assert where not in lease.ready
        assert {each.partition for each in lease.waiting} >= {where}
        receiver.complete_message(message)
    deadline = time.monotonic() + 20
    while lease.waiting and time.monotonic() < deadline:
        lease.renew()
        time.sleep(0.1)

    assert lease.ready == {0, 1, 2, 3}
    assert len(read_all(browser)) == 39


@pytest.mark.requirement("R281")
def test_listed_numbers_are_settled(browser: PartitionBrowser) -> None:
    lease = browser.acquire_drain_lease("capture", duration=30)
    partition = browser.describe_partitions().partition_of("k2")
    page = browser.browse(partition)
    numbers = list(page.batch.sequence_numbers)[::2]

    with pytest.raises(InvalidOperationError, match="were reset"):
        lease.settle(partition, numbers, incarnation="another")
    assert lease.settle(partition, numbers, incarnation=page.incarnation) == len(numbers)
    assert lease.settle(partition, numbers) == 0
    assert len(read_all(browser)) == 40 - len(numbers)


def test_dead_letters_are_read_and_drained(
    client: ServiceBusClient, browser: PartitionBrowser, queue: str
) -> None:
    with client.get_queue_receiver(queue) as receiver:
        for message in receiver.receive_messages(5, max_wait_time=5):
            receiver.dead_letter_message(message, reason="broken")
    dead = client.get_partition_browser(queue_name=queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    before = len(read_all(dead))
    lease = dead.acquire_drain_lease("redrive", duration=30)

    for each in dead.describe_partitions().partitions:
        lease.settle_up_to(each.partition, each.stable_tail)

    assert before >= 1
    assert read_all(dead) == []
    assert len(read_all(browser)) == 40 - before


# Fences


@pytest.fixture
def sender(client: ServiceBusClient, new_queue: Callable[..., str]) -> Iterator[PartitionSender]:
    name = new_queue(enable_partitioning=True)
    with client.get_partition_sender(queue_name=name) as made:
        yield made


@pytest.mark.requirement("R282")
def test_what_is_sent_again_is_stored_once(
    client: ServiceBusClient, sender: PartitionSender
) -> None:
    messages = [ServiceBusMessage("a"), ServiceBusMessage("b")]
    for _ in range(3):
        sent = sender.send(2, messages, producer_id=PRODUCER, epoch=1, ordinals=[1, 2], mark=b"m")

    assert (sent.stored, sent.repeated, sent.duplicates) == (0, 2, 0)
    fence = sender.fence(2, PRODUCER)
    assert (fence.epoch, fence.ordinal, fence.mark) == (1, 2, b"m")
    with client.get_queue_receiver(sender.entity_name) as receiver:
        found = receiver.receive_messages(10, max_wait_time=5)
    assert [str(each) for each in found] == ["a", "b"]


@pytest.mark.requirement("R282")
def test_an_earlier_epoch_of_a_producer_is_refused(sender: PartitionSender) -> None:
    message = ServiceBusMessage("a")
    sender.send(2, [message], producer_id=PRODUCER, epoch=3, ordinals=[1])

    with pytest.raises(ProducerFencedError, match="is at epoch 3"):
        sender.send(2, [message], producer_id=PRODUCER, epoch=2, ordinals=[2])


@pytest.mark.requirement("R282")
def test_a_key_of_another_partition_is_refused(sender: PartitionSender) -> None:
    right = sender.describe_partitions().partition_of("k")
    message = ServiceBusMessage("a", partition_key="k")

    with pytest.raises(InvalidRequestError, match=f"belongs to partition {right}"):
        sender.send(right ^ 1, [message], producer_id=PRODUCER, epoch=1, ordinals=[1])

    assert sender.send(right, [message], producer_id=PRODUCER, epoch=1, ordinals=[1]).stored == 1


# What is wrong


@pytest.mark.requirement("R280")
def test_what_is_wrong_is_named(client: ServiceBusClient, browser: PartitionBrowser) -> None:
    with pytest.raises(InvalidRequestError, match="has partitions 0, 1, 2, 3, not 9"):
        browser.browse(9)
    with pytest.raises(InvalidRequestError, match=r"after: .* belongs to partition 1"):
        browser.browse(0, after=(1 << 48) + 5)
    with pytest.raises(InvalidRequestError, match="duration"):
        browser.acquire_drain_lease("capture", duration=1)
    with pytest.raises(MessagingEntityNotFoundError):
        client.get_partition_browser(queue_name="missing").describe_partitions(timeout=2)
    with pytest.raises(InvalidRequestError, match="owner"):
        browser.acquire_drain_lease("")


def test_a_topic_is_written_and_its_subscription_read(bus: Bus) -> None:
    with bus.administration() as administration, bus.client() as client:
        administration.create_topic("pipeline-news")
        administration.create_subscription("pipeline-news", "capture")
        sender = client.get_partition_sender(topic_name="pipeline-news")
        partition = sender.describe_partitions().partitions[0].partition
        message = ServiceBusMessage("a")
        sender.send(partition, message, producer_id=PRODUCER, epoch=1, ordinals=[1])
        browser = client.get_partition_browser(
            topic_name="pipeline-news", subscription_name="capture"
        )

        assert [str(each) for each in browser.browse(partition).messages] == ["a"]
        with pytest.raises(InvalidOperationError, match="subscriptions"):
            client.get_partition_browser(topic_name="pipeline-news").acquire_drain_lease("x")


def test_messages_of_a_restarted_partition_stay_where_they_are(tmp_path: Path) -> None:
    made = Bus(tmp_path, partitions=2)
    try:
        with made.administration() as administration, made.client(retry_total=20) as client:
            administration.create_queue("orders", enable_partitioning=True)
            sender = client.get_partition_sender(queue_name="orders")
            sender.send(1, [ServiceBusMessage("a")], producer_id=PRODUCER, epoch=1, ordinals=[1])
            browser = client.get_partition_browser(queue_name="orders")
            lease = browser.acquire_drain_lease("capture", duration=30)
            made.partitions[1].kill()
            away = browser.describe_partitions().partitions[1].error
            assert away is not None
            assert "partition 1 is unavailable" in str(away)
            made.start_partition(1)
            again = sender.send(
                1, [ServiceBusMessage("a")], producer_id=PRODUCER, epoch=1, ordinals=[1]
            )
            assert again.repeated == 1
            receiver = client.get_queue_receiver("orders")
            with pytest.raises(MessagingEntityDrainedError):
                receiver.receive_messages(1, max_wait_time=5)
            assert lease.settle_up_to(1, (1 << 48) + 1) == 1
    finally:
        made.end()


@pytest.mark.requirement("R283")
def test_reading_needs_listen_sending_needs_send_and_either_may_describe(
    secured: SecuredBus,
) -> None:
    with secured.client(LISTEN_KEY, "listener") as client:
        browser = client.get_partition_browser(queue_name="orders")
        tail = browser.describe_partitions().partitions[0].stable_tail
        browser.acquire_drain_lease("capture", duration=5).release()
        with pytest.raises(ServiceBusAuthorizationError, match="does not grant Send"):
            send(client.get_partition_sender(queue_name="orders"))
    with secured.client(SEND_KEY, "sender") as client:
        send(client.get_partition_sender(queue_name="orders"))
        browser = client.get_partition_browser(queue_name="orders")
        assert browser.describe_partitions().partitions[0].stable_tail == tail + 1
        with pytest.raises(ServiceBusAuthorizationError, match="does not grant Listen"):
            browser.browse(0)
        with pytest.raises(ServiceBusAuthorizationError, match="does not grant Listen"):
            browser.acquire_drain_lease("capture")


def send(sender: PartitionSender) -> None:
    message = ServiceBusMessage("a")
    sender.send(0, message, producer_id=PRODUCER, epoch=1, ordinals=[1])
