"""A partition that stops gracefully lets receivers settle what they hold."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError

from bendybus.partition_server.server import SETTLING_SHARE
from tests.integration.amqp import AmqpBus, take

# `Settings.drain_s`, by default.
DRAIN_S = 5.0
SETTLING_S = DRAIN_S * SETTLING_SHARE


@pytest.fixture(scope="module")
def amqp_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path_factory.mktemp("bus"), partitions=1)
    yield made
    made.end()


@pytest.fixture
def orders(amqp_bus: AmqpBus, request: pytest.FixtureRequest) -> str:
    """Return a queue of the test's own."""
    name = str(request.node.name).replace("_", "-")[:50]
    with amqp_bus.administration() as administration:
        administration.create_queue(name)
    return name


@pytest.mark.requirement("R600")
def test_what_is_held_is_settled_and_what_comes_meanwhile_waits(
    amqp_bus: AmqpBus, orders: str
) -> None:
    partition = amqp_bus.partitions[0]
    with (
        amqp_bus.sdk() as sdk,
        sdk.get_queue_sender(orders) as sender,
        sdk.get_queue_receiver(orders) as receiver,
        ThreadPoolExecutor(1) as thread,
    ):
        sender.send_messages([ServiceBusMessage("held"), ServiceBusMessage("held, too")])
        first, second = take(receiver, 2)

        stopping = thread.submit(partition.terminate)
        time.sleep(SETTLING_S / 3)
        sender.send_messages(ServiceBusMessage("meanwhile"))
        receiver.complete_message(first)
        receiver.abandon_message(second)
        stopping.result()
        amqp_bus.start_partition(0)
        left = {str(each): each.delivery_count for each in take(receiver, 2)}

    assert left == {"held, too": 1, "meanwhile": 0}


@pytest.mark.requirement("R600")
def test_a_receiver_that_settles_nothing_delays_it_by_a_bounded_time(
    amqp_bus: AmqpBus, orders: str
) -> None:
    partition = amqp_bus.partitions[0]
    with amqp_bus.sdk() as sdk, sdk.get_queue_receiver(orders) as receiver:
        with sdk.get_queue_sender(orders) as sender:
            sender.send_messages(ServiceBusMessage("held"))
        [held] = take(receiver, 1)

        took_s = partition.terminate()
        amqp_bus.start_partition(0)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(held)
        [again] = take(receiver, 1)

    assert SETTLING_S < took_s < DRAIN_S
    assert again.delivery_count == 0


@pytest.mark.requirement("R600")
def test_nobody_is_waited_for_who_cannot_settle(amqp_bus: AmqpBus, orders: str) -> None:
    with amqp_bus.sdk() as sdk, sdk.get_queue_receiver(orders) as receiver:
        with sdk.get_queue_sender(orders) as sender:
            sender.send_messages(ServiceBusMessage("held"))
        take(receiver, 1)
    amqp_bus.front_end.terminate()

    took_s = amqp_bus.partitions[0].terminate()
    amqp_bus.start_partition(0)
    amqp_bus.start_front_end()

    assert took_s < SETTLING_S
