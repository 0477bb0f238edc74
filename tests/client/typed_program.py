"""What programs written for azure-servicebus do, with types that a checker follows.

`make check` checks it as it is; `test_typed_program` with the names of azure-servicebus, too.
"""

import datetime

from bendybus.client import (
    NEXT_AVAILABLE_SESSION,
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSession,
    ServiceBusSubQueue,
    TransportType,
    aio,
)
from bendybus.client.exceptions import (
    MessageLockLostError,
    MessageSizeExceededError,
    OperationTimeoutError,
    ServiceBusError,
    SessionLockLostError,
)
from bendybus.client.management import (
    CorrelationRuleFilter,
    QueueProperties,
    QueueRuntimeProperties,
    ServiceBusAdministrationClient,
    SqlRuleFilter,
    TopicProperties,
)

CONNECTION = "Endpoint=sb://bus.example/;SharedAccessKeyName=a;SharedAccessKey=b"


def send(sender: ServiceBusSender) -> list[int]:
    """Send, at once and later."""
    batch = sender.create_message_batch()
    try:
        batch.add_message(ServiceBusMessage("one", session_id="s", application_properties={"a": 1}))
    except (ValueError, MessageSizeExceededError):
        print("it does not fit")
    sender.send_messages(batch)
    sender.send_messages(batch, timeout=10)
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1)
    numbers = sender.schedule_messages([ServiceBusMessage("later")], later)
    sender.cancel_scheduled_messages(numbers)
    return numbers


def receive(receiver: ServiceBusReceiver) -> str:
    """Receive from a session, and keep something for it."""
    session: ServiceBusSession = receiver.session
    name: str = session.session_id
    state: bytes = session.get_state()
    session.set_state(state + b"1")
    expiry: datetime.datetime = session.renew_lock()
    text = state.decode() + name.upper() + expiry.isoformat()
    for message in receiver.receive_messages(max_message_count=10, max_wait_time=5):
        received: ServiceBusReceivedMessage = message
        try:
            receiver.complete_message(received)
        except (MessageLockLostError, SessionLockLostError, OperationTimeoutError):
            receiver.abandon_message(received)
        text += str(received) + str(received.delivery_count)
    return text


def main() -> None:
    """Use clients of all kinds."""
    client = ServiceBusClient.from_connection_string(
        CONNECTION, transport_type=TransportType.Amqp, retry_total=3
    )
    renewer = AutoLockRenewer()
    with client, client.get_queue_sender("orders") as sender:
        send(sender)
        with client.get_queue_receiver(
            "orders",
            session_id=NEXT_AVAILABLE_SESSION,
            receive_mode=ServiceBusReceiveMode.PEEK_LOCK,
            max_wait_time=5,
            auto_lock_renewer=renewer,
        ) as receiver:
            renewer.register(receiver, receiver.session, max_lock_renewal_duration=60)
            print(receive(receiver), receiver.session.session_id)
        with client.get_subscription_receiver(
            "topic", "all", sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as dead:
            for message in dead.peek_messages(5):
                print(message.dead_letter_reason, message.sequence_number)
                if message.enqueued_time_utc is not None:
                    print(message.enqueued_time_utc.isoformat())
    renewer.close()
    with ServiceBusAdministrationClient.from_connection_string(CONNECTION) as administration:
        queue: QueueProperties = administration.create_queue("orders", requires_session=True)
        queue.lock_duration = datetime.timedelta(seconds=30)
        administration.update_queue(queue)
        runtime: QueueRuntimeProperties = administration.get_queue_runtime_properties("orders")
        print(runtime.active_message_count, runtime.size_in_bytes)
        topic: TopicProperties = administration.create_topic("topic")
        print(topic.name, [each.name for each in administration.list_queues()])
        administration.create_subscription("topic", "all")
        administration.create_rule("topic", "all", "r", filter=SqlRuleFilter("a = 1"))
        administration.create_rule(
            "topic", "all", "c", filter=CorrelationRuleFilter(correlation_id="x")
        )


async def asynchronously() -> None:
    """Do the same on a loop."""
    try:
        async with aio.ServiceBusClient.from_connection_string(CONNECTION) as client:
            async with client.get_queue_receiver("orders", session_id="s") as receiver:
                session: aio.ServiceBusSession = receiver.session
                state: bytes = await session.get_state()
                await session.set_state(state.decode())
                print((await receiver.session.renew_lock()).isoformat())
                async for message in receiver:
                    await receiver.complete_message(message)
            async with client.get_topic_sender("topic") as sender:
                batch = await sender.create_message_batch()
                batch.add_message(ServiceBusMessage(b"x"))
                await sender.send_messages(batch)
    except ServiceBusError as error:
        print(error.message)
