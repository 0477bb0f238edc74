"""Every operation that takes a sequence number, on plain entities of both forms, in real processes.

The entities are in a partition that is not the first one.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bendybus.client import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSubQueue,
)
from bendybus.client.exceptions import (
    InvalidRequestError,
    MessageNotFoundError,
    MessagingEntityNotFoundError,
)
from tests import sequence_numbers
from tests.integration import plain_entities
from tests.integration.plain_entities import HOME, QUEUE, TOPIC
from tests.integration.processes import Bus
from tests.integration.test_command_line_ends import run

pytestmark = pytest.mark.requirement("R650")


@pytest.fixture(scope="module", params=["plain", "before"])
def bus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """A bus with a plain queue, a plain topic and a subscription of it."""
    made = plain_entities.started(tmp_path_factory.mktemp("numbers"), request.param)
    yield made
    made.end()


@pytest.fixture
def base(request: pytest.FixtureRequest) -> int:
    """The number before the first one."""
    return plain_entities.BASES[request.node.callspec.params["bus"]]


@pytest.fixture
def client(bus: Bus) -> Iterator[ServiceBusClient]:
    with bus.client() as made:
        yield made


def received(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """Return a number of messages: one call may return fewer than there are."""
    found: list[ServiceBusReceivedMessage] = []
    while len(found) < count:
        more = receiver.receive_messages(count - len(found), max_wait_time=5)
        assert more, found
        found += more
    return found


def counters(numbers: list[int], base: int) -> list[int]:
    """Return the numbers without their base; those of another form would be far away."""
    return [number - base for number in numbers]


def test_numbers_begin_after_their_base_and_name_the_partition_beside_them(
    client: ServiceBusClient, base: int
) -> None:
    with client.get_queue_sender(QUEUE) as sender, client.get_queue_receiver(QUEUE) as receiver:
        sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
        messages = received(receiver, 2)
        numbers = [each.sequence_number or 0 for each in messages]
        assert all(0 < each < 100 for each in counters(numbers, base))
        assert numbers == [numbers[0], numbers[0] + 1]
        assert {each.partition for each in messages} == {HOME}
        for each in messages:
            receiver.complete_message(each)


def test_what_is_deferred_is_received_and_settled_by_its_number(client: ServiceBusClient) -> None:
    with client.get_queue_sender(QUEUE) as sender, client.get_queue_receiver(QUEUE) as receiver:
        sender.send_messages(ServiceBusMessage("later"))
        [message] = receiver.receive_messages(1, max_wait_time=5)
        receiver.defer_message(message)

        number = message.sequence_number or 0
        [again] = receiver.receive_deferred_messages(number)
        assert (str(again), again.sequence_number) == ("later", number)
        receiver.complete_message(again)
        with pytest.raises(MessageNotFoundError, match=f"the sequence number {number} "):
            receiver.receive_deferred_messages(number)


def test_what_is_scheduled_is_cancelled_by_its_number(client: ServiceBusClient, base: int) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with client.get_queue_sender(QUEUE) as sender:
        numbers = sender.schedule_messages(
            [ServiceBusMessage("x"), ServiceBusMessage("y")], tomorrow
        )
        assert all(0 < each < 100 for each in counters(numbers, base))
        with pytest.raises(MessageNotFoundError, match=f"{base + 99}"):
            sender.cancel_scheduled_messages([*numbers, base + 99])
        sender.cancel_scheduled_messages(numbers)
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[:1])


def test_a_number_of_the_other_form_is_none_of_the_queue(
    client: ServiceBusClient, base: int
) -> None:
    other = sequence_numbers.of(HOME, 1) if not base else 1
    with client.get_queue_sender(QUEUE) as sender, client.get_queue_receiver(QUEUE) as receiver:
        sender.send_messages(ServiceBusMessage("here"))
        [message] = receiver.receive_messages(1, max_wait_time=5)
        receiver.defer_message(message)
        for call in (sender.cancel_scheduled_messages, receiver.receive_deferred_messages):
            with pytest.raises(MessageNotFoundError, match=f"the sequence number {other}[. ]"):
                call(other)
        [message] = receiver.receive_deferred_messages(message.sequence_number or 0)
        receiver.complete_message(message)


def test_a_peek_goes_on_from_a_number(client: ServiceBusClient, base: int) -> None:
    with client.get_queue_sender(QUEUE) as sender, client.get_queue_receiver(QUEUE) as receiver:
        sender.send_messages([ServiceBusMessage(text) for text in "abc"])
        first, second, third = receiver.peek_messages(3)
        found = receiver.peek_messages(3, sequence_number=second.sequence_number or 0)
        assert [str(each) for each in found] == ["b", "c"]
        assert [str(each) for each in receiver.peek_messages(3, sequence_number=1)] == list("abc")
        above = sequence_numbers.of(HOME + 1, 1)
        with pytest.raises(InvalidRequestError, match="is above all sequence numbers of"):
            receiver.peek_messages(3, sequence_number=above)
        assert counters([first.sequence_number or 0], base)[0] < 100
        assert third.sequence_number == (first.sequence_number or 0) + 2
        for each in received(receiver, 3):
            receiver.complete_message(each)


def test_dead_letters_and_copies_keep_the_number_that_they_had(
    client: ServiceBusClient, base: int
) -> None:
    with (
        client.get_topic_sender(TOPIC) as sender,
        client.get_subscription_receiver(TOPIC, "all") as receiver,
        client.get_subscription_receiver(
            TOPIC, "all", sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as dead_letters,
    ):
        sender.send_messages([ServiceBusMessage(text) for text in "ab"])
        copies = received(receiver, 2)
        assert [str(each) for each in copies] == ["a", "b"]
        numbers = [each.sequence_number or 0 for each in copies]
        at_topic = [each.enqueued_sequence_number or 0 for each in copies]
        assert counters(numbers, base) == counters(at_topic, base) == [1, 2]
        receiver.complete_message(copies[0])
        receiver.dead_letter_message(copies[1])
        [dead] = dead_letters.receive_messages(1, max_wait_time=5)
        assert counters([dead.sequence_number or 0], base) == [1]
        assert dead.enqueued_sequence_number == at_topic[1]
        dead_letters.complete_message(dead)


def test_a_pipeline_reads_and_settles_by_number(client: ServiceBusClient, base: int) -> None:
    browser = client.get_partition_browser(queue_name=QUEUE)
    with client.get_queue_sender(QUEUE) as sender:
        sender.send_messages([ServiceBusMessage(text) for text in "abcd"])
    [extent] = browser.describe_partitions().partitions
    assert extent.partition == HOME
    assert counters([extent.stable_tail], base)[0] < 100
    page = browser.browse(HOME, after=extent.stable_tail - 2, upto=extent.stable_tail)
    assert [str(each) for each in page.messages] == ["c", "d"]
    other = sequence_numbers.of(HOME, 1) if not base else 1
    with pytest.raises(InvalidRequestError, match=f"{other} is no sequence number of"):
        browser.browse(HOME, after=other)
    lease = browser.acquire_drain_lease("pipeline", duration=30)
    assert lease.settle_up_to(HOME, extent.stable_tail - 2, incarnation=extent.incarnation) == 2
    assert lease.settle(HOME, [extent.stable_tail], incarnation=extent.incarnation) == 1
    with pytest.raises(InvalidRequestError, match=f"{other} is no sequence number of"):
        lease.settle_up_to(HOME, other)
    lease.release()
    with client.get_queue_receiver(QUEUE) as receiver:
        [left] = receiver.receive_messages(4, max_wait_time=5)
        assert (str(left), left.sequence_number) == ("c", extent.stable_tail - 1)
        receiver.complete_message(left)


def test_numbers_go_on_over_a_restart_and_never_come_back(bus: Bus, base: int) -> None:
    with bus.client() as client, client.get_queue_sender(QUEUE) as sender:
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        [before] = sender.schedule_messages(ServiceBusMessage("x"), tomorrow)
        sender.cancel_scheduled_messages(before)
    bus.partitions[HOME].kill()
    bus.start_partition(HOME)
    with bus.client() as client, client.get_queue_sender(QUEUE) as sender:
        [after] = sender.schedule_messages(ServiceBusMessage("x"), tomorrow)
        sender.cancel_scheduled_messages(after)
    assert after == before + 1
    assert 0 < after - base < 100


def test_what_is_made_again_counts_from_one(bus: Bus) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    name = f"{QUEUE}-again"
    with bus.administration() as administration, bus.client() as client:
        for _ in range(2):
            administration.create_queue(name)
            with client.get_queue_sender(name) as sender:
                assert sender.schedule_messages(ServiceBusMessage("x"), tomorrow) == [1]
            administration.delete_queue(name)
        with (
            pytest.raises(MessagingEntityNotFoundError),
            client.get_queue_sender(name) as sender,
        ):
            sender.cancel_scheduled_messages(1)


def test_the_command_line_shows_numbers_and_takes_them(
    bus: Bus, client: ServiceBusClient, base: int
) -> None:
    with client.get_queue_sender(QUEUE) as sender, client.get_queue_receiver(QUEUE) as receiver:
        sender.send_messages([ServiceBusMessage(text) for text in "abc"])
        for each in received(receiver, 3):
            receiver.dead_letter_message(each)

    first, second, third = shown(bus, "peek", QUEUE, "--dead-letters", "-o", "json")
    assert {each["partition"] for each in (first, second, third)} == {HOME}
    assert 0 < first["sequence_number"] - base < 100
    table = run(bus, "peek", QUEUE, "--dead-letters").stdout
    assert all(str(each["sequence_number"]) in table for each in (first, second, third))

    number = str(second["sequence_number"])
    rest = shown(bus, "peek", QUEUE, "--dead-letters", "--from", number, "-o", "json")
    assert [each["body"] for each in rest] == ["b", "c"]
    assert run(bus, "deadletter", "resubmit", QUEUE, "--number", number).returncode == 0
    [sent] = shown(bus, "peek", QUEUE, "-o", "json")
    assert sent["body"] == "b"
    left = shown(bus, "peek", QUEUE, "--dead-letters", "-o", "json")
    assert [each["body"] for each in left] == ["a", "c"]


def shown(bus: Bus, *given: str) -> list[dict[str, Any]]:
    """Return the objects that a command prints as JSON lines."""
    done = run(bus, *given)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
