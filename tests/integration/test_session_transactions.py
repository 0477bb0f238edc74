"""Messages of sessions in transactions, through real processes, with both clients."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bendybus.client import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    aio,
)
from bendybus.client.exceptions import (
    InvalidOperationError,
    MessageLockLostError,
    SessionLockLostError,
)
from bendybus.domain import partitioning
from tests.integration.processes import Bus
from tests.integration.test_sessions import accept, bodies, send


@pytest.fixture
def queue(new_queue: Callable[..., str]) -> str:
    """A session-aware queue, over all partitions."""
    return new_queue(requires_session=True, lock_duration="PT30S")


@pytest.fixture
def plain_bus(tmp_path: Path) -> Iterator[Bus]:
    """A bus of one partition."""
    made = Bus(tmp_path, partitions=1)
    yield made
    made.end()


def answer(body: str, session_id: str) -> ServiceBusMessage:
    """Return a message of a session."""
    return ServiceBusMessage(body, session_id=session_id)


def take(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """Receive this many messages."""
    taken: list[ServiceBusReceivedMessage] = []
    while len(taken) < count:
        more = receiver.receive_messages(count - len(taken), max_wait_time=20)
        assert more, "no message came"
        taken += more
    return taken


@pytest.mark.requirement("R230")
def test_a_message_of_a_session_is_settled_with_its_answer_or_not_at_all(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, "a", "0", "1", "2", "3")
    sender = client.get_queue_sender(queue)
    with accept(client, queue, "a") as receiver:
        messages = take(receiver, 4)
        tx = client.transaction()
        for message in messages:
            receiver.complete_message(message, tx=tx)
        sender.send_messages(answer("not sent", "a"), tx=tx)
        tx.rollback()
        # They are locked by the session as before.
        assert receiver.receive_messages(4, max_wait_time=0.5) == []

        with client.transaction() as tx:
            receiver.complete_message(messages[0], tx=tx)
            receiver.defer_message(messages[1], tx=tx)
            receiver.dead_letter_message(messages[2], "bad", tx=tx)
            receiver.abandon_message(messages[3], tx=tx)
            sender.send_messages(answer("answer", "a"), tx=tx)
            with pytest.raises(TypeError, match="renew the session lock"):
                receiver.renew_message_lock(messages[3], tx=tx)

        # What is settled is not named any more when the receiver attaches again.
        assert receiver._link is not None
        assert not receiver._link._held
        assert bodies(take(receiver, 2)) == ["3", "answer"]
        [deferred] = receiver.receive_deferred_messages([messages[1].sequence_number or 0])
        assert str(deferred) == "1"


@pytest.mark.requirement("R233")
@pytest.mark.parametrize("prefetch", [0, 10])
def test_a_session_stays_in_order_through_what_transactions_abandon(
    client: ServiceBusClient, queue: str, prefetch: int
) -> None:
    count = 40
    send(client, queue, "a", *map(str, range(count)))
    done: list[str] = []
    with accept(client, queue, "a", prefetch_count=prefetch) as receiver:
        turn = 0
        while len(done) < count:
            (message,) = receiver.receive_messages(1, max_wait_time=20)
            turn += 1
            with client.transaction() as tx:
                if turn % 3:
                    receiver.complete_message(message, tx=tx)
                    done.append(str(message))
                else:
                    receiver.abandon_message(message, tx=tx)

    assert done == list(map(str, range(count)))


@pytest.mark.requirement("R231")
def test_a_session_that_is_lost_refuses_the_commit(client: ServiceBusClient, queue: str) -> None:
    send(client, queue, "a", "0", "1")
    tx = client.transaction()
    with accept(client, queue, "a") as receiver:
        message, other = take(receiver, 2)
        receiver.complete_message(message, tx=tx)
        receiver.complete_message(other)
    client.get_queue_sender(queue).send_messages(answer("answer", "a"), tx=tx)

    with pytest.raises(SessionLockLostError, match="operation 1"):
        tx.commit()

    with accept(client, queue, "a") as receiver:
        assert bodies(receiver.peek_messages(5)) == ["0"]


@pytest.mark.requirement("R231")
def test_a_message_that_was_settled_before_refuses_the_commit_and_not_its_session(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, "a", "0", "1")
    with accept(client, queue, "a") as receiver:
        message, other = take(receiver, 2)
        tx = client.transaction()
        receiver.complete_messages([message, other], tx=tx)
        receiver.complete_message(message)
        with pytest.raises(MessageLockLostError, match="operation 1"):
            tx.commit()
        receiver.complete_message(other)


@pytest.mark.requirement("R232")
def test_two_sessions_are_refused_with_the_operation_or_at_the_commit(
    client: ServiceBusClient, queue: str
) -> None:
    one, other = _of_one_partition()
    for name in (one, other):
        send(client, queue, name, "0")
    with accept(client, queue, one) as first, accept(client, queue, other) as second:
        (a,), (b,) = take(first, 1), take(second, 1)
        with client.transaction() as tx:
            first.complete_message(a, tx=tx)
            with pytest.raises(InvalidOperationError, match="different sessions"):
                second.complete_message(b, tx=tx)
        tx = client.transaction()
        second.complete_message(b, tx=tx)
        client.get_queue_sender(queue).send_messages(answer("elsewhere", one), tx=tx)
        with pytest.raises(InvalidOperationError, match="different sessions"):
            tx.commit()
        second.complete_message(b)


def _of_one_partition() -> tuple[str, str]:
    found: dict[int, str] = {}
    for name in map(str, range(100)):
        other = found.setdefault(partitioning.partition_of(name, 4), name)
        if other != name:
            return other, name
    raise AssertionError


@pytest.mark.requirement("R232")
def test_two_sessions_of_a_plain_queue_are_one_transaction(
    plain_bus: Bus,
) -> None:
    with plain_bus.administration() as administration:
        administration.create_queue("plain-sessions", requires_session=True)
    with plain_bus.client() as client:
        for name in ("a", "b"):
            send(client, "plain-sessions", name, "0")
        with (
            accept(client, "plain-sessions", "a") as first,
            accept(client, "plain-sessions", "b") as second,
            client.transaction() as tx,
        ):
            first.complete_message(take(first, 1)[0], tx=tx)
            second.complete_message(take(second, 1)[0], tx=tx)
            sender = client.get_queue_sender("plain-sessions")
            sender.send_messages(answer("answer", "c"), tx=tx)
        with accept(client, "plain-sessions", "c") as third:
            assert bodies(take(third, 1)) == ["answer"]


@pytest.mark.requirement("R230", "R231")
async def test_the_asynchronous_client_settles_sessions_in_transactions(
    bus: Bus, client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, "a", "0", "1")
    made = aio.ServiceBusClient.from_connection_string(bus.connection_string)
    async with made as own:
        async with own.get_queue_receiver(queue, session_id="a") as receiver:
            messages: list[ServiceBusReceivedMessage] = []
            while len(messages) < 2:
                messages += await receiver.receive_messages(2, max_wait_time=20)
            async with own.transaction() as tx:
                await receiver.complete_message(messages[0], tx=tx)
                await receiver.abandon_message(messages[1], tx=tx)
            (again,) = await receiver.receive_messages(1, max_wait_time=20)
            assert (str(again), again.delivery_count) == ("1", 1)
            lost = own.transaction()
            await receiver.complete_message(again, tx=lost)
        with pytest.raises(SessionLockLostError):
            await lost.commit()
