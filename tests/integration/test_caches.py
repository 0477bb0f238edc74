"""The cache of a connection: who gets what a front end holds ready, and who does not."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, ServiceBusReceivedMessage
from tests.integration.processes import Bus, Process, eventually

NewQueue = Callable[..., str]


@pytest.fixture
def elsewhere(bus: Bus, tmp_path: Path) -> Iterator[ServiceBusClient]:
    """A client of another front end of the same bus."""
    addresses = [f"--partition={i}={process.address}" for i, process in bus.partitions.items()]
    process = Process(
        "bendybus.frontend",
        "serve",
        "--listen=127.0.0.1:0",
        *addresses,
        log=tmp_path / "front-end.log",
    )
    try:
        with ServiceBusClient(process.address, ("any", "key"), use_tls=False) as client:
            yield client
    finally:
        process.end()


def fill(client: ServiceBusClient, name: str) -> None:
    """Put a message into each of the four partitions, and cache all but one of them."""
    with client.get_queue_sender(name) as sender:
        for n in range(4):
            sender.send_messages(ServiceBusMessage(str(n)))


@pytest.mark.requirement("R12")
def test_a_second_receiver_of_the_client_gets_what_the_first_ones_asks_brought(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    fill(client, name)
    first, second = client.get_queue_receiver(name), client.get_queue_receiver(name)
    got = first.receive_messages(1, max_wait_time=5)
    time.sleep(0.3)

    began = time.monotonic()
    got += second.receive_messages(3, max_wait_time=5)

    assert sorted(str(message) for message in got) == ["0", "1", "2", "3"]
    assert time.monotonic() - began < 3
    second.complete_messages(got)


@pytest.mark.requirement("R12")
@pytest.mark.requirement("R36")
@pytest.mark.requirement("R47")
def test_a_receiver_at_another_front_end_gets_nothing_until_the_cache_is_given_back(
    client: ServiceBusClient, elsewhere: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    fill(client, name)
    first = client.get_queue_receiver(name)
    [message] = first.receive_messages(1, max_wait_time=5)
    time.sleep(0.3)
    other = elsewhere.get_queue_receiver(name)

    assert other.receive_messages(4, max_wait_time=0.5) == []

    # Idle for 5 s: the first front end gives back what nobody there asked for.
    got: list[ServiceBusReceivedMessage] = []
    eventually(lambda: len(got.__iadd__(other.receive_messages(4, max_wait_time=1))) == 3)
    assert {found.delivery_count for found in got} == {0}
    first.complete_message(message)


@pytest.mark.requirement("R36")
def test_cached_messages_come_back_when_their_locks_end(
    bus: Bus, client: ServiceBusClient, elsewhere: ServiceBusClient, new_queue: NewQueue
) -> None:
    from datetime import timedelta

    name = new_queue(lock_duration=timedelta(seconds=5))
    fill(client, name)
    first = client.get_queue_receiver(name)
    [message] = first.receive_messages(1, max_wait_time=5)
    other = elsewhere.get_queue_receiver(name)

    got: list[ServiceBusReceivedMessage] = []
    eventually(lambda: len(got.__iadd__(other.receive_messages(4, max_wait_time=1))) >= 4)

    # The one that was handed over was delivered, those in the cache were not.
    assert sorted((str(found) == str(message), found.delivery_count) for found in got) == [
        (False, 0),
        (False, 0),
        (False, 0),
        (True, 1),
    ]


def test_idle_workers_share_the_messages_of_a_front_end_at_once(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    began = time.monotonic()

    def work(_: int) -> int:
        with client.get_queue_receiver(name) as receiver:
            messages = receiver.receive_messages(1, max_wait_time=20)
            time.sleep(2)
            receiver.complete_messages(messages)
            return len(messages)

    with ThreadPoolExecutor(12) as pool:
        working = [pool.submit(work, index) for index in range(12)]
        with client.get_queue_sender(name) as sender:
            for n in range(12):
                sender.send_messages(ServiceBusMessage(str(n)))
        assert [future.result(30) for future in working] == [1] * 12

    # One after the other they would take six times as long.
    assert time.monotonic() - began < 12


def test_many_receives_at_once_on_one_receiver_all_get_their_message(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    receiver = client.get_queue_receiver(name)
    with ThreadPoolExecutor(70) as pool:
        waiting = [pool.submit(receiver.receive_messages, 1, 20) for _ in range(70)]
        with client.get_queue_sender(name) as sender:
            sender.send_messages([ServiceBusMessage(str(n)) for n in range(70)])
        got = [message for future in waiting for message in future.result(30)]

    assert len(got) == 70
    receiver.complete_messages(got)


def test_a_receive_without_a_wait_finds_what_is_there(bus: Bus, new_queue: NewQueue) -> None:
    import grpc

    from bendybus.v1 import receiver_pb2, receiver_pb2_grpc

    name = new_queue()
    with bus.client() as client:
        fill(client, name)
    with grpc.insecure_channel(bus.front_end_address) as channel:
        stub = receiver_pb2_grpc.ReceiverServiceStub(channel)
        request = receiver_pb2.ReceiveRequest(
            entity_path=name,
            receive_mode=receiver_pb2.RECEIVE_MODE_PEEK_LOCK,
            max_messages=1,
            max_wait_ms=0,
            client_id="one",
        )
        response = stub.Receive(request, timeout=10)

    assert sum(len(batch.messages) for batch in response.batches) == 1


def test_a_loop_that_pauses_gets_the_messages_of_a_key_in_their_order(
    client: ServiceBusClient, new_queue: NewQueue
) -> None:
    name = new_queue()
    with client.get_queue_sender(name) as sender:
        sender.send_messages(
            [ServiceBusMessage(str(index), partition_key="k") for index in range(200)]
        )
    receiver = client.get_queue_receiver(name, max_wait_time=5)
    bodies = []
    for message in receiver:
        receiver.complete_message(message)
        bodies.append(str(message))
        if len(bodies) == 200:
            break
        if len(bodies) % 10 == 0:
            # Longer than the client keeps what the loop did not take.
            time.sleep(0.21)

    assert bodies == [str(index) for index in range(200)]
