"""Sends, locks, renews, unlocks, completes and deletes with azure-servicebus 0.21, the REST client.

Arguments: the address of a bus, its policy and key, a queue, a topic, a subscription. Prints JSON.
"""

import json
import sys
from datetime import datetime
from typing import Any

# This version differs from the one that other tests use.
from azure.servicebus import Message, ServiceBusService  # type: ignore[attr-defined]


def seen(message: Any) -> dict[str, Any]:
    """Return the parts of a message."""
    broker = message.broker_properties or {}
    return {
        "body": None if message.body is None else message.body.decode(),
        "id": broker.get("MessageId"),
        "label": broker.get("Label"),
        "number": broker.get("SequenceNumber"),
        "count": broker.get("DeliveryCount"),
        "type": message.type,
        "custom": {
            name: str(value)
            for name, value in message.custom_properties.items()
            if name.lower() in ("color", "weight", "half", "fresh", "day")
        },
    }


def main(address: str, policy: str, key: str, queue: str, topic: str, subscription: str) -> None:
    """Do all of it."""
    # The client puts a namespace before an end of its own: together they are the address.
    namespace, _, last = address.rpartition(".")
    bus = ServiceBusService(
        namespace,
        shared_access_key_name=policy,
        shared_access_key_value=key,
        host_base=f".{last}",
    )
    found: list[Any] = []
    properties = {
        "color": 'a "red" one',
        "weight": 12,
        "half": 0.5,
        "fresh": True,
        "day": datetime(2026, 12, 4, 10, 0, 0),
    }
    bus.send_queue_message(
        queue,
        Message(
            b"first",
            custom_properties=properties,
            broker_properties=json.dumps({"MessageId": "one", "Label": "l", "TimeToLive": "600"}),
        ),
    )
    locked = bus.receive_queue_message(queue, peek_lock=True, timeout=5)
    found.append(seen(locked))
    locked.renew_lock()
    locked.unlock()
    again = bus.receive_queue_message(queue, peek_lock=True, timeout=5)
    found.append(seen(again))
    again.delete()
    bus.send_queue_message_batch(queue, [Message("second"), Message("third")])
    found += [seen(bus.receive_queue_message(queue, peek_lock=False, timeout=5)) for _ in range(2)]
    found.append(seen(bus.receive_queue_message(queue, peek_lock=True, timeout=1)))
    bus.send_topic_message(topic, Message(b"published"))
    copy = bus.receive_subscription_message(topic, subscription, peek_lock=True, timeout=5)
    found.append(seen(copy))
    copy.delete()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
