"""The asynchronous surface of the client, with the names of `azure.servicebus.aio`."""

from bendybus.client.aio.client import ServiceBusClient
from bendybus.client.aio.lock_renewer import AutoLockRenewer
from bendybus.client.aio.partitions import DrainLease, PartitionBrowser, PartitionSender
from bendybus.client.aio.receiver import ServiceBusReceiver
from bendybus.client.aio.sender import ServiceBusSender
from bendybus.client.aio.sessions import ServiceBusSession
from bendybus.client.aio.transaction import ServiceBusTransaction

__all__ = [
    "AutoLockRenewer",
    "DrainLease",
    "PartitionBrowser",
    "PartitionSender",
    "ServiceBusClient",
    "ServiceBusReceiver",
    "ServiceBusSender",
    "ServiceBusSession",
    "ServiceBusTransaction",
]
