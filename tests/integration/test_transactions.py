"""Transactions through real processes, with the public client."""

import asyncio
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from bendybus.client import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusSubQueue,
    aio,
)
from bendybus.client.exceptions import (
    InvalidOperationError,
    MessageLockLostError,
    ServiceBusError,
)
from tests.integration.processes import Bus
from tests.integration.test_messages import drain

NewQueue = Callable[..., str]
KEY = "a customer"
EXAMPLE = Path(__file__).parents[2] / "examples" / "transaction.py"


def keyed(body: str, key: str = KEY) -> ServiceBusMessage:
    """Return a message with a partition key."""
    return ServiceBusMessage(body, partition_key=key)


def bodies(client: ServiceBusClient, queue: str) -> list[str]:
    """Return what a receiver of the queue could see now."""
    with client.get_queue_receiver(queue) as receiver:
        return [str(message) for message in receiver.peek_messages(250)]


@pytest.mark.requirement("R120")
def test_a_send_and_a_complete_are_one_commit(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    queue = new_queue()
    sender, receiver = client.get_queue_sender(queue), client.get_queue_receiver(queue)
    sender.send_messages(keyed("an order"))
    (message,) = receiver.receive_messages(max_wait_time=10)

    with client.transaction() as tx:
        sender.send_messages(keyed("an invoice"), tx=tx)
        receiver.complete_message(message, tx=tx)
        before = bodies(client, queue)

    assert before == ["an order"]
    assert bodies(client, queue) == ["an invoice"]
    with pytest.raises(ValueError, match="already settled"):
        receiver.complete_message(message)


@pytest.mark.requirement("R224")
def test_a_key_pins_in_a_transaction_as_outside_of_one(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    queue = new_queue()
    sender = client.get_queue_sender(queue)
    for key in ("a", "b", "c", "d"):
        sender.send_messages(keyed("outside", key))
        with client.transaction() as tx:
            sender.send_messages(keyed("inside", key), tx=tx)

    with client.get_queue_receiver(queue) as receiver:
        found = []
        while page := receiver.peek_messages(20):
            found += page
    partitions: dict[str, set[int]] = {}
    for message in found:
        partitions.setdefault(str(message.partition_key), set()).add(message.partition)

    assert len(found) == 8
    assert {key: len(where) for key, where in partitions.items()} == dict.fromkeys("abcd", 1)
    assert len(set.union(*partitions.values())) > 1


@pytest.mark.requirement("R120")
def test_an_exception_rolls_back_and_the_message_stays_locked(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    queue = new_queue()
    sender, receiver = client.get_queue_sender(queue), client.get_queue_receiver(queue)
    sender.send_messages(keyed("an order"))
    (message,) = receiver.receive_messages(max_wait_time=10)

    def run() -> None:
        with client.transaction() as tx:
            sender.send_messages(keyed("an invoice"), tx=tx)
            receiver.complete_message(message, tx=tx)
            raise RuntimeError("an error of the application")

    with pytest.raises(RuntimeError, match="of the application"):
        run()

    assert bodies(client, queue) == ["an order"]
    receiver.complete_message(message)
    assert bodies(client, queue) == []


@pytest.mark.requirement("R121")
def test_a_lost_lock_rolls_all_of_it_back(client: ServiceBusClient, new_queue: NewQueue) -> None:
    queue = new_queue()
    sender, receiver = client.get_queue_sender(queue), client.get_queue_receiver(queue)
    sender.send_messages(keyed("an order"))
    (message,) = receiver.receive_messages(max_wait_time=10)

    tx = client.transaction()
    sender.send_messages(keyed("an invoice"), tx=tx)
    receiver.complete_message(message, tx=tx)
    receiver.complete_message(message)
    with pytest.raises(MessageLockLostError, match="operation 2"):
        tx.commit()

    assert bodies(client, queue) == []


@pytest.mark.requirement("R122")
def test_rules_are_checked_with_each_operation(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    queue, other = new_queue(), new_queue()
    sender, receiver = client.get_queue_sender(queue), client.get_queue_receiver(queue)
    sender.send_messages(keyed("zero"))
    (settled,) = receiver.receive_messages(max_wait_time=10)

    with client.transaction() as tx:
        sender.send_messages(keyed("one"), tx=tx)
        receiver.complete_message(settled, tx=tx)
        with pytest.raises(InvalidOperationError, match="needs a partition key"):
            sender.send_messages(ServiceBusMessage("without a key"), tx=tx)
        with pytest.raises(InvalidOperationError, match="same partition key"):
            sender.send_messages(keyed("elsewhere", "another customer"), tx=tx)
        client.get_queue_sender(other).send_messages(keyed("another queue"))
        elsewhere = client.get_queue_receiver(other)
        (message,) = elsewhere.receive_messages(max_wait_time=10)
        with pytest.raises(InvalidOperationError, match="multiple top-level entities"):
            elsewhere.complete_message(message, tx=tx)
        sender.send_messages(keyed("two"), tx=tx)

    assert bodies(client, queue) == ["one", "two"]


@pytest.mark.requirement("R513")
def test_a_transaction_sends_to_other_queues_before_it_settles(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    queue, other = new_queue(), new_queue()
    client.get_queue_sender(queue).send_messages(keyed("order"))
    receiver = client.get_queue_receiver(queue)
    (order,) = receiver.receive_messages(max_wait_time=10)

    with client.transaction() as tx:
        client.get_queue_sender(other).send_messages(keyed("invoice"), tx=tx)
        receiver.complete_message(order, tx=tx)

    found = client.get_queue_receiver(other).receive_messages(max_wait_time=10)
    assert [str(each) for each in found] == ["invoice"]
    assert bodies(client, queue) == []


@pytest.mark.requirement("R120")
def test_the_example_handles_flights_and_keeps_records(bus: Bus, new_queue: NewQueue) -> None:
    example = runpy.run_path(str(EXAMPLE))

    records = example["main"](bus.connection_string, new_queue(), new_queue())

    assert sorted(records) == ["handled UA 1", "handled UA 2"]


@pytest.mark.requirement("R120")
async def test_the_asynchronous_surface_commits_and_rolls_back(
    bus: Bus, new_queue: NewQueue
) -> None:
    queue = new_queue()
    made = aio.ServiceBusClient.from_connection_string(bus.connection_string)
    async with made as client, client.get_queue_sender(queue) as sender:
        async with client.transaction() as tx:
            await asyncio.gather(*(sender.send_messages(keyed(str(n)), tx=tx) for n in range(10)))
        async with client.get_queue_receiver(queue) as receiver:
            messages: list[ServiceBusReceivedMessage] = []
            while len(messages) < 10:
                messages += await receiver.receive_messages(10, max_wait_time=10)

            async def fail() -> None:
                async with client.transaction() as tx:
                    await receiver.complete_messages(messages, tx=tx)
                    raise RuntimeError

            with pytest.raises(RuntimeError):
                await fail()
            async with client.transaction() as tx:
                until = await receiver.renew_message_lock(messages[0], tx=tx)
                await receiver.complete_messages(messages[1:], tx=tx)
            assert messages[0].locked_until_utc is not None
            assert messages[0].locked_until_utc > until
            await receiver.complete_message(messages[0])

            left = await receiver.peek_messages(10, sequence_number=1)
    assert left == []


@pytest.mark.requirement("R128")
async def test_a_cancelled_operation_rolls_all_of_it_back(bus: Bus, new_queue: NewQueue) -> None:
    queue = new_queue()
    made = aio.ServiceBusClient.from_connection_string(bus.connection_string)
    async with made as client, client.get_queue_sender(queue) as sender:
        tx = client.transaction()
        await sender.send_messages(keyed("first"), tx=tx)
        sending = asyncio.ensure_future(sender.send_messages(keyed("second"), tx=tx))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

        with pytest.raises(ServiceBusError, match="was rolled back"):
            await tx.commit()
        receiver = client.get_queue_receiver(queue)
        assert await receiver.peek_messages(10) == []


@pytest.mark.requirement("R123")
def test_a_dead_letter_is_completed_with_the_message_that_replaces_it(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    queue = new_queue()
    sender, receiver = client.get_queue_sender(queue), client.get_queue_receiver(queue)
    dead = client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    sender.send_messages(keyed("an order"))
    (message,) = receiver.receive_messages(max_wait_time=10)
    with client.transaction() as tx:
        receiver.dead_letter_message(message, "NoPrice", tx=tx)
    (letter,) = dead.receive_messages(max_wait_time=10)

    with client.transaction() as tx:
        sender.send_messages(keyed("an order with a price"), tx=tx)
        dead.complete_message(letter, tx=tx)

    assert letter.dead_letter_reason == "NoPrice"
    assert bodies(client, queue) == ["an order with a price"]
    assert dead.peek_messages(10) == []


@pytest.mark.requirement("R124")
def test_a_hundred_messages_are_one_commit_and_no_more(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    queue = new_queue()
    sender = client.get_queue_sender(queue)

    with client.transaction() as tx:
        for n in range(10):
            sender.send_messages([keyed(f"{n}.{i}") for i in range(10)], tx=tx)
        with pytest.raises(InvalidOperationError, match="1 to 100 messages"):
            sender.send_messages(keyed("one more"), tx=tx)

    assert len(drain(client, queue)) == 100
