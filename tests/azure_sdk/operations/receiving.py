"""Operations of receivers: receive, peek and settle. See operation_table."""

from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError

from tests.azure_sdk.operation_table import (
    Entity,
    complete_all,
    operation,
    several,
    take,
    texts,
)

DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE


@operation
def receive_many(entity: Entity) -> None:
    entity.sender().send_messages(several(100))
    complete_all(entity.receiver(), 100)


@operation
def iterate(entity: Entity) -> None:
    entity.sender().send_messages(several(10))
    receiver = entity.receiver(max_wait_time=3)
    found = []
    for message in receiver:
        receiver.complete_message(message)
        found.append(str(message))
    assert sorted(found, key=int) == [*map(str, range(10))]


@operation
def receive_and_delete(entity: Entity) -> None:
    entity.sender().send_messages(several(10))
    found = take(entity.receiver(receive_mode=DELETE), 10)
    assert len(found) == 10
    assert found[0].lock_token is None


@operation
def prefetch(entity: Entity) -> None:
    entity.sender().send_messages(several(50))
    complete_all(entity.receiver(prefetch_count=20), 50)


@operation
def receive_nothing(entity: Entity) -> None:
    assert entity.receiver().receive_messages(max_wait_time=1) == []


@operation
def peek(entity: Entity) -> None:
    entity.send(*several(30))
    receiver = entity.receiver()
    shown: list[Any] = []
    while page := receiver.peek_messages(
        max_message_count=7, sequence_number=shown[-1].sequence_number + 1 if shown else 0
    ):
        shown += page
    assert sorted(texts(shown), key=int) == [*map(str, range(30))]


@operation
def complete(entity: Entity) -> None:
    entity.send(ServiceBusMessage("x"))
    receiver = entity.receiver()
    [message] = complete_all(receiver, 1)
    with pytest.raises(MessageAlreadySettled):
        receiver.complete_message(message)


@operation
def abandon(entity: Entity) -> None:
    entity.send(ServiceBusMessage("x"))
    receiver = entity.receiver()
    [message] = take(receiver, 1)
    receiver.abandon_message(message)
    [again] = complete_all(receiver, 1)
    assert again.delivery_count == 1


@operation
def abandon_often(entity: Entity) -> None:
    entity.send(ServiceBusMessage("x"))
    receiver = entity.receiver()
    for _ in range(2):
        [message] = take(receiver, 1)
        receiver.abandon_message(message)


@operation
def dead_letter(entity: Entity) -> None:
    entity.sender().send_messages(several(2))
    receiver = entity.receiver()
    for message in take(receiver, 2):
        receiver.dead_letter_message(message, reason="why", error_description="because")
    dead = entity.receiver(sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    [found] = complete_all(dead, 1)
    assert (found.dead_letter_reason, found.dead_letter_error_description) == ("why", "because")


@operation
def defer(entity: Entity) -> None:
    entity.sender().send_messages(several(3))
    receiver = entity.receiver()
    found = take(receiver, 3)
    for message in found:
        receiver.defer_message(message)
    numbers = [each.sequence_number for each in found]
    for message in receiver.receive_deferred_messages(numbers):
        receiver.complete_message(message)


@operation
def renew(entity: Entity) -> None:
    entity.send(ServiceBusMessage("x"))
    receiver = entity.receiver()
    [message] = take(receiver, 1)
    before = message.locked_until_utc
    assert receiver.renew_message_lock(message) > before
    receiver.complete_message(message)
    # As a program that does not know that it is settled.
    message._settled = False
    with pytest.raises(MessageLockLostError):
        receiver.renew_message_lock(message)


@operation
def complete_late(entity: Entity) -> None:
    entity.send(ServiceBusMessage("x"))
    receiver = entity.receiver()
    [message] = take(receiver, 1)
    [again] = take(receiver, 1)
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(message)
    assert again.delivery_count == 1
    receiver.complete_message(again)
