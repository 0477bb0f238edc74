"""`python3 sdk_client.py QUEUE SESSION_QUEUE`: azure-servicebus in a pod, over TLS and WebSockets.

Finds the bus as applications do: by the Secret of a policy. Prints a line of JSON with what it saw.
"""

import asyncio
import json
import os
import sys
from typing import Any

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient

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


async def main() -> None:
    """Try both transports."""
    queue, sessions = sys.argv[1:]
    said = {
        transport.name: await through(transport, queue, sessions)
        for transport in (TransportType.Amqp, TransportType.AmqpOverWebsocket)
    }
    print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main())
