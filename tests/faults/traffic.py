"""Partition keys and traffic for tests that break something."""

from collections import Counter

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.exceptions import ServiceBusError
from bendybus.domain import partitioning


def key_of(partition: int, count: int = 4) -> str:
    """Return a partition key that belongs to a partition."""
    return next(
        key for key in map(str, range(1_000)) if partitioning.partition_of(key, count) == partition
    )


def drain(client: ServiceBusClient, name: str = "orders", *, wait_s: float = 2.0) -> Counter[str]:
    """Receive and complete everything; return how often each body came."""
    bodies: Counter[str] = Counter()
    with client.get_queue_receiver(name) as receiver:
        while messages := receiver.receive_messages(100, max_wait_time=wait_s):
            bodies.update(map(str, messages))
            receiver.complete_messages(messages)
    return bodies


def sends(sender: object, message: ServiceBusMessage) -> bool:
    """Return whether a message can be sent."""
    try:
        sender.send_messages(message)  # type: ignore[attr-defined]
    except ServiceBusError:
        return False
    return True
