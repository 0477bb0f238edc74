"""`python3 sdk_client.py QUEUE SESSION_QUEUE`: azure-servicebus in a pod, over TLS and WebSockets.

And its administration client, over HTTPS.

Finds the bus as applications do: by the Secret of a policy. Prints a line of JSON with what it saw.
"""

import asyncio
import json
import os
import sys
from typing import Any

from azure.core.exceptions import HttpResponseError
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient

COUNT = 50


async def take(receiver: Any, count: int) -> list[str]:
    """Receive and complete so many messages; fewer if there are none for a while."""
    found: list[str] = []
    while len(found) < count:
        messages = await receiver.receive_messages(count - len(found), max_wait_time=10)
        if not messages:
            break
        for message in messages:
            await receiver.complete_message(message)
            found.append(str(message))
    return found


async def through(transport: TransportType, queue: str, sessions: str) -> dict[str, Any]:
    """Send and receive over one transport; return what came of it."""
    client = ServiceBusClient.from_connection_string(
        os.environ["BENDYBUS_SDK_CONNECTION_STRING"],
        transport_type=transport,
        connection_verify=os.environ["BENDYBUS_CA_FILE"],
        retry_total=5,
    )
    async with client:
        sender = client.get_queue_sender(queue)
        async with sender:
            for number in range(COUNT):
                await sender.send_messages(ServiceBusMessage(f"message {number}"))
        receiver = client.get_queue_receiver(queue)
        async with receiver:
            received = await take(receiver, COUNT)
        sender = client.get_queue_sender(sessions)
        async with sender:
            await sender.send_messages(ServiceBusMessage("in a session", session_id="s"))
        session = client.get_queue_receiver(sessions, session_id=NEXT_AVAILABLE_SESSION)
        async with session:
            await session.session.set_state(b"kept")
            in_session = await take(session, 1)
            state = await session.session.get_state()
    return {"received": len({*received}), "session": in_session, "state": state.decode()}


async def administration(queue: str) -> dict[str, Any]:
    """Create, show, count and delete; return what was seen."""
    client = ServiceBusAdministrationClient.from_connection_string(
        os.environ["BENDYBUS_SDK_CONNECTION_STRING"],
        connection_verify=os.environ["BENDYBUS_CA_FILE"],
    )
    async with client:
        made = await client.create_queue("made", requires_session=True)
        listed = [each.name async for each in client.list_queues()]
        await client.delete_queue("made")
        try:
            # A manifest declares it.
            await client.delete_queue(queue)
        except HttpResponseError as error:
            refused = error.status_code
        namespace = await client.get_namespace_properties()
    return {
        "sessions": made.requires_session,
        "listed": listed,
        "refused": refused,
        "sku": namespace.messaging_sku,
    }


async def main() -> None:
    """Try both transports, and administration."""
    queue, sessions = sys.argv[1:]
    said = {
        transport.name: await through(transport, queue, sessions)
        for transport in (TransportType.Amqp, TransportType.AmqpOverWebsocket)
    }
    print(json.dumps({**said, "administration": await administration(queue)}))


if __name__ == "__main__":
    asyncio.run(main())
