"""Batches that a client of azure-servicebus fills to the limit, whatever is in them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError

from bendybus.domain import limits
from bendybus.domain.limits import Tier
from tests.integration.amqp import AmqpBus, take

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R566")]
SMALL: Final[dict[str, dict[str, Any]]] = {
    "one-byte": {"body": b"x"},
    "text": {"body": "hello"},
    "many-properties": {
        "body": b"x",
        "application_properties": {f"p{number}": number for number in range(20)},
    },
    "flags": {
        "body": b"x",
        "application_properties": {f"f{number}": True for number in range(20)},
    },
    "long-keys": {"body": b"x", "partition_key": "k" * 128, "message_id": "m" * 128},
    "kilobytes": {"body": b"x" * 1_000},
}


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    made = AmqpBus(Path(tmp_path_factory.mktemp("bus")), partitions=16, tier=Tier.STANDARD)
    yield made
    made.end()


def filled(sender: ServiceBusSender, **message: Any) -> tuple[ServiceBusMessageBatch, int]:
    """Return a batch with as many messages as the SDK puts into it, and how many these are."""
    batch, count = sender.create_message_batch(), 0
    while True:
        try:
            batch.add_message(ServiceBusMessage(**message))
        except ValueError:
            return batch, count
        count += 1


@pytest.mark.parametrize("kind", SMALL)
def test_a_full_batch_is_accepted_and_received(bus: AmqpBus, kind: str) -> None:
    with bus.administration() as administration:
        administration.create_queue(kind)
    with bus.sdk() as client, client.get_queue_sender(kind) as sender:
        batch, count = filled(sender, **SMALL[kind])

        sender.send_messages(batch)

        with client.get_queue_receiver(kind, receive_mode="receiveanddelete") as receiver:
            assert len(take(receiver, count)) == count


@pytest.fixture
def premium(tmp_path: Path) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path, partitions=1)
    yield made
    made.end()


def test_more_messages_than_a_unit_can_have_are_too_many(premium: AmqpBus) -> None:
    with premium.administration() as administration:
        administration.create_queue("many")
    with premium.sdk() as client, client.get_queue_sender("many") as sender:
        batch = sender.create_message_batch()
        while len(batch) <= limits.FRAME_MESSAGES_MAX:
            batch.add_message(ServiceBusMessage(b"x"))
        small = [ServiceBusMessage(b"one"), ServiceBusMessage(b"two")]

        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(batch)
        sender.send_messages(small)

        with client.get_queue_receiver("many") as receiver:
            assert [str(each) for each in take(receiver, 2)] == ["one", "two"]


def test_a_message_beyond_the_limit_is_refused_and_one_at_the_limit_is_not(bus: AmqpBus) -> None:
    with bus.administration() as administration:
        administration.create_queue("single")
    with bus.sdk() as client, client.get_queue_sender("single") as sender:
        sender.send_messages(ServiceBusMessage(b"x" * (256 * 1024 - 77)))

        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * (256 * 1024)))
