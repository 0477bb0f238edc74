"""The public client of Bendybus, with the names of azure-servicebus.

Belongs here: what applications use, and how it gets to the front end and back. Does not belong
here: rules of the bus (they are in `bendybus.domain`), anything of the servers.
"""

# Modules that applications use by name after `import bendybus.client`.
from bendybus.client import amqp as amqp
from bendybus.client import exceptions as exceptions
from bendybus.client.connection_string import (
    ServiceBusConnectionStringProperties,
    parse_connection_string,
)
from bendybus.client.core.partitions import (
    EntityPartitions,
    FencedSend,
    MessagePage,
    PartitionRange,
    PartitionWait,
    ProducerFence,
)
from bendybus.client.messages.encode import ServiceBusMessageBatch
from bendybus.client.messages.enums import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
    ServiceBusSessionFilter,
    ServiceBusSubQueue,
    TransportType,
)
from bendybus.client.messages.message import ServiceBusMessage
from bendybus.client.messages.received_message import ServiceBusReceivedMessage
from bendybus.client.sync.client import ServiceBusClient
from bendybus.client.sync.lock_renewer import AutoLockRenewer
from bendybus.client.sync.partitions import DrainLease, PartitionBrowser, PartitionSender
from bendybus.client.sync.receiver import ServiceBusReceiver
from bendybus.client.sync.sender import ServiceBusSender
from bendybus.client.sync.sessions import ServiceBusSession
from bendybus.client.sync.transaction import ServiceBusTransaction

__all__ = [
    "NEXT_AVAILABLE_SESSION",
    "AutoLockRenewer",
    "DrainLease",
    "EntityPartitions",
    "FencedSend",
    "MessagePage",
    "PartitionBrowser",
    "PartitionRange",
    "PartitionSender",
    "PartitionWait",
    "ProducerFence",
    "ServiceBusClient",
    "ServiceBusConnectionStringProperties",
    "ServiceBusMessage",
    "ServiceBusMessageBatch",
    "ServiceBusMessageState",
    "ServiceBusReceiveMode",
    "ServiceBusReceivedMessage",
    "ServiceBusReceiver",
    "ServiceBusSender",
    "ServiceBusSession",
    "ServiceBusSessionFilter",
    "ServiceBusSubQueue",
    "ServiceBusTransaction",
    "TransportType",
    "parse_connection_string",
]


def __getattr__(name: str) -> str:
    """Return `__version__`, which few programs ask for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata

    return metadata.version("bendybus")
