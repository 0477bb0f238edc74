"""Transactions that send to other queues and topics, through everything."""

from collections.abc import Callable

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, ServiceBusReceivedMessage, aio
from bendybus.client.exceptions import InvalidOperationError, MessageLockLostError, ServiceBusError
from tests.integration.processes import Bus

NewQueue = Callable[..., str]
KEYS = [f"k{n}" for n in range(8)]


def take(client: ServiceBusClient, queue: str, count: int) -> list[ServiceBusReceivedMessage]:
    """Receive and complete this many messages, and look for one more."""
    taken: list[ServiceBusReceivedMessage] = []
    with client.get_queue_receiver(queue) as receiver:
        while len(taken) < count:
            more = receiver.receive_messages(count - len(taken), max_wait_time=20)
            assert more, f"{len(taken)} of {count} came"
            receiver.complete_messages(more)
            taken += more
        assert receiver.receive_messages(1, max_wait_time=0.5) == []
    return taken


@pytest.mark.requirement("R235", "R236")
def test_a_settlement_and_what_follows_from_it_elsewhere_are_one_transaction(
    client: ServiceBusClient, bus: Bus, new_queue: NewQueue
) -> None:
    orders, invoices = new_queue(), new_queue()
    topic, audit = f"{orders}-news", "audit"
    with bus.administration() as administration:
        administration.create_topic(topic)
        administration.create_subscription(topic, audit)
    client.get_queue_sender(orders).send_messages(ServiceBusMessage("order", partition_key="k"))
    receiver = client.get_queue_receiver(orders)
    (order,) = receiver.receive_messages(max_wait_time=20)

    def run(tx: object) -> None:
        receiver.complete_message(order, tx=tx)  # type: ignore[arg-type]
        client.get_queue_sender(invoices).send_messages(
            [ServiceBusMessage(key, partition_key=KEYS[0]) for key in KEYS],
            tx=tx,  # type: ignore[arg-type]
        )
        client.get_topic_sender(topic).send_messages(
            ServiceBusMessage("sold", partition_key=KEYS[0]),
            tx=tx,  # type: ignore[arg-type]
        )

    undone = client.transaction()
    run(undone)
    undone.rollback()
    with client.get_queue_receiver(invoices) as other:
        assert other.receive_messages(1, max_wait_time=0.5) == []
    with client.transaction() as tx:
        run(tx)

    found = take(client, invoices, len(KEYS))
    assert sorted(map(str, found)) == KEYS
    # Where their key belongs.
    assert len({message.partition for message in found}) == 1
    with client.get_subscription_receiver(topic, audit) as news:
        (sold,) = news.receive_messages(max_wait_time=20)
        news.complete_message(sold)
    assert str(sold) == "sold"
    assert take(client, orders, 0) == []


@pytest.mark.requirement("R235")
def test_a_subscription_settles_and_sends_on(
    client: ServiceBusClient, bus: Bus, new_queue: NewQueue
) -> None:
    invoices = new_queue()
    topic = f"{invoices}-news"
    with bus.administration() as administration:
        administration.create_topic(topic)
        administration.create_subscription(topic, "all")
    client.get_topic_sender(topic).send_messages(ServiceBusMessage("sold"))
    receiver = client.get_subscription_receiver(topic, "all")
    (message,) = receiver.receive_messages(max_wait_time=20)

    with client.transaction() as tx:
        receiver.complete_message(message, tx=tx)
        client.get_queue_sender(invoices).send_messages(
            ServiceBusMessage("invoice", partition_key="k"), tx=tx
        )

    assert list(map(str, take(client, invoices, 1))) == ["invoice"]


@pytest.mark.requirement("R235")
async def test_the_asynchronous_client_sends_to_a_session_elsewhere(
    bus: Bus, client: ServiceBusClient, new_queue: NewQueue
) -> None:
    orders, replies = new_queue(), new_queue(requires_session=True)
    made = aio.ServiceBusClient.from_connection_string(bus.connection_string)
    async with made as own, own.get_queue_receiver(orders) as receiver:
        sender = own.get_queue_sender(orders)
        await sender.send_messages(ServiceBusMessage("order", partition_key="k"))
        (order,) = await receiver.receive_messages(max_wait_time=20)
        async with own.transaction() as tx:
            await receiver.complete_message(order, tx=tx)
            replying = own.get_queue_sender(replies)
            with pytest.raises(InvalidOperationError, match="SessionId was not set"):
                await replying.send_messages(ServiceBusMessage("reply"), tx=tx)
            await replying.send_messages(ServiceBusMessage("reply", session_id="a"), tx=tx)
        async with own.get_queue_receiver(replies, session_id="a", max_wait_time=20) as replied:
            (reply,) = await replied.receive_messages(max_wait_time=20)
            assert str(reply) == "reply"


@pytest.mark.requirement("R235", "R238")
def test_a_lost_lock_or_a_missing_destination_sends_nothing(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    orders, invoices = new_queue(), new_queue()
    client.get_queue_sender(orders).send_messages(ServiceBusMessage("order"))
    receiver = client.get_queue_receiver(orders)
    (order,) = receiver.receive_messages(max_wait_time=20)
    tx = client.transaction()
    receiver.complete_message(order, tx=tx)
    sender = client.get_queue_sender(invoices)
    sender.send_messages(ServiceBusMessage("invoice", partition_key="k"), tx=tx)
    with pytest.raises(ServiceBusError, match="nowhere"):
        client.get_queue_sender("nowhere").send_messages(ServiceBusMessage("x"), tx=tx)
    receiver.complete_message(order)

    with pytest.raises(MessageLockLostError, match="operation 1"):
        tx.commit()

    assert take(client, invoices, 0) == []


@pytest.mark.requirement("R238")
def test_a_destination_that_is_deleted_before_the_commit_refuses_it(
    client: ServiceBusClient, bus: Bus, new_queue: NewQueue
) -> None:
    orders, invoices = new_queue(), new_queue()
    client.get_queue_sender(orders).send_messages(ServiceBusMessage("order"))
    receiver = client.get_queue_receiver(orders)
    (order,) = receiver.receive_messages(max_wait_time=20)
    tx = client.transaction()
    receiver.complete_message(order, tx=tx)
    client.get_queue_sender(invoices).send_messages(
        ServiceBusMessage("invoice", partition_key="k"), tx=tx
    )
    with bus.administration() as administration:
        administration.delete_queue(invoices)

    # Every partition knows that it is gone.
    with pytest.raises(ServiceBusError, match="was deleted"):
        tx.commit()
    receiver.complete_message(order)
