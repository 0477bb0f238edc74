"""Operations of senders. See operation_table."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
)

from bendybus.domain import limits
from tests.azure_sdk.operation_table import Entity, complete_all, operation, several, texts

HOUR = timedelta(hours=1)
# How much of a message the SDK takes for itself, at most.
ROOM = 200
# Of a batch.
PART = 8 * 1024


@operation
def send_one(entity: Entity) -> None:
    entity.send(ServiceBusMessage("one"))
    assert texts(complete_all(entity.receiver(), 1)) == ["one"]


@operation
def send_a_list(entity: Entity) -> None:
    entity.sender().send_messages(several(20))
    assert sorted(texts(complete_all(entity.receiver(), 20)), key=int) == [*map(str, range(20))]


@operation
def send_a_batch(entity: Entity) -> None:
    sender = entity.sender()
    batch = sender.create_message_batch()
    assert batch.max_size_in_bytes == limits.STANDARD_BATCH_BYTES_MAX
    count = limits.STANDARD_BATCH_BYTES_MAX // PART
    for _ in range(count):
        batch.add_message(ServiceBusMessage(b"x" * (PART - ROOM)))
    with pytest.raises(MessageSizeExceededError):
        batch.add_message(ServiceBusMessage(b"x" * PART))
    sender.send_messages(batch)


@operation
def send_too_much(entity: Entity) -> None:
    sender, most = entity.sender(), limits.STANDARD_MESSAGE_BYTES_MAX
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages(ServiceBusMessage(b"x" * (most + 1)))
    sender.send_messages(ServiceBusMessage(b"x" * (most - ROOM)))


@operation
def send_by_key(entity: Entity) -> None:
    entity.send(*several(10, partition_key="key"))
    assert texts(complete_all(entity.receiver(), 10)) == [*map(str, range(10))]


@operation
def send_on(entity: Entity) -> None:
    entity.send(ServiceBusMessage("on", application_properties={"kept": 1}))
    [received] = complete_all(entity.receiver(), 1)
    entity.send(received)
    [shown] = entity.receiver().peek_messages()
    assert (str(shown), shown.application_properties) == ("on", {b"kept": 1})


@operation
def send_twice(entity: Entity) -> None:
    entity.send(*(ServiceBusMessage("x", message_id="id", partition_key="id") for _ in range(2)))


@operation
def schedule(entity: Entity) -> None:
    sender, due = entity.sender(), datetime.now(UTC) + HOUR
    numbers = sender.schedule_messages(ServiceBusMessage("a"), due)
    numbers += sender.schedule_messages(several(3), due)
    assert len(set(numbers)) == 4
    shown = entity.receiver().peek_messages(max_message_count=10)
    assert {each.sequence_number for each in shown} == set(numbers)


@operation
def schedule_soon(entity: Entity) -> None:
    entity.sender().schedule_messages(several(2), datetime.now(UTC) + timedelta(seconds=1))
    complete_all(entity.receiver(), 2)


@operation
def cancel(entity: Entity) -> None:
    sender = entity.sender()
    numbers = sender.schedule_messages(several(3), datetime.now(UTC) + HOUR)
    sender.cancel_scheduled_messages(numbers[:2])


@operation
def send_without_right(entity: Entity) -> None:
    refused = (ServiceBusAuthenticationError, ServiceBusAuthorizationError)
    entity.sending, entity.listening = entity.listening, entity.sending
    with pytest.raises(refused):
        entity.send(ServiceBusMessage("x"))
    with pytest.raises(refused):
        entity.receiver()
