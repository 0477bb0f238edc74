"""The operations that are walked, as an application performs them with the asynchronous client.

A program of its own, so that it is traced like the servers. It reads one line a command, `WALK STEP
COUNT`, and prints one when that is done. `prepare` and `clean` bring about what a walk needs and
take away what it leaves; only `walk` is traced, so that a walk is one operation and nothing else.
"""

import asyncio
import sys
from typing import Final

from bendybus.client import ServiceBusMessage, ServiceBusReceivedMessage
from bendybus.client.aio import ServiceBusClient, ServiceBusReceiver

MANIFEST: Final = """\
apiVersion: bendybus.io/v1alpha1
kind: BusNamespace
metadata: {name: walks}
spec: {sku: {tier: Premium}, premiumMessagingPartitions: 2}
---
apiVersion: bendybus.io/v1alpha1
kind: Queue
metadata: {name: plain}
spec: {namespaceRef: {name: walks}, lockDuration: PT5M}
---
apiVersion: bendybus.io/v1alpha1
kind: Queue
metadata: {name: in-sessions}
spec: {namespaceRef: {name: walks}, lockDuration: PT5M, requiresSession: true}
---
apiVersion: bendybus.io/v1alpha1
kind: Queue
metadata: {name: target}
spec: {namespaceRef: {name: walks}, lockDuration: PT5M}
---
apiVersion: bendybus.io/v1alpha1
kind: Queue
metadata: {name: source}
spec: {namespaceRef: {name: walks}, forwardTo: target}
---
apiVersion: bendybus.io/v1alpha1
kind: Topic
metadata: {name: events}
spec: {namespaceRef: {name: walks}}
---
apiVersion: bendybus.io/v1alpha1
kind: Subscription
metadata: {name: all}
spec: {namespaceRef: {name: walks}, topicName: events, lockDuration: PT5M}
"""
_WAIT_S: Final = 20.0
_KEY: Final = "UA"


class Application:
    """Senders and receivers that stay open from one operation to the next."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._client = client
        self._sender = client.get_queue_sender("plain")
        self._publisher = client.get_topic_sender("events")
        self._source = client.get_queue_sender("source")
        self._in_sessions = client.get_queue_sender("in-sessions")
        self._receiver = client.get_queue_receiver("plain")
        self._subscriber = client.get_subscription_receiver("events", "all")
        self._target = client.get_queue_receiver("target")
        self._held: list[ServiceBusReceivedMessage] = []
        self._sessions: list[ServiceBusReceiver] = []

    async def perform(self, walk: str, step: str, count: int) -> None:
        """Perform a step of a walk so many times."""
        work = getattr(self, walk if step == "walk" else f"{step}_{walk}", _nothing)
        for number in range(count):
            await work(number)

    async def send(self, _: int) -> None:
        """Send a message without a key."""
        await self._sender.send_messages(_message())

    async def clean_send(self, _: int) -> None:
        """Take it out of its queue."""
        await _drain(self._receiver)

    async def prepare_receive(self, _: int) -> None:
        """Let a message wait."""
        await self._sender.send_messages(_message())

    async def receive(self, _: int) -> None:
        """Receive a message that waits."""
        self._held.append(await _received(self._receiver))

    async def clean_receive(self, _: int) -> None:
        """Complete it."""
        await self._receiver.complete_message(self._held.pop())

    async def prepare_settle(self, number: int) -> None:
        """Hold a message."""
        await self.prepare_receive(number)
        await self.receive(number)

    async def settle(self, _: int) -> None:
        """Complete a message."""
        await self._receiver.complete_message(self._held.pop())

    async def publish(self, _: int) -> None:
        """Send a message to a topic that has one subscription."""
        await self._publisher.send_messages(_message())

    async def clean_publish(self, _: int) -> None:
        """Take it out of the subscription."""
        await _drain(self._subscriber)

    async def prepare_session(self, number: int) -> None:
        """Let a message wait in a session of its own."""
        await self._in_sessions.send_messages(_message(session_id=f"session-{number}"))

    async def session(self, number: int) -> None:
        """Accept a session by its name, and receive its message."""
        receiver = self._client.get_queue_receiver("in-sessions", session_id=f"session-{number}")
        self._sessions.append(receiver)
        self._held.append(await _received(receiver))

    async def clean_session(self, _: int) -> None:
        """Complete the message and free the session."""
        receiver = self._sessions.pop()
        await receiver.complete_message(self._held.pop())
        await receiver.close()

    async def prepare_transaction(self, number: int) -> None:
        """Hold a message of the partition of the key."""
        await self._sender.send_messages(_message(partition_key=_KEY))
        await self.receive(number)

    async def transaction(self, _: int) -> None:
        """Complete a message and send another one, in one transaction."""
        async with self._client.transaction() as tx:
            await self._receiver.complete_message(self._held.pop(), tx=tx)
            await self._sender.send_messages(_message(partition_key=_KEY), tx=tx)

    async def clean_transaction(self, _: int) -> None:
        """Take what was sent out of its queue."""
        await _drain(self._receiver)

    async def forward(self, _: int) -> None:
        """Send a message to a queue that forwards it."""
        await self._source.send_messages(_message())

    async def clean_forward(self, _: int) -> None:
        """Take it out of the queue to which it went."""
        await _drain(self._target)


async def _nothing(_: int) -> None:
    """Do what a walk needs that has no such step."""


def _message(
    *, session_id: str | None = None, partition_key: str | None = None
) -> ServiceBusMessage:
    return ServiceBusMessage(b"a message", session_id=session_id, partition_key=partition_key)


async def _received(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    messages = await receiver.receive_messages(1, max_wait_time=_WAIT_S)
    if not messages:
        raise RuntimeError(f"no message came out of {receiver} within {_WAIT_S:g} s")
    return messages[0]


async def _drain(receiver: ServiceBusReceiver) -> None:
    await receiver.complete_message(await _received(receiver))


async def main(connection_string: str) -> None:
    """Perform what standard input says, until it ends."""
    loop = asyncio.get_running_loop()
    async with ServiceBusClient.from_connection_string(connection_string) as client:
        application = Application(client)
        print("ready", flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            walk, step, count = line.split()
            await application.perform(walk, step, int(count))
            print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
