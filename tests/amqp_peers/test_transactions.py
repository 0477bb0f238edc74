"""Transactions as Qpid Proton makes them: all of one is done at its commit, or nothing of it."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from proton import Message, symbol
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container

from tests.integration.amqp import AmqpBus

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def amqp_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path_factory.mktemp("amqp"), partitions=2)
    yield made
    made.end()


@pytest.fixture
def queue(amqp_bus: AmqpBus) -> str:
    name = f"queue-{uuid.uuid4().hex[:12]}"
    with amqp_bus.administration() as administration:
        administration.create_queue(name)
    return name


class Client(MessagingHandler, TransactionHandler):  # type: ignore[misc]
    """One connection; `work` does what the test wants in each transaction that is declared."""

    def __init__(self, address: str, queue: str, work: Callable[["Client"], None]) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.log: list[str] = []
        self.deliveries: list[Any] = []
        self.declared = 0
        self._address, self._queue, self._work = address, queue, work

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(self._address, allowed_mechs="ANONYMOUS")
        self.sender = event.container.create_sender(self.connection, self._queue)
        self.receiver = event.container.create_receiver(self.connection, self._queue)
        self.timer = event.container.schedule(TIMEOUT_S, self)
        self.declare()

    def on_timer_task(self, event: Any) -> None:
        self.log.append("timed out")
        self.connection.close()

    def declare(self) -> None:
        self.container.declare_transaction(self.connection, handler=self)

    def close(self) -> None:
        self.timer.cancel()
        self.connection.close()

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self.declared += 1
        self._work(self)

    def on_message(self, event: Any) -> None:
        self.deliveries.append(event.delivery)
        self._work(self)

    def on_transaction_committed(self, event: Any) -> None:
        self.log.append("committed")
        self._work(self)

    def on_transaction_aborted(self, event: Any) -> None:
        self.log.append("aborted")
        self._work(self)

    def on_transaction_commit_failed(self, event: Any) -> None:
        self.log.append("failed")
        self._work(self)


def keyed(body: str) -> Message:
    """Return a message for the one partition of its key."""
    return Message(body=body, annotations={symbol("x-opt-partition-key"): "key"})


def run(bus: AmqpBus, queue: str, work: Callable[[Client], None]) -> list[str]:
    """Run a client until it closes; return its log."""
    client = Client(bus.amqp_address, queue, work)
    Container(client).run()
    return client.log


def active(bus: AmqpBus, queue: str) -> int:
    with bus.administration() as administration:
        return administration.get_queue_runtime_properties(queue).active_message_count


@pytest.mark.parametrize(("ending", "stored"), [("commit", 3), ("abort", 0)])
def test_messages_are_sent_at_the_commit_or_never(
    amqp_bus: AmqpBus, queue: str, ending: str, stored: int
) -> None:
    def work(client: Client) -> None:
        if client.log:
            client.close()
            return
        for number in range(3):
            client.transaction.send(client.sender, keyed(str(number)))
        getattr(client.transaction, ending)()

    log = run(amqp_bus, queue, work)

    assert log == ["committed" if ending == "commit" else "aborted"]
    assert active(amqp_bus, queue) == stored


def test_what_is_accepted_in_a_transaction_that_is_aborted_stays(
    amqp_bus: AmqpBus, queue: str
) -> None:
    with amqp_bus.sdk() as sdk, sdk.get_queue_sender(queue) as sender:
        from azure.servicebus import ServiceBusMessage

        sender.send_messages(ServiceBusMessage("one"))

    def work(client: Client) -> None:
        if client.log == ["aborted", "committed"]:
            client.close()
        elif client.log == ["aborted"] and client.declared == 1:
            # Proton releases what it did not get to accept.
            client.deliveries.clear()
            client.declare()
        elif not client.deliveries:
            client.receiver.flow(1)
        else:
            client.transaction.accept(client.deliveries[0])
            if client.log:
                client.transaction.commit()
            else:
                client.transaction.abort()

    log = run(amqp_bus, queue, work)

    assert log == ["aborted", "committed"]
    assert active(amqp_bus, queue) == 0


def test_a_connection_that_ends_rolls_back(amqp_bus: AmqpBus, queue: str) -> None:
    def work(client: Client) -> None:
        client.transaction.send(client.sender, keyed("x"))
        client.close()

    run(amqp_bus, queue, work)

    assert active(amqp_bus, queue) == 0
