"""The enumerations of the API, with the values of azure-servicebus."""

from enum import Enum
from typing import Final

from bendybus.domain import entity
from bendybus.v1 import receiver_pb2


class ServiceBusReceiveMode(str, Enum):
    """Whether a received message is locked until it is settled, or deleted at once."""

    PEEK_LOCK = "peeklock"
    RECEIVE_AND_DELETE = "receiveanddelete"


class ServiceBusSubQueue(str, Enum):
    """A sub-queue of a queue."""

    DEAD_LETTER = "deadletter"
    TRANSFER_DEAD_LETTER = "transferdeadletter"


class ServiceBusMessageState(int, Enum):
    """The state of a message in the queue."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


class ServiceBusSessionFilter(Enum):
    """Which session to accept, other than one by name."""

    NEXT_AVAILABLE = 0


class TransportType(Enum):
    """Accepted for compatibility; Bendybus has one transport, gRPC."""

    Amqp = 1
    AmqpOverWebsocket = 2


NEXT_AVAILABLE_SESSION: Final = ServiceBusSessionFilter.NEXT_AVAILABLE
WIRE_MODES: Final = {
    ServiceBusReceiveMode.PEEK_LOCK: receiver_pb2.RECEIVE_MODE_PEEK_LOCK,
    ServiceBusReceiveMode.RECEIVE_AND_DELETE: receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE,
}
_SUB_QUEUE_SUFFIX: Final = {
    ServiceBusSubQueue.DEAD_LETTER: f"/{entity.DEAD_LETTER_SUFFIX}",
    ServiceBusSubQueue.TRANSFER_DEAD_LETTER: f"/{entity.TRANSFER_DEAD_LETTER_SUFFIX}",
}


def sub_queue_path(name: str, sub_queue: ServiceBusSubQueue | str | None) -> str:
    """Return the path of a queue or of its sub-queue."""
    return name + (_SUB_QUEUE_SUFFIX[ServiceBusSubQueue(sub_queue)] if sub_queue else "")
