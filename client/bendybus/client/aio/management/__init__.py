"""Asynchronous administration, with the names of `azure.servicebus.aio.management`."""

from bendybus.client.aio.management.administration import ServiceBusAdministrationClient

__all__ = ["ServiceBusAdministrationClient"]
