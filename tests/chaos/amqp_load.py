"""Load with azure-servicebus over AMQP; see `load`.

The SDK repeats sends under no name but the MessageId, so the queue detects duplicates. What it
raises says little about what was done: every error is of unknown outcome here.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from bendybus.client.management import ServiceBusAdministrationClient
from tests.chaos.history import History, Item, Kind, received

AMQP: Final = "amqp"
AMQP_SESSIONS: Final = "amqp-sessions"
PLACES: Final = (AMQP, AMQP_SESSIONS)
SESSIONS: Final = 3
# Connections of each front end that send, one message at a time.
SENDERS: Final = 4
# Of a call, its repeats included; then it is cancelled.
CALL_S: Final = 12.0
WAIT_S: Final = 0.5


def create(administration: ServiceBusAdministrationClient, options: dict[str, Any]) -> None:
    """Create the queues of this load."""
    for name in PLACES:
        administration.create_queue(
            name,
            enable_partitioning=True,
            requires_duplicate_detection=True,
            requires_session=name == AMQP_SESSIONS,
            **options,
        )


class AmqpLoad:
    """The tasks of one client, until `stop`."""

    def __init__(
        self,
        name: str,
        connection_string: str,
        history: History,
        seed: int,
        stop: asyncio.Event,
        senders: int = SENDERS,
    ) -> None:
        """`senders`: connections that each await one send at a time."""
        self._connection_string = connection_string
        self._history = history
        self._random = Random(seed)
        self._stop = stop
        self._senders = senders
        self._bodies = (f"{name}a-{n}" for n in itertools.count())

    def tasks(self) -> list[Callable[[str], Coroutine[Any, Any, None]]]:
        """Return what is to be run, each as a task of its own."""
        sending = [self._send] * self._senders
        return [*sending, self._receive, self._send_sessions, self._receive_sessions]

    async def _with_client(
        self, use: Callable[[ServiceBusClient], Awaitable[None]], task: str
    ) -> None:
        """Use clients, a new one after each error: as an application does that starts again."""
        while not self._stop.is_set():
            client = ServiceBusClient.from_connection_string(
                self._connection_string, retry_total=2, retry_backoff_factor=0.1
            )
            try:
                await use(client)
            except (TimeoutError, Exception):
                await asyncio.sleep(0.2)
            finally:
                await _quietly(client.close())

    async def _send(self, task: str) -> None:
        async def use(client: ServiceBusClient) -> None:
            sender = client.get_queue_sender(AMQP)
            while not self._stop.is_set():
                key = f"{task}-k{self._random.randrange(4)}" if self._random.random() < 0.3 else ""
                await self._sent(sender, AMQP, task, self._random.choice((1, 1, 5)), key=key)

        await self._with_client(use, task)

    async def _send_sessions(self, task: str) -> None:
        async def use(client: ServiceBusClient) -> None:
            sender = client.get_queue_sender(AMQP_SESSIONS)
            while not self._stop.is_set():
                session = f"{task}-s{self._random.randrange(SESSIONS)}"
                await self._sent(sender, AMQP_SESSIONS, task, 1, session=session)

        await self._with_client(use, task)

    async def _sent(
        self, sender: Any, place: str, task: str, count: int, *, key: str = "", session: str = ""
    ) -> None:
        bodies = [next(self._bodies) for _ in range(count)]
        # Messages of a batch go together only under one key.
        together = key or (f"{task}-b" if count > 1 else "")
        messages = [
            ServiceBusMessage(
                body,
                message_id=body,
                partition_key=together or None,
                session_id=session or None,
            )
            for body in bodies
        ]
        began, error = time.time(), None
        try:
            async with asyncio.timeout(CALL_S):
                await sender.send_messages(messages if count > 1 else messages[0])
        except (Exception, TimeoutError) as failed:
            error = failed
        unsure = None if error is None else Unsure(repr(error))
        self._history.add(Kind.SEND, place, task, began, map(Item, bodies), error=unsure)
        if error is not None:
            raise error
        await asyncio.sleep(0.02 + 0.03 * self._random.random())

    async def _receive(self, task: str) -> None:
        async def use(client: ServiceBusClient) -> None:
            receiver = client.get_queue_receiver(AMQP, prefetch_count=self._random.choice((0, 10)))
            async with receiver:
                while not self._stop.is_set():
                    await self._received(receiver, AMQP, task)

        await self._with_client(use, task)

    async def _receive_sessions(self, task: str) -> None:
        async def use(client: ServiceBusClient) -> None:
            session = f"{self._random.randrange(SESSIONS)}"
            name = f"{task.partition('.')[0]}.{int(task.rpartition('.')[2]) - 1}-s{session}"
            receiver = client.get_queue_receiver(AMQP_SESSIONS, session_id=name)
            async with asyncio.timeout(CALL_S):
                await receiver.__aenter__()
            try:
                for _ in range(self._random.randrange(1, 10)):
                    if self._stop.is_set():
                        break
                    await self._received(receiver, AMQP_SESSIONS, task)
            finally:
                await _quietly(receiver.close())

        await self._with_client(use, task)

    async def _received(self, receiver: Any, place: str, task: str) -> None:
        began = time.time()
        async with asyncio.timeout(CALL_S):
            messages = await receiver.receive_messages(10, max_wait_time=WAIT_S)
        if messages:
            items = [received(message) for message in messages]
            self._history.add(Kind.RECEIVE, place, task, began, items)
        await self._completed(receiver, place, task, messages)

    async def _completed(
        self, receiver: Any, place: str, task: str, messages: Sequence[Any]
    ) -> None:
        for message in messages:
            abandon = self._random.random() < 0.1
            call = receiver.abandon_message if abandon else receiver.complete_message
            kind = Kind.ABANDON if abandon else Kind.COMPLETE
            began, error = time.time(), None
            try:
                async with asyncio.timeout(CALL_S):
                    await call(message)
            except (Exception, TimeoutError) as failed:
                error = failed
            item = Item(str(message), message.sequence_number)
            unsure = None if error is None else Unsure(repr(error))
            self._history.add(kind, place, task, began, [item], error=unsure)
            if error is not None:
                raise error


class Unsure(Exception):
    """An error of the SDK: what it was about may be done."""


async def _quietly(closing: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(5):
            await closing
    except (Exception, TimeoutError):
        return
