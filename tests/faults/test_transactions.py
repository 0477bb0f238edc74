"""Transactions while processes are killed, and callers that never end theirs."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, ServiceBusReceiver
from bendybus.client.exceptions import (
    MessageLockLostError,
    OutcomeUnknownError,
    ServiceBusConnectionError,
    ServiceBusError,
)
from bendybus.frontend.core.quota.bounds import TRANSACTIONS
from bendybus.v1 import message_pb2, transaction_pb2, transaction_pb2_grpc
from bendybus.wire.contract_versions import CLIENT
from tests.faults.traffic import drain, key_of
from tests.integration.processes import Bus, eventually

MB = 1024 * 1024
KEY = key_of(1)


def keyed(body: str) -> ServiceBusMessage:
    """Return a message for partition 1."""
    return ServiceBusMessage(body, partition_key=KEY)


@contextmanager
def killing(kill: Callable[[], None], *, seed: int) -> Iterator[None]:
    """Kill something, again and again, while the block runs."""
    ended, rng = threading.Event(), random.Random(seed)

    def run() -> None:
        while not ended.wait(rng.uniform(0.2, 1.5)):
            kill()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def answer(client: ServiceBusClient, receiver: ServiceBusReceiver) -> None:
    """Turn a request into an answer, which is due tomorrow, in a transaction.

    An unknown outcome is asked for until it is known.
    """
    sender = client.get_queue_sender("orders")
    for message in receiver.receive_messages(1, max_wait_time=1):
        made = keyed(f"answer to {message}")
        made.scheduled_enqueue_time_utc = datetime.now(UTC) + timedelta(days=1)
        tx = client.transaction()
        sender.send_messages(made, tx=tx)
        receiver.complete_message(message, tx=tx)
        while True:
            with suppress(OutcomeUnknownError):
                tx.commit(timeout=5)
                break


@pytest.mark.slow
@pytest.mark.requirement("R120")
@pytest.mark.requirement("R125")
@pytest.mark.parametrize("victim", ["the partition", "the front end"])
def test_each_request_has_one_answer_whatever_is_killed(bus: Bus, victim: str) -> None:
    with bus.administration() as administration:
        queue = administration.get_queue("orders")
        queue.lock_duration, queue.max_delivery_count = "PT5S", 1_000
        administration.update_queue(queue)

    def kill() -> None:
        if victim == "the partition":
            bus.partitions[1].kill()
            bus.start_partition(1)
        else:
            bus.front_end.kill()
            bus.start_front_end()

    requests = [f"request {n}" for n in range(12)]
    with bus.client(retry_backoff_factor=0.05) as client:
        client.get_queue_sender("orders").send_messages([keyed(body) for body in requests])
        with killing(kill, seed=7):
            for _ in range(6):
                with suppress(ServiceBusError), client.get_queue_receiver("orders") as receiver:
                    for _ in range(3):
                        answer(client, receiver)
        held = eventually(lambda: _held(client), what="the bus whole again")
        # Half a transaction would be both of them, or neither.
        assert sorted(_request_of(body) for body in held) == sorted(requests)
        assert any(body.startswith("answer") for body in held)

        with client.get_queue_receiver("orders") as receiver:
            for _ in held:
                answer(client, receiver)
        assert sorted(_held(client)) == sorted(f"answer to {body}" for body in requests)


@pytest.mark.slow
@pytest.mark.requirement("R234")
@pytest.mark.parametrize("victim", ["the partition", "the front end"])
def test_each_request_of_a_session_has_one_answer_whatever_is_killed(bus: Bus, victim: str) -> None:
    with bus.administration() as administration:
        administration.create_queue(
            "sessions", requires_session=True, lock_duration="PT5S", max_delivery_count=1_000
        )

    def kill() -> None:
        if victim == "the partition":
            bus.partitions[1].kill()
            bus.start_partition(1)
        else:
            bus.front_end.kill()
            bus.start_front_end()

    numbers = range(12)
    with bus.client(retry_backoff_factor=0.05) as client:
        sender = client.get_queue_sender("sessions")
        sender.send_messages([ServiceBusMessage(str(n), session_id=KEY) for n in numbers])
        with killing(kill, seed=11):
            for _ in range(6):
                with suppress(ServiceBusError), _session(client) as receiver:
                    for _ in range(3):
                        _answer_in_session(client, receiver)

        def answered() -> list[str]:
            with suppress(ServiceBusError), _session(client) as receiver:
                _answer_in_session(client, receiver)
                held = list(map(str, receiver.peek_messages(250, sequence_number=1)))
                return held if all(body.startswith("answer") for body in held) else []
            return []

        # Answered in the order of the session, and so are the answers.
        held = eventually(answered, within_s=120, what="all requests answered")
    assert held == [f"answer to {n}" for n in numbers]


@pytest.mark.slow
@pytest.mark.requirement("R239")
def test_what_transactions_send_to_another_queue_arrives_once_whatever_is_killed(bus: Bus) -> None:
    with bus.administration() as administration:
        administration.create_queue("invoices")
        queue = administration.get_queue("orders")
        queue.lock_duration, queue.max_delivery_count = "PT5S", 1_000
        administration.update_queue(queue)
    dice = random.Random(5)

    def kill() -> None:
        victim = dice.choice([1, 1, 0, 2, 3])
        bus.partitions[victim].kill()
        bus.start_partition(victim)

    numbers = [str(n) for n in range(16)]
    with bus.client(retry_backoff_factor=0.05) as client:
        client.get_queue_sender("orders").send_messages([keyed(body) for body in numbers])
        with killing(kill, seed=13):
            for _ in range(4):
                with suppress(ServiceBusError), client.get_queue_receiver("orders") as receiver:
                    for _ in range(3):
                        _invoice(client, receiver)

        def arrived() -> bool:
            with suppress(ServiceBusError), client.get_queue_receiver("orders") as receiver:
                _invoice(client, receiver)
            with suppress(ServiceBusError), client.get_queue_receiver("invoices") as receiver:
                found: set[str] = set()
                while page := receiver.peek_messages(50):
                    found.update(map(str, page))
                return found == set(numbers)
            return False

        eventually(arrived, within_s=120, what="all invoices")
        found = drain(client, "invoices")
    assert found == dict.fromkeys(numbers, 1)


def _invoice(client: ServiceBusClient, receiver: ServiceBusReceiver) -> None:
    """Settle an order and send its invoice elsewhere, in a transaction."""
    for message in receiver.receive_messages(1, max_wait_time=1):
        tx = client.transaction()
        receiver.complete_message(message, tx=tx)
        invoice = ServiceBusMessage(str(message), partition_key=f"k{message}")
        client.get_queue_sender("invoices").send_messages(invoice, tx=tx)
        while True:
            with suppress(OutcomeUnknownError):
                tx.commit(timeout=5)
                break


def _session(client: ServiceBusClient) -> ServiceBusReceiver:
    return client.get_queue_receiver("sessions", session_id=KEY, max_wait_time=30)


def _answer_in_session(client: ServiceBusClient, receiver: ServiceBusReceiver) -> None:
    """Answer the next request of the session."""
    for message in receiver.receive_messages(1, max_wait_time=2):
        made = ServiceBusMessage(f"answer to {message}", session_id=KEY)
        made.scheduled_enqueue_time_utc = datetime.now(UTC) + timedelta(days=1)
        tx = client.transaction()
        client.get_queue_sender("sessions").send_messages(made, tx=tx)
        receiver.complete_message(message, tx=tx)
        while True:
            with suppress(OutcomeUnknownError):
                tx.commit(timeout=5)
                break


def _request_of(body: str) -> str:
    return body.removeprefix("answer to ")


def _held(client: ServiceBusClient) -> list[str]:
    with suppress(ServiceBusError), client.get_queue_receiver("orders") as receiver:
        return [str(message) for message in receiver.peek_messages(250, sequence_number=1)]
    return []


@pytest.mark.requirement("R127")
def test_a_front_end_that_is_killed_before_the_commit_rolls_back(bus: Bus) -> None:
    with bus.client(retry_backoff_factor=0.05) as client:
        sender, receiver = client.get_queue_sender("orders"), client.get_queue_receiver("orders")
        sender.send_messages(keyed("a request"))
        (message,) = receiver.receive_messages(max_wait_time=10)
        tx = client.transaction()
        sender.send_messages(keyed("an answer"), tx=tx)
        receiver.complete_message(message, tx=tx)
        bus.front_end.kill()
        bus.start_front_end()

        with pytest.raises(ServiceBusConnectionError, match="was rolled back with its connection"):
            tx.commit()
        held = eventually(lambda: _held(client), what="the bus whole again")
        # It is locked as before, and is settled under its lock.
        with client.transaction() as again:
            sender.send_messages(keyed("an answer"), tx=again)
            receiver.complete_message(message, tx=again)

        assert held == ["a request"]
        assert _held(client) == ["an answer"]


@pytest.mark.requirement("R127")
def test_a_partition_that_is_killed_before_the_commit_has_lost_its_locks(bus: Bus) -> None:
    with bus.client() as client:
        sender, receiver = client.get_queue_sender("orders"), client.get_queue_receiver("orders")
        sender.send_messages(keyed("a request"))
        (message,) = receiver.receive_messages(max_wait_time=10)
        tx = client.transaction()
        sender.send_messages(keyed("an answer"), tx=tx)
        receiver.complete_message(message, tx=tx)
        bus.partitions[1].kill()
        bus.start_partition(1)

        with pytest.raises(MessageLockLostError, match="operation 2"):
            tx.commit()
        assert _held(client) == ["a request"]


@pytest.mark.requirement("R127")
def test_a_front_end_that_is_restarted_in_order_rolls_nothing_back(bus: Bus) -> None:
    with bus.client() as client:
        sender, receiver = client.get_queue_sender("orders"), client.get_queue_receiver("orders")
        sender.send_messages(keyed("a request"))
        (message,) = receiver.receive_messages(max_wait_time=10)
        with client.transaction() as tx:
            sender.send_messages(keyed("an answer"), tx=tx)
            assert bus.front_end.terminate() < 15
            bus.start_front_end()
            receiver.complete_message(message, tx=tx)
            assert bus.front_end.terminate() < 15
            bus.start_front_end()

        assert eventually(lambda: _held(client), what="the bus whole again") == ["an answer"]


def sending(number: int, size_bytes: int) -> Any:
    """Return a request that begins a transaction."""
    batch = message_pb2.MessageBatch(messages=[bytes(size_bytes)], partition_keys=[KEY])
    send = transaction_pb2.TransactionSend(entity_path="orders", batch=batch)
    return transaction_pb2.TransactRequest(
        transaction_id=number.to_bytes(16, "big"),
        operations=[transaction_pb2.TransactionOperation(send=send)],
    )


@pytest.mark.requirement("R124")
async def test_a_client_that_never_ends_its_transactions_holds_a_bounded_number(bus: Bus) -> None:
    async with grpc.aio.insecure_channel(bus.front_end_address) as channel:
        stub: Any = transaction_pb2_grpc.TransactionServiceStub(channel)
        calls = [
            stub.Transact(metadata=(CLIENT.said,)) for _ in range(TRANSACTIONS.connection + 20)
        ]
        refused = 0
        for number, call in enumerate(calls):
            await call.write(sending(number, 100))
            refused += (await call.read()).error.reason == "SERVER_BUSY"
        for call in calls:
            call.cancel()

        async def room() -> bool:
            call = stub.Transact(metadata=(CLIENT.said,))
            await call.write(sending(1, 100))
            response = await call.read()
            call.cancel()
            return not response.HasField("error")

        there = False
        for _ in range(200):
            there = there or await room()
            await asyncio.sleep(0 if there else 0.05)

    assert (refused, there) == (20, True)


@pytest.mark.slow
@pytest.mark.requirement("R124")
async def test_a_client_that_does_not_read_its_answers_costs_bounded_memory(bus: Bus) -> None:
    before = bus.front_end.rss_bytes()
    async with grpc.aio.insecure_channel(bus.front_end_address) as channel:
        stub: Any = transaction_pb2_grpc.TransactionServiceStub(channel)

        async def push(number: int) -> None:
            call = stub.Transact(metadata=(CLIENT.said,))
            with suppress(asyncio.CancelledError):
                # Far more than one transaction may hold; each is answered by a refusal.
                for _ in range(200):
                    await call.write(sending(number, MB // 8))

        tasks = [asyncio.ensure_future(push(number)) for number in range(20)]
        await asyncio.wait(tasks, timeout=8)
        for task in tasks:
            task.cancel()
        grown = bus.front_end.rss_bytes() - before

    # What a client's transactions may hold, and what its streams may send ahead.
    assert grown < (64 + 2 * 20 + 50) * MB
    assert _count_with(bus) == 0


def _count_with(bus: Bus) -> int:
    with bus.client() as client:
        return sum(drain(client, wait_s=0.5).values())
