"""Operations of topics and subscriptions. See operation_table."""

from datetime import UTC, datetime, timedelta

from azure.servicebus import ServiceBusMessage

from tests.azure_sdk.operation_table import (
    Entity,
    complete_all,
    operation,
    several,
    take,
    texts,
)

HOUR = timedelta(hours=1)


@operation
def publish(entity: Entity) -> None:
    entity.sender().send_messages(several(10))
    assert sorted(texts(complete_all(entity.receiver(), 10))) == [*map(str, range(10))]


@operation
def dead_letter_of_subscription(entity: Entity) -> None:
    entity.sender().send_messages(several(2))
    receiver = entity.receiver()
    for message in take(receiver, 2):
        receiver.dead_letter_message(message, reason="why")
    [found] = complete_all(entity.receiver(sub_queue="deadletter"), 1)
    assert found.dead_letter_reason == "why"


@operation
def defer_on_subscription(entity: Entity) -> None:
    entity.send(ServiceBusMessage("x"))
    receiver = entity.receiver()
    assert texts(receiver.peek_messages()) == ["x"]
    [message] = take(receiver, 1)
    receiver.defer_message(message)
    [again] = receiver.receive_deferred_messages(message.sequence_number)
    receiver.complete_message(again)


@operation
def schedule_on_topic(entity: Entity) -> None:
    sender = entity.sender()
    sender.cancel_scheduled_messages(sender.schedule_messages(several(2), datetime.now(UTC) + HOUR))
    sender.schedule_messages(ServiceBusMessage("x"), datetime.now(UTC) + timedelta(seconds=1))
    complete_all(entity.receiver(), 1)


@operation
def sessions_of_subscription(entity: Entity) -> None:
    entity.send(*several(3, session_id="a"), ServiceBusMessage("x", session_id="b"))
    assert texts(complete_all(entity.receiver(session_id="a"), 3)) == ["0", "1", "2"]
    listed = entity.listening.list_subscription_sessions(entity.name, "all")
    assert list(listed) == ["b"]
